//! The requests of a load, as its clients measured them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The requests of a load, as its clients measured them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests that were answered.
    pub count: u64,
    /// Requests that were not answered.
    pub errors: u64,
    /// Mean time of an answered request, in nanoseconds.
    pub mean_ns: u64,
    /// Median time of an answered request, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile of the time of an answered request, in nanoseconds.
    pub p99_ns: u64,
}

/// The requests of all clients, client by client: the time of each request, or a failure.
pub(crate) type Times = Vec<Result<Duration, ()>>;

impl Requests {
    pub(crate) fn of(times: &Times) -> Self {
        let mut answered: Vec<u64> = times
            .iter()
            .flatten()
            .map(|took| u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))
            .collect();
        answered.sort_unstable();
        let count = answered.len();
        // Nearest rank: the smallest time that at least `share` percent of the requests do not
        // exceed.
        let percentile = |share: usize| {
            let rank = (count * share).div_ceil(100).max(1);
            answered.get(rank - 1).copied().unwrap_or(0)
        };
        let sum: u128 = answered.iter().map(|&ns| u128::from(ns)).sum();
        Self {
            count: count as u64,
            errors: (times.len() - count) as u64,
            mean_ns: u64::try_from(sum / count.max(1) as u128).unwrap_or(u64::MAX),
            p50_ns: percentile(50),
            p99_ns: percentile(99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn times_are_summed_up() {
        let mut times: Times = (1..=100).map(|n| Ok(n * MS)).collect();
        times.push(Err(()));
        let requests = Requests::of(&times);
        assert_eq!((requests.count, requests.errors), (100, 1));
        assert_eq!(
            (requests.mean_ns, requests.p50_ns),
            (50_500_000, 50_000_000)
        );
        assert_eq!(requests.p99_ns, 99_000_000);
        assert_eq!(Requests::of(&Vec::new()), Requests::default());
    }
}
