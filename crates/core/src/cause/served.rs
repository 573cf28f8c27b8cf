//! Claims on the places at which a server's time passed, as its own kernel shows them.

use core::time::Duration;

use super::behind;
use super::evidence::{self, REPEATS, human, percent, ruled_out};
use super::kernel_place::{KernelPlace, MOST, name, passed, worked};
use super::thinking::{ThinkTime, with_the_server};
use super::{Case, Id};
use crate::claim::{Basis, Callee, Ceiling, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::facts::ServiceTurns;
use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::Stage;
use crate::protocol::dns;
use crate::ramp;
use crate::report::EvidenceKind;
use crate::service::tally::Tally;
use crate::stats::histogram::Distribution;

/// Minimum share of the time at one place if all requests spend most of theirs there.
const NEARLY_ALL: f64 = 0.9;
/// Minimum ratio of the mean to the median of times of which a few are far longer.
const SKEWED: f64 = 1.5;
/// Minimum share of processor time in the time of requests if the program works on them.
const MOSTLY_WORK: f64 = 0.75;
/// The calls of the service that requests waited for, by the server's kernel. Values are means.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelCalls {
    /// The service; `None` for a socket without a single other end.
    whom: Option<Endpoint>,
    /// Number of calls for a request.
    pub(super) calls: f64,
    /// Number of connections made for a request.
    pub(super) connections: f64,
    /// Time of a call, or of connecting.
    pub(super) each: Duration,
    /// The part of it that is the way to the service and back, at most.
    pub(super) way: Duration,
    /// Share of the calls' time in the time until the response, 0 to 1.
    pub(super) share: f64,
    /// Share of the calls' time in which nothing answered, 0 to 1.
    silent: f64,
}

impl KernelCalls {
    /// Returns the calls of the service that requests of `case` waited for most of the time; `None`
    /// if they did not.
    pub(super) fn of(case: &Case<'_>) -> Option<Self> {
        let passed = passed(case)?;
        let KernelPlace::Asked(whom) = passed.place else {
            return None;
        };
        let asked = passed.turns.asked.get(&whom)?;
        let requests = asked.time.count() as f64;
        let rounds = (asked.calls + asked.connections).max(1) as f64;
        let each = |all: u128| Duration::from_nanos((all as f64 / rounds) as u64);
        Some(Self {
            whom,
            calls: asked.calls as f64 / requests,
            connections: asked.connections as f64 / requests,
            each: each(asked.time.sum_ns()),
            way: each(asked.way.as_nanos()),
            share: passed.share(),
            silent: asked.silent.as_nanos() as f64 / asked.time.sum_ns().max(1) as f64,
        })
    }

    /// Returns true if the service may be far away, and not late.
    pub(super) fn may_be_far(&self) -> bool {
        self.way.as_secs_f64() >= self.each.as_secs_f64() * MOST
    }

    /// Returns true if nothing answered for most of the time.
    pub(super) fn are_unanswered(&self) -> bool {
        self.silent >= MOST
    }

    /// Returns true if most requests made a connection of their own, and the calls contain what
    /// precedes requests on it, such as the handshake of TLS.
    pub(super) fn contain_setups(&self) -> bool {
        self.connections >= MOST && self.calls >= self.connections * (1.0 + MOST)
    }

    /// Returns a claim on these calls; `None` if packets show what the server called.
    pub(super) fn claim(&self, id: Id, case: &Case<'_>) -> Option<Claim> {
        if behind::explained(case) {
            return None;
        }
        let is_asked = |place| matches!(place, KernelPlace::Asked(_));
        // What was answered in the end, such as by the address that was tried next, is not silence.
        let part = if self.are_unanswered() {
            self.silent
        } else {
            1.0
        };
        let (mut claim, _) = claim_of_part(id, case, is_asked, part)?;
        claim.callee = self.whom.map(|at| Callee {
            at,
            is_silent: self.are_unanswered(),
        });
        claim.evidence.push(self.shown());
        Some(claim)
    }

    /// Returns the name of the service.
    pub(super) fn name(&self) -> String {
        name(self.whom)
    }

    /// Returns true if a resolver is called.
    pub(super) fn are_lookups(&self) -> bool {
        self.whom.is_some_and(|whom| whom.port == dns::PORT)
    }

    /// Returns what the sockets show of the way to the service.
    fn shown(&self) -> Statement {
        let text = if self.are_unanswered() {
            format!(
                "nothing answered for {} of the time of these calls",
                percent(self.silent)
            )
        } else if self.way.is_zero() {
            "the sockets of these calls measured no round trip".to_owned()
        } else {
            format!(
                "a call took {} (mean); the smallest round trip that its socket measured is {}",
                human(self.each),
                human(self.way)
            )
        };
        Statement::fits(EvidenceKind::KernelTrace, text)
    }
}

/// Returns a claim on the server's time at a place, if `is_there` selects the place.
pub(super) fn claim(
    id: Id,
    case: &Case<'_>,
    is_there: impl Fn(KernelPlace) -> bool,
) -> Option<(Claim, KernelPlace)> {
    claim_of_part(id, case, is_there, 1.0)
}

/// Returns a claim on a part (0 to 1) of the server's time at a place, if `is_there` selects the
/// place.
fn claim_of_part(
    id: Id,
    case: &Case<'_>,
    is_there: impl Fn(KernelPlace) -> bool,
    part: f64,
) -> Option<(Claim, KernelPlace)> {
    let passed =
        passed(case).filter(|passed| is_there(passed.place) && passed.is_of_slow_requests(case))?;
    let thinking = &case.gathered.thinking;
    let tally = match passed.place {
        // Our own load may have caused the queue.
        KernelPlace::Unread => match thinking.claim(case)? {
            ThinkTime::Thinks(tally) => *tally,
            ThinkTime::Saturated(_) => return None,
        },
        _ => thinking.rest(case)?,
    };
    let tally = &tally;
    // What passed elsewhere stays when the cause is gone.
    let share = passed.share() * part;
    let there = tally.part(share);
    let mut claim = evidence::claim(id, Owner::Server, case, &there);
    if share < NEARLY_ALL && is_skewed(&tally.saved) {
        claim.time.predicted = None;
    }
    claim.exemplars = thinking.tally().exemplars();
    claim.evidence = vec![with_the_server(case, tally), passed.evidence()];
    claim.basis = Basis::new(tally.affected, false);
    if passed.place == KernelPlace::Unread && case.facts.loads.lacks_processors() {
        // A program that waits for a processor does not read.
        claim.basis.cap(Ceiling::LacksProcessors);
    }
    claim.text.summary = format!(
        "Requests take {} (mean) on the server before the answer begins; {} of that time passes",
        human(tally.saved.mean().unwrap_or_default()),
        percent(share),
    );
    claim.ruled_out.push(ruled_out(
        Id::ServerThink,
        format!(
            "the program itself had them for {} of the {} (means)",
            human(
                [Stage::Program, Stage::Waiting]
                    .map(|stage| passed.turns.stage(stage).mean().unwrap_or_default())
                    .iter()
                    .sum()
            ),
            human(passed.all)
        ),
    ));
    Some((claim, passed.place))
}

/// Returns true if a few requests take far longer than most. A share of the mean is not that of each
/// request then: the few may have all of it.
fn is_skewed(saved: &Distribution) -> bool {
    let figure = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
    figure(saved.mean()) >= figure(saved.quantile(0.5)) * SKEWED
}

/// Returns the turns of the server's kernel if they include the responses that waited: if most of
/// the time in `waits` passed between their first and last segments, or if they are most of the
/// requests. Otherwise, a wait that the kernel did not see may have been in other requests. For
/// instance, the kernel cannot always tell that the last request of a connection has ended.
pub(super) fn turns_that_waited<'a>(case: &Case<'a>, waits: &Tally) -> Option<&'a ServiceTurns> {
    let turns = case.facts.turns.services.get(&case.endpoint)?;
    let requests = case.ledger.counts.count;
    let took = turns.responding.mean().unwrap_or_default().as_nanos() as f64;
    let is_in_them = took >= mean_wait(case, waits) * MOST;
    let are_most = turns.turns as f64 >= requests as f64 * MOST;
    (turns.staged >= REPEATS && (is_in_them || are_most)).then_some(turns)
}

/// The advice to find out why threads sleep.
pub(crate) const SLEEPERS: &str = "find out what its threads sleep for: a timer, a lock, a file, a \
                                   child process, or another service (`sudo strace -f -T -p PID` \
                                   shows the calls; a profile of the CPU shows only what other \
                                   threads and children do meanwhile)";

/// Returns true if the server's program waited for most of the time: its threads slept, as its kernel
/// shows, or its processes used little processor time. A program may pass requests from thread to
/// thread, as Go's and Java's do.
pub(crate) fn is_asleep(case: &Case<'_>) -> bool {
    passed(case)
        .is_some_and(|passed| passed.place == KernelPlace::Asleep || passed.worked.is_some())
}

/// Returns the mean processor time for a request if the service carries less than the asked load, and
/// works on each request for most of the time that it has it: the load meets what the service can do.
pub(crate) fn computes(case: &Case<'_>) -> Option<Duration> {
    let carried = ramp::carried(&case.facts.loads.levels)?;
    let thinking = &case.gathered.thinking;
    let is_working =
        |worked: &Duration| worked.as_secs_f64() >= thinking.mean().as_secs_f64() * MOSTLY_WORK;
    let worked = worked(case).filter(is_working)?;
    let is_there = passed(case).is_none_or(|passed| passed.place == KernelPlace::Program);
    let is_even = thinking.has_floor() && thinking.is_even();
    (carried.limit.is_some() && is_there && is_even).then_some(worked)
}

/// Returns true if at least half of a time of `each` in every request of the service was a wait for a
/// processor, while other programs used a large part of them. The service and its program are not
/// at fault then, and [`crate::conclude`] remarks who uses the processors.
pub(crate) fn lacks_processor(case: &Case<'_>, each: Duration) -> bool {
    let turns = case.facts.turns.services.get(&case.endpoint);
    let turns = turns.filter(|turns| turns.staged >= REPEATS);
    let queued = turns.and_then(|turns| turns.stage(Stage::RunQueue).mean());
    let is_most = |queued: Duration| queued.as_secs_f64() >= each.as_secs_f64() * MOST;
    case.facts.loads.lacks_processors() && queued.is_some_and(is_most)
}

/// Returns true if at least half of the time in `waits` was a wait for a processor
/// ([`lacks_processor`]).
pub(super) fn is_for_processor(case: &Case<'_>, waits: &Tally) -> bool {
    lacks_processor(case, Duration::from_nanos(mean_wait(case, waits) as u64))
}

/// Returns the time in `waits` for each request of the service, in nanoseconds.
fn mean_wait(case: &Case<'_>, waits: &Tally) -> f64 {
    waits.cost.likely as f64 / case.ledger.counts.count.max(1) as f64
}

/// Returns true if the server's kernel was watched, and the program took less than half of the
/// pauses in `tally`. For the rest of the time, the program had already written the data.
pub(super) fn had_written(case: &Case<'_>, tally: &Tally) -> bool {
    let Some(turns) = turns_that_waited(case, tally) else {
        return false;
    };
    let inside = [
        Stage::WakeUp,
        Stage::RunQueue,
        Stage::Program,
        Stage::Waiting,
    ];
    let mean = |stage| turns.stage(stage).mean().unwrap_or_default();
    let program: Duration = inside.map(mean).iter().sum();
    (program.as_nanos() as f64) < mean_wait(case, tally) * MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_mean_is_not_that_of_each_request_if_a_few_take_far_longer() {
        let skewed = |slow: u64, count: u64| {
            let mut saved = Distribution::default();
            saved.record_many(Duration::from_millis(10), 100 - count);
            saved.record_many(Duration::from_millis(slow), count);
            is_skewed(&saved)
        };
        assert!(skewed(700, 5));
        assert!(!skewed(14, 50), "about the same time");
        assert!(!skewed(700, 95), "most are slow");
    }
}
