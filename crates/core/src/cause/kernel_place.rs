//! The place at which a server's time passed, as its own kernel shows it.

use core::time::Duration;

use super::Case;
use super::evidence::{REPEATS, human};
use crate::claim::Statement;
use crate::facts::ServiceTurns;
use crate::observed::event::TargetId;
use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::{Stage, Throttling};
use crate::report::{EvidenceKind, counted};

/// Minimum share of the time that must pass at one place for a report of the place.
pub(super) const MOST: f64 = 0.5;
/// Maximum share of processor time in the time for which a program has requests, if it waits for
/// something else.
const LITTLE_WORK: f64 = 0.25;
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
    pub(super) worked: Option<Duration>,
    pub(super) turns: &'a ServiceTurns,
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
pub(super) fn name(whom: Option<Endpoint>) -> String {
    whom.map_or_else(
        || "another socket of the host".to_owned(),
        |whom| whom.to_string(),
    )
}

/// Returns the upstream for which threads waited longest in total, and the mean of that time per
/// request.
pub(super) fn asked_most(turns: &ServiceTurns) -> Option<(Option<Endpoint>, Duration)> {
    let times = turns.asked.iter();
    let times = times.map(|(&whom, calls)| (calls.time.sum_ns(), whom));
    let (sum, whom) = times.max()?;
    Some((whom, for_each(turns, sum)))
}

/// Returns the mean for each request whose stages are known, of a sum of nanoseconds over them.
pub(super) fn for_each(turns: &ServiceTurns, sum: u128) -> Duration {
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
    pub(super) fn is_of_slow_requests(&self, case: &Case<'_>) -> bool {
        let slow = case.gathered.thinking.slow_share();
        1.0 - self.share() <= slow * (1.0 - MOST)
    }

    /// Returns the evidence from the kernel.
    pub(super) fn evidence(&self) -> Statement {
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
    pub(super) fn share(&self) -> f64 {
        self.there.as_secs_f64() / self.all.as_secs_f64()
    }
}

/// Returns true if the server's kernel shows where most of the time of slow requests passed.
pub(super) fn is_placed(case: &Case<'_>) -> bool {
    passed(case).is_some_and(|passed| passed.is_of_slow_requests(case))
}

/// Returns the kernel's evidence of the place at which the server's time passed.
pub(super) fn shown(case: &Case<'_>) -> Option<Statement> {
    passed(case).map(|passed| passed.evidence())
}

/// Returns the mean processor time of the subject's processes for each request of our own load.
pub(super) fn worked(case: &Case<'_>) -> Option<Duration> {
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

/// Returns true if the server's kernel shows that the time passed elsewhere, or that processors are the
/// limit.
pub(super) fn is_elsewhere(case: &Case<'_>) -> bool {
    passed(case).is_some_and(|passed| is_told_otherwise(passed.place))
}

/// Returns true if time that passed at `place` is not that of requests which wait for each other in the
/// program.
fn is_told_otherwise(place: KernelPlace) -> bool {
    matches!(
        place,
        KernelPlace::RunQueue
            | KernelPlace::Throttled(_)
            | KernelPlace::WakeUp(_)
            | KernelPlace::Unread
            | KernelPlace::Backlog
            | KernelPlace::Stack
            | KernelPlace::Qdisc
    )
}
