//! Delays of the load generator itself.

use core::time::Duration;

/// Number of buckets of [`LagMeter`]: four for each power of two, in nanoseconds.
const BUCKETS: usize = 256;

/// A coarse histogram of delays that is cheap to update. Its quantiles are less than 19 % too high.
#[derive(Clone, Debug)]
pub(super) struct LagMeter {
    counts: [u64; BUCKETS],
    max: Duration,
}

impl Default for LagMeter {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            max: Duration::ZERO,
        }
    }
}

impl LagMeter {
    /// Records one delay.
    pub(super) fn note(&mut self, delay: Duration) {
        self.max = self.max.max(delay);
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX) | 1;
        // The two bits below the highest one select a quarter of the octave.
        let octave = 63 - nanos.leading_zeros();
        let quarter = if octave < 2 {
            0
        } else {
            nanos >> (octave - 2) & 3
        };
        if let Some(count) = self.counts.get_mut(octave as usize * 4 + quarter as usize) {
            *count += 1;
        }
    }

    /// Adds the delays that another worker recorded.
    pub(super) fn merge(&mut self, other: &Self) {
        self.max = self.max.max(other.max);
        for (count, added) in self.counts.iter_mut().zip(other.counts) {
            *count += added;
        }
    }

    /// Returns the maximum delay.
    pub(super) fn max(&self) -> Duration {
        self.max
    }

    /// Returns an upper bound of the given quantile of the delays.
    pub(super) fn quantile(&self, quantile: f64) -> Duration {
        let count: u64 = self.counts.iter().sum();
        let wanted = (quantile * count as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let (octave, quarter) = (bucket / 4, bucket % 4);
                let upper = (1_u128 << octave) * (5 + quarter as u128) / 4;
                let upper = Duration::from_nanos(u64::try_from(upper).unwrap_or(u64::MAX));
                return upper.min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_quantiles_from_above() {
        let mut meter = LagMeter::default();
        for micros in 1..=1000 {
            meter.note(Duration::from_micros(micros));
        }
        for (quantile, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let (got, exact) = (meter.quantile(quantile), Duration::from_micros(exact));
            assert!(got >= exact && got <= exact * 5 / 4, "{quantile}: {got:?}");
        }
        assert_eq!(meter.max(), Duration::from_millis(1));
    }

    #[test]
    fn takes_any_delay() {
        let mut meter = LagMeter::default();
        assert_eq!(meter.quantile(0.99), Duration::ZERO);
        meter.note(Duration::ZERO);
        meter.note(Duration::MAX);
        assert_eq!(meter.quantile(1.0).as_secs(), u64::MAX / 1_000_000_000);
    }
}
