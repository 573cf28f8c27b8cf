//! The rule of the cause `client-queue`.
//!
//! Packets do not show directly that a request waits in the client. But a client with its own
//! schedule shows the schedule whenever a connection is free. While all connections are busy, its
//! requests leave late. Each late request leaves with the response that frees a connection, until
//! the client has caught up with the schedule. A client that sends after each response, or that
//! thinks between requests, does not catch up in this way.

use core::time::Duration;
use std::collections::BTreeMap;

use super::evidence::{self, ORDINARY_WORK, human};
use super::rhythm::quantile;
use super::sequence::{AT_ONCE, round_trip};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::service::timeline::{Moment, by_host};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The client wants to send a request every {period}, but all its connections are busy \
              when a response is late: requests wait inside the client for {late} (median), \
              {share} of all their time. No exchange includes this wait, but the users wait.",
    ruled_out: &[(
        Id::ClientThink,
        "the client sends on schedule again as soon as it has caught up",
    )],
    overturned_by: "the client's own timestamps showing that it did not decide to send any sooner",
    fix: &[
        (
            "client",
            "a larger pool of connections, or HTTP/2 with many streams on one",
        ),
        (
            "server",
            "find what makes some responses late: later requests wait for them",
        ),
        (
            "client",
            "measure latency from when a request was due, not from when it left",
        ),
    ],
};

/// Minimum number of requests on time.
const LEAST_IN_TIME: usize = 10;
/// Minimum number of late requests.
const LEAST_LATE: usize = 5;
/// Maximum deviation of a request on time, as a share of the schedule's period.
const OFF: f64 = 0.1;
/// Minimum share of requests on time among those with a free connection. Also the minimum share of
/// the late requests that left with a response.
const MOST: f64 = 0.9;

/// Looks for clients that fall behind their schedule.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

/// A client's schedule, with the delays of its late requests.
#[derive(Debug)]
struct Queue {
    period: Duration,
    in_time: usize,
    late: Vec<Duration>,
}

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        // Our own load has a schedule too, and reports separately when it falls behind.
        if case.target.is_some() {
            return Conclusion::Nothing;
        }
        let queue = case.has_packets.then(|| queue(case)).flatten();
        match queue.filter(|queue| matters(case, queue)) {
            Some(queue) => Conclusion::Claim(Box::new(claim(case, &queue))),
            None => Conclusion::Nothing,
        }
    }
}

fn matters(case: &Case<'_>, queue: &Queue) -> bool {
    let sum: Duration = queue.late.iter().sum();
    let lost = sum.as_secs_f64() * case.rhythm.weight * 1e9;
    lost >= case.ledger.total() as f64 * evidence::MATERIAL_SHARE
}

/// Returns the schedule that is behind by the most time, over all client hosts.
fn queue(case: &Case<'_>) -> Option<Queue> {
    // Within each host, requests keep the order in which they began.
    let moments = by_host(&case.rhythm.moments);
    moments
        .chunk_by(|a, b| a.client.addr == b.client.addr)
        .filter_map(|of_host| schedule(case, of_host))
        .max_by_key(|queue| queue.late.iter().sum::<Duration>())
}

/// Returns one host's schedule and the requests that were late; `None` if the requests keep no
/// schedule.
fn schedule(case: &Case<'_>, moments: &[Moment]) -> Option<Queue> {
    if moments.len() < LEAST_IN_TIME + LEAST_LATE {
        return None;
    }
    let released = released(case, moments);
    let period = period(moments, &released)?;
    let origin = origin(moments, &released, period)?;
    let (mut in_time, mut in_time_free, mut free) = (0, 0, 0);
    let (mut late, mut with_response) = (Vec::new(), 0);
    for (index, (moment, &is_released)) in moments.iter().zip(&released).enumerate() {
        let due = origin + period * u32::try_from(index).unwrap_or(u32::MAX);
        let behind = moment.begin.signed_since(due);
        let is_in_time = behind.unsigned_abs() as f64 <= nanos(period) as f64 * OFF;
        let is_late = behind >= ORDINARY_WORK.as_nanos() as i64 && !is_in_time;
        in_time += usize::from(is_in_time);
        free += usize::from(!is_released);
        in_time_free += usize::from(!is_released && is_in_time);
        if is_late {
            late.push(moment.begin.since(due));
            with_response += usize::from(is_released);
        } else if !is_in_time && behind < 0 {
            // The request left before it was due, so there is no such schedule.
            return None;
        }
    }
    late.sort_unstable();
    let most = |part: usize, of: usize| part as f64 >= of as f64 * MOST;
    let is_kept = in_time >= LEAST_IN_TIME
        && late.len() >= LEAST_LATE
        && most(in_time_free, free)
        && most(with_response, late.len());
    is_kept.then_some(Queue {
        period,
        in_time,
        late,
    })
}

/// Returns, for each request, true if it left together with the previous response on its
/// connection.
fn released(case: &Case<'_>, moments: &[Moment]) -> Vec<bool> {
    let slack = AT_ONCE + round_trip(case) / 10;
    let travel = |before: &Moment| round_trip(case).saturating_sub(before.path.to_server);
    let mut last: BTreeMap<Endpoint, Timestamp> = BTreeMap::new();
    let mut released = Vec::with_capacity(moments.len());
    for moment in moments {
        let before = last.insert(moment.client, moment.end + travel(moment));
        released.push(before.is_some_and(|end| moment.begin.since(end) <= slack));
    }
    released
}

/// Returns the period: the time between two requests that waited for no response. `None` if the
/// gaps do not agree.
fn period(moments: &[Moment], released: &[bool]) -> Option<Duration> {
    let pairs = moments.windows(2).zip(released.windows(2));
    let mut gaps: Vec<Duration> = pairs
        .filter(|(_, released)| released.iter().all(|&is_released| !is_released))
        .filter_map(|(pair, _)| Some(pair.get(1)?.begin.since(pair.first()?.begin)))
        .collect();
    gaps.sort_unstable();
    let typical = quantile(&gaps, 0.5);
    if gaps.len() < LEAST_LATE || typical < ORDINARY_WORK {
        return None;
    }
    // Distant requests give a more precise period than neighbours.
    let marked = moments.iter().zip(released).enumerate();
    let free: Vec<(usize, Timestamp)> = marked
        .filter(|(_, (_, is_released))| !**is_released)
        .map(|(index, (moment, _))| (index, moment.begin))
        .collect();
    let far = free.iter().skip(free.len() / 2);
    let mut means: Vec<Duration> = free
        .iter()
        .zip(far)
        .filter_map(|(&(from, begin), &(to, end))| {
            Some(end.since(begin) / u32::try_from(to - from).ok().filter(|&count| count > 0)?)
        })
        .collect();
    means.sort_unstable();
    let mean = quantile(&means, 0.5);
    let is_alike = mean.abs_diff(typical).as_secs_f64() <= typical.as_secs_f64() * OFF;
    is_alike.then_some(mean)
}

/// Returns the time at which the first request was due. Each request that waited for no response
/// gives an estimate, and the median is returned.
fn origin(moments: &[Moment], released: &[bool], period: Duration) -> Option<Timestamp> {
    let mut origins: Vec<Timestamp> = moments
        .iter()
        .zip(released)
        .enumerate()
        .filter(|(_, (_, is_released))| !**is_released)
        .map(|(index, (moment, _))| {
            moment.begin - period * u32::try_from(index).unwrap_or(u32::MAX)
        })
        .collect();
    origins.sort_unstable();
    origins.get(origins.len() / 2).copied()
}

fn claim(case: &Case<'_>, queue: &Queue) -> Claim {
    let mut claim = evidence::claim(Id::ClientQueue, Owner::Client, case, &Tally::default());
    let weight = case.rhythm.weight;
    let sum: Duration = queue.late.iter().sum();
    let cost = (nanos(sum) as f64 * weight).round() as u64;
    claim.time.cost_exactly(cost);
    claim.time.wall_ns = nanos(sum);
    claim.time.whole_ns = case.ledger.total().saturating_add(cost);
    claim.affected.exchanges = (queue.late.len() as f64 * weight).round() as u64;
    claim.time.predicted = None;
    let median = human(quantile(&queue.late, 0.5));
    let text = format!(
        "{} left on schedule, one every {}; {} left {median} (median) late, each when a response \
         freed a connection, until the client was back on schedule",
        counted(queue.in_time as u64, "request", "requests"),
        human(queue.period),
        queue.late.len(),
    );
    let count = queue.late.len() as u64;
    claim
        .evidence
        .push(Statement::shows(EvidenceKind::Wire, text).count(count));
    claim.basis = Basis::new(count, false);
    WORDING.tell(
        &mut claim,
        &[("period", &human(queue.period)), ("late", &median)],
    );
    claim
}
