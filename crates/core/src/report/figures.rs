//! Summary figures of distributions.

use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::histogram::Distribution;

/// The figures of a latency distribution, in nanoseconds; all zero when empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Observations.
    pub count: u64,
    /// Minimum.
    pub min: u64,
    /// Mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 75th percentile.
    pub p75: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
}

impl From<&Distribution> for Figures {
    fn from(latencies: &Distribution) -> Self {
        let at = |quantile| nanos(latencies.quantile(quantile));
        Self {
            count: latencies.count(),
            min: nanos(latencies.min()),
            mean: nanos(latencies.mean()),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: nanos(latencies.max()),
        }
    }
}

/// The figures of probes, in nanoseconds; all zero when none was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeFigures {
    /// Minimum.
    pub min: u64,
    /// Mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
    /// Standard deviation, as `ping` prints it.
    pub mdev: u64,
}

impl From<&Distribution> for ProbeFigures {
    fn from(rtts: &Distribution) -> Self {
        let at = |quantile| nanos(rtts.quantile(quantile));
        Self {
            min: nanos(rtts.min()),
            mean: nanos(rtts.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: nanos(rtts.max()),
            mdev: deviation(rtts),
        }
    }
}

fn deviation(rtts: &Distribution) -> u64 {
    let (Some(mean), count) = (rtts.mean(), rtts.count()) else {
        return 0;
    };
    let mean = mean.as_nanos() as f64;
    let squares: f64 = rtts
        .buckets()
        .iter()
        .map(|&(value, n)| (value as f64 - mean).powi(2) * n as f64)
        .sum();
    (squares / count as f64).sqrt() as u64
}

fn nanos(duration: Option<Duration>) -> u64 {
    duration.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}
