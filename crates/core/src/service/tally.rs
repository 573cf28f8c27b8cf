//! The cost of a cause, exchange by exchange.

use core::time::Duration;

use super::example::Worst;
use crate::exchange::Exchange;
use crate::observed::kernel_span::RequestSpan;
use crate::observed::time::{Timestamp, nanos};
use crate::report::Exemplar;
use crate::service::timeline::Moment;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Maximum number of disjoint intervals kept; beyond that the nearest ones are joined.
const MAX_INTERVALS: usize = 4096;
/// Number of intervals at the end of the list that are searched first: most new intervals belong
/// there.
const NEAR_END: usize = 16;

/// Sums of the time lost to one cause.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Tally {
    pub(crate) cost: Cost,
    pub(crate) affected: u64,
    /// The fraction of an exchange that is not yet counted: moments may represent 1.5 exchanges
    /// each, but only whole exchanges are counted.
    #[merge(skip = "belongs to the next moment, and moments are added to one tally")]
    carried: f64,
    /// Latencies of the exchanges affected.
    pub(crate) before: Distribution,
    /// Latencies that the same exchanges would have without the cause.
    after: Distribution,
    /// Time lost by each exchange.
    pub(crate) saved: Distribution,
    wall: Intervals,
    worst: Worst,
}

/// A cost with its bounds, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Merge, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) low: u64,
    pub(crate) likely: u64,
    pub(crate) high: u64,
}

impl Cost {
    /// Returns a cost as exact as the timestamps.
    pub(crate) fn exactly(duration: Duration) -> Self {
        let nanos = nanos(duration);
        Self {
            low: nanos,
            likely: nanos,
            high: nanos,
        }
    }

    /// Returns the sum of both costs.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.merge(other);
        self
    }
}

impl Tally {
    /// Adds an affected `exchange`, which would have saved `cost` without the cause. `charged` is
    /// setup time that is charged to the exchange in addition to its own time.
    pub(crate) fn add(&mut self, exchange: &Exchange, cost: Cost, charged: Duration) {
        let latency = exchange.latency() + charged;
        let saved = Duration::from_nanos(cost.likely).min(latency);
        self.cost.merge(cost);
        self.affected += 1;
        self.before.record(exchange.latency());
        self.after
            .record(latency.saturating_sub(saved).min(exchange.latency()));
        self.saved.record(saved);
        self.wall.add(exchange.begin, exchange.end);
        self.worst.offer(cost.likely, exchange);
    }

    /// Adds an affected exchange that is not kept as an example, because it does not show the cause
    /// well.
    pub(crate) fn add_unclear(&mut self, exchange: &Exchange, cost: Cost) {
        let worst = core::mem::take(&mut self.worst);
        self.add(exchange, cost, Duration::ZERO);
        self.worst = worst;
    }

    /// Adds an affected `moment`, and the exchanges that it represents, which were not kept.
    pub(crate) fn add_moment(&mut self, moment: &Moment, saved: Duration, weight: f64) {
        let saved = saved.min(moment.latency());
        // Only whole exchanges are added; the fraction is carried over to the next moment.
        let due = weight + self.carried;
        let count = due.round() as u64;
        self.carried = due - count as f64;
        let cost = (nanos(saved) as f64 * weight).round() as u64;
        self.cost.merge(Cost::exactly(Duration::from_nanos(cost)));
        self.affected += count;
        self.before.record_many(moment.latency(), count);
        self.after.record_many(moment.latency() - saved, count);
        self.saved.record_many(saved, count);
        self.wall.add(moment.begin, moment.end);
    }

    /// Adds an affected turn, known only from the server's kernel.
    pub(crate) fn add_turn(&mut self, turn: &RequestSpan, saved: Duration) {
        let latency = turn.duration();
        let saved = saved.min(latency);
        self.cost.merge(Cost::exactly(saved));
        self.affected += 1;
        self.before.record(latency);
        self.after.record(latency - saved);
        self.saved.record(saved);
        self.wall.add(turn.arrived, turn.left());
    }

    /// Returns the tally of a part of the time that each exchange lost. `share` of it (0 to 1) is the
    /// part.
    pub(crate) fn part(&self, share: f64) -> Self {
        let of = |nanos: u64| (nanos as f64 * share).round() as u64;
        Self {
            cost: Cost {
                low: of(self.cost.low),
                likely: of(self.cost.likely),
                high: of(self.cost.high),
            },
            after: self.after.towards(&self.before, 1.0 - share),
            saved: self.saved.scaled(share),
            ..self.clone()
        }
    }

    /// Returns the latencies that all exchanges would have without the cause.
    pub(crate) fn without(&self, all: &Distribution) -> Distribution {
        all.with_replaced(&self.before, &self.after)
    }

    /// Returns the time during which at least one affected exchange ran.
    pub(crate) fn wall(&self) -> u64 {
        self.wall.total()
    }

    /// Returns the number of occasions separated in time: an event that delays many exchanges
    /// simultaneously, such as a stall of a host, is one occasion. An unbroken stretch counts once
    /// for every two typical exchanges that fit into its length.
    pub(crate) fn occasions(&self) -> u64 {
        let typical = self.before.quantile(0.5).unwrap_or_default();
        let of_one = nanos(typical).saturating_mul(2).max(1);
        self.wall
            .count_each(|stretch| stretch.div_ceil(of_one).max(1))
    }

    /// Adds the time between two instants before an exchange, in which the cause was also
    /// effective.
    pub(crate) fn add_wall(&mut self, from: Timestamp, until: Timestamp) {
        self.wall.add(from, until);
    }

    /// Returns the number of occasions separated in time, each taken to last `lasting`: an unbroken
    /// stretch counts once for every `lasting` that it contains.
    pub(crate) fn times(&self, lasting: Duration) -> u64 {
        let lasting = nanos(lasting).max(1);
        self.wall.count_each(|stretch| (stretch / lasting).max(1))
    }

    /// Returns the exchanges that lost the most time.
    pub(crate) fn exemplars(&self) -> Vec<Exemplar> {
        self.worst.exemplars()
    }
}

/// A union of intervals, sorted and disjoint. If there are too many, the nearest are joined, so the
/// total errs upward.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
struct Intervals {
    #[merge(extend)]
    sorted: Vec<(Timestamp, Timestamp)>,
}

impl Intervals {
    /// Adds an interval. Exchanges close nearly in the order in which they began, so usually the
    /// last interval grows.
    fn add(&mut self, start: Timestamp, end: Timestamp) {
        if let Some(last) = self.sorted.last_mut()
            && (last.0..=last.1).contains(&start)
        {
            last.1 = last.1.max(end);
            return;
        }
        let until = self.begun_by(end);
        let before = self.sorted.get(..until).unwrap_or_default();
        let touched = before.iter().rev().take_while(|i| i.1 >= start).count();
        let from = until - touched;
        if touched == 0 {
            self.sorted.insert(from, (start, end));
            if self.sorted.len() >= 2 * MAX_INTERVALS {
                self.settle();
            }
            return;
        }
        let last_end = self.sorted.get(until - 1).map_or(end, |i| i.1.max(end));
        if let Some(first) = self.sorted.get_mut(from) {
            *first = (first.0.min(start), last_end);
        }
        self.sorted.drain(from + 1..until);
    }

    /// Returns the number of intervals that begin no later than `at`. Nearly all intervals usually
    /// do, so the search starts at the end: a binary search through all would cause needless cache
    /// misses.
    fn begun_by(&self, at: Timestamp) -> usize {
        let is_begun = |interval: &(Timestamp, Timestamp)| interval.0 <= at;
        let (early, late) = self
            .sorted
            .split_at(self.sorted.len().saturating_sub(NEAR_END));
        if late.first().is_some_and(is_begun) {
            early.len() + late.partition_point(is_begun)
        } else {
            early.partition_point(is_begun)
        }
    }

    fn total(&self) -> u64 {
        self.count_each(|stretch| stretch)
    }

    /// Returns the sum of `count` over the nanoseconds of each disjoint stretch.
    fn count_each(&self, count: impl Fn(u64) -> u64) -> u64 {
        let mut settled = self.clone();
        settled.settle();
        settled
            .sorted
            .iter()
            .map(|&(start, end)| count(nanos(end.since(start))))
            .fold(0, u64::saturating_add)
    }

    fn settle(&mut self) {
        self.sorted.sort_unstable();
        let mut joined = Duration::ZERO;
        self.join(joined);
        while self.sorted.len() > MAX_INTERVALS {
            joined = (joined * 2).max(Duration::from_micros(100));
            self.join(joined);
        }
    }

    /// Joins neighbours no further apart than `distance`.
    fn join(&mut self, distance: Duration) {
        self.sorted.dedup_by(|next, kept| {
            let is_near = next.0 <= kept.1 + distance;
            if is_near {
                kept.1 = kept.1.max(next.1);
            }
            is_near
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn moments_stand_for_as_many_exchanges_as_there_were() {
        let moment = Moment::between(40_000, at(0), at(10));
        for (weight, kept, all) in [(4.566, 2048, 9351), (1.3, 10, 13), (1.0, 7, 7)] {
            let mut tally = Tally::default();
            for _ in 0..kept {
                tally.add_moment(&moment, Duration::from_millis(5), weight);
            }
            assert_eq!(tally.affected, all, "{weight}");
        }
    }

    #[test]
    fn overlapping_intervals_count_once() {
        let mut intervals = Intervals::default();
        for (start, end) in [(0, 10), (5, 15), (30, 40), (15, 16)] {
            intervals.add(at(start), at(end));
        }
        assert_eq!(intervals.total(), 26_000_000);
    }

    #[test]
    fn too_many_intervals_err_upward_and_stay_bounded() {
        let mut intervals = Intervals::default();
        for n in 0..50_000 {
            intervals.add(at(n * 10), at(n * 10 + 1));
        }
        intervals.settle();
        assert!(intervals.sorted.len() <= MAX_INTERVALS);
        assert!(intervals.total() >= 50_000_000_000);
    }
}
