//! Distributions of durations.

use core::iter;
use core::mem;
use core::time::Duration;
use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Number of bits after a value's leading 1 that select its bucket. The error is less than 1/1024.
const SIGNIFICANT_BITS: u32 = 10;
/// Number of bits of a bucket: those bits, and the power of two.
const BUCKET_BITS: u32 = 16;
const _: () = assert!(bucket(u64::MAX) < 1 << BUCKET_BITS);
/// Minimum number of observations that are buffered before they are counted.
const LEAST_RECENT: usize = 64;
/// Number of additional observations that are buffered for each counted bucket. A buffer that grows
/// with the buckets keeps the cost per observation constant.
const COUNTED_PER_RECENT: usize = 1;

/// Maximum number of steps in which the requests delayed by one slow request are added.
const MOST_HELD_UP: u64 = 1_000;
/// Maximum number of steps kept before they are merged.
const MOST_PAIRS: usize = 100_000;

/// Number of observations of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    bucket: u32,
    count: u64,
}

/// A distribution of durations as sorted `(value in ns, count)` pairs.
///
/// Each value is represented by the upper end of its bucket, at most 0.1 % above the true duration.
/// Memory is bounded: there are 1,024 buckets for each power of two that occurs.
// Recording only appends. Successive observations go to different distributions, hundreds of them,
// and a search in the buckets of a distribution would be a cache miss every time.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(with = "Vec<(u64, u64)>")]
pub struct Distribution {
    /// Counted buckets, in order.
    counted: Vec<Counted>,
    /// The buckets of the latest observations that were not counted yet, in any order.
    recent: Vec<u32>,
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.settled() == other.settled()
    }
}

impl Eq for Distribution {}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        into.collect_seq(self.settled().iter().map(Counted::pair))
    }
}

/// Reads a distribution. Reports may come from any source, so the pairs are sorted and merged again
/// to restore the invariants on which the other methods rely.
impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::<(u64, u64)>::deserialize(from).map(Self::from_buckets)
    }
}

impl Distribution {
    /// Returns the distribution of the given buckets, in any order.
    pub fn from_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let counted = buckets.into_iter().filter(|&(_, count)| count > 0);
        let mut counted: Vec<Counted> = counted
            .map(|(value, count)| Counted {
                bucket: bucket(value),
                count,
            })
            .collect();
        counted.sort_unstable_by_key(|each| each.bucket);
        join(&mut counted);
        Self {
            counted,
            recent: Vec::new(),
        }
    }

    /// Adds `count` observations of `value`.
    pub fn record_many(&mut self, value: Duration, count: u64) {
        match count {
            0 => {}
            1 => self.record(value),
            _ => self.add(bucket_of(value), count),
        }
    }

    /// Adds one observation.
    #[inline]
    pub fn record(&mut self, value: Duration) {
        if self.recent.len() == self.recent.capacity() {
            self.make_room();
        }
        self.recent.push(bucket_of(value));
    }

    fn add(&mut self, bucket: u32, count: u64) {
        match self
            .counted
            .binary_search_by_key(&bucket, |each| each.bucket)
        {
            Ok(place) => {
                let sum = &mut self.counted[place].count;
                *sum = sum.saturating_add(count);
            }
            Err(place) => self.counted.insert(place, Counted { bucket, count }),
        }
    }

    /// Counts the recent observations, or enlarges their buffer.
    #[cold]
    fn make_room(&mut self) {
        self.settle();
        let wanted = LEAST_RECENT.max(self.counted.len() / COUNTED_PER_RECENT);
        let wanted = if self.counted.is_empty() {
            // Most distributions never get more than a few observations.
            LEAST_RECENT / 8
        } else {
            wanted
        };
        self.recent.reserve_exact(wanted);
    }

    /// Counts the recent observations.
    fn settle(&mut self) {
        if !self.recent.is_empty() {
            sort(&mut self.recent);
            self.count_known();
        }
        if !self.recent.is_empty() {
            self.counted = sum(&self.counted, singles(&self.recent));
            self.recent.clear();
        }
    }

    /// Counts those of the recent observations whose bucket is known, which are most after a while;
    /// leaves the others.
    fn count_known(&mut self) {
        let mut known = self.counted.iter_mut().peekable();
        self.recent.retain(|&bucket| {
            while known.next_if(|each| each.bucket < bucket).is_some() {}
            let same = known.peek_mut().filter(|each| each.bucket == bucket);
            let is_known = same.is_some();
            if let Some(each) = same {
                each.count = each.count.saturating_add(1);
            }
            !is_known
        });
    }

    /// Returns all observations, counted.
    fn settled(&self) -> Cow<'_, [Counted]> {
        if self.recent.is_empty() {
            return Cow::Borrowed(&self.counted);
        }
        let mut recent = self.recent.clone();
        recent.sort_unstable();
        Cow::Owned(sum(&self.counted, singles(&recent)))
    }

    /// Adds all of `other`'s observations.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            counted: _,
            recent: _,
        } = other;
        self.settle();
        if self.counted.is_empty() {
            self.counted = other.settled().into_owned();
        } else if !other.is_empty() {
            self.counted = sum(&self.counted, other.settled().iter().copied());
        }
    }

    /// Adds all of `other`'s observations; for callers that no longer need `other`.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        other.settle();
        self.merge(&other);
    }

    /// Subtracts `other`'s observations; counts do not become negative.
    pub fn subtract(&mut self, other: &Self) {
        self.settle();
        let theirs = other.settled();
        let mut theirs = theirs.iter().peekable();
        self.counted.retain_mut(|own| {
            while theirs.next_if(|each| each.bucket < own.bucket).is_some() {}
            if let Some(each) = theirs.next_if(|each| each.bucket == own.bucket) {
                own.count = own.count.saturating_sub(each.count);
            }
            own.count > 0
        });
    }

    /// Returns the distribution with the observations of `some` replaced by those in `others`.
    pub(crate) fn with_replaced(&self, some: &Self, others: &Self) -> Self {
        let mut all = Self {
            counted: self.settled().into_owned(),
            recent: Vec::new(),
        };
        all.subtract(some);
        all.merge(others);
        all
    }

    /// Returns the distribution with each observation multiplied by `factor`.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        let buckets = self.buckets().into_iter();
        Self::from_buckets(buckets.map(|(value, count)| ((value as f64 * factor) as u64, count)))
    }

    /// Returns the distribution whose quantiles lie between those of this one and of `other`, at
    /// `part` (0 to 1) of the way. Both have equally many observations.
    pub(crate) fn towards(&self, other: &Self, part: f64) -> Self {
        let mut own = self.buckets().into_iter().peekable();
        let mut others = other.buckets().into_iter().peekable();
        let mut between = Vec::new();
        while let (Some((from, left)), Some((to, of_other))) = (own.peek_mut(), others.peek_mut()) {
            let count = (*left).min(*of_other);
            let value = *from as f64 + (*to as f64 - *from as f64) * part;
            between.push((value as u64, count));
            *left -= count;
            *of_other -= count;
            while own.next_if(|(_, left)| *left == 0).is_some() {}
            while others.next_if(|(_, left)| *left == 0).is_some() {}
        }
        Self::from_buckets(between)
    }

    /// Returns the latencies that requests due every `interval` would have had. A request that took
    /// longer than the interval delayed those that were due meanwhile. Each of these is added with
    /// the time that remained when it was due.
    pub(crate) fn at_even_pace(&self, interval: Duration) -> Self {
        let interval = u64::try_from(interval.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        let (mut all, mut pairs) = (self.clone(), Vec::new());
        for (value, count) in self.buckets() {
            // If very many requests were delayed, several are added as one.
            let each = (value / interval).div_ceil(MOST_HELD_UP).max(1);
            let step = interval.saturating_mul(each);
            let first = value.saturating_sub(interval);
            let left = iter::successors(Some(first), |left| Some(left.saturating_sub(step)));
            let held_up = left.take_while(|&left| left >= interval);
            let count = count.saturating_mul(each);
            pairs.extend(held_up.map(|left| (left, count)));
            // Each merge takes time for the whole list, and keeping all pairs takes memory.
            if pairs.len() >= MOST_PAIRS {
                all.merge(&Self::from_buckets(pairs.drain(..)));
            }
        }
        all.merge(&Self::from_buckets(pairs));
        all
    }

    /// Returns the number of observations; saturates.
    pub fn count(&self) -> u64 {
        let counts = self.counted.iter().map(|each| each.count);
        counts.fold(self.recent.len() as u64, u64::saturating_add)
    }

    /// Returns true if nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty() && self.recent.is_empty()
    }

    /// Returns the `(value in ns, count)` pairs, ascending.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.settled().iter().map(Counted::pair).collect()
    }

    /// Returns the sum of all observations in nanoseconds; saturates.
    pub fn sum_ns(&self) -> u128 {
        sum_ns(self.settled().iter())
    }

    /// Returns the sum of the observations above `threshold` in nanoseconds; saturates.
    pub fn sum_above(&self, threshold: Duration) -> u128 {
        let settled = self.settled();
        sum_ns(settled.iter().filter(|each| each.value() > threshold))
    }

    /// Returns the mean; `None` when empty.
    pub fn mean(&self) -> Option<Duration> {
        let count = u128::from(self.count());
        let mean = self.sum_ns().checked_div(count)?;
        Some(Duration::from_nanos(
            u64::try_from(mean).unwrap_or(u64::MAX),
        ))
    }

    /// Returns the quantile at `quantile` (0 to 1): the smallest observed value for which at least
    /// this share of the observations is not greater. `None` when empty.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let wanted = (quantile.clamp(0.0, 1.0) * self.count() as f64)
            .ceil()
            .max(1.0) as u64;
        let settled = self.settled();
        let mut seen = 0_u64;
        let reaches = settled.iter().find(|each| {
            seen = seen.saturating_add(each.count);
            seen >= wanted
        });
        reaches.or(settled.last()).map(Counted::value)
    }

    /// Returns the values in nanoseconds at ascending quantiles, each as [`Distribution::quantile`]
    /// does; empty when there are no observations.
    pub(crate) fn quantiles(&self, ascending: &[f64]) -> Vec<u64> {
        let settled = self.settled();
        let total = self.count() as f64;
        let mut rest = settled.iter().peekable();
        let mut before = 0_u64;
        let at = |quantile: &f64| {
            let wanted = (quantile.clamp(0.0, 1.0) * total).ceil().max(1.0) as u64;
            while let Some(each) = rest.peek() {
                let seen = before.saturating_add(each.count);
                if seen >= wanted {
                    return Some(each.pair().0);
                }
                before = seen;
                rest.next();
            }
            settled.last().map(|last| last.pair().0)
        };
        ascending.iter().filter_map(at).collect()
    }

    /// Returns the minimum; `None` when empty.
    pub fn min(&self) -> Option<Duration> {
        self.settled().first().map(Counted::value)
    }

    /// Returns the maximum; `None` when empty.
    pub fn max(&self) -> Option<Duration> {
        self.settled().last().map(Counted::value)
    }

    /// Returns the share of the observations above `threshold`; 0 when empty.
    pub fn share_above(&self, threshold: Duration) -> f64 {
        let settled = self.settled();
        let above = settled
            .iter()
            .filter(|each| each.value() > threshold)
            .fold(0, |sum: u64, each| sum.saturating_add(each.count));
        let count = self.count();
        if count == 0 {
            0.0
        } else {
            above as f64 / count as f64
        }
    }
}

impl Counted {
    /// Returns the bucket's upper end.
    fn value(&self) -> Duration {
        Duration::from_nanos(upper_end(self.bucket))
    }

    fn pair(&self) -> (u64, u64) {
        (upper_end(self.bucket), self.count)
    }
}

/// Returns the sum of the observations in nanoseconds; saturates.
fn sum_ns<'a>(counted: impl Iterator<Item = &'a Counted>) -> u128 {
    counted.fold(0, |sum: u128, each| {
        let (value, count) = each.pair();
        sum.saturating_add(u128::from(value) * u128::from(count))
    })
}

/// Sorts buckets: digit by digit, the lowest first, because that takes half as long as comparing
/// many of them.
fn sort(buckets: &mut Vec<u32>) {
    const DIGITS: usize = 1 << u8::BITS;
    if buckets.len() < DIGITS {
        buckets.sort_unstable();
        return;
    }
    let mut sorted = vec![0; buckets.len()];
    for shift in (0..BUCKET_BITS).step_by(u8::BITS as usize) {
        let digit = |bucket: u32| (bucket >> shift) as usize % DIGITS;
        let mut places = [0; DIGITS];
        for &bucket in buckets.iter() {
            places[digit(bucket)] += 1;
        }
        let mut sum = 0;
        for place in &mut places {
            sum += mem::replace(place, sum);
        }
        for &bucket in buckets.iter() {
            let place = &mut places[digit(bucket)];
            sorted[*place] = bucket;
            *place += 1;
        }
        mem::swap(buckets, &mut sorted);
    }
}

/// Iterates over buckets that were each observed once.
fn singles(buckets: &[u32]) -> impl Iterator<Item = Counted> + '_ {
    let buckets = buckets.iter();
    buckets.map(|&bucket| Counted { bucket, count: 1 })
}

/// Merges the counted buckets with others, both sorted.
fn sum(counted: &[Counted], others: impl Iterator<Item = Counted>) -> Vec<Counted> {
    let mut all = Vec::with_capacity(counted.len() + others.size_hint().0);
    let mut counted = counted.iter().copied().peekable();
    for other in others {
        while let Some(before) = counted.next_if(|each| each.bucket <= other.bucket) {
            all.push(before);
        }
        push(&mut all, other);
    }
    all.extend(counted);
    all
}

fn push(all: &mut Vec<Counted>, next: Counted) {
    match all.last_mut() {
        Some(last) if last.bucket == next.bucket => {
            last.count = last.count.saturating_add(next.count);
        }
        _ => all.push(next),
    }
}

/// Merges adjacent entries of the same bucket.
fn join(counted: &mut Vec<Counted>) {
    counted.dedup_by(|next, kept| {
        let is_same = next.bucket == kept.bucket;
        if is_same {
            kept.count = kept.count.saturating_add(next.count);
        }
        is_same
    });
}

/// Returns the bucket of a duration.
#[inline]
fn bucket_of(value: Duration) -> u32 {
    // Nearly all values avoid the multiplication in 128 bits.
    const NANOS: u64 = 1_000_000_000;
    let seconds = value.as_secs();
    bucket(if seconds < u64::MAX / NANOS {
        seconds * NANOS + u64::from(value.subsec_nanos())
    } else {
        u64::MAX
    })
}

/// Returns the bucket of a value. Each value below 1,024 has its own bucket, and every higher power
/// of two has 1,024 buckets.
#[inline]
const fn bucket(value: u64) -> u32 {
    let bits = u64::BITS - value.leading_zeros();
    let power = bits.saturating_sub(SIGNIFICANT_BITS);
    let leading = value >> power.saturating_sub(1);
    (power << SIGNIFICANT_BITS) | (leading as u32 & ((1 << SIGNIFICANT_BITS) - 1))
}

/// Returns the greatest value of a bucket.
fn upper_end(bucket: u32) -> u64 {
    let power = bucket >> SIGNIFICANT_BITS;
    let index = u64::from(bucket & ((1 << SIGNIFICANT_BITS) - 1));
    match power.checked_sub(1) {
        None => index,
        Some(unused) => ((1 << SIGNIFICANT_BITS | index) << unused) | ((1 << unused) - 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    proptest! {
        /// Counting in parts is counting one by one.
        #[test]
        fn observations_are_counted_however_many_come_at_a_time(
            values in prop::collection::vec(prop_oneof![0..3_000_u64, any::<u64>()], 0..2_000)
        ) {
            let mut all = Distribution::default();
            for &value in &values {
                all.record(Duration::from_nanos(value));
            }
            let each = values.iter().map(|&value| (value, 1));
            prop_assert_eq!(all, Distribution::from_buckets(each));
        }

        #[test]
        fn buckets_are_sorted(
            mut buckets in prop::collection::vec(0..1_u32 << BUCKET_BITS, 0..1_000)
        ) {
            let mut expected = buckets.clone();
            expected.sort_unstable();
            sort(&mut buckets);
            prop_assert_eq!(buckets, expected);
        }
    }

    #[test]
    fn a_stall_counts_for_all_that_it_held_up() {
        let mut seen = Distribution::default();
        seen.record_many(ms(1), 900);
        seen.record(ms(100));
        let met = seen.at_even_pace(ms(1));
        assert_eq!(met.count(), 900 + 100);
        // One in ten of the requests due in the stall waited for the last tenth of it.
        assert!((met.share_above(ms(90)) - 0.01).abs() < 0.002);
        assert_eq!(seen.at_even_pace(ms(200)), seen);
        // For very short intervals the work is bounded, and the sum is still nearly right.
        let many = seen.at_even_pace(Duration::from_nanos(10)).count() as f64;
        assert!((many / 100_000_000.0 - 1.0).abs() < 0.02, "{many}");
    }

    #[test]
    fn quantiles_stand_within_a_thousandth() {
        let mut distribution = Distribution::default();
        for value in 1..=1000 {
            distribution.record(ms(value));
        }
        for (quantile, exact) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let got = distribution.quantile(quantile).expect("not empty");
            assert!(got >= ms(exact), "{quantile}: {got:?}");
            assert!(
                got.as_secs_f64() <= ms(exact).as_secs_f64() * 1.001,
                "{quantile}: {got:?}"
            );
            let many = distribution.quantiles(&[quantile, quantile, 1.0]);
            let max = distribution.max().expect("not empty");
            assert_eq!(many, [got, got, max].map(|each| each.as_nanos() as u64));
        }
        assert_eq!(distribution.count(), 1000);
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut left, mut right, mut both) = (
            Distribution::default(),
            Distribution::default(),
            Distribution::default(),
        );
        for value in [3, 900, 44, 44, 7] {
            left.record(ms(value));
            both.record(ms(value));
        }
        for value in [44, 1, 2] {
            right.record(ms(value));
            both.record(ms(value));
        }
        left.merge(&right);
        assert_eq!(left, both);
    }

    #[test]
    fn what_is_not_counted_yet_counts() {
        let mut distribution = Distribution::default();
        let mut pairs = Vec::new();
        for n in 0..2_000_u64 {
            let value = n * 7_919 % 1_000;
            distribution.record(Duration::from_nanos(value));
            pairs.push((value, 1));
            if n % 100 == 0 || n < 20 {
                let all = Distribution::from_buckets(pairs.iter().copied());
                assert_eq!((&distribution, distribution.count()), (&all, n + 1));
            }
        }
        assert_eq!(distribution.buckets().len(), 1_000);
        let all = distribution.with_replaced(&distribution, &distribution);
        assert_eq!(all, distribution);
    }

    #[test]
    fn nothing_observed_has_no_figures() {
        let nothing = Distribution::default();
        assert_eq!(
            (nothing.mean(), nothing.quantile(0.5), nothing.max()),
            (None, None, None)
        );
    }

    #[test]
    fn the_greatest_value_does_not_overflow() {
        let mut distribution = Distribution::default();
        distribution.record(Duration::MAX);
        distribution.record(Duration::ZERO);
        assert_eq!(distribution.count(), 2);
        assert_eq!(distribution.min(), Some(Duration::ZERO));
    }

    #[test]
    fn pairs_from_elsewhere_are_put_in_order() {
        let read: Distribution =
            serde_json::from_str("[[44,2],[7,1],[44,3],[900,0]]").expect("pairs of numbers");
        assert_eq!(read.buckets(), [(7, 1), (44, 5)]);
    }

    #[test]
    fn absurd_counts_saturate() {
        let absurd = Distribution::from_buckets([(u64::MAX, u64::MAX), (7, u64::MAX)]);
        assert_eq!((absurd.count(), absurd.sum_ns()), (u64::MAX, u128::MAX));
        assert!(absurd.mean().is_some());
    }
}
