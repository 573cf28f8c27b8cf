//! Confidence intervals of one run's quantiles, from the differences between its seconds.

use core::time::Duration;

use super::bootstrap::{self, Estimate, RunClusters};
use super::generator::SplitMix64;
use crate::report::{Cluster, Interval, Intervals};

/// Number of resamples of one run. With this number, the ends of a 95 % interval vary by a tenth of
/// its width.
const RESAMPLES: usize = 300;
/// The seed of the generator. It is fixed, so that equal clusters give equal intervals.
const SEED: u64 = 0x1a67;

/// Returns the 95 % intervals of a run's median and 99th percentile; `None` for too few clusters.
pub(crate) fn intervals(clusters: &[Cluster]) -> Option<Intervals> {
    let sample = RunClusters::new(clusters)?;
    let seen = sample.estimate();
    let resampled = sample.resample(RESAMPLES, &mut SplitMix64::new(SEED));
    let of = |pick: fn(&Estimate) -> f64| {
        let figures = resampled.iter().map(pick).collect();
        let (low, high) = bootstrap::interval(pick(&seen), figures, sample.widening());
        Interval {
            low: nanos(low),
            high: nanos(high),
        }
    };
    Some(Intervals {
        p50_ns: of(|estimate| estimate.quantiles[0]),
        p99_ns: of(|estimate| estimate.quantiles[2]),
    })
}

fn nanos(value: f64) -> u64 {
    let most = Duration::from_secs(86_400).as_nanos() as f64;
    value.clamp(0.0, most) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::histogram::Distribution;

    fn clusters(of_second: impl Fn(u64) -> u64) -> Vec<Cluster> {
        let cluster = |second: u32| Cluster {
            second,
            group: 0,
            latency: Distribution::from_buckets([(of_second(second.into()), 100)]),
            failures: 0,
        };
        (0..20).map(cluster).collect()
    }

    #[test]
    fn an_interval_holds_its_figure_and_follows_the_spread_of_seconds() {
        let steady = intervals(&clusters(|_| 1_000_000)).expect("twenty seconds");
        assert!(steady.p50_ns.low <= 1_001_000 && steady.p50_ns.high >= 1_000_000);
        assert!(steady.p50_ns.high - steady.p50_ns.low < 2_000, "{steady:?}");
        let rising = intervals(&clusters(|second| 1_000_000 + second * 100_000));
        let rising = rising.expect("twenty seconds");
        assert!(rising.p50_ns.low < 1_700_000 && rising.p50_ns.high > 2_100_000);
        assert_eq!(intervals(&clusters(|_| 1)[..3]), None);
    }
}
