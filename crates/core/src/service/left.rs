//! Requests whose clients left before the response was whole.
//!
//! A client that waited longer than for nearly all responses gave up, and its request failed. A
//! client that ends leaves whatever is in flight, which is no failure.

use core::time::Duration;

use crate::observed::time::Timestamp;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Maximum number of requests kept that were left last.
const MOST: usize = 1024;
/// Minimum time for which a client waits for a response before it gives up, if no response shows how long
/// they take. A client that leaves sooner did not wait.
pub(crate) const LEAST_PATIENCE: Duration = Duration::from_millis(100);
/// The quantile of the response times above which a response is late.
const NEARLY_ALL: f64 = 0.99;
/// Minimum ratio of the wait of a request that a client leaves when it ends to a late response's
/// time. Of what is in flight then, a part is always late.
const AT_END: u32 = 2;

/// Requests that were left before the response was whole.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::forget)]
pub(crate) struct Left {
    /// Times for which the clients had waited.
    waited: Distribution,
    /// The requests that were left last: when, and after which wait.
    #[merge(extend)]
    latest: Vec<(Timestamp, Duration)>,
    /// The latest beginning of any request.
    #[merge(max)]
    last_begin: Option<Timestamp>,
}

impl Left {
    /// Records the beginning of a request, left or not.
    pub(crate) fn begin(&mut self, at: Timestamp) {
        self.last_begin = self.last_begin.max(Some(at));
    }

    /// Records a request that was left.
    pub(crate) fn add(&mut self, end: Timestamp, waited: Duration) {
        self.waited.record(waited);
        self.latest.push((end, waited));
        if self.latest.len() >= 2 * MOST {
            self.forget();
        }
    }

    /// Keeps the requests that were left last.
    fn forget(&mut self) {
        self.latest
            .sort_unstable_by_key(|&left| core::cmp::Reverse(left));
        self.latest.truncate(MOST);
    }

    /// Returns the number of requests that failed because the client gave up. `latency` contains
    /// the times of the responses, and of these requests.
    pub(crate) fn given_up(&self, latency: &Distribution) -> u64 {
        let mut answered = latency.clone();
        answered.subtract(&self.waited);
        let Some(late) = answered.quantile(NEARLY_ALL) else {
            return above(&self.waited, LEAST_PATIENCE);
        };
        let is_at_end = |left: &&(Timestamp, Duration)| Some(left.0) >= self.last_begin;
        let (mut at_end, mut failed) = (Distribution::default(), 0);
        for &(_, waited) in self.latest.iter().filter(is_at_end) {
            at_end.record(waited);
            failed += u64::from(waited > late * AT_END && waited >= LEAST_PATIENCE);
        }
        let mut before = self.waited.clone();
        before.subtract(&at_end);
        failed + above(&before, late)
    }
}

fn above(waited: &Distribution, limit: Duration) -> u64 {
    (waited.share_above(limit) * waited.count() as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(0) + Duration::from_millis(ms)
    }

    /// Returns how many requests failed that were left at `left` after a wait, in milliseconds, if
    /// 100 others took 10 ms each, and the last one began after a second.
    fn failed(left: &[(u64, u64)]) -> u64 {
        let (mut of, mut latency) = (Left::default(), Distribution::default());
        latency.record_many(Duration::from_millis(10), 100);
        for &(end, waited) in left {
            let waited = Duration::from_millis(waited);
            of.add(at(end), waited);
            latency.record(waited);
        }
        of.begin(at(1_000));
        of.given_up(&latency)
    }

    #[test]
    fn what_is_in_flight_when_the_client_ends_has_not_failed() {
        assert_eq!(failed(&[(1_001, 3), (1_001, 9), (1_001, 12)]), 0);
        // It had waited for two seconds.
        assert_eq!(failed(&[(1_001, 2_000), (1_001, 9)]), 1);
    }

    #[test]
    fn a_client_that_goes_on_gave_up_if_it_waited_longer_than_for_other_responses() {
        assert_eq!(failed(&[(500, 30), (600, 30)]), 2);
        assert_eq!(failed(&[(500, 2)]), 0);
    }

    #[test]
    fn without_any_response_a_client_gives_up_after_a_while() {
        let mut left = Left::default();
        let mut latency = Distribution::default();
        for waited in [Duration::from_millis(20), Duration::from_secs(2)] {
            left.add(at(3_000), waited);
            latency.record(waited);
        }
        assert_eq!(left.given_up(&latency), 1);
    }
}
