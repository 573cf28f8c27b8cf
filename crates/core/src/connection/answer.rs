//! Acknowledgements, SACK blocks and windows of a segment, applied to the peer's bytes.

use core::num::NonZeroU64;

use super::repeats::Answer;
use super::{Connection, empty_span};
use crate::attribution::packet::Need;
use crate::attribution::packet::Reports;
use crate::attribution::packet::Span;
use crate::observed::flow::Direction;
use crate::observed::segment::{Segment, TcpFlags};

impl Connection {
    pub(super) fn take_ack(&mut self, segment: &Segment) -> (u64, bool) {
        let peer = segment.direction.reverse();
        if !segment.flags.contains(TcpFlags::ACK) {
            return (0, false);
        }
        let before = self.half(peer).sequence.acked;
        if let Some(unseen) =
            self.half_mut(peer)
                .acknowledge(segment.ack, segment.at, segment.payload_len == 0)
            && let Some(side) = self.side(peer)
        {
            self.pairing.torn(side, unseen, segment.at);
        }
        let after = self.half(peer).sequence.acked;
        (after, after > before)
    }

    /// Records that the sender of `direction` allows its peer to send up to `edge`; returns true if
    /// that is further than before.
    pub(super) fn remember_window(&mut self, direction: Direction, edge: NonZeroU64) -> bool {
        let before = self.windows.get_mut(direction).now.replace(edge);
        before.is_some_and(|before| edge > before)
    }

    /// Applies the segment's acknowledgement and SACK blocks to the peer's retransmissions, and
    /// returns what the SACK blocks report.
    #[inline]
    pub(super) fn apply_answer(&mut self, segment: &Segment, ack: u64, skipped: u16) -> Reports {
        let blocks = segment.options.sack_blocks();
        let has_repeats = !self.half(segment.direction.reverse()).repeats.is_empty();
        if blocks.is_empty() && (!has_repeats || ack == 0) {
            return Reports::default();
        }
        self.weigh_answer(segment, blocks, ack, skipped)
    }

    pub(super) fn weigh_answer(
        &mut self,
        segment: &Segment,
        blocks: &[(u32, u32)],
        ack: u64,
        skipped: u16,
    ) -> Reports {
        let half = self.half_mut(segment.direction.reverse());
        let mut spans = [empty_span(0); 4];
        for (slot, &(left, right)) in spans.iter_mut().zip(blocks) {
            *slot = Span {
                start: half.sequence.offset(left),
                end: half.sequence.offset(right),
            };
        }
        let spans = spans.get(..blocks.len().min(4)).unwrap_or_default();
        let (duplicate, sacked) = split_duplicate(spans, ack);
        let answer = Answer {
            at: segment.at,
            ack,
            sacked,
            duplicate,
            tsecr: segment.options.timestamps.map(|(_, tsecr)| tsecr),
            floor: half.to_peer.floor(),
            is_after_gap: skipped > 0,
        };
        let pairing = &mut self.pairing;
        let half = self.halves.get_mut(segment.direction.reverse());
        let facts = &mut self.facts;
        let answers_copy = duplicate.is_some() && !half.repeats.echoes_original(answer.tsecr);
        half.repeats.resolve(&answer, |number, need| {
            pairing.resolve(number, need);
            if let (Some(facts), Need::Spurious) = (facts.as_mut(), need) {
                facts.was_spurious(segment.direction.reverse());
            }
        });
        Reports {
            hole: !sacked.is_empty(),
            answers_copy,
        }
    }
}

/// Splits `spans` (SACK blocks) into the bytes that arrived twice, if the first block reports any,
/// and the bytes that arrived beyond missing data: RFC 2883 §4 puts a D-SACK first, at or below the
/// acknowledgement or inside the second block.
fn split_duplicate(spans: &[Span], ack: u64) -> (Option<Span>, &[Span]) {
    let Some((first, rest)) = spans.split_first() else {
        return (None, spans);
    };
    let is_inside = |outer: &Span| outer.start <= first.start && outer.end >= first.end;
    if first.end <= ack || rest.first().is_some_and(is_inside) {
        (Some(*first), rest)
    } else {
        (None, spans)
    }
}
