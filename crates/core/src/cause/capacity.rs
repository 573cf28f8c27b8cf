//! The number of requests that a server processes in parallel. It follows from the time of a single
//! request and from the rate of responses under load.
//!
//! Example: a server answers a single request in 10 ms, but never more than 400 per second, however
//! many wait. It processes four in parallel: it has four workers, four connections to its upstream,
//! or a lock that each request holds for a quarter of its time. If its processors were the limit,
//! its kernel would show this.

use core::time::Duration;

use super::rhythm::{quantile, sorted};
use super::thinking::{idle_think, quickest_idle_think};
use super::{Case, evidence, kernel_place};
use crate::service::tally::Tally;
use crate::service::timeline::{self, Moment};

/// Minimum time of a single request. A shorter time cannot be distinguished from the kernel's or
/// the load generator's own time.
const LEAST_WORK: Duration = Duration::from_millis(2);
/// Minimum ratio of the median to the quickest time of single requests that a limit on their rate
/// causes, and no work.
const LIMITED: u32 = 2;
/// Minimum number of responses for a measurement.
const LEAST_ANSWERS: usize = 60;
/// Number of equal time slices of the load. The server must answer about the same number of
/// requests in each.
const STRETCHES: usize = 4;
/// Maximum deviation of a slice's number of responses from the mean, as a share of the mean.
const UNEVEN: f64 = 0.25;
/// Minimum ratio of a request's time under load to the time of a single request. If requests wait
/// for others, nearly all exceed this ratio.
const GROWN: f64 = 1.5;
/// Maximum share of the requests below the ratio [`GROWN`].
const QUICK: f64 = 0.1;
/// Length of the periods in which responses are counted if requests are served in an uneven order,
/// as a multiple of a single request's time.
const PERIOD: u32 = 5;
/// Minimum number of these periods.
const LEAST_PERIODS: usize = 12;
/// Maximum ratio of the variance to the mean of the numbers of responses in these periods. A server
/// that always works on the same number of requests answers as many in each. If it worked on any
/// number of requests, and some of them just took longer, the ratio would be about 1 or more.
const STEADY: f64 = 0.4;
/// Minimum share of requests that are sent as soon as the previous one on their connection was
/// answered. With another pace, it is the clients who make the rate even.
const EAGER: f64 = 0.9;
/// Minimum share of connections with quick requests. If requests are quick on some connections and
/// slow on others, the connections' servers differ.
const ALIKE: f64 = 0.9;
/// Minimum ratio of the number of requests at the server to the number of requests in service.
/// Above this ratio, some requests must wait.
const WAITING: f64 = 1.8;

/// The limit of a server that works at its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Saturation {
    /// The time of a request that meets no other.
    pub(super) alone: Duration,
    /// The mean time of requests under load.
    pub(super) loaded: Duration,
    /// The mean number of concurrent requests at the server.
    pub(super) side_by_side: f64,
    /// Responses per second.
    pub(super) rate: f64,
    pub(super) answers: usize,
}

impl Saturation {
    /// Returns the mean number of requests in service at the same time.
    pub(super) fn served(&self) -> f64 {
        self.rate * self.alone.as_secs_f64()
    }

    /// Returns the time by which each request exceeds a single request's time; `None` if it does
    /// not matter.
    pub(super) fn tally(&self, case: &Case<'_>) -> Option<Tally> {
        let tally = case
            .rhythm
            .tally(|moment| moment.think().saturating_sub(self.alone));
        evidence::is_material(case, &tally).then_some(tally)
    }
}

/// Returns the limit of the server of `case`; `None` if it does not work at a limit.
pub(super) fn of(case: &Case<'_>) -> Option<Saturation> {
    at_limit(case).filter(|_| !kernel_place::is_elsewhere(case))
}

/// Returns the limit that the traffic shows, wherever the server's kernel saw the time pass.
pub(super) fn at_limit(case: &Case<'_>) -> Option<Saturation> {
    let alone = idle_think(case).filter(|&alone| alone >= LEAST_WORK && case.has_all())?;
    if quickest_idle_think(case).is_some_and(|quickest| quickest * LIMITED < alone) {
        return None;
    }
    let clear = || case.rhythm.moments.iter().filter(|m| m.is_clear);
    // Once no more requests come, the server only answers those that still wait.
    let last = clear().map(|moment| moment.begin).max()?;
    let mut answered: Vec<Moment> = clear().filter(|m| m.answered <= last).copied().collect();
    answered.sort_unstable_by_key(|moment| moment.answered);
    let capacity = measure(&answered, alone)?;
    let thinks = sorted(answered.iter().map(Moment::think));
    let is_waiting = quantile(&thinks, QUICK).as_secs_f64() >= alone.as_secs_f64() * GROWN;
    let has_others = capacity.side_by_side >= capacity.served() * WAITING;
    let is_full = || is_waiting || serves_unevenly(&answered, alone);
    (has_others && is_full()).then_some(capacity)
}

/// Returns true if the server always works on the same number of requests, but does not serve them
/// in the order of their arrival: some are quick although others wait. `answered` is sorted by the
/// time of the response.
fn serves_unevenly(answered: &[Moment], alone: Duration) -> bool {
    let by_client = timeline::by_client(answered);
    let of_client = || by_client.chunk_by(|a, b| a.client == b.client);
    let quick = alone.mul_f64(GROWN);
    let has_quick = |of: &&[Moment]| of.iter().any(|moment| moment.think() <= quick);
    let are_alike =
        of_client().filter(has_quick).count() as f64 >= of_client().count() as f64 * ALIKE;
    let next = || of_client().flat_map(|of| of.iter().zip(of.iter().skip(1)));
    let at_once = |(last, next): &(&Moment, &Moment)| {
        next.ordinal > last.ordinal + 1 || next.begin.since(last.end) <= alone / 2
    };
    let are_eager = next().filter(at_once).count() as f64 >= next().count() as f64 * EAGER;
    are_alike && are_eager && dispersion(answered, alone * PERIOD).is_some_and(|d| d <= STEADY)
}

/// Returns the ratio of the variance to the mean of the numbers of responses in periods of this
/// length; `None` if there are too few. `answered` is sorted by the time of the response.
fn dispersion(answered: &[Moment], period: Duration) -> Option<f64> {
    let (first, last) = (answered.first()?.answered, answered.last()?.answered);
    let span = last.since(first);
    let periods = (span.as_nanos() / period.as_nanos().max(1)) as usize;
    if periods < LEAST_PERIODS || periods > answered.len() {
        return None;
    }
    let mut counts = vec![0_u32; periods];
    for moment in answered {
        let number = moment.answered.since(first).as_nanos() / period.as_nanos().max(1);
        if let Some(count) = counts.get_mut(number as usize) {
            *count += 1;
        }
    }
    let of = periods as f64;
    let mean = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / of;
    let squares = counts
        .iter()
        .map(|&count| (f64::from(count) - mean).powi(2));
    (mean >= 1.0).then(|| squares.sum::<f64>() / of / mean)
}

/// Returns the capacity that the responses show; `None` if their rate is not steady. `answered` is
/// sorted by the time of the response, and `alone` is a single request's time.
fn measure(answered: &[Moment], alone: Duration) -> Option<Saturation> {
    let (first, last) = (answered.first()?.answered, answered.last()?.answered);
    let span = last.since(first);
    if answered.len() < LEAST_ANSWERS || span.is_zero() {
        return None;
    }
    let mean = answered.len() as f64 / STRETCHES as f64;
    let mut counts = [0_usize; STRETCHES];
    for moment in answered {
        let part = moment.answered.since(first).as_secs_f64() / span.as_secs_f64();
        counts[((part * STRETCHES as f64) as usize).min(STRETCHES - 1)] += 1;
    }
    let is_even = |&count: &usize| (count as f64 - mean).abs() <= mean * UNEVEN;
    let thinks = sorted(answered.iter().map(Moment::think));
    let total: Duration = thinks.iter().sum();
    counts.iter().all(is_even).then(|| Saturation {
        alone,
        loaded: total / answered.len() as u32,
        side_by_side: total.as_secs_f64() / span.as_secs_f64(),
        rate: answered.len() as f64 / span.as_secs_f64(),
        answers: answered.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::time::Timestamp;

    const CLIENTS: u16 = 8;
    /// Times of quick requests and of those that take long, in milliseconds.
    const QUICK_MS: i64 = 10;
    const LONG_MS: i64 = 300;

    /// Returns the requests of two seconds, of which every second one is sent `pause` milliseconds
    /// late. `is_long` tells which requests take long, by client and number.
    fn answered(pause: i64, is_long: impl Fn(u16, i64) -> bool) -> Vec<Moment> {
        let at = |ms| Timestamp::from_nanos(ms * 1_000_000);
        let mut all = Vec::new();
        for client in 0..CLIENTS {
            // Two clients begin at a time.
            let (mut now, mut number) = (i64::from(client / 2) * QUICK_MS * 10, 0);
            while now < 2_000 {
                let takes = if is_long(client, number) {
                    LONG_MS
                } else {
                    QUICK_MS
                };
                all.push(Moment::between(40_000 + client, at(now), at(now + takes)));
                now += takes + number % 2 * pause;
                number += 1;
            }
        }
        // All clients have begun, and still send.
        all.retain(|moment| (at(400)..=at(2_000)).contains(&moment.answered));
        all.sort_unstable_by_key(|moment| moment.answered);
        all
    }

    fn is_uneven(answered: &[Moment]) -> bool {
        serves_unevenly(answered, Duration::from_millis(QUICK_MS as u64))
    }

    #[test]
    fn workers_that_change_connections_serve_unevenly() {
        // Each client in turn is served ten times, and then waits.
        let in_turn = |_, number| number % 11 == 10;
        assert!(is_uneven(&answered(0, in_turn)));
    }

    #[test]
    fn clients_with_pauses_set_the_pace() {
        assert!(is_uneven(&answered(0, |_, _| false)), "no other reason");
        assert!(!is_uneven(&answered(10, |_, _| false)));
    }

    #[test]
    fn connections_to_a_slow_server_do_not_wait_for_those_to_a_quick_one() {
        let of_slow = |client, _| client >= 2;
        assert!(!is_uneven(&answered(0, of_slow)));
        let dispersion = dispersion(&answered(0, of_slow), Duration::from_millis(50));
        assert!(dispersion.is_some_and(|d| d <= STEADY), "no other reason");
    }

    #[test]
    fn long_requests_at_any_time_make_the_rate_uneven() {
        let at_times = |client: u16, number: i64| {
            (number + 17 * i64::from(client)).wrapping_mul(0x9e37_79b9) >> 7 & 7 == 0
        };
        assert!(!is_uneven(&answered(0, at_times)));
    }
}
