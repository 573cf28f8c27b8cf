//! Distributions of durations.

use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Bits of a value that a bucket keeps: a value is off by less than 1/1024.
const SIGNIFICANT_BITS: u32 = 10;

/// A distribution of durations as sorted `(value in ns, count)` pairs.
///
/// A value stands for the bucket that holds it: the bucket's upper end, at
/// most 0.1 % above the true duration. Bounded: about 1,024 buckets for each
/// power of two that occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Distribution {
    buckets: Vec<(u64, u64)>,
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
        let mut sorted: Vec<(u64, u64)> = buckets
            .into_iter()
            .map(|(value, count)| (round_up(value), count))
            .collect();
        sorted.sort_unstable();
        sorted.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        sorted.retain(|&(_, count)| count > 0);
        Self { buckets: sorted }
    }

    /// Adds `count` observations of `value`.
    pub fn record_many(&mut self, value: Duration, count: u64) {
        let value = round_up(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
        match self.buckets.binary_search_by_key(&value, |&(v, _)| v) {
            Ok(at) => {
                if let Some(bucket) = self.buckets.get_mut(at) {
                    bucket.1 = bucket.1.saturating_add(count);
                }
            }
            Err(at) => self.buckets.insert(at, (value, count)),
        }
    }

    /// Adds one observation.
    pub fn record(&mut self, value: Duration) {
        self.record_many(value, 1);
    }

    /// Adds all of `other`'s observations.
    pub fn merge(&mut self, other: &Self) {
        *self = Self::from_buckets(self.buckets.iter().chain(&other.buckets).copied());
    }

    /// Takes `other`'s observations away; what was never there stays away.
    pub fn subtract(&mut self, other: &Self) {
        for &(value, count) in &other.buckets {
            if let Ok(at) = self.buckets.binary_search_by_key(&value, |&(v, _)| v) {
                if let Some(bucket) = self.buckets.get_mut(at) {
                    bucket.1 = bucket.1.saturating_sub(count);
                }
            }
        }
        self.buckets.retain(|&(_, count)| count > 0);
    }

    /// How many observations there are; saturates.
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum: u64, &(_, count)| sum.saturating_add(count))
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The `(value in ns, count)` pairs, ascending.
    pub fn buckets(&self) -> &[(u64, u64)] {
        &self.buckets
    }

    /// Sum of all observations in nanoseconds; saturates.
    pub fn sum_ns(&self) -> u128 {
        self.buckets.iter().fold(0, |sum: u128, &(value, count)| {
            sum.saturating_add(u128::from(value) * u128::from(count))
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
        for &(value, count) in &self.buckets {
            seen = seen.saturating_add(count);
            if seen >= wanted {
                return Some(Duration::from_nanos(value));
            }
        }
        self.max()
    }

    /// The least value; `None` when empty.
    pub fn min(&self) -> Option<Duration> {
        self.buckets
            .first()
            .map(|&(value, _)| Duration::from_nanos(value))
    }

    /// The greatest value; `None` when empty.
    pub fn max(&self) -> Option<Duration> {
        self.buckets
            .last()
            .map(|&(value, _)| Duration::from_nanos(value))
    }

    /// Share of the observations that lie above `threshold`; 0 when empty.
    pub fn share_above(&self, threshold: Duration) -> f64 {
        let limit = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
        let above = self
            .buckets
            .iter()
            .filter(|&&(value, _)| value > limit)
            .fold(0, |sum: u64, &(_, count)| sum.saturating_add(count));
        let count = self.count();
        if count == 0 {
            0.0
        } else {
            above as f64 / count as f64
        }
    }
}

/// Upper end of the bucket that holds `value`.
fn round_up(value: u64) -> u64 {
    let bits = u64::BITS - value.leading_zeros();
    let low = bits.saturating_sub(SIGNIFICANT_BITS + 1);
    value | ((1_u64 << low) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
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
