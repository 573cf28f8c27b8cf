//! Bytes of a message that passed the path and bytes that were lost, by time: a path that polices
//! the rate (a token bucket) can be recognized only over all messages that it carries.

use core::time::Duration;

use super::Trace;
use super::flow::has_queue;
use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::attribution::packet::{Arrival, Span};
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::{DropSlot, Drops, Recovery, Side};
use crate::observed::time::Timestamp;

/// Minimum number of repairs in one message that may indicate a policed rate.
const LEAST_REPAIRS: usize = 2;
/// Maximum number of time slots kept per message.
const MAX_SLOTS: usize = 512;
/// Maximum number of retransmitted byte ranges that still have to be found among the earlier
/// transmissions.
const MAX_PENDING: usize = 64;
/// Maximum gap that counts as unspaced: a full segment takes that long at 100 Mbit/s.
const AT_ONCE: Duration = Duration::from_micros(120);

/// The bytes of one segment that passed the path, and those that were lost.
#[derive(Clone, Copy, Debug)]
struct Passage {
    at: Timestamp,
    passed: u64,
    lost: u64,
}

/// Returns the bytes that the path passed and those that it dropped, for the message with the most
/// losses.
pub(super) fn drops(trace: &Trace<'_>, recoveries: &[Recovery]) -> Option<Box<Drops>> {
    if recoveries.len() < LEAST_REPAIRS {
        return None;
    }
    let count = |side| recoveries.iter().filter(|r| r.sender == side).count();
    let sender = if count(Side::Client) > count(Side::Server) {
        Side::Client
    } else {
        Side::Server
    };
    let passages = if trace.is_near(sender) {
        beside_sender(trace, sender)
    } else {
        elsewhere(trace, sender)
    };
    let (at_once, timed) = spacing(trace, sender);
    Some(Box::new(Drops {
        sender,
        slots: slots(&passages),
        at_once,
        timed,
        has_queue: has_queue(trace, sender),
        mss: trace.pipe(sender).mss,
        round_trip: trace.whole_trip(),
    }))
}

fn sent<'a>(
    trace: &'a Trace<'_>,
    sender: Side,
) -> impl DoubleEndedIterator<Item = (&'a PacketRecord, Data)> {
    let own = trace
        .packets
        .iter()
        .filter(move |packet| packet.by == sender);
    let data = own.filter_map(|packet| Some((packet, packet.data?)));
    data.filter(|(_, data)| !matches!(data.arrival, Arrival::Copy | Arrival::KeepAlive))
}

/// Returns the passages as seen at the sender, where every copy is visible: bytes that were
/// retransmitted did not get through at the transmission before.
fn beside_sender(trace: &Trace<'_>, sender: Side) -> Vec<Passage> {
    let mut pending: Vec<Span> = Vec::new();
    let mut passages = Vec::new();
    for (packet, data) in sent(trace, sender).rev() {
        let lost = take_from(&mut pending, data.span);
        if data.arrival == Arrival::Repeat {
            if data.need != Need::Needed {
                continue;
            }
            if pending.len() < MAX_PENDING {
                pending.push(data.span);
            }
        }
        let bytes = data.span.end - data.span.start;
        passages.push(Passage {
            at: packet.at,
            passed: bytes - lost.min(bytes),
            lost,
        });
    }
    passages.reverse();
    passages
}

/// Removes `span` from the byte ranges; returns the number of bytes removed.
fn take_from(stretches: &mut Vec<Span>, span: Span) -> u64 {
    let mut taken = 0;
    let mut left = Vec::with_capacity(stretches.len());
    for stretch in stretches.drain(..) {
        let (from, to) = (stretch.start.max(span.start), stretch.end.min(span.end));
        if from >= to {
            left.push(stretch);
            continue;
        }
        taken += to - from;
        let rest = [(stretch.start, from), (to, stretch.end)];
        let rest = rest.into_iter().filter(|(start, end)| start < end);
        left.extend(rest.map(|(start, end)| Span { start, end }));
    }
    *stretches = left;
    taken
}

/// Returns the passages as seen away from the sender: lost segments show in the sender's IP
/// identifications, or as a hole.
fn elsewhere(trace: &Trace<'_>, sender: Side) -> Vec<Passage> {
    let mss = u64::from(trace.pipe(sender).mss);
    let mut next = trace.span(sender).start;
    let mut passages = Vec::new();
    for (packet, data) in sent(trace, sender) {
        if data.arrival == Arrival::Repeat {
            continue;
        }
        let hole = data.span.start.saturating_sub(next);
        next = next.max(data.span.end);
        let lost = match (packet.skipped, data.order) {
            (0, Order::Untold) if data.arrival == Arrival::PastHole => hole,
            (skipped, _) => u64::from(skipped) * mss,
        };
        let passed = data.span.end - data.span.start;
        passages.push(Passage {
            at: packet.at,
            passed,
            lost,
        });
    }
    passages
}

/// Sums the passed and dropped packets of each time slot.
fn slots(passages: &[Passage]) -> Vec<DropSlot> {
    let mut slots: Vec<DropSlot> = Vec::new();
    for passage in passages {
        let number = DropSlot::number(passage.at);
        let is_full = slots.len() >= MAX_SLOTS;
        match slots.last_mut() {
            Some(last) if last.number == number => {
                last.passed += passage.passed;
                last.lost += passage.lost;
            }
            _ if is_full => break,
            _ => slots.push(DropSlot {
                number,
                passed: passage.passed,
                lost: passage.lost,
            }),
        }
    }
    slots
}

/// Returns the number of bytes that arrived directly after others, and of all bytes; at the sender,
/// judged by the acknowledgements.
fn spacing(trace: &Trace<'_>, sender: Side) -> (u64, u64) {
    let mss = u64::from(trace.pipe(sender).mss.max(1));
    let mut last: Option<Timestamp> = None;
    let (mut at_once, mut timed) = (0, 0);
    let mut arrive = |at: Timestamp, bytes: u64| {
        let is_behind = last.is_some_and(|last| at.since(last) <= AT_ONCE);
        // The parts of a super-segment (GSO) were sent together.
        at_once += if is_behind {
            bytes
        } else {
            bytes.saturating_sub(mss)
        };
        timed += bytes;
        last = Some(at);
    };
    if trace.is_near(sender) {
        let acks = trace
            .packets
            .iter()
            .filter(|packet| packet.by == sender.peer() && packet.data.is_none());
        let mut acked = trace.span(sender).start;
        for packet in acks.filter(|packet| packet.is_news || packet.reports.hole) {
            arrive(
                packet.at,
                packet.ack.saturating_sub(acked).clamp(mss, 2 * mss),
            );
            acked = acked.max(packet.ack);
        }
    } else {
        for (packet, data) in sent(trace, sender) {
            arrive(packet.at, data.span.end - data.span.start);
        }
    }
    (at_once, timed)
}
