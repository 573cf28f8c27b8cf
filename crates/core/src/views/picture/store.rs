//! Segments that are kept to show the packets of examples, where they cannot be read a second time.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use super::detail::Detail;
use crate::observed::event::PointId;
use crate::observed::flow::{self, Direction, FlowKey};
use crate::observed::segment::{IpFacts, Segment, TcpFlags, TcpOptions};
use crate::observed::time::Timestamp;
use crate::report::{Picture, Remark, Report};

/// Maximum memory of the segments and their flows, in bytes: room for a million segments of a few
/// flows. The table of one batch's flows takes up to 2 MB more.
const MOST_BYTES: usize = 46 << 20;
/// Number of segments in a batch.
const BATCH: usize = 1 << 14;

/// The segments to keep if there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The first ones, for an observation that ends by itself.
    Earliest,
    /// The last ones, for an observation of any length.
    Latest,
}

/// The earliest or the latest segments of an observation. Bounded.
#[derive(Clone, Debug)]
pub(crate) struct SegmentStore {
    keeps: Keeps,
    limit: usize,
    /// Full batches no longer change, so that copies share them.
    full: VecDeque<Arc<Batch>>,
    /// The memory of the full batches, in bytes.
    bytes: usize,
    open: Batch,
    /// The flows of the open batch.
    places: HashMap<FlowKey, u32, SeedableRandomState>,
    left_out: u64,
}

/// Segments that follow each other, with their flows, so that both can be dropped together.
#[derive(Clone, Debug, Default)]
struct Batch {
    flows: Vec<FlowKey>,
    segments: Vec<Kept>,
}

/// The parts of a segment that a ladder and a connection need.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: Timestamp,
    number: u64,
    /// The index of the flow in the batch.
    flow: u32,
    seq: u32,
    ack: u32,
    payload_len: u32,
    point: PointId,
    window: u16,
    id: Option<u16>,
    window_scale: Option<u8>,
    flags: TcpFlags,
    direction: Direction,
}

impl SegmentStore {
    pub(crate) fn new(keeps: Keeps, hash_seed: u64) -> Self {
        Self::within(MOST_BYTES, keeps, hash_seed)
    }

    fn within(limit: usize, keeps: Keeps, hash_seed: u64) -> Self {
        Self {
            keeps,
            limit,
            full: VecDeque::new(),
            bytes: 0,
            open: Batch::default(),
            places: HashMap::with_hasher(flow::hasher(hash_seed)),
            left_out: 0,
        }
    }

    /// Keeps a segment, if there is room.
    pub(crate) fn observe_segment(&mut self, segment: &Segment) {
        if self.open.segments.len() >= BATCH {
            self.begin_batch();
        }
        if self.bytes + Batch::MOST_BYTES > self.limit {
            self.left_out += 1;
            return;
        }
        let next = self.open.flows.len();
        let place = *self.places.entry(segment.flow).or_insert_with(|| {
            self.open.flows.push(segment.flow);
            next as u32
        });
        self.open.segments.push(Kept::new(segment, place));
    }

    /// Puts the open batch to the full ones, and makes room for another one if possible.
    fn begin_batch(&mut self) {
        let mut full = core::mem::take(&mut self.open);
        full.flows.shrink_to_fit();
        self.places.clear();
        self.bytes += full.bytes();
        self.full.push_back(Arc::new(full));
        while self.keeps == Keeps::Latest && self.bytes + Batch::MOST_BYTES > self.limit {
            let Some(oldest) = self.full.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes();
            self.left_out += oldest.segments.len() as u64;
        }
    }

    /// Adds the packets of the report's examples to the picture. If some are missing because not all
    /// segments were kept, a note of the report says so.
    pub(crate) fn show(&self, report: &mut Report, picture: &mut Picture, hash_seed: u64) {
        let Some(mut detail) = Detail::of_kept(report, hash_seed) else {
            return;
        };
        // Connections are shown as far as they were seen, not only until the last example.
        for segment in self.segments() {
            detail.observe_segment(&segment);
        }
        if self.left_out > 0 && !detail.is_complete() {
            report.notes.push(Remark {
                id: "examples-not-kept".to_owned(),
                text: format!(
                    "The page does not show the packets of all examples: {} packets did not fit \
                     into memory.",
                    self.left_out
                ),
            });
        }
        detail.finish(picture);
    }

    fn segments(&self) -> impl Iterator<Item = Segment> {
        let full = self.full.iter().map(Arc::as_ref);
        let batches = full.chain(core::iter::once(&self.open));
        batches.flat_map(Batch::segments)
    }
}

impl Batch {
    /// The memory of a batch in which each segment has a flow of its own.
    const MOST_BYTES: usize = BATCH * (size_of::<Kept>() + size_of::<FlowKey>());

    fn bytes(&self) -> usize {
        let flows = self.flows.capacity() * size_of::<FlowKey>();
        self.segments.capacity() * size_of::<Kept>() + flows
    }

    fn segments(&self) -> impl Iterator<Item = Segment> {
        self.segments.iter().filter_map(|kept| {
            let flow = self.flows.get(kept.flow as usize)?;
            Some(kept.segment(*flow))
        })
    }
}

impl Kept {
    fn new(segment: &Segment, flow: u32) -> Self {
        Self {
            at: segment.at,
            number: segment.number,
            flow,
            seq: segment.seq,
            ack: segment.ack,
            payload_len: segment.payload_len,
            point: segment.point,
            window: segment.window,
            id: segment.ip.id,
            window_scale: segment.options.window_scale,
            flags: segment.flags,
            direction: segment.direction,
        }
    }

    fn segment(&self, flow: FlowKey) -> Segment {
        Segment {
            at: self.at,
            number: self.number,
            point: self.point,
            flow,
            direction: self.direction,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            payload_len: self.payload_len,
            options: TcpOptions {
                window_scale: self.window_scale,
                ..TcpOptions::default()
            },
            ip: IpFacts {
                id: self.id,
                ..IpFacts::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::analyzer::{Analyzer, Options};
    use crate::observed::flow::Endpoint;

    fn segment(number: u64) -> Segment {
        let end = |port| Endpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let at = Timestamp::from_nanos(number as i64);
        let mut segment = Segment::sent(end(1 + (number % 10_000) as u16), end(60_000), at);
        (segment.number, segment.seq, segment.payload_len) = (number, number as u32 * 3, 7);
        segment.options.window_scale = Some(9);
        segment.ip.id = number.is_multiple_of(2).then_some(5);
        segment
    }

    /// Returns the segments that a store of this many batches keeps of `count`.
    fn kept(keeps: Keeps, batches: usize, count: u64) -> (Vec<Segment>, u64) {
        let limit = Batch::MOST_BYTES * batches;
        let mut store = SegmentStore::within(limit, keeps, 1);
        for number in 0..count {
            store.observe_segment(&segment(number));
            assert!(store.bytes + store.open.bytes() <= limit);
        }
        (store.segments().collect(), store.left_out)
    }

    #[test]
    fn segments_come_back_in_order() {
        let count = 3 * BATCH as u64 + 5;
        let expected: Vec<Segment> = (0..count).map(segment).collect();
        for keeps in [Keeps::Earliest, Keeps::Latest] {
            let (kept, left_out) = kept(keeps, 4, count);
            assert!(kept == expected);
            assert_eq!(left_out, 0);
        }
    }

    #[test]
    fn a_full_store_keeps_one_end_of_the_time() {
        let (batch, count) = (BATCH as u64, 5 * BATCH as u64 + 5);
        let (earliest, left_out) = kept(Keeps::Earliest, 3, count);
        assert!(earliest == (0..3 * batch).map(segment).collect::<Vec<_>>());
        assert_eq!(left_out, count - 3 * batch);
        let (latest, left_out) = kept(Keeps::Latest, 3, count);
        assert!(latest == (3 * batch..count).map(segment).collect::<Vec<_>>());
        assert_eq!(left_out, 3 * batch);
    }

    /// Returns requests and their responses on one connection, in more than a batch of segments. A
    /// few near the end are slow.
    fn exchanges() -> Vec<(Segment, &'static [u8])> {
        const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let end = |last, port| Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let (client, server) = (end(1, 40_000), end(2, 80));
        let (mut list, mut ms) = (Vec::new(), 0);
        for number in 0..BATCH as u32 {
            let (here, there) = (
                number * REQUEST.len() as u32,
                number * RESPONSE.len() as u32,
            );
            let is_slow = (3..9).contains(&(BATCH as u32 - number));
            for (from, to, seq, ack, payload) in [
                (client, server, here, there, REQUEST),
                (server, client, there, here + REQUEST.len() as u32, RESPONSE),
            ] {
                ms += if from == server && is_slow { 50 } else { 1 };
                let at = Timestamp::from_nanos(ms * 1_000_000);
                let mut segment = Segment::sent(from, to, at);
                (segment.seq, segment.ack) = (seq, ack);
                (segment.payload_len, segment.number) =
                    (payload.len() as u32, list.len() as u64 + 1);
                list.push((segment, payload));
            }
        }
        list
    }

    /// Returns the number of ladders, and true if a note says that some are missing.
    fn shown(keeps: Keeps) -> (usize, bool) {
        let mut analyzer = Analyzer::new(Options::default()).with_picture();
        let mut store = SegmentStore::within(Batch::MOST_BYTES, keeps, 1);
        for (segment, payload) in exchanges() {
            analyzer.segment(&segment, payload);
            store.observe_segment(&segment);
        }
        let (mut report, picture) = analyzer.finish_with_picture();
        let mut picture = picture.expect("it was requested");
        store.show(&mut report, &mut picture, 1);
        let is_note = |note: &Remark| note.id == "examples-not-kept";
        (picture.ladders.len(), report.notes.iter().any(is_note))
    }

    #[test]
    fn examples_that_are_not_kept_are_missed() {
        let (ladders, is_told) = shown(Keeps::Latest);
        assert!(ladders > 0 && !is_told, "{ladders}");
        assert_eq!(shown(Keeps::Earliest), (0, true));
    }
}
