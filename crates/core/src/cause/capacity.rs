//! The number of requests that a server serves side by side, from the time that one takes
//! alone and the rate of answers under load.
//!
//! A server that answers a lone request in 10 ms and 400 a second, however many wait, serves four
//! at a time: it has four workers, four connections to its upstream, or a lock that is held for a
//! quarter of the time. Where its processors are the limit, its kernel says so, and then it is none
//! of these.

use core::time::Duration;

use super::rhythm::{quantile, sorted};
use super::served::{self, Place};
use super::thinking::idle_think;
use super::{Case, evidence};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;

/// Minimum time of a lone request: a shorter one cannot be told from the time of the
/// kernel, or from the load's own.
const LEAST_WORK: Duration = Duration::from_millis(2);
/// Minimum number of answers.
const LEAST_ANSWERS: usize = 60;
/// Number of stretches of equal length in which the server must answer about as many requests.
const STRETCHES: usize = 4;
/// Share of the mean by which their counts may differ.
const UNEVEN: f64 = 0.25;
/// The factor over a lone request's time that nearly all requests exceed when they wait for
/// others.
const GROWN: f64 = 1.5;
/// The share of the requests that may take less.
const QUICK: f64 = 0.1;
/// Minimum ratio of requests at the server to requests served; from here on, some must
/// wait.
const WAITING: f64 = 1.8;

/// A server at its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Capacity {
    /// The time of a request that does not compete with others.
    pub(super) alone: Duration,
    /// The median time under load.
    pub(super) loaded: Duration,
    /// The mean number of requests at the server at a time.
    pub(super) side_by_side: f64,
    /// Answers per second.
    pub(super) rate: f64,
    pub(super) answers: usize,
}

impl Capacity {
    /// Returns the number of requests served at a time.
    pub(super) fn served(&self) -> f64 {
        self.rate * self.alone.as_secs_f64()
    }

    /// Returns the time that each request would have saved if none had waited for another.
    pub(super) fn tally(&self, case: &Case<'_>) -> Option<Tally> {
        let tally = case
            .rhythm
            .tally(|moment| moment.think().saturating_sub(self.alone));
        evidence::is_material(case, &tally).then_some(tally)
    }
}

/// Returns the limit of the server of `case`, if it works at one.
pub(super) fn of(case: &Case<'_>) -> Option<Capacity> {
    let alone = idle_think(case).filter(|&alone| alone >= LEAST_WORK && case.has_packets)?;
    if served::passed(case).is_some_and(|passed| is_told_otherwise(passed.place)) {
        return None;
    }
    let clear = case.rhythm.moments.iter().filter(|m| m.is_clear);
    let mut answered: Vec<Moment> = clear.copied().collect();
    answered.sort_unstable_by_key(|moment| moment.answered);
    let capacity = measure(&answered, alone)?;
    let thinks = sorted(answered.iter().map(Moment::think));
    let is_waiting = quantile(&thinks, QUICK).as_secs_f64() >= alone.as_secs_f64() * GROWN;
    let has_others = capacity.side_by_side >= capacity.served() * WAITING;
    (is_waiting && has_others).then_some(capacity)
}

/// Returns true if the server's kernel shows that the time passed elsewhere, or that
/// processors are short.
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

/// Returns the capacity shown by `answered`, in the order of the answers; `None` if the rate of
/// answers is not steady.
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
