//! The time of a server by place, as shown by its own kernel: the stages of the watched turns.

use core::time::Duration;

use super::evidence::{self, REPEATS, human, median, percent, ruled_out};
use super::thinking::{Claim, with_the_server};
use super::{Case, Id};
use crate::exchange::wait::Owner;
use crate::facts::ServiceTurns;
use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::{Stage, Throttling};
use crate::report::{Evidence, EvidenceKind, Finding, counted};
use crate::service::tally::Tally;

/// Minimum share of the time in one place for that place to be reported.
const MOST: f64 = 0.5;
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

/// The place where most of a server's time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Between the device's driver and the network stack.
    Backlog,
    /// Between the network stack and TCP.
    Stack,
    /// In the sockets' queues.
    Unread,
    /// Ready threads whose idle processor was slow to run them; holds the time that the hypervisor
    /// took from all processors during the watch.
    WakeUp(Option<Duration>),
    /// Ready threads without a processor.
    RunQueue,
    /// Ready threads without a processor, while the quota of their group was used up.
    Throttled(Throttling),
    /// Threads that waited for the upstream that they called.
    Asked(Option<Endpoint>),
    /// Threads that slept, for whatever reason.
    Asleep,
    /// Threads at work, as far as known.
    Program,
    /// In the queueing disciplines after TCP.
    Qdisc,
}

/// The time that passed in one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed<'a> {
    pub(super) place: Place,
    /// Mean time of a turn in this place.
    pub(super) there: Duration,
    /// Mean time of a turn until its response.
    pub(super) all: Duration,
    turns: &'a ServiceTurns,
}

/// Returns the place where the time passed, if the kernel was watched, the kernel saw the time that
/// packets show, and most of it passed in one place.
pub(super) fn passed<'a>(case: &Case<'a>) -> Option<Passed<'a>> {
    let turns = case.facts.turns.services.get(&case.endpoint)?;
    let mean = |stage| turns.stage(stage).mean().unwrap_or_default();
    let queued = turns.first_queued.mean().unwrap_or_default();
    let all = BEFORE_THE_ANSWER.map(mean).iter().sum::<Duration>() + queued;
    let think = case.gathered.thinking.mean();
    if turns.staged < REPEATS || all.as_secs_f64() < think.as_secs_f64() * MOST {
        return None;
    }
    let is_most = |there: &Duration| there.as_secs_f64() > all.as_secs_f64() * MOST;
    let passed = |place, there| Passed {
        place,
        there,
        all,
        turns,
    };
    if let Some((whom, there)) = asked_most(turns).filter(|(_, there)| is_most(there)) {
        return Some(passed(Place::Asked(whom), there));
    }
    if is_most(&queued) {
        return Some(passed(Place::Qdisc, queued));
    }
    let stage = BEFORE_THE_ANSWER
        .into_iter()
        .find(|&stage| is_most(&mean(stage)))?;
    let place = match stage {
        Stage::Backlog => Place::Backlog,
        Stage::Stack => Place::Stack,
        Stage::Unread => Place::Unread,
        Stage::WakeUp => Place::WakeUp(stolen(case)),
        Stage::RunQueue => throttled(case, turns).map_or(Place::RunQueue, Place::Throttled),
        Stage::Waiting => Place::Asleep,
        _ => Place::Program,
    };
    Some(passed(place, mean(stage)))
}

/// Returns the upstream that was waited for the longest time, and that time for each turn.
fn asked_most(turns: &ServiceTurns) -> Option<(Option<Endpoint>, Duration)> {
    let times = turns
        .asked
        .iter()
        .map(|(&whom, took)| (took.sum_ns(), whom));
    let (sum, whom) = times.max()?;
    let each = sum / u128::from(turns.staged.max(1));
    Some((
        whom,
        Duration::from_nanos(u64::try_from(each).unwrap_or(u64::MAX)),
    ))
}

/// Returns the throttling by the quota, if it lasted about as long as threads waited.
fn throttled(case: &Case<'_>, turns: &ServiceTurns) -> Option<Throttling> {
    let throttling = case.facts.turns.tally.as_ref()?.throttling?;
    // A thread's wait is counted for each of the requests that it has.
    let queued = turns.stage(Stage::RunQueue).sum_ns() as f64 / turns.side_by_side().max(1.0);
    let is_so_long = throttling.time.as_nanos() as f64 >= queued * MOST;
    (throttling.periods > 0 && is_so_long).then_some(throttling)
}

/// Returns the time that the hypervisor took from the processors during the watch.
fn stolen(case: &Case<'_>) -> Option<Duration> {
    case.facts.turns.tally.as_ref()?.stolen
}

impl Passed<'_> {
    /// Returns true if another rule reports the place.
    pub(super) fn is_told(&self) -> bool {
        !matches!(self.place, Place::RunQueue | Place::Asleep | Place::Program)
    }

    /// Returns the kernel's view as evidence.
    fn evidence(&self) -> Evidence {
        let what = match self.place {
            Place::Backlog => "before its network stack processed them".to_owned(),
            Place::Stack => "in its network stack before TCP".to_owned(),
            Place::Unread => "in the sockets' queues before the program read".to_owned(),
            Place::WakeUp(_) => "with the program's threads runnable while an idle processor had \
                                 not yet run them"
                .to_owned(),
            Place::RunQueue => {
                "with the program's threads runnable but without a processor".to_owned()
            }
            Place::Throttled(throttling) => format!(
                "with the program's threads runnable but without a processor; their control group \
                 had used up its quota in {} periods, for {} in total",
                throttling.periods,
                human(throttling.time)
            ),
            Place::Asked(Some(whom)) => {
                format!("between what its threads wrote to {whom} and the answer that they read")
            }
            Place::Asked(None) => {
                "between what its threads wrote to another socket and the answer that they read"
                    .to_owned()
            }
            Place::Qdisc => "between TCP and the device's driver, in queueing disciplines, not \
                             counting pacing and earlier data of the same answer"
                .to_owned(),
            Place::Asleep => "with the program's threads asleep after they had read".to_owned(),
            Place::Program => match self.turns.threaded {
                0 => "from the program's first read to its last write".to_owned(),
                _ => "with the program's threads at work after they had read".to_owned(),
            },
        };
        let text = format!(
            "its kernel saw {} from their arrival to their answer: {} of {} (means) passed {what}",
            counted(self.turns.staged, "request", "requests"),
            human(self.there),
            human(self.all),
        );
        Evidence::mechanism(EvidenceKind::KernelTrace, text).count(self.turns.staged)
    }

    /// Returns the place's share of the time until the response.
    fn share(&self) -> f64 {
        self.there.as_secs_f64() / self.all.as_secs_f64()
    }
}

/// Returns the kernel's evidence on a server that thinks.
pub(super) fn shown(case: &Case<'_>) -> Option<Evidence> {
    passed(case).map(|passed| passed.evidence())
}

/// Returns a finding about a server that thinks, if most of its time passed in a place that
/// `is_there` selects.
pub(super) fn finding(
    id: Id,
    case: &Case<'_>,
    is_there: impl Fn(Place) -> bool,
) -> Option<(Finding, Place)> {
    let passed = passed(case).filter(|passed| is_there(passed.place))?;
    let thinking = &case.gathered.thinking;
    let tally = match passed.place {
        // The load itself may have caused that queue.
        Place::Unread => match thinking.claim(case)? {
            Claim::Thinks(tally) => *tally,
            Claim::Saturated(_) => return None,
        },
        _ => thinking.rest(case)?,
    };
    let tally = &tally;
    let mut finding = evidence::finding(id, Owner::Server, case, tally);
    finding.exemplars = thinking.tally().exemplars();
    finding.evidence = vec![with_the_server(case, tally), passed.evidence()];
    finding.verdict = evidence::judge(&finding.evidence, tally.affected, false);
    finding.summary = format!(
        "Requests take {} (median) on the server before the answer begins, {} of all request \
         time; {} of it passes",
        median(&tally.saved),
        percent(finding.share),
        percent(passed.share()),
    );
    finding.ruled_out.push(ruled_out(
        Id::ServerThink,
        format!(
            "the program itself had them for {} of the {} (means)",
            human(
                passed
                    .turns
                    .stage(Stage::Program)
                    .mean()
                    .unwrap_or_default()
            ),
            human(passed.all)
        ),
    ));
    Some((finding, passed.place))
}

/// Returns true if the server's kernel was watched, and its program took less than half of the
/// pauses that `tally` counts: in the rest, it had already written.
pub(super) fn had_written(case: &Case<'_>, tally: &Tally) -> bool {
    let Some(turns) = case.facts.turns.services.get(&case.endpoint) else {
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
    let paused = tally.cost.likely as f64 / case.ledger.counts.count.max(1) as f64;
    turns.staged >= REPEATS && (program.as_nanos() as f64) < paused * MOST
}
