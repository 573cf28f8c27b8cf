//! Distributions of durations.

use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::slots::Slots;

/// Bits of a value that a bucket keeps behind the first: a value is off by
/// less than 1/1024.
const SIGNIFICANT_BITS: u32 = 10;
/// Buckets had together: values that occur are near each other.
const PAGE: usize = 64;

/// Steps in which the requests that one held up are added.
const MOST_HELD_UP: u64 = 1_000;

/// Observations of values near each other.
#[derive(Clone, Debug)]
struct Page {
    /// All of them, so that a page is passed over without a look at its buckets.
    count: u64,
    buckets: [u64; PAGE],
}

/// A distribution of durations as sorted `(value in ns, count)` pairs.
///
/// A value stands for the bucket that holds it: the bucket's upper end, at
/// most 0.1 % above the true duration. Bounded: 1,024 buckets for each power
/// of two that occurs.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(with = "Vec<(u64, u64)>")]
pub struct Distribution {
    /// By the numbers of their buckets.
    pages: Slots<Page>,
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Distribution {}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        into.collect_seq(self.iter())
    }
}

/// A report may come from anywhere: its pairs are sorted and joined again, so
/// that what the other methods rely on holds.
impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::<(u64, u64)>::deserialize(from).map(Self::from_buckets)
    }
}

impl Distribution {
    /// The distribution of the given buckets, in any order.
    pub fn from_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all = Self::default();
        for (value, count) in buckets {
            all.record_many(Duration::from_nanos(value), count);
        }
        all
    }

    /// Adds `count` observations of `value`.
    pub fn record_many(&mut self, value: Duration, count: u64) {
        if count == 0 {
            return;
        }
        let bucket = bucket(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
        let page = self.page(bucket / PAGE);
        let sum = &mut page.buckets[bucket % PAGE];
        *sum = sum.saturating_add(count);
        page.count = page.count.saturating_add(count);
    }

    /// Adds one observation.
    pub fn record(&mut self, value: Duration) {
        self.record_many(value, 1);
    }

    /// Adds all of `other`'s observations.
    pub fn merge(&mut self, other: &Self) {
        if self.pages.is_empty() {
            self.pages.clone_from(&other.pages);
            return;
        }
        for (number, theirs) in other.pages.iter() {
            self.page(number).add(theirs);
        }
    }

    /// The same with what nobody else needs.
    pub(crate) fn absorb(&mut self, other: Self) {
        if self.pages.is_empty() {
            *self = other;
            return;
        }
        for (number, theirs) in other.pages.into_values() {
            match self.pages.place(number) {
                Some(page) => page.add(&theirs),
                place => *place = Some(theirs),
            }
        }
    }

    /// Takes `other`'s observations away; what was never there stays away.
    pub fn subtract(&mut self, other: &Self) {
        for (number, theirs) in other.pages.iter() {
            if let Some(page) = self.pages.get_mut(number) {
                page.subtract(theirs);
            }
        }
    }

    /// The same with the observations of `some` replaced by those of `others`.
    pub(crate) fn with_replaced(&self, some: &Self, others: &Self) -> Self {
        let mut all = self.clone();
        all.subtract(some);
        all.merge(others);
        all
    }

    /// What requests due every `interval` would have met: one that took longer
    /// held up those due meanwhile, and each of them is added with what was
    /// left for it.
    pub(crate) fn at_even_pace(&self, interval: Duration) -> Self {
        let interval = u64::try_from(interval.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        let mut all = self.clone();
        for (value, count) in self.iter() {
            // Several of them are added as one where they are very many.
            let each = (value / interval).div_ceil(MOST_HELD_UP).max(1);
            let step = interval.saturating_mul(each);
            let mut left = value.saturating_sub(interval);
            while left >= interval {
                all.record_many(Duration::from_nanos(left), count.saturating_mul(each));
                left = left.saturating_sub(step);
            }
        }
        all
    }

    #[inline]
    fn page(&mut self, number: usize) -> &mut Page {
        self.pages.get_or_insert_with(number, Page::default)
    }

    /// How many observations there are; saturates.
    pub fn count(&self) -> u64 {
        let pages = self.pages.iter();
        pages.fold(0, |sum: u64, (_, page)| sum.saturating_add(page.count))
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.pages.iter().all(|(_, page)| page.count == 0)
    }

    /// The `(value in ns, count)` pairs, ascending.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.iter().collect()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let pages = self.pages.iter();
        pages.flat_map(|(number, page)| page.iter(number))
    }

    /// Sum of all observations in nanoseconds; saturates.
    pub fn sum_ns(&self) -> u128 {
        let pages = self.pages.iter();
        pages.fold(0, |sum, (number, page)| {
            sum.saturating_add(page.sum_ns(number))
        })
    }

    /// The mean; `None` when empty.
    pub fn mean(&self) -> Option<Duration> {
        let count = u128::from(self.count());
        let mean = self.sum_ns().checked_div(count)?;
        Some(Duration::from_nanos(
            u64::try_from(mean).unwrap_or(u64::MAX),
        ))
    }

    /// The smallest value that at least the share `quantile` (0 to 1) of the
    /// observations does not exceed; `None` when empty.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let wanted = (quantile.clamp(0.0, 1.0) * self.count() as f64)
            .ceil()
            .max(1.0) as u64;
        let mut seen = 0_u64;
        for (number, page) in self.pages.iter() {
            let with_page = seen.saturating_add(page.count);
            if with_page < wanted {
                seen = with_page;
                continue;
            }
            for (value, count) in page.iter(number) {
                seen = seen.saturating_add(count);
                if seen >= wanted {
                    return Some(Duration::from_nanos(value));
                }
            }
        }
        self.max()
    }

    /// The least value; `None` when empty.
    pub fn min(&self) -> Option<Duration> {
        self.iter()
            .next()
            .map(|(value, _)| Duration::from_nanos(value))
    }

    /// The greatest value; `None` when empty.
    pub fn max(&self) -> Option<Duration> {
        self.iter()
            .next_back()
            .map(|(value, _)| Duration::from_nanos(value))
    }

    /// Share of the observations that lie above `threshold`; 0 when empty.
    pub fn share_above(&self, threshold: Duration) -> f64 {
        let limit = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
        let above = self
            .iter()
            .filter(|&(value, _)| value > limit)
            .fold(0, |sum: u64, (_, count)| sum.saturating_add(count));
        let count = self.count();
        if count == 0 {
            0.0
        } else {
            above as f64 / count as f64
        }
    }
}

impl Default for Page {
    fn default() -> Self {
        Self {
            count: 0,
            buckets: [0; PAGE],
        }
    }
}

impl Page {
    fn add(&mut self, other: &Self) {
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.saturating_add(*count);
        }
        self.count = self.count.saturating_add(other.count);
    }

    fn subtract(&mut self, other: &Self) {
        self.count = 0;
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.saturating_sub(*count);
            self.count = self.count.saturating_add(*sum);
        }
    }

    /// The values, as the page of this number, with their counts.
    fn iter(&self, number: usize) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let used = self.buckets.iter().enumerate();
        let used = used.filter(|&(_, &count)| count > 0);
        used.map(move |(at, &count)| (upper_end(number * PAGE + at), count))
    }

    /// Their sum; saturates.
    fn sum_ns(&self, number: usize) -> u128 {
        self.iter(number).fold(0, |sum: u128, (value, count)| {
            sum.saturating_add(u128::from(value) * u128::from(count))
        })
    }
}

/// The bucket of a value: those below 1,024 have one each, every power of two
/// beyond that has 1,024.
#[inline]
fn bucket(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    let power = bits.saturating_sub(SIGNIFICANT_BITS);
    let leading = value >> power.saturating_sub(1);
    ((power as usize) << SIGNIFICANT_BITS) | (leading as usize & ((1 << SIGNIFICANT_BITS) - 1))
}

/// The greatest value of a bucket.
fn upper_end(bucket: usize) -> u64 {
    let power = bucket >> SIGNIFICANT_BITS;
    let index = (bucket & ((1 << SIGNIFICANT_BITS) - 1)) as u64;
    match power.checked_sub(1) {
        None => index,
        Some(unused) => ((1 << SIGNIFICANT_BITS | index) << unused) | ((1 << unused) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_stall_counts_for_all_that_it_held_up() {
        let mut seen = Distribution::default();
        seen.record_many(ms(1), 900);
        seen.record(ms(100));
        let met = seen.at_even_pace(ms(1));
        assert_eq!(met.count(), 900 + 100);
        // Of those due in the stall, one in ten waited for the last ten.
        assert!((met.share_above(ms(90)) - 0.01).abs() < 0.002);
        assert_eq!(seen.at_even_pace(ms(200)), seen);
        // However short the interval, the work is bounded and the sum about right.
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
