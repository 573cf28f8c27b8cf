//! Attributes the gap between two data segments of one sender to what ended it.

use core::time::Duration;

use super::attributed::Gap;
use super::flow::Flow;
use super::nagle;
use super::release::release;
use super::repair::{filled, hole_before, lost_before, recovered, repeated, resumed};
use super::stop;
use super::{LEAST_TIMEOUT, Trace};
use crate::attribution::packet::Arrival;
use crate::attribution::packet::longest_repair;
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{HoldRelease, Side};
use crate::observed::time::Timestamp;

/// Maximum gap in the normal flow of a message.
const FLOW: Duration = Duration::from_micros(500);

/// Minimum time that a repair takes, for a segment lost before the observation point, whose loss
/// shows as a gap in its sender's IP identifications.
const LEAST_RECOVERY: Duration = Duration::from_millis(2);

/// Minimum round trip of a path on which a retransmission timeout can be distinguished from timers
/// of the same length to which no round trip is added.
const LEAST_APART: Duration = Duration::from_millis(10);

/// Returns true if the packets shortly before a segment show what it waited for. What a repair waited
/// for is shown by any packet.
pub(super) fn is_local(packet: &PacketRecord) -> bool {
    let is_new = |data: Data| matches!(data.arrival, Arrival::InOrder | Arrival::PastHole);
    packet.data.is_some_and(is_new) && packet.skipped == 0
}

/// Attributes the gap between `before` and `packet`, the packet at `index`.
pub(super) fn name(
    trace: &Trace<'_>,
    flow: &Flow,
    before: &PacketRecord,
    packet: &PacketRecord,
    index: usize,
) -> Gap {
    let (Some(first), Some(second)) = (before.data, packet.data) else {
        return Gap::default();
    };
    let sender = packet.by;
    match second.arrival {
        Arrival::KeepAlive | Arrival::Copy => Gap::default(),
        // A full receiver discards what arrives (`tcp_try_rmem_schedule()` in
        // `net/ipv4/tcp_input.c`): this is not a loss on the path.
        Arrival::Repeat if flow.is_closed => closed(trace, before, packet, index),
        Arrival::Repeat => repeated(trace, before, packet, second),
        Arrival::Fill => filled(trace, before, packet, second),
        Arrival::InOrder | Arrival::PastHole => {
            if trace.is_torn(sender, first.span.start, second.span.end) {
                return Gap::named(WaitKind::Unknown, Owner::Unknown);
            }
            let gap = packet.at.since(before.at);
            if second.span.start < first.span.end && gap > LEAST_RECOVERY {
                // The segment repeats earlier bytes together with new ones.
                return recovered(trace, packet, gap, gap, false);
            }
            if packet.skipped > 0
                && gap > LEAST_RECOVERY
                && let Some(named) = after_skipped(trace, (before, first), packet, index)
            {
                return named;
            }
            if may_be_repaired(trace, sender, (first, second), gap) {
                return Gap::named(WaitKind::Unknown, Owner::Unknown);
            }
            resumed(trace, (packet, second), index, gap)
                .unwrap_or_else(|| flowed(trace, flow, (before, packet), index))
        }
    }
}

/// Attributes the gap before new data of a sender whose segments are missing just before it; `None`
/// if these are the bytes of a hole, which is repaired later, and `packet` did not wait for them.
fn after_skipped(
    trace: &Trace<'_>,
    (before, first): (&PacketRecord, Data),
    packet: &PacketRecord,
    index: usize,
) -> Option<Gap> {
    let (sender, gap) = (packet.by, packet.at.since(before.at));
    let unknown = Gap::named(WaitKind::Unknown, Owner::Unknown);
    if is_too_soon(trace, sender, gap) {
        // Several missing segments were rejected by a router with ICMP, and immediately split to
        // fit. A single missing segment may have been a bare ACK.
        let were_too_big = packet.skipped > 1 && !trace.is_near(sender);
        let transit = Gap::named(sender.transfer(), Owner::Path);
        return Some(if were_too_big { transit } else { unknown });
    }
    let is_flowing = !is_probe(trace, gap) || release(trace, packet, index).is_some();
    if is_beyond_lost(trace, packet) && is_flowing {
        return None;
    }
    // At the sender, only the capture can lose segments.
    let may_be_lost = !trace.is_near(sender)
        && is_repair(trace, packet, gap)
        && is_heard(trace, sender, first)
        && !is_usual(trace, before, packet);
    Some(if may_be_lost {
        recovered(trace, packet, gap, gap, false)
    } else {
        unknown
    })
}

/// Returns true if the capture contains the receiver's acknowledgement of `sent`. Without the
/// receiver's ACKs, a capture lacks more than the path lost.
fn is_heard(trace: &Trace<'_>, sender: Side, sent: Data) -> bool {
    let mut packets = trace.packets.iter();
    packets.any(|m| m.by == sender.peer() && m.ack >= sent.span.end)
}

/// Returns true if the sender also stopped for about as long as between `before` and `packet` where
/// none of its segments is missing: this is its pace, or a timer of its program.
fn is_usual(trace: &Trace<'_>, before: &PacketRecord, packet: &PacketRecord) -> bool {
    let gap = packet.at.since(before.at);
    let own = trace.packets.iter().filter(|m| m.by == packet.by);
    let sent = own.filter_map(|m| Some((m, m.data?)));
    let mut last: Option<Timestamp> = None;
    let mut gaps = sent.filter_map(|(m, data)| {
        let since = last.replace(m.at).map(|last| m.at.since(last));
        let is_whole = data.arrival == Arrival::InOrder && m.skipped == 0;
        since.filter(|_| is_whole)
    });
    gaps.any(|other| (gap * 7 / 8..=gap * 9 / 8).contains(&other))
}

/// Returns true if the last data of a message may have been lost before the observation point, and
/// the sender does not number its segments. Full segments before the gap, without a partial one
/// after them, belong to one write: a program that pauses does so after a whole write, which hardly
/// ever fills its last segment. A probe is sent before the timeout, two round trips after the end
/// (RFC 8985 §7.2); on short paths a shorter gap may also be a timer of the program's kernel.
fn may_be_repaired(
    trace: &Trace<'_>,
    sender: Side,
    (first, second): (Data, Data),
    gap: Duration,
) -> bool {
    let trip = trace.whole_trip();
    let is_told = trace.pipe(sender).is_numbered || trace.is_near(sender);
    let is_tail = !first.is_small
        && second.is_small
        && first.span.end == second.span.start
        && second.span.end >= trace.span(sender).end;
    is_tail && !is_told && trip >= LEAST_APART && gap >= LEAST_TIMEOUT + trip * 3 * 7 / 8
}

/// Returns true if the missing bytes came again sooner than the receiver's ACK that reports the
/// hole can have reached `sender`: then that ACK did not trigger the retransmission.
fn is_too_soon(trace: &Trace<'_>, sender: Side, gap: Duration) -> bool {
    let propagation = trace.round_trip(sender).floor().unwrap_or_default();
    gap < propagation * 7 / 8
}

/// Returns true if segments lost just before `packet` may have been retransmitted by it after
/// `gap`. The end of a flight is retransmitted as a probe after two round trips, unless there is new
/// data to probe with; a whole flight, or a segment that was lost twice, waits for the timer
/// (RFC 8985 §7.2). If the gap is shorter, the missing numbers belong to something else, such as
/// bare ACKs.
fn is_repair(trace: &Trace<'_>, packet: &PacketRecord, gap: Duration) -> bool {
    let lost = lost_before(trace, packet);
    let is_by_timer = lost > 0 && gap >= LEAST_TIMEOUT && gap <= longest_repair(packet.skipped);
    let latest = LEAST_TIMEOUT + trace.whole_trip() * 3;
    let is_with_new = is_beyond_lost(trace, packet) && gap <= latest;
    is_by_timer || ((lost == 1 || is_with_new) && is_probe(trace, gap))
}

/// Returns true if a probe may have ended the gap. Paths are at times slightly quicker than the
/// minimum round trip seen.
fn is_probe(trace: &Trace<'_>, gap: Duration) -> bool {
    gap >= trace.whole_trip() * 2 * 7 / 8
}

/// Returns true if the segments missing just before `packet` are those of a hole, so that none of
/// them carried its bytes.
fn is_beyond_lost(trace: &Trace<'_>, packet: &PacketRecord) -> bool {
    (1..=hole_before(trace, packet)).contains(&packet.skipped)
}

/// Returns the gap of data that waited because the receiver had no room.
fn closed(trace: &Trace<'_>, before: &PacketRecord, packet: &PacketRecord, index: usize) -> Gap {
    let (wait, stop) = stop::closed(trace, before, packet, index);
    Gap {
        wait: Some(wait),
        stop,
        ..Gap::default()
    }
}

/// Attributes a gap before new data: held, blocked, paused, or simply in transit.
fn flowed(
    trace: &Trace<'_>,
    flow: &Flow,
    (before, packet): (&PacketRecord, &PacketRecord),
    index: usize,
) -> Gap {
    let sender = packet.by;
    let (Some(first), Some(second)) = (before.data, packet.data) else {
        return Gap::default();
    };
    let gap = packet.at.since(before.at);
    let holder = nagle::holder(trace, (before, first), (packet, second), index);
    if gap <= FLOW && holder.is_none() && !flow.is_drained() {
        return Gap::named(sender.transfer(), Owner::Path);
    }
    let release = trace
        .between(before, index)
        .iter()
        .find(|m| m.by == sender.peer() && m.ack >= first.span.end);
    if release.is_none() && gap >= longest_unacknowledged(trace, sender) {
        if flow.is_closed {
            return closed(trace, before, packet, index);
        }
        return if is_sent_again(trace, packet, first) {
            recovered(trace, packet, gap, gap, false)
        } else {
            Gap::named(WaitKind::Unknown, Owner::Unknown)
        };
    }
    if release.is_none() && may_be_probe(trace, sender, gap) && is_sent_again(trace, packet, first)
    {
        return Gap::named(WaitKind::Unknown, Owner::Unknown);
    }
    // Data that does not fit into the window waits for the window, even if Nagle's algorithm would
    // hold it too.
    let holder = holder.filter(|_| !stop::has_no_room(trace, packet, index, first, second));
    let hold = holder.and_then(|holder| nagle::hold(trace, holder, (before, packet), index));
    let flowing = FLOW.max(trace.round_trip(sender).error() * 2);
    let by_ack = hold.is_some_and(|h| h.release == HoldRelease::Acknowledgement);
    let held = by_ack && !flow.is_eager;
    let (wait, stop) = if held && gap > FLOW {
        (held_by(sender), None)
    } else if gap <= flowing && !flow.is_drained() {
        ((sender.transfer(), Owner::Path), None)
    } else {
        stop::name(trace, flow, (before, packet), index, hold.is_some())
    };
    Gap {
        wait: Some(wait),
        hold,
        stop,
        ..Gap::default()
    }
}

/// Returns the maximum time without an acknowledgement: if it took longer, either the ACK was lost
/// or the capture missed it.
fn longest_unacknowledged(trace: &Trace<'_>, sender: Side) -> Duration {
    LEAST_TIMEOUT + trace.round_trip(sender.peer()).floor().unwrap_or_default()
}

/// Returns true if the gap is long enough for a tail loss probe, which sends new data if there is
/// any: two round trips or more (RFC 8985 §7.2). Such a probe cannot be distinguished from a
/// program that continued just then.
fn may_be_probe(trace: &Trace<'_>, sender: Side, gap: Duration) -> bool {
    let floor = |side| trace.round_trip(side).floor().unwrap_or_default();
    gap >= LEAST_RECOVERY + (floor(sender) + floor(sender.peer())) * 2
}

/// Returns true if the bytes of `first` are retransmitted after `packet`: then `packet` was released by
/// a tail loss probe (with which new data passes Nagle's algorithm; `tcp_send_loss_probe()` in
/// `net/ipv4/tcp_output.c`).
fn is_sent_again(trace: &Trace<'_>, packet: &PacketRecord, first: Data) -> bool {
    trace.packets.iter().any(|m| {
        m.by == packet.by
            && m.at > packet.at
            && m.data.is_some_and(|data| {
                data.arrival == Arrival::Repeat
                    && data.span.start < first.span.end
                    && data.span.end > first.span.start
            })
    })
}

fn held_by(sender: Side) -> (WaitKind, Owner) {
    match sender {
        Side::Client => (WaitKind::RequestHeld, Owner::Client),
        Side::Server => (WaitKind::ResponseHeld, Owner::Server),
    }
}
