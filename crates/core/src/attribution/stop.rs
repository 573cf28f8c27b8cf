//! Stops of a sender that had more to send, with the cause of each and what ended it.

use core::time::Duration;

use super::Trace;
use super::flow::{Flow, Keeper, QUEUE, has_sure_queue, latest_queue};
use super::release::{LEAST_TRIP, bare_release, heard, is_about_a_trip_later, release, told};
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::Side;
use crate::exchange::delivery::{Limit, StopPackets};
use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::packet::PacketNumber;
use crate::observed::time::Timestamp;

/// The part of the window, as one in this many, that must be free before a sender continues (silly
/// window avoidance: `tcp_tso_win_divisor` in `net/ipv4/tcp_output.c`; RFC 9293 §3.8.6.2.1 uses a
/// half).
const SILLY_PART: u64 = 3;

/// Maximum length of a pause by the sender's kernel, in typical times from one piece to the next: the
/// rate at which a kernel paces varies (BBR), but not by much.
const PACES: u32 = 2;

/// Payload of a full segment if the peer offers no MSS (RFC 9293 §3.7.1).
const DEFAULT_MSS: u64 = 536;

/// A period for which a sender stalled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(super) limit: Limit,
    pub(super) took: Duration,
    /// Bytes in flight during the stop, as the sender knew.
    pub(super) in_flight: u64,
    /// Segments in flight during the stop.
    pub(super) segments: u64,
    /// The receiver's window in bytes; 0 if it is not known.
    pub(super) window: u64,
    pub(super) is_zero_window: bool,
    /// The packets around the stop.
    pub(super) packets: StopPackets,
    /// End of the bytes sent before the stop.
    pub(super) sent: u64,
}

/// A wait's kind and owner.
pub(super) type Named = (WaitKind, Owner);

/// Attributes the gap between two new segments of one sender, neither of which was held by Nagle's
/// algorithm; `may_be_held`: both are small and consecutive.
pub(super) fn name(
    trace: &Trace<'_>,
    flow: &Flow,
    (before, packet): (&PacketRecord, &PacketRecord),
    index: usize,
    may_be_held: bool,
) -> (Named, Option<Stop>) {
    let sender = packet.by;
    let (Some(first), Some(second)) = (before.data, packet.data) else {
        return (trace.pause_of(sender), None);
    };
    let gap = packet.at.since(before.at);
    let mut stop = stop(trace, (before, packet), index, first);
    let is_full = is_window_full(trace, packet, index, first, second, stop.window);
    if is_full || shut_out(trace, before, packet, index) * 2 > gap {
        stop.limit = Limit::ReceiveWindow;
        return ((WaitKind::WindowFull, sender.peer().owner()), Some(stop));
    }
    if let Some(even) = flow.even.filter(|even| gap <= even.longest) {
        return match even.keeper {
            // A receiver that reads evenly opens its window evenly, and this window is not known.
            Keeper::Sender if stop.window == 0 && stop.in_flight > 0 => {
                ((WaitKind::Unknown, Owner::Unknown), None)
            }
            Keeper::Sender => {
                stop.limit = Limit::Pacing;
                ((WaitKind::Paced, sender.owner()), Some(stop))
            }
            Keeper::Queue => {
                stop.limit = Limit::Bottleneck;
                ((sender.transfer(), Owner::Path), Some(stop))
            }
            // If the pause's end coincides with an ACK, that is chance.
            Keeper::Program => (trace.pause_of(sender), Some(stop)),
            Keeper::Untold => ((sender.transfer(), Owner::Path), None),
        };
    }
    if flow.is_queued && !first.is_small && is_in_queue(trace, (packet, index), gap, &stop) {
        // The queue holds the sender's earlier data, and more would only wait there too.
        stop.limit = Limit::Bottleneck;
        return ((sender.transfer(), Owner::Path), Some(stop));
    }
    if packet.queued_longer_than(before) * 2 >= gap {
        return ((sender.transfer(), Owner::Path), None);
    }
    if second.after_cut && !first.is_small && release(trace, packet, index).is_some() {
        // It would have been sent immediately if nothing had been lost before.
        return ((WaitKind::Recovery, Owner::Path), None);
    }
    if let Some(limit) = by_acknowledgement(trace, flow, (packet, index), first, &stop, may_be_held)
    {
        stop.limit = limit;
        let kind = match limit {
            Limit::SendBuffer => WaitKind::SendBuffer,
            _ => WaitKind::CongestionWindow,
        };
        return ((kind, sender.owner()), Some(stop));
    }
    let is_released = release(trace, packet, index).is_some();
    let is_flight = is_initial_flight(trace, (packet, index), first, &stop);
    if (!first.is_small && (is_released || is_about_a_trip_later(trace, packet, index)))
        || is_flight
    {
        return ((sender.transfer(), Owner::Path), None);
    }
    if is_beyond_window(trace, packet, index, second) {
        return ((WaitKind::Unknown, Owner::Unknown), None);
    }
    if packet.queued.possible() * 2 >= gap {
        // The segment was in transit for most of the time, and the minimum lag may itself include a
        // queue: the data before it queued, and it is not visible whether its sender waited for
        // that queue or for its own reasons.
        return ((WaitKind::Unknown, Owner::Unknown), None);
    }
    // A kernel that paces also sends its next full segment without an acknowledgement.
    let may_be_paced = flow.is_queued && !first.is_small && stop.in_flight > 0;
    if may_be_paced
        || lacks_acks(trace, sender, first, second)
        || (first.is_small && may_be_released_late(trace, before, packet, index))
    {
        return ((WaitKind::Unknown, Owner::Unknown), None);
    }
    let pause = trace.pause_of(sender);
    if !first.is_small && gap <= flow.pace * PACES && pause.1 == sender.owner() {
        // The program had written more than was sent.
        return ((WaitKind::Paced, sender.owner()), None);
    }
    (pause, Some(stop))
}

/// Returns true if `packet`, the one at `index`, waited in a queue on the path for most of `gap`, the
/// time since its sender's data before it, or follows data in flight that did, as seen at the sender.
fn is_in_queue(
    trace: &Trace<'_>,
    (packet, index): (&PacketRecord, usize),
    gap: Duration,
    stop: &Stop,
) -> bool {
    let queued = if !trace.is_near(packet.by) {
        packet.queued.possible()
    } else if stop.in_flight > 0 {
        latest_queue(trace, packet.by, index)
    } else {
        Duration::ZERO
    };
    queued >= QUEUE && queued * 2 >= gap
}

/// Returns true if the capture does not contain the peer's bare acknowledgements: more than a full
/// segment was outstanding after `first`, which a receiver acknowledges at once (RFC 5681 §4.2), but
/// the peer sent nothing without data in the whole exchange. The window may then have ended the gap.
fn lacks_acks(trace: &Trace<'_>, sender: Side, first: Data, second: Data) -> bool {
    let outstanding = first.span.end.saturating_sub(second.acked);
    let full = DEFAULT_MSS.max(first.span.end - first.span.start);
    let is_bare = |packet: &PacketRecord| packet.by == sender.peer() && packet.data.is_none();
    trace.whole_trip() >= LEAST_TRIP && outstanding > full && !trace.packets.iter().any(is_bare)
}

/// Returns true if an acknowledgement of the peer may have reached the sender just before `packet`,
/// as seen at the peer, whose own data waits in a queue on the way to the sender: there the
/// acknowledgement waits too.
fn may_be_released_late(
    trace: &Trace<'_>,
    before: &PacketRecord,
    packet: &PacketRecord,
    index: usize,
) -> bool {
    let peer = packet.by.peer();
    if !has_sure_queue(trace, peer) {
        return false;
    }
    let queue = latest_queue(trace, peer, index);
    let latest = trace.round_trip(packet.by).floor().unwrap_or_default() + queue * 2;
    let is_late = |word: &PacketRecord| {
        let is_ack = word.by == peer && word.data.is_none() && word.is_news;
        is_ack && packet.at.since(word.at) <= latest
    };
    trace.between(before, index).iter().any(is_late)
}

/// Attributes the wait of a segment retransmitted to a receiver that has no room.
pub(super) fn closed(
    trace: &Trace<'_>,
    before: &PacketRecord,
    packet: &PacketRecord,
    index: usize,
) -> (Named, Option<Stop>) {
    let stop = before.data.map(|first| Stop {
        limit: Limit::ReceiveWindow,
        ..stop(trace, (before, packet), index, first)
    });
    ((WaitKind::WindowFull, packet.by.peer().owner()), stop)
}

fn stop(
    trace: &Trace<'_>,
    (before, packet): (&PacketRecord, &PacketRecord),
    index: usize,
    first: Data,
) -> Stop {
    let heard = heard(trace, packet, index).unwrap_or_default();
    let start = trace.span(packet.by).start;
    let acked = heard.acked.max(start);
    let release = release(trace, packet, index).and_then(|ack| PacketNumber::new(ack.number));
    Stop {
        limit: Limit::Program,
        took: packet.at.since(before.at),
        in_flight: first.span.end.saturating_sub(acked),
        segments: segments_since(trace, packet.by, acked, index),
        window: heard
            .edge
            .map_or(0, |edge| edge.saturating_sub(heard.acked).max(1)),
        is_zero_window: is_zero(trace, before, packet, index),
        packets: StopPackets {
            before: before.number,
            release,
            next: packet.number,
        },
        sent: first.span.end,
    }
}

/// Counts the segments of `sender` before `index` that end after `acked`; a super-segment counts as
/// its parts.
fn segments_since(trace: &Trace<'_>, sender: Side, acked: u64, index: usize) -> u64 {
    let mss = u64::from(trace.pipe(sender).mss.max(1));
    let packets = trace.packets.get(..index).unwrap_or_default().iter().rev();
    let sent = packets
        .filter(|packet| packet.by == sender)
        .filter_map(|packet| packet.data);
    sent.take_while(|data| data.span.end > acked)
        .map(|data| (data.span.end - data.span.start).div_ceil(mss))
        .sum()
}

/// Returns true if the peer closed its window between the two segments.
fn is_zero(trace: &Trace<'_>, before: &PacketRecord, packet: &PacketRecord, index: usize) -> bool {
    let packets = trace.packets.get(..index).unwrap_or_default().iter().rev();
    let between = packets.take_while(|other| other.number != before.number);
    between
        .into_iter()
        .any(|other| other.by == packet.by.peer() && other.is_closed)
}

/// Returns the time between the two segments during which the peer's window was closed, as seen at
/// the observation point.
fn shut_out(
    trace: &Trace<'_>,
    before: &PacketRecord,
    packet: &PacketRecord,
    index: usize,
) -> Duration {
    let packets = trace.packets.get(..index).unwrap_or_default();
    let from = packets.partition_point(|other| other.at < before.at);
    let words = packets.get(from..).unwrap_or_default().iter();
    let mut since = None;
    let mut shut = Duration::ZERO;
    for word in words.filter(|word| word.by == packet.by.peer()) {
        if word.is_closed {
            since.get_or_insert(word.at);
        } else if let Some(since) = since.take() {
            shut += word.at.since(since);
        }
    }
    shut + since.map_or(Duration::ZERO, |since| packet.at.since(since))
}

/// Attributes the rest of a message whose receiver closed its window after the last segment of
/// `sender`, while `sender` kept probing. Returns the end of that time, and the stop.
pub(crate) fn left_shut(
    trace: &Trace<'_>,
    sender: Side,
    begins_shut_out: bool,
) -> Option<(Timestamp, Stop)> {
    let is_last = |packet: &PacketRecord| {
        packet.by == sender && packet.data.is_some() && packet.at <= trace.end
    };
    let index = trace.packets.iter().rposition(is_last)?;
    let last = trace.packets.get(index)?;
    let words = trace.packets.get(..index).unwrap_or_default().iter();
    let word = words.rev().find(|packet| packet.by == sender.peer());
    let was_shut = word.map_or(begins_shut_out, |word| word.is_closed);
    let mut since = was_shut.then_some(last.at);
    // Data sent to a closed window is a probe.
    let (mut until, mut probes) = (None, u32::from(since.is_some()));
    for packet in trace.packets.get(index + 1..)? {
        if packet.by == sender {
            probes += u32::from(since.is_some() && packet.data.is_some());
        } else if packet.is_closed {
            since.get_or_insert(packet.at);
        } else if since.is_some() {
            until = Some(packet);
            break;
        } else {
            return None;
        }
    }
    let until = until.or(trace.packets.last())?;
    let stop = Stop {
        limit: Limit::ReceiveWindow,
        is_zero_window: true,
        packets: StopPackets {
            before: last.number,
            release: PacketNumber::new(until.number),
            next: until.number,
        },
        took: until.at.since(since?),
        ..stop(trace, (last, until), trace.packets.len(), last.data?)
    };
    (probes > 0 && until.at > trace.end).then_some((until.at, stop))
}

/// Returns true if the receiver's window, as the sender knew it, had no room for all of `second`.
pub(super) fn has_no_room(
    trace: &Trace<'_>,
    packet: &PacketRecord,
    index: usize,
    first: Data,
    second: Data,
) -> bool {
    let edge = heard(trace, packet, index).and_then(|heard| heard.edge);
    edge.is_some_and(|edge| {
        edge.saturating_sub(first.span.end) < second.span.end - second.span.start
    })
}

/// Returns true if the receiver's window was full: it had no room, or so little that a sender waits
/// for more, and what was then sent filled it.
fn is_window_full(
    trace: &Trace<'_>,
    packet: &PacketRecord,
    index: usize,
    first: Data,
    second: Data,
    window: u64,
) -> bool {
    let mss = u64::from(trace.pipe(packet.by).mss);
    let Some(heard) = heard(trace, packet, index) else {
        return false;
    };
    let Some(edge) = heard.edge else {
        return heard.is_closed;
    };
    let room = edge.saturating_sub(first.span.end);
    if room < mss.min(second.span.end - second.span.start) {
        return true;
    }
    if room < mss && second.span.end == edge {
        // The sender had more than the window let it send, and avoided a segment that is not full
        // until its timer expired (RFC 1122 §4.2.3.4). A program's own part fills it by chance only.
        return true;
    }
    // A window of only a few segments (as on loopback, where segments are large) holds fractions of
    // one.
    let mss = mss.min(window / 4);
    let last_edge = told(trace, packet, index)
        .and_then(|told| told.edge)
        .unwrap_or(edge);
    let is_filled = last_edge.saturating_sub(second.span.end) < mss;
    is_filled && room <= (2 * mss).max(window / SILLY_PART)
}

/// Returns true if the data goes beyond every window that was seen, so the capture missed a window
/// update.
fn is_beyond_window(trace: &Trace<'_>, packet: &PacketRecord, index: usize, second: Data) -> bool {
    let edge = told(trace, packet, index).and_then(|told| told.edge);
    edge.is_some_and(|edge| second.span.end > edge)
}

/// Returns true if a bare ACK ended a stop after a whole initial window, and the receiver's window
/// is not known: one of the two windows was full. Without the handshake the size of a full segment
/// is not known either, so no segment may look full.
fn is_initial_flight(
    trace: &Trace<'_>,
    (packet, index): (&PacketRecord, usize),
    first: Data,
    stop: &Stop,
) -> bool {
    stop.window == 0
        && trace.whole_trip() >= LEAST_TRIP
        && stop.segments >= trace.initial_window(packet.by, first)
        && bare_release(trace, packet, index).is_some()
}

/// Attributes a stop that a bare ACK ended although the receiver's window was open: the sender's
/// congestion window or its send buffer was full.
fn by_acknowledgement(
    trace: &Trace<'_>,
    flow: &Flow,
    (packet, index): (&PacketRecord, usize),
    first: Data,
    stop: &Stop,
    may_be_held: bool,
) -> Option<Limit> {
    if stop.window == 0 || trace.whole_trip() < LEAST_TRIP || stop.in_flight == 0 {
        return None;
    }
    bare_release(trace, packet, index)?;
    let fills_initial_window = stop.segments >= trace.initial_window(packet.by, first);
    if flow.is_buffered && !may_be_held {
        return Some(Limit::SendBuffer);
    }
    (!first.is_small || fills_initial_window).then_some(Limit::CongestionWindow)
}
