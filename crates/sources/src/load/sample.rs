//! An evenly selected sample of limited size, and the slowest requests.

use core::time::Duration;

use super::record::Record;

/// Number of slowest requests kept in addition to the even sample.
const SLOWEST: usize = 16;

/// A sample of the requests since the last drain. All requests have the same chance to be selected
/// (reservoir sampling). The slowest ones are always kept.
#[derive(Debug)]
pub(super) struct Sampler {
    capacity: usize,
    offered: u64,
    chosen: Vec<(u64, Record)>,
    /// The slowest requests, slowest first.
    slowest: Vec<(Duration, u64, Record)>,
    random: u64,
}

impl Sampler {
    /// Creates a sampler that keeps at most `capacity` requests, and the slowest ones in addition.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            offered: 0,
            chosen: Vec::new(),
            slowest: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Offers a request to the sample.
    pub(super) fn offer(&mut self, record: &Record) {
        let number = self.offered;
        self.offered += 1;
        if self.chosen.len() < self.capacity {
            self.chosen.push((number, *record));
        } else {
            let place = self.next_random() % self.offered;
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            if let Some(kept) = self.chosen.get_mut(place) {
                *kept = (number, *record);
            }
        }
        let took = record.ended.since(record.due);
        let is_slow = self.slowest.len() < SLOWEST
            || self.slowest.last().is_some_and(|(least, ..)| took > *least);
        if is_slow {
            let at = self.slowest.partition_point(|(other, ..)| *other >= took);
            self.slowest.insert(at, (took, number, *record));
            self.slowest.truncate(SLOWEST);
        }
    }

    /// Returns the sample in the order in which the requests were offered, and starts a new sample.
    pub(super) fn drain(&mut self) -> Vec<Record> {
        let slowest = self
            .slowest
            .drain(..)
            .map(|(_, number, record)| (number, record));
        let mut all: Vec<_> = self.chosen.drain(..).chain(slowest).collect();
        all.sort_by_key(|(number, _)| *number);
        all.dedup_by_key(|(number, _)| *number);
        self.offered = 0;
        all.into_iter().map(|(_, record)| record).collect()
    }

    /// Returns the next number of the xorshift64 generator. It is random enough for sampling, and
    /// the same in every run.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
