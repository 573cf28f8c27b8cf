//! A response on a connection that carries several in parallel (HTTP/2): time in which all of them
//! were held back is not the server's think time.

use core::time::Duration;

use super::flow::Flow;
use super::{REORDERING, Tiler, Trace, gap};
use crate::attribution::packet::Arrival;
use crate::attribution::packet::Need;
use crate::attribution::packet_record::PacketRecord;
use crate::exchange::Side;
use crate::exchange::wait::{Bound, Owner, WaitKind};
use crate::observed::time::Timestamp;

/// Maximum number of segments of other responses examined before a response.
const MAX_OTHERS: usize = 64;

/// Minimum length of a segment that belongs to a large response, unless the MSS is smaller: the
/// server had more to send than fits into a small response.
const BULK: u64 = 4096;

/// The state of a sender's socket buffer, derived from a gap in its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffer {
    /// An empty buffer: the sender was not held back but had nothing to send, so the response did
    /// not exist yet.
    Empty,
    /// A full buffer: there was more data than could be sent.
    Full,
    /// Unknown: either of the two.
    Untold,
}

/// The time before a segment of the server, on a connection shared with other responses.
#[derive(Clone, Copy, Debug)]
struct Step {
    until: Timestamp,
    number: u64,
    gap: Duration,
    name: Option<(WaitKind, Owner)>,
    /// True if the segment carries a part of a large response.
    is_bulk: bool,
}

impl Step {
    fn buffer(&self) -> Buffer {
        match self.name.map(|(kind, _)| kind) {
            Some(WaitKind::ServerPause | WaitKind::ServerThink) => Buffer::Empty,
            Some(
                WaitKind::WindowFull
                | WaitKind::CongestionWindow
                | WaitKind::SendBuffer
                | WaitKind::Paced
                | WaitKind::Recovery,
            ) => Buffer::Full,
            Some(WaitKind::ResponseTransfer) if self.gap > REORDERING => Buffer::Full,
            _ => Buffer::Untold,
        }
    }
}

impl Tiler<'_> {
    /// Attributes the time up to `first` if other responses of the server were held back before
    /// this one, or kept the connection busy. This response queues after the others, so the server
    /// is known to have been thinking only up to the last instant at which it had nothing left to
    /// send. Returns false if that cannot be determined.
    pub(super) fn held_with_others(&mut self, from: Timestamp, first: &PacketRecord) -> bool {
        let trace = self.trace;
        let Some(propagation) = trace.trips.server.floor() else {
            return false;
        };
        let asked = from + propagation;
        let (begun, steps) = steps(trace, asked, first);
        let empty = steps
            .iter()
            .rposition(|step| step.buffer() == Buffer::Empty);
        let line = steps
            .get(empty.map_or(0, |at| at + 1)..)
            .unwrap_or_default();
        // The maximum number of segments shows no empty buffer: the queue was never empty.
        let is_endless = begun > asked && empty.is_none();
        let is_held = line.iter().any(|step| step.buffer() == Buffer::Full);
        if !is_endless && !is_held && !is_busy(line) {
            return false;
        }
        let free = empty
            .and_then(|at| steps.get(at))
            .map_or(begun, |step| step.until);
        let (path, inferred) = (
            Owner::Path,
            Bound::Inferred(trace.trips.server.split_error()),
        );
        self.push(
            from + propagation / 2,
            WaitKind::RoundTrip,
            path,
            None,
            inferred,
        );
        if is_endless {
            // It is not visible whether the response existed when the queue began to fill.
            self.push(free, WaitKind::Unknown, Owner::Unknown, None, inferred);
        } else {
            let think = WaitKind::ServerThink;
            self.push(free - propagation / 2, think, Owner::Server, None, inferred);
            self.push(free, WaitKind::RoundTrip, path, None, inferred);
        }
        for step in line {
            // If nothing held the large responses back, it is not visible whether this response
            // existed and waited for them.
            let otherwise = if is_held {
                (WaitKind::ResponseTransfer, path)
            } else {
                (WaitKind::Unknown, Owner::Unknown)
            };
            let (kind, owner) = step.name.unwrap_or(otherwise);
            self.push(step.until, kind, owner, Some(step.number), Bound::Observed);
        }
        true
    }
}

/// Returns true if large responses took at least half of the time: this response may have waited
/// behind them.
fn is_busy(line: &[Step]) -> bool {
    let time =
        |steps: &mut dyn Iterator<Item = &Step>| steps.map(|step| step.gap).sum::<Duration>();
    let bulk = time(&mut line.iter().filter(|step| step.is_bulk));
    !bulk.is_zero() && bulk * 2 >= time(&mut line.iter())
}

/// Returns the server's segments of other responses and of this one up to `first`, the latest ones
/// after `asked`, and the time from which they are examined: `asked`, or later if there are too
/// many.
fn steps(trace: &Trace<'_>, asked: Timestamp, first: &PacketRecord) -> (Timestamp, Vec<Step>) {
    let (number, start) = (first.number, first.data.map_or(0, |data| data.span.start));
    let counts = |packet: &PacketRecord| {
        let is_other = packet.data.is_some_and(|data| {
            let is_sent = !matches!(data.arrival, Arrival::Copy | Arrival::KeepAlive);
            is_sent && data.need != Need::Spurious && data.span.end <= start
        });
        packet.by == Side::Server && (is_other || packet.number == number)
    };
    let least = BULK.min(u64::from(trace.pipe(Side::Server).mss.max(1)));
    let length = |packet: &PacketRecord| {
        let data = packet.data.filter(|_| packet.number != number);
        data.map_or(0, |data| data.span.end - data.span.start)
    };
    let end = trace
        .packets
        .partition_point(|packet| packet.at <= first.at);
    let packets = trace.packets.get(..end).unwrap_or_default().iter();
    let mut sent = packets
        .enumerate()
        .rev()
        .filter(|(_, packet)| counts(packet));
    let Some(mut last) = sent.next() else {
        return (asked, Vec::new());
    };
    let (mut begun, mut steps) = (asked, Vec::new());
    for (place, before) in sent {
        let (index, packet) = last;
        if packet.at <= asked {
            break;
        }
        if steps.len() >= MAX_OTHERS {
            begun = packet.at;
            break;
        }
        steps.push(Step {
            until: packet.at,
            number: packet.number,
            gap: packet.at.since(before.at),
            is_bulk: length(before) >= least && packet.at.since(before.at) <= REORDERING,
            name: gap::name(trace, &Flow::default(), before, packet, index).wait,
        });
        last = (place, before);
    }
    steps.reverse();
    (begun, steps)
}
