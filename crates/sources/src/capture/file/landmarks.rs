//! The parts of a capture file with the flows in them, so that packets of a few flows can be read
//! without reading the whole file again.

use std::ops::Range;

use lagtrace_core::decode::{Position, SeenFlows, Sieve};
use lagtrace_core::observed::flow::FlowKey;

use crate::capture::Packets;

/// Maximum number of parts, each of which takes 1 KiB. With more, neighbours are joined.
const MAX_PARTS: usize = 4096;

/// The parts of a file, one after the other.
#[derive(Debug, Default)]
pub(super) struct Landmarks {
    parts: Vec<Part>,
    /// Minimum length of a part in bytes.
    least: u64,
    /// True if a packet was reassembled from fragments, which may lie in several parts.
    has_fragments: bool,
}

#[derive(Debug)]
struct Part {
    begin: Position,
    seen: SeenFlows,
}

impl Landmarks {
    /// Adds packets, which begin at a position; `None` within a block that is being skipped.
    pub(super) fn add(&mut self, begin: Option<Position>, packets: &Packets) {
        self.has_fragments |= packets.has_fragments();
        self.add_flows(begin, packets.segments().map(|(segment, _)| segment.flow));
    }

    fn add_flows(&mut self, begin: Option<Position>, flows: impl Iterator<Item = FlowKey>) {
        let last = self.parts.last();
        let is_next = |at: &Position| {
            last.is_none_or(|last| at.offset >= last.begin.offset.saturating_add(self.least))
        };
        if let Some(begin) = begin.filter(is_next) {
            self.join();
            let seen = SeenFlows::default();
            self.parts.push(Part { begin, seen });
        }
        let Some(part) = self.parts.last_mut() else {
            return;
        };
        let mut last = None;
        for flow in flows {
            // Packets of a flow often follow each other.
            if last != Some(flow) {
                part.seen.add(&flow);
                last = Some(flow);
            }
        }
    }

    /// Makes room for another part.
    fn join(&mut self) {
        if self.parts.len() < MAX_PARTS {
            return;
        }
        let parts = std::mem::take(&mut self.parts);
        let ends = [parts.first(), parts.last()].map(|part| part.map_or(0, |it| it.begin.offset));
        self.least = 2 * (ends[1] - ends[0]).div_ceil(MAX_PARTS as u64);
        for part in parts {
            match self.parts.last_mut() {
                Some(last) if part.begin.offset < last.begin.offset + self.least => {
                    last.seen.merge(&part.seen);
                }
                _ => self.parts.push(part),
            }
        }
    }

    /// Returns the ranges that may contain packets of the sieve's flows: the position where each
    /// begins, and its bytes. `within` are the bytes read, without the head of the file. `None` if a
    /// packet may lie in several parts.
    pub(super) fn ranges(
        &self,
        sieve: &Sieve,
        within: Range<u64>,
    ) -> Option<Vec<(Position, Range<u64>)>> {
        let mut ranges: Vec<(Position, Range<u64>)> = Vec::new();
        let ends = self.parts.iter().skip(1).map(|next| next.begin.offset);
        for (part, end) in self.parts.iter().zip(ends.chain([within.end])) {
            if sieve.excludes_part(&part.seen) {
                continue;
            }
            let mut begin = part.begin;
            begin.offset = begin.offset.max(within.start);
            match ranges.last_mut() {
                Some((_, range)) if range.end == begin.offset => range.end = end,
                _ => ranges.push((begin, begin.offset..end)),
            }
        }
        (!self.has_fragments).then_some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::flow::{Endpoint, Transport};

    use super::*;

    #[test]
    fn many_parts_are_joined_and_still_cover_their_flows() {
        const PARTS: u64 = 30_000;
        const BYTES: u64 = 100;
        let flow = |port| {
            let end = |port| Endpoint::new([10, 0, 0, 1].into(), port);
            FlowKey::new(Transport::Tcp, end(port), end(80)).0
        };
        let mut landmarks = Landmarks::default();
        for part in 0..PARTS {
            let begin = Position {
                offset: part * BYTES,
                records: part,
            };
            let flows = [flow((part / 300) as u16)];
            landmarks.add_flows(Some(begin), flows.into_iter());
        }
        assert!((MAX_PARTS / 2..=MAX_PARTS).contains(&landmarks.parts.len()));
        for port in [0, 7, 99] {
            let sieve = Sieve::of([flow(port)]);
            let ranges = landmarks.ranges(&sieve, 0..PARTS * BYTES);
            let [(begin, bytes)] = &ranges.expect("no fragments")[..] else {
                panic!("several ranges of {port}");
            };
            let own = u64::from(port) * 300 * BYTES..u64::from(port + 1) * 300 * BYTES;
            assert!(bytes.start <= own.start && own.end <= bytes.end, "{port}");
            assert!(bytes.end - bytes.start <= own.end - own.start + 40 * BYTES);
            assert_eq!(
                (begin.offset, begin.records * BYTES),
                (bytes.start, bytes.start)
            );
        }
    }
}
