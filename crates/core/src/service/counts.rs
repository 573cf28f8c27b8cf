//! Counts and sums by kind, for a few kinds.

use crate::exchange::wait::{Owner, Wait, WaitKind};
use crate::report::WaitShare;
use crate::stats::Merge;

/// Counts by kind, for a few kinds.
#[derive(Clone, Debug)]
pub(crate) struct Counts<K> {
    /// Kinds in the order in which they first occurred, with their counts. There are only a few, so
    /// a linear search is quickest.
    list: Vec<(K, u64)>,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self { list: Vec::new() }
    }
}

impl<K: Copy + Ord> Counts<K> {
    pub(crate) fn add(&mut self, kind: K, count: u64) {
        match self.list.iter_mut().find(|(of, _)| *of == kind) {
            Some((_, sum)) => *sum += count,
            None => self.list.push((kind, count)),
        }
    }

    pub(crate) fn of(&self, kind: K) -> u64 {
        let found = self.list.iter().find(|(of, _)| *of == kind);
        found.map_or(0, |&(_, count)| count)
    }

    pub(crate) fn sum(&self) -> u64 {
        self.list.iter().map(|(_, count)| count).sum()
    }

    /// Iterates over the counts in the order of the kinds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        let mut sorted = self.list.clone();
        sorted.sort_unstable_by_key(|&(kind, _)| kind);
        sorted.into_iter()
    }
}

impl<K: Copy + Ord> Merge for Counts<K> {
    fn merge(&mut self, other: Self) {
        let Self { list } = other;
        let list = list.into_iter();
        list.for_each(|(kind, count)| self.add(kind, count));
    }
}

/// Sums of waits by kind and owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// Sums in the order in which they first occurred. There are only a few, so a linear search is
    /// quickest.
    sums: Vec<((WaitKind, Owner), u64)>,
}

impl Merge for Shares {
    fn merge(&mut self, other: Self) {
        let Self { sums } = other;
        let sums = sums.into_iter();
        sums.for_each(|(key, total)| self.count(key, total));
    }
}

impl Shares {
    pub(crate) fn add(&mut self, waits: &[Wait]) {
        for wait in waits {
            self.count((wait.kind, wait.owner), wait.nanos());
        }
    }

    /// Returns the time of this kind of wait, in nanoseconds.
    pub(crate) fn of(&self, kind: WaitKind) -> u64 {
        let of_kind = self.sums.iter().filter(|((k, _), _)| *k == kind);
        of_kind.fold(0, |sum, (_, time)| sum.saturating_add(*time))
    }

    /// Returns true if there is any time of this kind of wait.
    pub(crate) fn has(&self, kind: WaitKind) -> bool {
        self.sums.iter().any(|((k, _), _)| *k == kind)
    }

    /// Adds `time` nanoseconds.
    pub(crate) fn count(&mut self, key: (WaitKind, Owner), time: u64) {
        match self.sums.iter_mut().find(|(of, _)| *of == key) {
            Some((_, sum)) => *sum = sum.saturating_add(time),
            None => self.sums.push((key, time)),
        }
    }

    /// Takes off up to `time` nanoseconds.
    pub(crate) fn take_off(&mut self, key: (WaitKind, Owner), time: u64) {
        if let Some((_, sum)) = self.sums.iter_mut().find(|(of, _)| *of == key) {
            *sum = sum.saturating_sub(time);
        }
        if time > 0 {
            self.sums.retain(|(_, sum)| *sum > 0);
        }
    }

    /// Returns each kind and owner with its time in nanoseconds, in the order of the kinds.
    pub(crate) fn sorted(&self) -> Vec<((WaitKind, Owner), u64)> {
        let mut sorted = self.sums.clone();
        sorted.sort_unstable();
        sorted
    }

    /// Returns each kind and owner with its share of the total, largest first.
    pub(crate) fn shares(&self) -> Vec<WaitShare> {
        let total = self.total();
        let mut list: Vec<WaitShare> = self
            .sums
            .iter()
            .map(|&((kind, owner), total_ns)| WaitShare {
                kind,
                owner,
                total_ns,
                share: total_ns as f64 / total.max(1) as f64,
            })
            .collect();
        list.sort_by_key(|share| core::cmp::Reverse((share.total_ns, share.kind, share.owner)));
        list
    }

    /// Returns the sum of all times, in nanoseconds; saturates, because a capture's timestamps may
    /// be centuries apart.
    pub(crate) fn total(&self) -> u64 {
        self.sums
            .iter()
            .fold(0, |sum: u64, (_, time)| sum.saturating_add(*time))
    }
}
