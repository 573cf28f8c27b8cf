//! The segments of open exchanges, boiled down to what tiling needs.

use core::time::Duration;

use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::attribution::packet::Queued;
use crate::attribution::packet::{Arrival, Span};
use crate::exchange::Side;
use crate::observed::time::Timestamp;

/// Maximum number of marks kept for one connection's open exchanges.
const MAX_MARKS: usize = 4096;
/// Marks of a short exchange.
const USUAL_MARKS: usize = 16;
/// The most lists kept for their memory: about as many connections have an exchange open at a time
/// where the memory is hot.
const MAX_SPARE: usize = 64;
/// The longest list kept for its memory.
const MAX_SPARE_MARKS: usize = 256;
/// The distance below which marks are merged when there are too many.
const MERGED_NS: i64 = 250_000;

/// A segment of a connection with an open exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) at: Timestamp,
    pub(crate) number: u64,
    pub(crate) by: Side,
    /// The time that it queued on its way here, as far as its sender's clock
    /// tells.
    pub(crate) queued: Queued,
    /// The segment's time to live on arrival.
    pub(crate) ttl: u8,
    /// The time that the connection had been silent before it.
    pub(crate) idle: Option<Duration>,
    /// The segment's payload, if any.
    pub(crate) data: Option<Data>,
    /// The end of the other side's bytes that it acknowledges.
    pub(crate) ack: u64,
    /// The furthest byte that it allows the other side to send; 0 where the
    /// window's scaling was not seen.
    pub(crate) edge: u64,
    /// True if its window is closed: zero is zero at any scale.
    pub(crate) is_closed: bool,
    /// True if it acknowledges new data or widens the window.
    pub(crate) is_news: bool,
    /// True if it reports data beyond missing data (SACK, RFC 2018).
    pub(crate) reports_hole: bool,
    /// Segments of the same sender that were lost before they came here, just
    /// before this one.
    pub(crate) skipped: u16,
}

/// The part of a segment's mark that reading its payload needs. It is a copy,
/// so that the mark itself is written once, in its final place: to copy a mark
/// just written would stall, as no load is forwarded from several stores in
/// flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief {
    pub(crate) at: Timestamp,
    pub(crate) number: u64,
    pub(crate) by: Side,
    pub(crate) ack: u64,
    /// The time since the connection's segment before it, of either side, less what
    /// this one is known to have queued for.
    pub(crate) idle: Duration,
    /// True if segments of its sender were lost just before it.
    pub(crate) is_after_gap: bool,
    /// The position of the payload's first byte.
    pub(crate) start: u64,
    /// True if the other side's window is closed: it probes, or waits for room.
    pub(crate) is_shut_out: bool,
}

/// A segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) span: Span,
    pub(crate) arrival: Arrival,
    /// True if it is no multiple of the MSS: a partial segment ends it.
    pub(crate) is_small: bool,
    pub(crate) has_fin: bool,
    /// True if a router had said that the packet that carried these bytes
    /// before was too big for it.
    pub(crate) was_too_big: bool,
    /// The end of this side's bytes that the other had acknowledged before it.
    pub(crate) acked: u64,
    /// The furthest byte that the other side had allowed; 0 where that is not
    /// known.
    pub(crate) edge: u64,
    /// The segment's place, by its sender's numbers, among what came before.
    pub(crate) order: Order,
    /// The need to send it, where its bytes were sent before.
    pub(crate) need: Need,
    /// True if it is the first after a wait that only a window cut by losses
    /// explains.
    pub(crate) after_cut: bool,
    /// Bytes seen and not acknowledged before it.
    pub(crate) in_flight: u64,
    /// True if it did not fit into the receiver's window as that was when the
    /// sender's data segment before it was sent. Data that fits and is all that
    /// is left is sent whatever else the window holds (RFC 9293 §3.8.6.2.1,
    /// rule 2).
    pub(crate) had_no_room: bool,
}

/// Minimum number of marks from which a time on the wire is looked for: nothing that short stops
/// for it.
const LEAST_MARKS: usize = 6;
/// The time of a full segment on the slowest wire of a local network (10 Mbit/s), and a little
/// for its driver. What is longer is the way's, or its program's.
const LONGEST_ON_WIRE: Duration = Duration::from_micros(1_500);

/// Returns the time that a full segment of `by` takes on the wire: the least between two that its
/// sender let go together. It errs upward where they never were sent at once; 0 where it does not
/// show.
pub(crate) fn serialization(marks: &[Mark], by: Side) -> Duration {
    if marks.len() < LEAST_MARKS {
        return Duration::ZERO;
    }
    let own = marks.iter().filter(|mark| mark.by == by);
    let mut last: Option<Timestamp> = None;
    let mut least = None;
    for mark in own {
        let is_full = |data: Data| data.arrival == Arrival::InOrder && !data.is_small;
        match mark.data {
            Some(data) if is_full(data) => {
                let gap = last.replace(mark.at).map(|last| mark.at.since(last));
                least = least.into_iter().chain(gap).min();
            }
            Some(_) => last = None,
            None => {}
        }
    }
    least
        .filter(|&gap| gap <= LONGEST_ON_WIRE)
        .unwrap_or_default()
}

/// The pace of one side's bytes of a stretch: the time from the first segment
/// to the last, and the longest gap between two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) took: Duration,
    pub(crate) longest_gap: Duration,
}

impl Pace {
    /// Returns the pace of the segments up to `until`; the time before the first is no gap.
    pub(crate) fn of(marks: &[Mark], by: Side, span: Span, until: Timestamp) -> Self {
        let mut ends: Option<(Timestamp, Timestamp)> = None;
        let mut pace = Self::default();
        let ours = marks.iter().filter(|mark| {
            let is_part = |data: Data| data.span.start < span.end && data.span.end > span.start;
            mark.by == by && mark.at <= until && mark.data.is_some_and(is_part)
        });
        for mark in ours {
            let (first, before) = ends.unwrap_or((mark.at, mark.at));
            pace.longest_gap = pace.longest_gap.max(mark.at.since(before));
            pace.took = mark.at.since(first);
            ends = Some((first, mark.at));
        }
        pace
    }
}

/// Memory of lists that are empty again. A connection without an open exchange
/// holds none: most of them are idle at any time.
#[derive(Debug, Default)]
pub(crate) struct SpareMarks {
    lists: Vec<Vec<Mark>>,
}

impl SpareMarks {
    fn list(&mut self) -> Vec<Mark> {
        let spare = self.lists.pop();
        spare.unwrap_or_else(|| Vec::with_capacity(USUAL_MARKS))
    }
}

/// The marks of a connection, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    list: Vec<Mark>,
}

impl Marks {
    #[inline(always)]
    pub(crate) fn push(&mut self, mark: Mark, spare: &mut SpareMarks) {
        if self.list.len() == self.list.capacity() {
            self.make_room(spare);
        }
        self.list.push(mark);
    }

    fn make_room(&mut self, spare: &mut SpareMarks) {
        match self.list.len() {
            0 => self.list = spare.list(),
            MAX_MARKS.. => self.thin_out(),
            len => self.list.reserve_exact(len.min(MAX_MARKS - len)),
        }
    }

    pub(crate) fn as_slice(&self) -> &[Mark] {
        &self.list
    }

    /// Notes whether packet `number` had to be sent; returns false if it is not here any more.
    pub(crate) fn resolve(&mut self, number: u64, need: Need) -> bool {
        let mark = self
            .list
            .iter_mut()
            .rev()
            .find(|mark| mark.number == number);
        let data = mark.and_then(|mark| mark.data.as_mut());
        data.map(|data| data.need = need).is_some()
    }

    /// Drops the marks before `begin`.
    pub(crate) fn forget_before(&mut self, begin: Timestamp) {
        if self.list.first().is_some_and(|first| first.at < begin) {
            let first = self.list.partition_point(|mark| mark.at < begin);
            self.list.drain(..first);
        }
    }

    /// Drops all marks, and leaves the memory to others.
    #[inline]
    pub(crate) fn clear(&mut self, spare: &mut SpareMarks) {
        if self.list.capacity() == 0 {
            return;
        }
        let mut list = core::mem::take(&mut self.list);
        if spare.lists.len() < MAX_SPARE && list.capacity() <= MAX_SPARE_MARKS {
            list.clear();
            spare.lists.push(list);
        }
    }

    /// Drops all marks and frees their memory.
    pub(crate) fn retire(&mut self) {
        self.list = Vec::new();
    }

    /// Merges runs of ordinary segments: gaps longer than a quarter of a
    /// millisecond and everything remarkable stay. If that does not halve the
    /// list, the older half is dropped, whose time then is unknown.
    fn thin_out(&mut self) {
        let mut last_kept = Timestamp::MIN;
        self.list.retain(|mark| {
            let is_plain = mark
                .data
                .is_none_or(|data| data.arrival == Arrival::InOrder);
            let is_near = mark.at.signed_since(last_kept) < MERGED_NS;
            let keep = !(is_plain && is_near);
            if keep {
                last_kept = mark.at;
            }
            keep
        });
        if self.list.len() > MAX_MARKS / 2 {
            let excess = self.list.len() - MAX_MARKS / 2;
            self.list.drain(..excess);
        }
    }
}
