//! Exchanges that are kept in full: the slowest, and a uniform sample.

use core::cmp::{Ordering, Reverse};
use core::ops::Range;
use core::time::Duration;
use std::collections::BinaryHeap;

use crate::exchange::wait::{Bound, Wait};
use crate::exchange::{Exchange, Outcome, Recovery};
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::report::PicturedExchange;
use crate::service::example::Example;
use crate::stats::Merge;

/// Number of the slowest exchanges that are kept.
pub(super) const SLOWEST: usize = 500;
/// Number of exchanges in the uniform sample.
pub(super) const SAMPLE: usize = 2_000;
/// Maximum number of repaired losses kept of one exchange, the earliest.
const MAX_RECOVERIES: usize = 64;

/// The identity of an exchange among all of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) begin: Timestamp,
    client: Endpoint,
    server: Endpoint,
    pub(super) point: PointId,
    pub(super) ordinal: u32,
}

impl Identity {
    pub(super) fn of(exchange: &Exchange) -> Self {
        Self {
            begin: exchange.begin,
            client: exchange.id.client,
            server: exchange.id.server,
            point: exchange.id.point,
            ordinal: exchange.id.ordinal,
        }
    }
}

/// Returns well mixed bits of an exchange's identity, always the same for the same exchange.
fn scattered(exchange: &Exchange) -> u64 {
    let end = |end: Endpoint| {
        let (address, port) = end.place();
        (address as u64 ^ (address >> 64) as u64).rotate_left(16) ^ u64::from(port)
    };
    let id = &exchange.id;
    let start = exchange.begin.as_nanos() as u64 ^ u64::from(id.ordinal).rotate_left(48);
    let ends = end(id.client) ^ end(id.server).rotate_left(29) ^ u64::from(id.point.0) << 40;
    mix(mix(start) ^ ends)
}

/// Mixes the bits (the finalizer of MurmurHash3, after the golden ratio).
fn mix(bits: u64) -> u64 {
    let mut bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

/// The data of an exchange that is kept.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) identity: Identity,
    pub(super) example: Example,
    pub(super) joined_waits: u64,
    pub(super) status: Option<u16>,
    pub(super) cost_ns: u64,
    pub(super) setup: Option<Duration>,
    pub(super) response_bytes: u64,
    pub(super) recoveries: Vec<Recovery>,
}

impl Kept {
    fn new(exchange: &Exchange, identity: Identity) -> Self {
        let mut kept = Self {
            identity,
            example: Example::of(exchange),
            joined_waits: 0,
            status: None,
            cost_ns: 0,
            setup: None,
            response_bytes: 0,
            recoveries: Vec::new(),
        };
        kept.complete(exchange);
        kept
    }

    /// Replaces the data by that of another exchange; uses the same memory.
    fn replace(&mut self, exchange: &Exchange, identity: Identity) {
        self.identity = identity;
        self.example.replace(exchange);
        self.complete(exchange);
    }

    /// Sets what the example lacks, and limits its waits.
    fn complete(&mut self, exchange: &Exchange) {
        let waits = &mut self.example.waits;
        let before = waits.len();
        if before > PicturedExchange::MAX_WAITS {
            *waits = joined(waits);
        }
        self.joined_waits = (before - waits.len()) as u64;
        self.status = match exchange.outcome {
            Outcome::Complete(status) => status,
            _ => None,
        };
        self.cost_ns = exchange.cost_nanos();
        self.setup = exchange.connecting.setup;
        self.response_bytes = exchange.response.count;
        self.recoveries.clear();
        let recoveries = exchange.loss.recoveries.iter();
        self.recoveries.extend(recoveries.take(MAX_RECOVERIES));
    }
}

/// The exchanges with the smallest keys.
#[derive(Clone, Debug)]
pub(super) struct Smallest {
    most: usize,
    /// The greatest key kept. Greater ones are not kept; the maximum while there is room.
    until: u64,
    heap: BinaryHeap<Ranked>,
}

#[derive(Clone, Debug)]
struct Ranked {
    key: u64,
    kept: Box<Kept>,
}

impl Ranked {
    /// Returns the rank. It differs for all exchanges, even if they have the same key.
    fn rank(&self) -> (u64, Identity) {
        (self.key, self.kept.identity)
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.key.cmp(&other.key);
        by_key.then_with(|| self.rank().cmp(&other.rank()))
    }
}

impl Smallest {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            until: u64::MAX,
            heap: BinaryHeap::new(),
        }
    }

    #[inline]
    pub(super) fn offer(&mut self, key: u64, exchange: &Exchange) {
        // Of many exchanges, nearly all stop here.
        if key <= self.until {
            self.keep(key, exchange);
        }
    }

    fn keep(&mut self, key: u64, exchange: &Exchange) {
        let identity = Identity::of(exchange);
        if self.heap.len() < self.most {
            let kept = Box::new(Kept::new(exchange, identity));
            self.heap.push(Ranked { key, kept });
        } else if let Some(mut last) = self.heap.peek_mut()
            && (key, identity) < last.rank()
        {
            last.key = key;
            last.kept.replace(exchange, identity);
        }
        self.limit();
    }

    fn limit(&mut self) {
        let is_full = self.heap.len() >= self.most;
        let last = self.heap.peek().filter(|_| is_full);
        self.until = last.map_or(u64::MAX, |last| last.key);
    }

    fn into_kept(self) -> impl Iterator<Item = Box<Kept>> {
        self.heap.into_iter().map(|ranked| ranked.kept)
    }

    /// Returns the exchanges, the one with the smallest key first.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = Box<Kept>> {
        let sorted = self.heap.into_sorted_vec();
        sorted.into_iter().map(|ranked| ranked.kept)
    }
}

impl Merge for Smallest {
    fn merge(&mut self, other: Self) {
        // Both keep equally many, and the limit follows from what is kept.
        let Self {
            most: _,
            until: _,
            heap,
        } = other;
        let mut all = core::mem::take(&mut self.heap).into_vec();
        all.extend(heap);
        if all.len() > self.most {
            all.select_nth_unstable(self.most);
            all.truncate(self.most);
        }
        self.heap = all.into();
        self.limit();
    }
}

/// The slowest exchanges and the sample.
#[derive(Clone, Debug, Merge)]
pub(super) struct Chosen {
    slowest: Smallest,
    sample: Smallest,
}

impl Default for Chosen {
    fn default() -> Self {
        Self {
            slowest: Smallest::new(SLOWEST),
            sample: Smallest::new(SAMPLE),
        }
    }
}

impl Chosen {
    #[inline]
    pub(super) fn offer(&mut self, exchange: &Exchange, latency_ns: u64) {
        self.slowest.offer(!latency_ns, exchange);
        self.sample.offer(scattered(exchange), exchange);
    }

    /// Iterates over the exchanges, the slowest before the sample, each with true if it is one of
    /// the slowest. An exchange can be in both.
    pub(super) fn into_kept(self) -> impl Iterator<Item = (bool, Box<Kept>)> {
        let slowest = self.slowest.into_kept().map(|kept| (true, kept));
        slowest.chain(self.sample.into_kept().map(|kept| (false, kept)))
    }
}

/// Returns the runs of neighbours to join, so that at most [`PicturedExchange::MAX_WAITS`] remain:
/// the longest waits stay alone, and all between two of them become one.
pub(super) fn runs(durations: &[u64]) -> Vec<Range<usize>> {
    let alone = (PicturedExchange::MAX_WAITS - 1) / 2;
    let mut ranked: Vec<usize> = (0..durations.len()).collect();
    ranked.sort_by_key(|&at| Reverse(durations.get(at).copied()));
    ranked.truncate(alone);
    ranked.sort_unstable();
    let mut runs = Vec::new();
    let mut next = 0;
    for at in ranked {
        runs.extend((next < at).then_some(next..at));
        runs.push(at..at + 1);
        next = at + 1;
    }
    runs.extend((next < durations.len()).then_some(next..durations.len()));
    runs
}

fn joined(waits: &[Wait]) -> Vec<Wait> {
    let durations: Vec<u64> = waits.iter().map(Wait::nanos).collect();
    let join = |run: Range<usize>| {
        let run = waits.get(run)?;
        let (first, last) = (run.first()?, run.last()?);
        // Of several equally long ones the first.
        let longest = run.iter().rev().max_by_key(|wait| wait.nanos())?;
        Some(Wait {
            start: first.start,
            bound: wider(first.bound, last.bound),
            ..Wait {
                kind: longest.kind,
                owner: longest.owner,
                ..*last
            }
        })
    };
    runs(&durations).into_iter().filter_map(join).collect()
}

/// Returns the bound with the greater error.
fn wider(one: Bound, other: Bound) -> Bound {
    match (one, other) {
        (Bound::Inferred(one), Bound::Inferred(other)) => Bound::Inferred(one.max(other)),
        (Bound::Observed, bound) | (bound, Bound::Observed) => bound,
    }
}
