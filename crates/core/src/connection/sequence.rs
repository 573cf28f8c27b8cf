//! Sequence space of one direction: the bytes that were seen, those that were acknowledged, and the
//! holes between them.

use crate::attribution::packet::{Arrival, Span};
use crate::observed::segment::Segment;

/// Maximum number of holes remembered at a time; a capture with more has lost track of the stream.
const MAX_HOLES: usize = 32;
/// Maximum number of bytes revealed by one sequence number; a larger step is not a loss but a wrong
/// sequence number.
const MOST_REVEALED: u64 = 1 << 20;

/// Sequence space of one direction. Offsets count bytes of the stream; the SYN is not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceSpace {
    base: Option<Base>,
    /// End of the furthest byte seen.
    pub(crate) next: u64,
    /// Furthest byte that the peer acknowledged.
    pub(crate) acked: u64,
    /// Offset of the FIN.
    pub(crate) fin: Option<u64>,
    /// Stretches below `next` that were not seen.
    holes: Vec<Span>,
    /// Number of bytes that the peer acknowledged although they were never seen here.
    pub(crate) unseen_bytes: u64,
}

/// The beginning of a stream.
#[derive(Clone, Copy, Debug)]
struct Base {
    /// The sequence number of stream offset 0.
    number: u32,
    /// True if offset 0 is the stream's true beginning.
    is_start: bool,
}

impl SequenceSpace {
    /// Records the sequence number of a SYN.
    pub(super) fn open(&mut self, syn: u32) {
        self.base = Some(Base {
            number: syn.wrapping_add(1),
            is_start: true,
        });
    }

    /// Returns the stream offset of a sequence number: the one nearest to what was seen.
    #[inline]
    pub(crate) fn offset(&mut self, seq: u32) -> u64 {
        let base = self.base.get_or_insert(Base {
            number: seq,
            is_start: false,
        });
        let near = base.number.wrapping_add(self.next as u32);
        let delta = i64::from(seq.wrapping_sub(near) as i32);
        // No capture has the 2^63 bytes at which this would overflow.
        (self.next as i64 + delta).max(0) as u64
    }

    /// Returns true if an acknowledgement covers other bytes than this side's SYN, although this
    /// side has sent nothing but the SYN.
    pub(crate) fn is_alien_ack(&self, ack: u32) -> bool {
        self.next == 0 && self.base().is_some_and(|base| base != ack)
    }

    /// Returns the sequence number of stream offset 0.
    #[inline]
    pub(crate) fn base(&self) -> Option<u32> {
        self.base.map(|base| base.number)
    }

    /// Returns true if offset 0 is the stream's true beginning.
    #[inline]
    pub(crate) fn has_start(&self) -> bool {
        self.base.is_some_and(|base| base.is_start)
    }

    /// Returns true if an acknowledgement covers bytes of this side that were not seen.
    #[inline]
    pub(crate) fn is_beyond(&self, ack: u32) -> bool {
        let end = self.next + u64::from(self.fin.is_some());
        let seen = self.holes.first().map_or(end, |hole| hole.start);
        let seen = self.base().map(|base| base.wrapping_add(seen as u32));
        seen.is_some_and(|seen| ack.wrapping_sub(seen) as i32 > 0)
    }

    /// Returns true if an acknowledgement covers bytes that were seen and not acknowledged before.
    pub(crate) fn acknowledges_more(&self, ack: u32) -> bool {
        let acked = self.base().map(|base| base.wrapping_add(self.acked as u32));
        self.next > self.acked && acked.is_some_and(|acked| ack.wrapping_sub(acked) as i32 > 0)
    }

    /// Returns true if `seq` is the number of the last byte seen, as in keep-alive probes.
    pub(crate) fn is_before_next(&self, seq: u32) -> bool {
        let last = self
            .base()
            .map(|base| base.wrapping_add(self.next as u32).wrapping_sub(1));
        self.next > 0 && last == Some(seq)
    }

    /// Returns true if this SYN opens a different connection from the one seen so far.
    pub(crate) fn is_other_syn(&self, syn: &Segment) -> bool {
        self.base()
            .is_some_and(|base| base != syn.seq.wrapping_add(1))
    }

    /// Takes in the sequence number of a bare ACK, which is its sender's next one (RFC 9293 §3.4):
    /// all bytes before it were sent, whether seen here or not.
    pub(crate) fn reveal(&mut self, seq: u32) {
        let is_known = self.has_start() || self.next > 0;
        let offset = self.offset(seq);
        let end = self.fin.map_or(offset, |fin| offset.min(fin));
        if is_known && end > self.next && end - self.next <= MOST_REVEALED {
            self.remember_hole(Span {
                start: self.next,
                end,
            });
            self.next = end;
        }
    }

    /// Records a segment of a single byte without PSH. As the first data of a connection whose start
    /// was not captured, it is a keep-alive probe (RFC 9293 §3.8.4), whose byte is not new. A program's
    /// write of one byte has PSH.
    pub(super) fn begin_with_probe(&mut self) {
        if !self.has_start() && self.next == 0 {
            self.next = 1;
        }
    }

    /// Records a payload that passes the observation point.
    pub(super) fn place(&mut self, span: Span) -> Arrival {
        if span.end > self.next {
            // Bytes that are sent again may come with new ones.
            if span.start < self.next {
                self.fill(span);
            }
            let arrival = if span.start > self.next && (self.has_start() || self.next > 0) {
                self.remember_hole(Span {
                    start: self.next,
                    end: span.start,
                });
                Arrival::PastHole
            } else {
                Arrival::InOrder
            };
            self.next = span.end;
            return arrival;
        }
        if self.fill(span) {
            return Arrival::Fill;
        }
        if span.end - span.start <= 1 && span.end == self.next {
            return Arrival::KeepAlive;
        }
        Arrival::Repeat
    }

    fn remember_hole(&mut self, hole: Span) {
        self.holes.push(hole);
        self.forget_oldest();
    }

    /// Removes `span` from the holes; returns true if it touched one.
    fn fill(&mut self, span: Span) -> bool {
        // Holes are in order and apart, so those that it touches follow each other.
        let first = self.holes.partition_point(|hole| hole.end <= span.start);
        let end = self.holes.partition_point(|hole| hole.start < span.end);
        let Some([head, ..]) = self.holes.get(first..end) else {
            return false;
        };
        let tail = self.holes[end - 1];
        let before = Span {
            start: head.start,
            end: span.start,
        };
        let after = Span {
            start: span.end,
            end: tail.end,
        };
        let rest = [before, after]
            .into_iter()
            .filter(|part| part.start < part.end);
        self.holes.splice(first..end, rest);
        self.forget_oldest();
        true
    }

    /// Keeps to the limit. Whatever makes the list longer calls this: a hole that is filled in its
    /// middle becomes two.
    fn forget_oldest(&mut self) {
        if self.holes.len() > MAX_HOLES {
            self.holes.remove(0);
        }
    }

    /// Records that the peer acknowledged the bytes up to `offset`; returns the acknowledged stretch
    /// that was never seen here.
    #[inline]
    pub(super) fn acknowledge(&mut self, offset: u64) -> Option<Span> {
        let payload_end = self.fin.map_or(offset, |fin| offset.min(fin));
        let unseen_tail = (payload_end > self.next).then_some(Span {
            start: self.next,
            end: payload_end,
        });
        let torn = self.drop_acknowledged_holes(offset);
        if let Some(tail) = unseen_tail {
            self.next = tail.end;
        }
        let unseen = match (torn, unseen_tail) {
            (Some(hole), Some(tail)) => Some(Span {
                start: hole.start,
                end: tail.end,
            }),
            (one, other) => one.or(other),
        };
        if let Some(span) = unseen {
            self.unseen_bytes += span.end - span.start;
        }
        unseen
    }

    /// Drops the holes that the peer has acknowledged: they will never be filled.
    #[inline]
    fn drop_acknowledged_holes(&mut self, offset: u64) -> Option<Span> {
        if self.holes.is_empty() {
            return None;
        }
        let mut torn: Option<Span> = None;
        self.holes.retain(|hole| {
            let is_acked = hole.end <= offset;
            if is_acked {
                let start = torn.map_or(hole.start, |t| t.start.min(hole.start));
                let end = torn.map_or(hole.end, |t| t.end.max(hole.end));
                torn = Some(Span { start, end });
            }
            !is_acked
        });
        torn
    }

    /// Returns the number of payload bytes that were seen.
    pub(crate) fn seen_bytes(&self) -> u64 {
        self.next.saturating_sub(self.unseen_bytes)
    }

    /// Returns the number of bytes below `next` that were neither seen nor acknowledged.
    pub(crate) fn lost(&self) -> u64 {
        self.holes.iter().map(|hole| hole.end - hole.start).sum()
    }

    /// Frees what only an open connection needs.
    pub(super) fn retire(&mut self) {
        self.holes = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::orders::orders;

    /// More pieces than twice the limit, of three bytes each, of which only the middle one comes.
    const PIECES: u64 = MAX_HOLES as u64 * 4;

    fn island(number: u64) -> Span {
        Span {
            start: number * 3 + 1,
            end: number * 3 + 2,
        }
    }

    /// Places pieces, and tests after each that the holes are in order, apart, below the end, and no
    /// more than the limit: each piece costs no more than a walk through them.
    fn placed(space: &mut SequenceSpace, pieces: impl IntoIterator<Item = Span>) {
        for piece in pieces {
            space.place(piece);
            let holes = &space.holes;
            assert!(holes.len() <= MAX_HOLES, "{} holes", holes.len());
            assert!(
                holes
                    .iter()
                    .all(|hole| hole.start < hole.end && hole.end <= space.next)
            );
            assert!(
                holes.windows(2).all(|two| two[0].end < two[1].start),
                "{holes:?}"
            );
        }
    }

    proptest! {
        /// Islands from the beginning on, and islands within one hole: whatever their order is.
        #[test]
        fn holes_keep_to_their_limit(order in orders(PIECES), is_split in any::<bool>()) {
            let mut space = SequenceSpace::default();
            space.open(u32::MAX);
            if is_split {
                placed(&mut space, [island(PIECES)]);
            }
            placed(&mut space, order.iter().map(|&number| island(number)));
        }

        /// The holes are the bytes that were not placed, as long as they are few.
        #[test]
        fn holes_are_what_was_not_placed(
            order in orders(MAX_HOLES as u64 / 2),
            sizes in prop::collection::vec(1_u64..9, MAX_HOLES / 2),
        ) {
            let mut space = SequenceSpace::default();
            space.open(0);
            let mut seen = [false; MAX_HOLES * 6];
            for (number, size) in order.into_iter().zip(sizes) {
                let start = number * 6;
                let span = Span { start, end: start + size };
                let bytes = &mut seen[start as usize..(start + size) as usize];
                let (is_new, is_past) = (bytes.iter().any(|&it| !it), span.end > space.next);
                let arrival = space.place(span);
                let is_fill = arrival == Arrival::Fill;
                prop_assert_eq!(is_new && !is_past, is_fill, "{:?}", arrival);
                bytes.fill(true);
            }
            for (at, &is_seen) in (0..space.next).zip(&seen) {
                let mut holes = space.holes.iter();
                let is_hole = holes.any(|hole| (hole.start..hole.end).contains(&at));
                prop_assert_eq!(is_hole, !is_seen, "byte {}", at);
            }
        }
    }
}
