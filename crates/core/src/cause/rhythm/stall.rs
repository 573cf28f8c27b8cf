//! Stalls: times in which a server answers no request, and after which it answers all waiting
//! requests together.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::{Answers, LateOnes, quantile};
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::service::timeline::{LEAST_LATE, Late, Moment};

/// Minimum length of a stall. Shorter ones come from a scheduler or a disk.
const LEAST_STALL: Duration = LEAST_LATE;
/// Minimum ratio of a stall's length to the ordinary think time.
const OUTSTANDING: u32 = 4;
/// Maximum gap between two responses that leave together after a stall.
const BURST: Duration = Duration::from_millis(3);
/// Minimum number of connections that waited together. Two may be chance.
const LEAST_CONNECTIONS: usize = 3;
/// Minimum number of stalls. Any host stalls once or twice.
pub(in crate::cause) const OCCASIONS: usize = 3;
/// Minimum length of a stall that counts even if it is the only one.
pub(in crate::cause) const LONG_STALL: Duration = Duration::from_millis(200);
/// Minimum share of the late responses that stalls must explain, by their number or by their time.
const EXPLAINED: f64 = 0.7;
/// Minimum share of requests that arrived since the previous response, among those answered
/// together. A few others may have been late before, for another reason.
const TOGETHER: f64 = 0.9;
/// After a long stall, late responses may follow for the stall's length divided by this number,
/// because their threads wait for a processor.
const FOLLOWING: u32 = 4;
/// Maximum share of late exchanges. Above it, the server is always slow.
const RARE: f64 = 0.75;
/// Minimum share of quick exchanges outside the stalls, among exchanges for the same targets as in
/// the stalls.
const USUAL: f64 = 1.0 - RARE;
/// A request that arrived up to this long before the last response that precedes the stall still
/// counts as waiting in the stall.
const MEANWHILE: Duration = Duration::from_millis(5);
/// Minimum wait after which the server's kernel must have acknowledged a request that it received.
/// A delayed ACK takes 40 ms (`TCP_DELACK_MIN` in `include/net/tcp.h`) plus up to a tick. If a
/// round trip is longer, it takes at most a round trip (`tcp_send_delayed_ack()`).
const DELAYED_ACK: Duration = Duration::from_millis(52);
/// Minimum number of ordinary requests that must follow a cold start.
const WARM: usize = 10;
/// Minimum ratio of a cold start's length to the ordinary think time.
const COLD: u32 = 10;
/// Minimum length of a cold start.
const LEAST_START: Duration = Duration::from_millis(50);
/// After a cold start, the last response may follow the first within the start's length divided by
/// this number, because all requests need a processor then.
const STRAGGLING: u32 = 10;

/// A time in which a server answered no request.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cause) struct Stall {
    /// The arrival of the first request that waited.
    pub(in crate::cause) begin: Timestamp,
    /// The time of the first response after the stall.
    pub(in crate::cause) release: Timestamp,
    /// The time of the last response to a request that waited.
    pub(in crate::cause) last: Timestamp,
    /// Time from the first to the last arrival of the requests that waited.
    pub(super) asked_over: Duration,
    /// Time from the first response after the stall to the last one sent together with it.
    pub(super) released_over: Duration,
    pub(in crate::cause) connections: usize,
    pub(in crate::cause) requests: usize,
    /// Number of waiting requests that waited longer than a delayed ACK takes.
    pub(super) long: usize,
    /// Number of the `long` requests that were acknowledged before their response.
    pub(super) acknowledged: usize,
}

impl Stall {
    /// Returns the lower bound of the stall's length.
    pub(in crate::cause) fn duration(&self) -> Duration {
        self.release.since(self.begin)
    }

    /// Returns true if the exchange waited in the stall.
    pub(in crate::cause) fn holds(&self, moment: &Moment) -> bool {
        moment.asked >= self.begin
            && moment.asked <= self.release
            && moment.answered >= self.release
            && moment.answered <= self.last
    }

    /// Counts the exchanges that waited in the stall, and their connections.
    fn count(&mut self, held: &[&Moment]) {
        let is_long = |moment: &&&Moment| moment.think() > DELAYED_ACK.max(moment.path.to_server);
        let long = held.iter().filter(is_long);
        let clients: BTreeSet<Endpoint> = held.iter().map(|moment| moment.client).collect();
        self.connections = clients.len();
        self.requests = held.len();
        self.long = long.clone().count();
        self.acknowledged = long.filter(|moment| moment.path.is_acked_first).count();
    }

    /// Adds the requests of a long stall that were answered a little later. After the stall, all
    /// requests need a processor, and a thread that has one also handles its next request.
    fn take_followers(&mut self, late: &[Moment]) {
        let duration = self.duration();
        if duration < LONG_STALL {
            return;
        }
        let latest = self.release + duration / FOLLOWING;
        let has_waited_through = |moment: &&Moment| {
            moment.asked >= self.begin
                && moment.asked <= self.begin + duration / FOLLOWING
                && (self.release..=latest).contains(&moment.answered)
        };
        let through = late.iter().filter(has_waited_through);
        let last = through.map(|moment| moment.answered).max();
        self.last = self.last.max(last.unwrap_or(self.last));
        let held: Vec<&Moment> = late.iter().filter(|moment| self.holds(moment)).collect();
        self.count(&held);
    }

    /// Returns true if requests that had arrived over a longer time were answered together.
    fn is_common_release(&self) -> bool {
        self.asked_over > self.released_over * 2
    }
}

/// A server's responses, which are searched for stalls.
pub(super) struct Course<'a> {
    /// The late responses, and maybe others, in the order in which they were sent.
    by_answer: Vec<Moment>,
    /// Number of exchanges.
    count: f64,
    /// The median think time, or the 25th percentile if the median is more than [`OUTSTANDING`]
    /// times as long.
    pub(super) ordinary: Duration,
    /// The times at which responses began, if `by_answer` does not contain all responses.
    answered: Option<&'a Late>,
}

impl<'a> Course<'a> {
    /// Makes the course from all `answers` or, for a busy server, from the late ones in `late`.
    pub(super) fn new(answers: &Answers, late: Option<LateOnes<'a>>) -> Self {
        let least = quantile(&answers.thinks, USUAL);
        let is_split = least * OUTSTANDING < answers.ordinary();
        let by_answer = late.map_or(&answers.by_answer[..], |(_, _, by_answer)| by_answer);
        let mut clear = Vec::with_capacity(by_answer.len());
        clear.extend(by_answer.iter().filter(|m| m.is_clear));
        Self {
            by_answer: clear,
            count: late.map_or(answers.by_answer.len() as f64, |(count, ..)| count as f64),
            ordinary: if is_split { least } else { answers.ordinary() },
            answered: late.map(|(_, late, _)| late),
        }
    }

    /// Returns the last time before `before` at which a response began, or may have begun.
    fn last_answer(&self, before: Timestamp) -> Option<Timestamp> {
        if let Some(late) = self.answered {
            return late.last_answer(before);
        }
        let answered = self.by_answer.iter().map(|moment| moment.answered);
        answered.take_while(|&at| at < before).last()
    }
}

/// Returns the stalls in ascending order of time; empty if they do not explain most of the late
/// responses.
pub(super) fn stalls(course: &Course<'_>) -> Vec<Stall> {
    let least = LEAST_STALL.max(course.ordinary * OUTSTANDING);
    let late: Vec<Moment> = course
        .by_answer
        .iter()
        .filter(|moment| moment.think() >= least)
        .copied()
        .collect();
    if late.is_empty() || late.len() as f64 > course.count * RARE {
        return Vec::new();
    }
    let bursts = late.chunk_by(|a, b| b.answered.since(a.answered) <= BURST);
    let mut stalls: Vec<Stall> = bursts.filter_map(|burst| stall(burst, course)).collect();
    let explained: usize = stalls.iter().map(|stall| stall.requests).sum();
    let is_most = |part: f64, all: f64| part >= all * EXPLAINED;
    for stall in &mut stalls {
        stall.take_followers(&late);
    }
    let time = |moments: &mut dyn Iterator<Item = &Moment>| {
        moments.map(Moment::think).sum::<Duration>().as_secs_f64()
    };
    let is_held = |moment: &&Moment| stalls.iter().any(|stall| stall.holds(moment));
    let held = time(&mut late.iter().filter(is_held));
    if is_most(explained as f64, late.len() as f64) || is_most(held, time(&mut late.iter())) {
        stalls
    } else {
        Vec::new()
    }
}

/// Returns the stalls if the server is the reason, and not the requests; otherwise `None`. There
/// must be at least [`OCCASIONS`] stalls, or long ones. In addition, one of two conditions must be
/// true. In most stalls, requests that arrived at different times are answered together. Or
/// requests for the same targets are answered quickly at other times.
pub(super) fn common(
    stalls: Vec<Stall>,
    course: &Course<'_>,
    clear: &[Moment],
) -> Option<Vec<Stall>> {
    let long = |stall: &Stall| stall.duration() >= LONG_STALL;
    let stalls = if stalls.len() >= OCCASIONS {
        stalls
    } else {
        stalls.into_iter().filter(long).collect()
    };
    let common = stalls
        .iter()
        .filter(|stall| stall.is_common_release())
        .count();
    let is_common = common * 2 >= stalls.len() || are_usually_quick(&stalls, course, clear);
    (!stalls.is_empty() && is_common).then_some(stalls)
}

/// Returns true if the server's kernel had received the waiting requests, because it acknowledged
/// them. A path that delays requests delays their ACKs too. `None` if no request waited long
/// enough.
pub(super) fn were_acknowledged(stalls: &[Stall]) -> Option<bool> {
    let long: usize = stalls.iter().map(|stall| stall.long).sum();
    let acknowledged: usize = stalls.iter().map(|stall| stall.acknowledged).sum();
    (long > 0).then_some(acknowledged * 2 >= long)
}

/// Returns true if requests for the same targets are mostly answered quickly outside the stalls.
fn are_usually_quick(stalls: &[Stall], course: &Course<'_>, clear: &[Moment]) -> bool {
    let is_held = |moment: &&Moment| stalls.iter().any(|stall| stall.holds(moment));
    let held = by_target(course.by_answer.iter().filter(is_held));
    let quick = by_target(clear.iter().filter(|moment| !is_held(moment)));
    let is_usual = |(target, held): (&u64, &usize)| {
        let quick = quick.get(target).copied().unwrap_or_default();
        *target != 0 && quick as f64 >= (quick + held) as f64 * USUAL
    };
    !held.is_empty() && held.iter().all(is_usual)
}

/// Returns the number of exchanges for each target.
fn by_target<'a>(moments: impl Iterator<Item = &'a Moment>) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for moment in moments {
        *counts.entry(moment.fingerprints.target).or_default() += 1;
    }
    counts
}

fn stall(burst: &[Moment], course: &Course<'_>) -> Option<Stall> {
    let release = burst.first()?.answered;
    let quiet = course.last_answer(release - BURST);
    let has_come_since = |moment: &&Moment| quiet.is_none_or(|at| moment.asked + MEANWHILE >= at);
    let held: Vec<&Moment> = burst.iter().filter(has_come_since).collect();
    if (held.len() as f64) < burst.len() as f64 * TOGETHER {
        return None;
    }
    let begin = held.iter().map(|moment| moment.asked).min()?;
    let last_asked = held.iter().map(|moment| moment.asked).max()?;
    let last = burst.last().map_or(release, |moment| moment.answered);
    let mut stall = Stall {
        begin,
        release,
        last,
        asked_over: last_asked.since(begin),
        released_over: last.since(release),
        connections: 0,
        requests: 0,
        long: 0,
        acknowledged: 0,
    };
    stall.count(&held);
    (stall.connections >= LEAST_CONNECTIONS).then_some(stall)
}

/// Returns the stall if it was the start of the server; otherwise `None`. The very first requests
/// waited in it, each as the first of its connection, and later requests are quick.
pub(super) fn start(stall: &Stall, answers: &Answers) -> Option<Stall> {
    let moments = &answers.moments;
    let is_early = |moment: &&Moment| moment.begin < stall.release;
    let early: Vec<&Moment> = moments.iter().filter(is_early).collect();
    let until = stall.release + stall.duration() / STRAGGLING;
    let is_first = early.iter().all(|moment| {
        moment.ordinal == 0
            && moment.asked <= stall.release
            && (stall.release..=until).contains(&moment.answered)
    });
    let is_warm = moments.len() - early.len() >= WARM;
    let is_cold = stall.duration() >= LEAST_START.max(answers.ordinary() * COLD);
    let clients: BTreeSet<Endpoint> = early.iter().map(|moment| moment.client).collect();
    (is_first && is_warm && is_cold).then(|| Stall {
        begin: early
            .iter()
            .map(|moment| moment.asked)
            .min()
            .unwrap_or(stall.begin),
        last: early
            .iter()
            .map(|moment| moment.answered)
            .max()
            .unwrap_or(stall.last),
        connections: clients.len(),
        requests: early.len(),
        ..stall.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Stall {
        /// Returns a stall of four requests between these times.
        pub(in crate::cause) fn between(begin: Timestamp, release: Timestamp) -> Self {
            Self {
                begin,
                release,
                last: release,
                asked_over: Duration::ZERO,
                released_over: Duration::ZERO,
                connections: 4,
                requests: 4,
                long: 4,
                acknowledged: 4,
            }
        }
    }
}
