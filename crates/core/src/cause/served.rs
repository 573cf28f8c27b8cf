//! The places at which a server's time passed, as its own kernel shows them.

use core::time::Duration;

use super::behind;
use super::evidence::{self, REPEATS, human, median, percent, ruled_out};
use super::thinking::{ThinkTime, with_the_server};
use super::{Case, Id};
use crate::claim::{Basis, Callee, Ceiling, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::facts::ServiceTurns;
use crate::observed::event::TargetId;
use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::{Stage, Throttling};
use crate::protocol::dns;
use crate::ramp;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;

/// Minimum share of the time that must pass at one place for a report of the place.
const MOST: f64 = 0.5;
/// Maximum share of processor time in the time for which a program has requests, if it waits for
/// something else.
const LITTLE_WORK: f64 = 0.25;
/// Minimum share of processor time in the time of requests if the program works on them.
const MOSTLY_WORK: f64 = 0.75;
/// The stages until the response is written.
const BEFORE_THE_ANSWER: [Stage; 7] = [
    Stage::Backlog,
    Stage::Stack,
    Stage::Unread,
    Stage::WakeUp,
    Stage::RunQueue,
    Stage::Program,
    Stage::Waiting,
];

/// The place at which most of a server's time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelPlace {
    /// Between the device's driver and the network stack.
    Backlog,
    /// In the network stack, before TCP.
    Stack,
    /// In the sockets' queues, before the program read.
    Unread,
    /// Runnable threads that waited for an idle processor to wake up. The value is the time that
    /// the hypervisor took from all processors in the meantime.
    WakeUp(Option<Duration>),
    /// Runnable threads without a processor.
    RunQueue,
    /// Runnable threads without a processor, because their control group's quota was used up.
    Throttled(Throttling),
    /// Threads that waited for an upstream that they had called.
    Asked(Option<Endpoint>),
    /// Sleeping threads, for any reason.
    Asleep,
    /// Threads at work, or no place that is known.
    Program,
    /// In the queueing disciplines after TCP.
    Qdisc,
}

/// The time that passed at one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed<'a> {
    pub(super) place: KernelPlace,
    /// Mean time of a request at `place`.
    pub(super) there: Duration,
    /// Mean time of a request until its response.
    pub(super) all: Duration,
    /// Mean processor time of the service for a request, if that is so little that the program must
    /// have waited for most of the time that it had the request.
    worked: Option<Duration>,
    turns: &'a ServiceTurns,
}

/// Returns the place at which most of the time passed. `None` if the kernel was not watched, if it
/// did not see most of the time that packets show, or if there is no such place.
pub(super) fn passed<'a>(case: &Case<'a>) -> Option<Passed<'a>> {
    let turns = case.facts.turns.services.get(&case.endpoint)?;
    let mean = |stage| turns.stage(stage).mean().unwrap_or_default();
    let queued = for_each(turns, turns.first_queued.sum_ns());
    let all = BEFORE_THE_ANSWER.map(mean).iter().sum::<Duration>() + queued;
    let think = case.gathered.thinking.mean();
    if turns.staged < REPEATS || all.as_secs_f64() < think.as_secs_f64() * MOST {
        return None;
    }
    let is_most = |there: &Duration| there.as_secs_f64() > all.as_secs_f64() * MOST;
    // Calls that a request makes side by side take longer than the request, if they are added up.
    let passed = |place, there: Duration| Passed {
        place,
        there: there.min(all),
        all,
        worked: worked(case).filter(|&worked| {
            place == KernelPlace::Program
                && worked.as_secs_f64() < there.as_secs_f64() * LITTLE_WORK
        }),
        turns,
    };
    if let Some((whom, there)) = asked_most(turns).filter(|(_, there)| is_most(there)) {
        return Some(passed(KernelPlace::Asked(whom), there));
    }
    if is_most(&queued) {
        return Some(passed(KernelPlace::Qdisc, queued));
    }
    let stage = BEFORE_THE_ANSWER
        .into_iter()
        .find(|&stage| is_most(&mean(stage)))?;
    let place = match stage {
        Stage::Backlog => KernelPlace::Backlog,
        Stage::Stack => KernelPlace::Stack,
        Stage::Unread => KernelPlace::Unread,
        Stage::WakeUp => KernelPlace::WakeUp(stolen(case)),
        Stage::RunQueue => {
            throttled(case, turns).map_or(KernelPlace::RunQueue, KernelPlace::Throttled)
        }
        Stage::Waiting => KernelPlace::Asleep,
        _ => KernelPlace::Program,
    };
    Some(passed(place, mean(stage)))
}

/// Returns the name of a service that was called.
fn name(whom: Option<Endpoint>) -> String {
    whom.map_or_else(
        || "another socket of the host".to_owned(),
        |whom| whom.to_string(),
    )
}

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

/// Returns the upstream for which threads waited longest in total, and the mean of that time per
/// request.
fn asked_most(turns: &ServiceTurns) -> Option<(Option<Endpoint>, Duration)> {
    let times = turns.asked.iter();
    let times = times.map(|(&whom, calls)| (calls.time.sum_ns(), whom));
    let (sum, whom) = times.max()?;
    Some((whom, for_each(turns, sum)))
}

/// Returns the mean for each request whose stages are known, of a sum of nanoseconds over them.
fn for_each(turns: &ServiceTurns, sum: u128) -> Duration {
    let each = sum / u128::from(turns.staged.max(1));
    Duration::from_nanos(u64::try_from(each).unwrap_or(u64::MAX))
}

/// Returns the throttling by the quota, if it lasted at least half as long as threads waited for a
/// processor.
fn throttled(case: &Case<'_>, turns: &ServiceTurns) -> Option<Throttling> {
    let throttling = case.facts.turns.tally.as_ref()?.throttling?;
    // If a thread has several requests, its wait is counted for each of them.
    let queued = turns.stage(Stage::RunQueue).sum_ns() as f64 / turns.side_by_side().max(1.0);
    let is_so_long = throttling.time.as_nanos() as f64 >= queued * MOST;
    (throttling.periods > 0 && is_so_long).then_some(throttling)
}

/// Returns the time that the hypervisor took from all processors while the kernel was watched.
fn stolen(case: &Case<'_>) -> Option<Duration> {
    case.facts.turns.tally.as_ref()?.stolen
}

impl Passed<'_> {
    /// Returns true if another rule is about this place.
    pub(super) fn has_rule(&self) -> bool {
        !matches!(
            self.place,
            KernelPlace::RunQueue | KernelPlace::Asleep | KernelPlace::Program
        )
    }

    /// Returns true if another rule reports this place as the cause of slow requests.
    pub(super) fn is_told(&self, case: &Case<'_>) -> bool {
        self.has_rule() && self.is_of_slow_requests(case)
    }

    /// Returns true if the slow requests must have spent most of their time at the place too. The
    /// kernel's times are means of all requests. All the time that passed elsewhere may be that of
    /// a few slow ones.
    fn is_of_slow_requests(&self, case: &Case<'_>) -> bool {
        let slow = case.gathered.thinking.slow_share();
        1.0 - self.share() <= slow * (1.0 - MOST)
    }

    /// Returns the evidence from the kernel.
    fn evidence(&self) -> Statement {
        let what = match self.place {
            KernelPlace::Backlog => "before its network stack processed them".to_owned(),
            KernelPlace::Stack => "in its network stack before TCP".to_owned(),
            KernelPlace::Unread => "in the sockets' queues before the program read".to_owned(),
            KernelPlace::WakeUp(_) => {
                "with the program's threads runnable while an idle processor had \
                                 not yet run them"
                    .to_owned()
            }
            KernelPlace::RunQueue => {
                "with the program's threads runnable but without a processor".to_owned()
            }
            KernelPlace::Throttled(throttling) => format!(
                "with the program's threads runnable but without a processor; their control group \
                 had used up its quota in {} periods, for {} in total",
                throttling.periods,
                human(throttling.time)
            ),
            KernelPlace::Asked(whom) => format!(
                "in calls of {}: connecting, and from what its threads wrote to the answer that they \
                 read",
                name(whom)
            ),
            KernelPlace::Qdisc => {
                "between TCP and the device's driver, in queueing disciplines, without \
                             the time due to pacing or to earlier data of the same answer"
                    .to_owned()
            }
            KernelPlace::Asleep => {
                "with the program's threads asleep after they had read".to_owned()
            }
            KernelPlace::Program => match (self.worked, self.turns.threaded) {
                (Some(worked), _) => format!(
                    "from the program's first read to its last write, for which its processes used \
                     {} of processor time per request: it waited for something else",
                    human(worked)
                ),
                (None, threaded) if threaded >= self.turns.staged => {
                    "with the program's threads at work after they had read".to_owned()
                }
                // If another thread answers, it is not known whether the program worked or slept.
                (None, _) => "from the program's first read to its last write".to_owned(),
            },
        };
        let text = format!(
            "its kernel saw {} from their arrival to their answer: {}{} of {} (means) passed {what}",
            counted(self.turns.staged, "request", "requests"),
            if self.is_at_least() { "at least " } else { "" },
            human(self.there),
            human(self.all),
        );
        Statement::shows(EvidenceKind::KernelTrace, text).count(self.turns.staged)
    }

    /// Returns true if the calls to the upstream are not known for all requests. They are unknown
    /// if one thread read the request and another, unrelated to it, called the upstream.
    fn is_at_least(&self) -> bool {
        let KernelPlace::Asked(whom) = self.place else {
            return false;
        };
        let asked = self.turns.asked.get(&whom);
        let known = asked.map_or(0, |asked| asked.time.count());
        known < self.turns.staged
    }

    /// Returns the place's share of the time until the response.
    fn share(&self) -> f64 {
        self.there.as_secs_f64() / self.all.as_secs_f64()
    }
}

/// Returns the kernel's evidence of the place at which the server's time passed.
pub(super) fn shown(case: &Case<'_>) -> Option<Statement> {
    passed(case).map(|passed| passed.evidence())
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
    claim.exemplars = thinking.tally().exemplars();
    claim.evidence = vec![with_the_server(case, tally), passed.evidence()];
    claim.basis = Basis::new(tally.affected, false);
    if passed.place == KernelPlace::Unread && case.facts.loads.lacks_processors() {
        // A program that waits for a processor does not read.
        claim.basis.cap(Ceiling::LacksProcessors);
    }
    claim.text.summary = format!(
        "Requests take {} (median) on the server before the answer begins; {} of that time passes",
        median(&tally.saved),
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
pub(crate) const SLEEPERS: &str = "find out what its threads sleep for: a timer, a lock, a file, or \
                                   another service (`sudo strace -f -T -p PID` shows the calls; a \
                                   profile of the CPU does not)";

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

/// Returns the mean processor time of the subject's processes for each request of our own load.
fn worked(case: &Case<'_>) -> Option<Duration> {
    let loads = &case.facts.loads;
    let used = loads
        .processors
        .as_ref()
        .filter(|_| case.target == Some(TargetId::Subject))?;
    let responses = loads.baseline(TargetId::Subject)?.whole() as f64;
    let lasted = loads.baseline_seconds(TargetId::Subject);
    let in_that_time = responses * used.wall.as_secs_f64() / lasted;
    Duration::try_from_secs_f64(used.service?.as_secs_f64() / in_that_time).ok()
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
