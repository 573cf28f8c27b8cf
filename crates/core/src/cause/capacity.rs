//! The number of requests that a server serves in parallel, derived from the time of a single
//! request and the rate of responses under load.
//!
//! A server that answers a single request in 10 ms and never more than 400 per second, however many
//! wait, serves four in parallel: it has four workers, four connections to its upstream, or a lock
//! that is held for a quarter of the time. If its processors are the limit, its kernel shows that,
//! and then the reason is none of these.

use core::time::Duration;

use super::rhythm::{quantile, sorted};
use super::served::{self, Place};
use super::thinking::idle_think;
use super::{Case, evidence};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;

/// Minimum time of a single request: a shorter time cannot be distinguished from the time of the
/// kernel, or from the load's own.
const LEAST_WORK: Duration = Duration::from_millis(2);
/// Minimum number of responses for a measurement.
const LEAST_ANSWERS: usize = 60;
/// Number of equal time slices in which the server must answer about as many requests.
const STRETCHES: usize = 4;
/// Maximum deviation of a slice's count from the mean, as a share of the mean.
const UNEVEN: f64 = 0.25;
/// Minimum ratio to a single request's time that nearly all requests exceed when they wait for
/// others.
const GROWN: f64 = 1.5;
/// Maximum share of the requests that may take less than that.
const QUICK: f64 = 0.1;
/// Minimum ratio of requests at the server to requests in service: above this ratio, some requests
/// must wait.
const WAITING: f64 = 1.8;

/// A server that works at its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Capacity {
    /// The time of a request that competes with no other.
    pub(super) alone: Duration,
    /// The median time under load.
    pub(super) loaded: Duration,
    /// The mean number of requests at the server at any time.
    pub(super) side_by_side: f64,
    /// Responses per second.
    pub(super) rate: f64,
    pub(super) answers: usize,
}

impl Capacity {
    /// Returns the number of requests in service at any time.
    pub(super) fn served(&self) -> f64 {
        self.rate * self.alone.as_secs_f64()
    }

    /// Returns the time that each request would have saved if no request had waited for another.
    pub(super) fn tally(&self, case: &Case<'_>) -> Option<Tally> {
        let tally = case
            .rhythm
            .tally(|moment| moment.think().saturating_sub(self.alone));
        evidence::is_material(case, &tally).then_some(tally)
    }
}

/// Returns the limit of the server of `case`, if the server works at a limit.
pub(super) fn of(case: &Case<'_>) -> Option<Capacity> {
    let is_elsewhere =
        || served::passed(case).is_some_and(|passed| is_told_otherwise(passed.place));
    at_limit(case).filter(|_| !is_elsewhere())
}

/// Returns the limit that the traffic shows, wherever the server's kernel saw the time pass.
pub(super) fn at_limit(case: &Case<'_>) -> Option<Capacity> {
    let alone = idle_think(case).filter(|&alone| alone >= LEAST_WORK && case.has_packets)?;
    let clear = case.rhythm.moments.iter().filter(|m| m.is_clear);
    let mut answered: Vec<Moment> = clear.copied().collect();
    answered.sort_unstable_by_key(|moment| moment.answered);
    let capacity = measure(&answered, alone)?;
    let thinks = sorted(answered.iter().map(Moment::think));
    let is_waiting = quantile(&thinks, QUICK).as_secs_f64() >= alone.as_secs_f64() * GROWN;
    let has_others = capacity.side_by_side >= capacity.served() * WAITING;
    (is_waiting && has_others).then_some(capacity)
}

/// Returns true if the server's kernel shows that the time passed elsewhere, or that processors are
/// scarce.
fn is_told_otherwise(place: Place) -> bool {
    matches!(
        place,
        Place::RunQueue
            | Place::Throttled(_)
            | Place::WakeUp(_)
            | Place::Unread
            | Place::Backlog
            | Place::Stack
            | Place::Qdisc
    )
}

/// Returns the capacity that `answered`, sorted by response, shows; `None` if the rate of responses
/// is not steady.
fn measure(answered: &[Moment], alone: Duration) -> Option<Capacity> {
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
    counts.iter().all(is_even).then(|| Capacity {
        alone,
        loaded: quantile(&thinks, 0.5),
        side_by_side: total.as_secs_f64() / span.as_secs_f64(),
        rate: answered.len() as f64 / span.as_secs_f64(),
        answers: answered.len(),
    })
}
