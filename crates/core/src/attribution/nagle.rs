//! Nagle's algorithm: finds the small segment whose ACK a partial segment may have waited for, and
//! whether that ACK released the partial segment.

use core::time::Duration;

use super::Trace;
use super::release::REACTION;
use crate::attribution::packet::Arrival;
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::{Hold, HoldPackets, HoldRelease};
use crate::observed::packet::PacketNumber;
use crate::observed::tcp::TCP_INIT_CWND;

/// Error of timestamps taken on one host.
const JITTER: Duration = Duration::from_micros(100);
/// Maximum amount by which a path may be quicker than the minimum round trip seen so far. With a
/// larger value a server's own timer would coincide with a delayed ACK too often.
const QUICKER: Duration = Duration::from_millis(1);

/// Minimum number of segments in flight for a full congestion window: BBR keeps at least four
/// (`bbr_cwnd_min_target` in `net/ipv4/tcp_bbr.c`), and reduces its window without a loss.
const LEAST_WINDOW: u64 = 4;

/// A small segment whose acknowledgement a later partial segment of the same sender may have to
/// wait for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// The end of the small segment's bytes.
    end: u64,
    /// True if full segments were sent between the small segment and the partial one.
    is_behind_full: bool,
}

/// Returns the small segment that may hold the segment of `packet`, at `index`; `before` is the
/// sender's segment just before it. Full segments and FINs are never held. Linux holds a partial
/// segment until the last small one is acknowledged, however many full ones were sent since
/// (`tcp_minshall_check()` in `net/ipv4/tcp_output.c`).
pub(super) fn holder(
    trace: &Trace<'_>,
    (before, first): (&PacketRecord, Data),
    (packet, second): (&PacketRecord, Data),
    index: usize,
) -> Option<Holder> {
    let sender = packet.by;
    // A congestion window of one segment holds the second segment just as well.
    let has_room = trace.initial_window(sender, first) > 1;
    let is_partial = second.span.end - second.span.start < u64::from(trace.pipe(sender).mss);
    let may_be_held = second.is_small
        && is_partial
        && !second.has_fin
        && !second.had_no_room
        && second.arrival == Arrival::InOrder
        && first.span.end == second.span.start;
    if !has_room || !may_be_held {
        return None;
    }
    if first.is_small {
        return Some(Holder {
            end: first.span.end,
            is_behind_full: false,
        });
    }
    behind_full(trace, before, packet, index)
}

/// Returns the last small segment before full ones. `None` if the congestion window may have
/// stopped the sender (a whole initial window was in flight, or a segment was ever lost), or if the
/// small segment was acknowledged before the last of the full ones left.
fn behind_full(
    trace: &Trace<'_>,
    before: &PacketRecord,
    packet: &PacketRecord,
    index: usize,
) -> Option<Holder> {
    let sender = packet.by;
    let pipe = trace.pipe(sender);
    if pipe.has_losses {
        return None;
    }
    let mss = u64::from(pipe.mss.max(1));
    let packets = trace.packets.get(..index)?.iter().rev();
    let sent = packets
        .filter(|other| other.by == sender)
        .filter_map(|other| other.data);
    let mut segments = 0;
    for data in sent {
        segments += (data.span.end - data.span.start).div_ceil(mss);
        if segments >= TCP_INIT_CWND || data.arrival != Arrival::InOrder {
            return None;
        }
        if data.is_small {
            let holder = Holder {
                end: data.span.end,
                is_behind_full: true,
            };
            return is_open(trace, holder, before, index).then_some(holder);
        }
    }
    None
}

/// Returns true if the holder's acknowledgement had not reached its sender when `before` was sent.
fn is_open(trace: &Trace<'_>, holder: Holder, before: &PacketRecord, index: usize) -> bool {
    let propagation = trace.round_trip(before.by).floor().unwrap_or_default();
    let packets = trace.packets.get(..index).unwrap_or_default();
    let known = before.at - propagation;
    !packets
        .iter()
        .any(|m| m.by == before.by.peer() && m.ack >= holder.end && m.at <= known)
}

/// Returns the event that released the segment of `packet`.
pub(super) fn hold(
    trace: &Trace<'_>,
    holder: Holder,
    (before, packet): (&PacketRecord, &PacketRecord),
    index: usize,
) -> Option<Hold> {
    let trip = trace.round_trip(packet.by);
    let propagation = trip.floor()?;
    let held = packet.at.since(before.at);
    let found = acknowledgement(trace, holder, before, index);
    let Some(ack) = found.or_else(|| captured_late(trace, holder, packet, index)) else {
        let (ack_delay, reaction_ns) = (held, -nanos(propagation));
        let release = HoldRelease::Eager;
        return Some(Hold {
            sender: packet.by,
            release,
            held,
            ack_delay,
            reaction_ns,
            is_crowded: false,
            packets: packets(before, None, packet),
        });
    };
    if holder.is_behind_full && is_answered(trace, (ack, packet), propagation) {
        return None;
    }
    let back = trace
        .round_trip(packet.by.peer())
        .floor()
        .unwrap_or_default();
    let gap = packet.at.signed_since(ack.at);
    // This quick reply bounds the path's round trip better than the programs' replies do.
    let propagation = if trip.is_bounded() {
        propagation
    } else {
        propagation.min(packet.at.since(ack.at))
    };
    let reaction_ns = gap.saturating_sub(nanos(propagation));
    // The path may be quicker than it was when its round trip was measured.
    let slack = nanos(trip.error() + JITTER).max(nanos(QUICKER.min(propagation / 8)));
    let release = if reaction_ns < -slack {
        HoldRelease::Eager
    } else if reaction_ns <= nanos(REACTION.max(trip.error() * 2)) {
        HoldRelease::Acknowledgement
    } else {
        HoldRelease::Program
    };
    if release == HoldRelease::Acknowledgement && was_eager(trace, before, index) {
        return None;
    }
    Some(Hold {
        sender: packet.by,
        release,
        held,
        ack_delay: ack.at.since(before.at).saturating_sub(back),
        reaction_ns,
        is_crowded: release == HoldRelease::Acknowledgement && is_crowded(trace, before, index),
        packets: packets(before, Some(ack), packet),
    })
}

/// Returns true if `before` ended with a partial segment and left while an earlier one was
/// unacknowledged: Nagle's algorithm is off then, and holds nothing after it either.
fn was_eager(trace: &Trace<'_>, before: &PacketRecord, index: usize) -> bool {
    let is_partial = |data: &Data| data.is_small && data.arrival == Arrival::InOrder;
    let packets = trace.packets.get(..index).unwrap_or_default();
    let mut earlier = packets.iter().rev().filter_map(|m| {
        (m.number < before.number && m.by == before.by)
            .then_some(m.data)
            .flatten()
    });
    let is_last_partial = before.data.as_ref().is_some_and(is_partial);
    let earlier = earlier.next().filter(is_partial);
    let acked = acked(trace, before, index);
    is_last_partial && earlier.is_some_and(|data| acked.is_none_or(|acked| acked < data.span.end))
}

/// Returns true if a congestion window may have been full when `before` had been sent: so much was
/// in flight, as its sender knew.
fn is_crowded(trace: &Trace<'_>, before: &PacketRecord, index: usize) -> bool {
    let Some(data) = before.data else {
        return false;
    };
    let mss = u64::from(trace.pipe(before.by).mss.max(1));
    let acked = acked(trace, before, index).unwrap_or(data.acked);
    let acked = acked.min(data.span.end);
    (data.span.end - acked).div_ceil(mss) >= LEAST_WINDOW
}

/// Returns the end of what was acknowledged when `before` was sent, as its sender knew; `None` if no
/// acknowledgement was captured before.
fn acked(trace: &Trace<'_>, before: &PacketRecord, index: usize) -> Option<u64> {
    let propagation = trace.round_trip(before.by).floor().unwrap_or_default();
    let known = before.at - propagation;
    let packets = trace.packets.get(..index).unwrap_or_default();
    let mut acks = packets.iter().rev().filter(|m| m.by == before.by.peer());
    acks.find(|m| m.at <= known).map(|m| m.ack)
}

fn packets(first: &PacketRecord, ack: Option<&PacketRecord>, second: &PacketRecord) -> HoldPackets {
    HoldPackets {
        first: PacketNumber::new(first.number),
        ack: ack.and_then(|ack| PacketNumber::new(ack.number)),
        second: PacketNumber::new(second.number),
    }
}

/// Returns true if the peer's program sent something before the segment of `packet` left: data
/// released by a message, such as an HTTP/2 window update, was not released by an acknowledgement.
fn is_answered(
    trace: &Trace<'_>,
    (ack, packet): (&PacketRecord, &PacketRecord),
    propagation: Duration,
) -> bool {
    let until = packet.at - propagation + JITTER;
    let mut words = trace.packets.iter().filter(|other| other.by == ack.by);
    words.any(|word| word.data.is_some() && word.at >= ack.at && word.at <= until)
}

/// Returns the first acknowledgement of the holder.
fn acknowledgement<'a>(
    trace: &'a Trace<'_>,
    holder: Holder,
    before: &PacketRecord,
    index: usize,
) -> Option<&'a PacketRecord> {
    let packets = if holder.is_behind_full {
        // At the receiver, the acknowledgement passes the point before the full segments do.
        trace.packets.get(..index).unwrap_or_default()
    } else {
        trace.between(before, index)
    };
    packets
        .iter()
        .find(|m| m.by == before.by.peer() && m.ack >= holder.end)
}

/// Returns the first acknowledgement of the holder and of nothing after it, if it was captured just
/// after the segment that it released: the timestamps of the two directions may differ.
fn captured_late<'a>(
    trace: &'a Trace<'_>,
    holder: Holder,
    packet: &PacketRecord,
    index: usize,
) -> Option<&'a PacketRecord> {
    let end = packet.data?.span.end;
    let packets = trace.packets.get(index + 1..).unwrap_or_default().iter();
    let mut near = packets.take_while(|m| m.at.since(packet.at) <= JITTER);
    near.find(|m| m.by == packet.by.peer() && m.ack >= holder.end && m.ack < end)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
