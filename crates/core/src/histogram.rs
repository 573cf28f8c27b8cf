//! Distributions of durations.

mod octave;

use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use octave::Octave;

/// Bits of a value that a bucket keeps: a value is off by less than 1/1024.
const SIGNIFICANT_BITS: usize = 10;
/// What of a value's leading bits is its bucket's index.
const INDEX: u16 = octave::BUCKETS as u16 - 1;

/// A distribution of durations as sorted `(value in ns, count)` pairs.
///
/// A value stands for the bucket that holds it: the bucket's upper end, at
/// most 0.1 % above the true duration. Bounded: about 1,024 buckets for each
/// power of two that occurs.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(with = "Vec<(u64, u64)>")]
pub struct Distribution {
    /// By how many bits the values have.
    octaves: Vec<Octave>,
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
        let value = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        let bits = (u64::BITS - value.leading_zeros()) as usize;
        if self.octaves.len() <= bits {
            self.octaves.resize_with(bits + 1, Octave::default);
        }
        if let Some(octave) = self.octaves.get_mut(bits) {
            octave.add((value >> unused_bits(bits)) as u16 & INDEX, count);
        }
    }

    /// Adds one observation.
    pub fn record(&mut self, value: Duration) {
        self.record_many(value, 1);
    }

    /// Adds all of `other`'s observations.
    pub fn merge(&mut self, other: &Self) {
        if self.is_empty() {
            self.octaves.clone_from(&other.octaves);
            return;
        }
        for (value, count) in other.iter() {
            self.record_many(Duration::from_nanos(value), count);
        }
    }

    /// Takes `other`'s observations away; what was never there stays away.
    pub fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.octaves.iter_mut().zip(&other.octaves) {
            for (index, count) in theirs.iter() {
                mine.subtract(index, count);
            }
        }
    }

    /// How many observations there are; saturates.
    pub fn count(&self) -> u64 {
        self.iter()
            .fold(0, |sum: u64, (_, count)| sum.saturating_add(count))
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.octaves.iter().all(Octave::is_empty)
    }

    /// The `(value in ns, count)` pairs, ascending.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.iter().collect()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let octaves = self.octaves.iter().enumerate();
        octaves.flat_map(|(bits, octave)| {
            let pair = move |(index, count)| (upper_end(bits, index), count);
            octave.iter().map(pair)
        })
    }

    /// Sum of all observations in nanoseconds; saturates.
    pub fn sum_ns(&self) -> u128 {
        self.iter().fold(0, |sum: u128, (value, count)| {
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
        for (value, count) in self.iter() {
            seen = seen.saturating_add(count);
            if seen >= wanted {
                return Some(Duration::from_nanos(value));
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

/// How many of the lowest bits of a value of `bits` bits its bucket ignores.
fn unused_bits(bits: usize) -> usize {
    bits.saturating_sub(SIGNIFICANT_BITS + 1)
}

/// Upper end of a bucket of the values with `bits` bits.
fn upper_end(bits: usize, index: u16) -> u64 {
    let unused = unused_bits(bits);
    let leading = match bits > SIGNIFICANT_BITS {
        true => 1 << SIGNIFICANT_BITS,
        false => 0,
    };
    (leading | u64::from(index)) << unused | ((1 << unused) - 1)
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
