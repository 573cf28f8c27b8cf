//! A bounded sample of durations of one kind.

use core::time::Duration;

/// Maximum number of durations kept; beyond that, every duration is kept with equal probability.
const KEPT: u32 = 64;
/// The unit in which durations are stored, in nanoseconds. It gives a round trip on loopback three
/// digits, and the maximum is 549 s.
const UNIT_NS: u64 = 128;

/// The median and other quantiles of the durations pushed. They are exact up to 64 durations.
/// Beyond that they come from a random sample of 64 (Vitter's algorithm R). The same durations in
/// the same order give the same figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    kept: Vec<u32>,
    seen: u32,
}

impl Sample {
    pub(crate) fn push(&mut self, took: Duration) {
        let units = u32::try_from(took.as_nanos() / u128::from(UNIT_NS)).unwrap_or(u32::MAX);
        self.seen = self.seen.saturating_add(1);
        if self.seen <= KEPT {
            self.kept.push(units);
            return;
        }
        let place = scatter(self.seen) % u64::from(self.seen);
        let slot = usize::try_from(place).ok();
        if let Some(slot) = slot.and_then(|place| self.kept.get_mut(place)) {
            *slot = units;
        }
    }

    /// Returns the number of durations that were pushed.
    pub(crate) fn count(&self) -> u32 {
        self.seen
    }

    /// Returns the nearest-rank quantile, 0 to 1.
    pub(crate) fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        let units = sorted.get(rank.saturating_sub(1))?;
        Some(u64::from(*units) * UNIT_NS)
    }

    pub(crate) fn median_ns(&self) -> Option<u64> {
        self.quantile_ns(0.5)
    }
}

/// Returns well mixed bits of a small number (the finalizer of MurmurHash3).
fn scatter(number: u32) -> u64 {
    let mut bits = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^ (bits >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(millis: impl Iterator<Item = u64>) -> Sample {
        let mut sample = Sample::default();
        millis.for_each(|ms| sample.push(Duration::from_millis(ms)));
        sample
    }

    fn rounded_ms(ns: Option<u64>) -> Option<u64> {
        ns.map(|ns| (ns + 500_000) / 1_000_000)
    }

    #[test]
    fn few_are_exact() {
        let sample = sample([9, 40, 10, 12, 11].into_iter());
        assert_eq!(rounded_ms(sample.median_ns()), Some(11));
        assert_eq!(rounded_ms(sample.quantile_ns(0.95)), Some(40));
        assert_eq!(Sample::default().median_ns(), None);
    }

    #[test]
    fn every_second_one_does_not_hide_among_many() {
        let sample = sample((0..10_000).map(|n| if n % 2 == 0 { 10 } else { 50 }));
        assert_eq!(sample.count(), 10_000);
        let slow = sample.kept.iter().filter(|&&units| units > 200_000).count();
        assert!((16..=48).contains(&slow), "{slow} of 64");
    }
}
