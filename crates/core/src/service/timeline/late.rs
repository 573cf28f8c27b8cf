//! The exchanges that the server took longest to answer, at any time, and the times at which it
//! answered others. Together they show stalls of the whole server, even if it answers too many
//! requests to keep each of them.

use core::cmp::Reverse;
use core::time::Duration;

use super::{Moment, Served, busiest_point, keep_least, put_in_order};
use crate::observed::time::Timestamp;
use crate::stats::Merge;

/// Minimum think time of a late exchange; quicker exchanges are not evaluated again.
pub(crate) const LEAST_LATE: Duration = Duration::from_millis(20);
/// Maximum number of exchanges kept: those of a hundred connections in twenty stalls.
const MAX_LATE: usize = 2048;
/// Maximum number of stretches of time, in which responses began, that are remembered.
const MAX_STRETCHES: usize = 16_384;
/// Minimum length of such a stretch.
const LEAST_STRETCH_NS: i64 = 1_000_000;

/// The order in which exchanges are kept: longest think time first.
type Key = (Reverse<Duration>, Moment);

/// The responses of one server that were latest.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::bound)]
pub(crate) struct Late {
    #[merge(extend)]
    moments: Vec<Key>,
    /// The exchange with the shortest think time that is certain to be kept; `None` while there is
    /// room.
    #[merge(skip = "the own one stays true, and bounding the list renews it")]
    last: Option<Key>,
    answers: Answered,
}

impl Late {
    /// Records an exchange's part at the server; `moment` returns the whole moment.
    #[inline]
    pub(super) fn add_exchange(&mut self, served: Served, moment: impl Fn() -> Moment) {
        self.answers.add_answer(served.answered);
        let think = served.think();
        if think < LEAST_LATE || self.last.as_ref().is_some_and(|last| think < last.0.0) {
            return;
        }
        let key = (Reverse(think), moment());
        if self.last.as_ref().is_some_and(|last| key > *last) {
            return;
        }
        self.moments.push(key);
        if self.moments.len() >= 2 * MAX_LATE {
            self.keep_latest();
        }
    }

    fn bound(&mut self) {
        if self.moments.len() >= 2 * MAX_LATE {
            self.keep_latest();
        }
    }

    fn keep_latest(&mut self) {
        if let Some(last) = keep_least(&mut self.moments, MAX_LATE) {
            self.last = Some(last);
        }
    }

    /// Returns the moments kept, as seen by the point that saw the most, in the order of their
    /// responses.
    pub(crate) fn by_answer(&self) -> Vec<Moment> {
        let mut kept = self.moments.clone();
        keep_least(&mut kept, MAX_LATE);
        let mut moments: Vec<Moment> = kept.into_iter().map(|(_, moment)| moment).collect();
        if let Some(point) = busiest_point(&moments) {
            moments.retain(|moment| moment.point == point);
        }
        put_in_order(&mut moments, |moment| moment.answered);
        moments
    }

    /// Returns the last instant before `before` at which a response began, or may have begun.
    pub(crate) fn last_answer(&self, before: Timestamp) -> Option<Timestamp> {
        self.answers.last(before)
    }
}

/// Stretches of time in which responses began, all of one length: long enough that their number
/// stays within the limit.
#[derive(Clone, Debug, Default)]
struct Answered {
    /// The stretches in order.
    stretches: Vec<i64>,
    /// Number of times that the length of the stretches was doubled.
    doubled: u32,
    /// The stretch of the latest insertion.
    latest: Option<i64>,
}

impl Merge for Answered {
    fn merge(&mut self, other: Self) {
        // The latest insertion only spares the search for the next place.
        let Self {
            stretches,
            doubled: other_doubled,
            latest: _,
        } = other;
        let doubled = self.doubled.max(other_doubled);
        self.widen(doubled);
        let coarser = doubled - other_doubled;
        let others = stretches.iter().map(|stretch| stretch >> coarser);
        self.stretches.extend(others);
        // The list is two sorted runs, for which a stable sort is quick.
        self.stretches.sort();
        self.stretches.dedup();
        self.widen(doubled);
    }
}

impl Answered {
    fn add_answer(&mut self, at: Timestamp) {
        let stretch = self.stretch(at);
        if self.latest != Some(stretch) {
            self.latest = Some(stretch);
            self.insert(stretch);
            self.widen(self.doubled);
        }
    }

    /// Inserts a stretch. Most responses are recorded in time order: then the stretch belongs at
    /// the end, or near it.
    #[inline]
    fn insert(&mut self, stretch: i64) {
        if self.stretches.last().is_none_or(|&last| last < stretch) {
            self.stretches.push(stretch);
        } else if let Err(place) = self.stretches.binary_search(&stretch) {
            self.stretches.insert(place, stretch);
        }
    }

    /// Lengthens the stretches as far as necessary, by at least `least` doublings in total.
    fn widen(&mut self, least: u32) {
        while self.doubled < least || self.stretches.len() > MAX_STRETCHES {
            for stretch in &mut self.stretches {
                *stretch >>= 1;
            }
            self.stretches.dedup();
            self.doubled += 1;
            self.latest = None;
        }
    }

    fn stretch(&self, at: Timestamp) -> i64 {
        at.as_nanos().div_euclid(LEAST_STRETCH_NS) >> self.doubled
    }

    /// Returns the end of the last stretch that begins before this instant, or the instant itself.
    fn last(&self, before: Timestamp) -> Option<Timestamp> {
        let stretch = self.stretch(before);
        let begun = self.stretches.partition_point(|&begun| begun <= stretch);
        let last = self.stretches.get(begun.checked_sub(1)?)?;
        let end = (last + 1) << self.doubled;
        Some(Timestamp::from_nanos(end.saturating_mul(LEAST_STRETCH_NS)).min(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    /// Responses at these milliseconds, recorded in `shards` in turn and merged.
    fn answered(shards: usize, times: impl Iterator<Item = i64>) -> Answered {
        let mut all = vec![Answered::default(); shards];
        for (turn, time) in times.enumerate() {
            all[turn % shards].add_answer(at(time));
        }
        let mut sum = Answered::default();
        all.into_iter().for_each(|answered| sum.merge(answered));
        sum
    }

    #[test]
    fn a_gap_among_many_answers_is_found_whatever_the_order_and_the_shards() {
        let times = || (0..100_000).filter(|ms| !(60_000..60_500).contains(ms));
        let one = answered(1, times());
        let many = answered(7, times().rev());
        assert_eq!(one.stretches, many.stretches);
        assert!(one.doubled > 0 && one.stretches.len() <= MAX_STRETCHES);
        let last = one.last(at(60_480)).expect("an answer before");
        assert!((at(60_000)..at(60_020)).contains(&last), "{last:?}");
        assert_eq!(one.last(at(60_600)), Some(at(60_600)));
        assert_eq!(one.last(at(-1)), None);
    }
}
