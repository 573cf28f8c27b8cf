//! `nagle-delayed-ack`: the cause for which this project was started.

use core::time::Duration;

use super::evidence::{self, human, median, percent};
use super::held::{self, HeldSegments};
use super::wording::Wording;
use super::{Case, Conclusion, Id, socket_options};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Side;
use crate::exchange::wait::Owner;
use crate::facts::{ExperimentResult, Facts};
use crate::observed::event::TargetId;
use crate::observed::experiment::Experiment;
use crate::report::{CountOf, EvidenceKind, counted};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "The server writes its response in small parts. Nagle's algorithm holds each until \
              the previous one is acknowledged, and the client's kernel delays that ACK by \
              {delay}. {this} {typical} of the {whole} that such a request takes (all medians), {share} of \
              all request time.",
    ruled_out: &[],
    overturned_by: "a small segment of this server leaving while an earlier small one is \
        unacknowledged, TCP_NODELAY reading 1 on the accepted socket during a stall, or the stall \
        persisting when the client acknowledges immediately",
    fix: &[
        (
            "server",
            "set {TCP_NODELAY} on every accepted socket{nodelay}",
        ),
        IN_ONE_CALL,
        BY_ROUTE,
    ],
};

/// The look-alikes that packets rule out.
const ON_THE_WIRE: Wording = Wording {
    ruled_out: &[
        (
            Id::ServerPause,
            "a server that pauses would not wait for the ACK, but of {parts} follow-up parts \
             {stalls} left as soon as it arrived, {late} later and {eager} before it",
        ),
        (
            Id::PacketLoss,
            "no segment had to be retransmitted in these stalls",
        ),
        (
            Id::ReceiveWindow,
            "the client's window had room for the second part",
        ),
    ],
    ..Wording::NONE
};

/// The look-alikes that the experiment rules out if no packets were captured.
const BY_EXPERIMENT: Wording = Wording {
    ruled_out: &[(
        Id::ServerPause,
        "for a server that pauses, it would not matter how soon the client acknowledges",
    )],
    ..Wording::NONE
};

/// A change in the program that replaces the socket option.
const IN_ONE_CALL: (&str, &str) = (
    "server",
    "or write header and body in one call (writev, MSG_MORE, a buffer{nopush})",
);

/// A change at the client.
const BY_ROUTE: (&str, &str) = (
    "client",
    "if the server cannot be changed: `ip route change … quickack 1` towards it",
);

/// nginx's directives for `{nodelay}` and `{nopush}`.
const DIRECTIVES: [&str; 2] = [
    " (nginx: tcp_nodelay on)",
    "; nginx: sendfile with tcp_nopush on",
];

/// Minimum change by an experiment that is not chance.
pub(crate) const LEAST_DROP: Duration = Duration::from_millis(5);
/// The quantiles at which responses with and without the experiment are compared, the median first.
const LEVELS: [f64; 3] = [0.5, 0.75, 0.9];

/// Watches small segments of responses that follow other small segments.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let held = &case.gathered.held_responses;
        // On a busy host, the segments' times do not show clearly that an ACK released them. The
        // experiment with immediate ACKs shows it more clearly.
        let is_seen =
            (held.is_by_acknowledgement() || follows_ack(case) == Some(true)) && held.is_delayed();
        if !is_seen || !evidence::is_material(case, &held.tally) || is_retracted(held, case) {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(Id::NagleDelayedAck, Owner::Server, case, &held.tally);
        claim.time.cost.low = case.weigh(held.cost_low_ns());
        claim.evidence = gather(held, case);
        claim.basis = Basis::new(held.delayed, false);
        rule_out(&mut claim, held, case);
        tell(&mut claim, held, case);
        Conclusion::Claim(Box::new(claim))
    }
}

/// Returns the result of [`stall_follows_ack`] for the target of `case`.
pub(crate) fn follows_ack(case: &Case<'_>) -> Option<bool> {
    case.target
        .and_then(|target| stall_follows_ack(case.facts, target))
}

/// Returns true if our ACKs end the stalls within responses, and false if they do not. The
/// experiment with immediate ACKs shows it. `None` if it was not run, or if its control did not
/// stall like the baseline.
pub(crate) fn stall_follows_ack(facts: &Facts, target: TargetId) -> Option<bool> {
    let result = quick_ack(facts, target)?;
    if removed_stall(&result).is_some() {
        return Some(true);
    }
    let baseline = facts.loads.baseline(target);
    // Immediate ACKs do not shorten a hold of one round trip, so the stall must be longer.
    let least = LEAST_DROP.max(facts.round_trip(target).unwrap_or_default() * 3 / 2);
    let mut stalled = LEVELS.iter().filter_map(|&level| {
        let (control, treated) = bodies(&result, level);
        let usual = baseline.map_or(control, |load| quantile(&load.body, level));
        (control >= least && control >= usual * 3 / 4).then_some((control, treated))
    });
    let first = stalled.next()?;
    let stays = |(control, treated): (Duration, Duration)| treated >= control * 3 / 4;
    (stays(first) && stalled.all(stays)).then_some(false)
}

/// Returns true if other observations contradict the cause: the server's kernel held nothing back,
/// Nagle's algorithm is off on the server's sockets, or immediate ACKs changed nothing.
fn is_retracted(held: &HeldSegments, case: &Case<'_>) -> bool {
    // If the experiment removes the stall, it is stronger evidence than a kernel without holds: on
    // older kernels, not all ways to write can be watched.
    if held::is_seen_not_to_hold(held, case) && follows_ack(case) != Some(true) {
        return true;
    }
    let Some(target) = case.target else {
        return false;
    };
    if stall_follows_ack(case.facts, target) == Some(false) {
        return true;
    }
    let nodelay = case.facts.server_sockets(target).nodelay;
    if socket_options::has_nodelay(case, Side::Server) {
        return true;
    }
    nodelay.of >= evidence::REPEATS && nodelay.count * 10 >= nodelay.of * 9
}

/// Returns the result of the experiment in which our side never delays ACKs, if something follows
/// from it.
pub(crate) fn quick_ack(facts: &Facts, target: TargetId) -> Option<ExperimentResult<'_>> {
    facts
        .loads
        .outcomes(target)
        .into_iter()
        .find(|r| r.experiment == Experiment::QuickAck && !r.is_blind)
}

/// A stall between a response's first and last byte that immediate ACKs removed. A round trip of
/// the stall may remain.
pub(crate) struct RemovedStall {
    /// The quantile, 0 to 1, at which the responses are compared.
    level: f64,
    /// The time from the first to the last byte at the quantile `level`, without the intervention.
    before: Duration,
    /// The time from the first to the last byte at the quantile `level`, with the intervention.
    after: Duration,
}

/// Returns the stall that the experiment removed, at the first of the [`LEVELS`] that shows one. If
/// a client sends requests rarely, its kernel acknowledges some responses immediately, and these do
/// not stall.
pub(crate) fn removed_stall(result: &ExperimentResult<'_>) -> Option<RemovedStall> {
    if result.high >= 0 {
        return None;
    }
    LEVELS.iter().find_map(|&level| {
        let (before, after) = bodies(result, level);
        let drop = before.saturating_sub(after);
        // At high quantiles, two samples differ more by chance than at the median.
        let part = if level > 0.5 { 2 } else { 4 };
        (drop >= LEAST_DROP.max(before / part)).then_some(RemovedStall {
            level,
            before,
            after,
        })
    })
}

/// Returns the time from the first to the last byte at a quantile, without the intervention and
/// with it.
fn bodies(result: &ExperimentResult<'_>, level: f64) -> (Duration, Duration) {
    (
        quantile(&result.control.body, level),
        quantile(&result.treated.body, level),
    )
}

fn quantile(of: &Distribution, level: f64) -> Duration {
    of.quantile(level).unwrap_or_default()
}

fn gather(held: &HeldSegments, case: &Case<'_>) -> Vec<Statement> {
    let mut list = Vec::new();
    if case.has_packets && held.is_on_the_wire() {
        list.push(held.wire("server", "client"));
    }
    if let Some(target) = case.target {
        list.extend(own_stamps(case, target));
        let tried = quick_ack(case.facts, target);
        list.extend(tried.and_then(|result| intervention(&result)));
        list.extend(server_sockets(case, target));
    }
    list.extend(held::kernel_trace(case));
    list.extend(counter(case));
    list
}

/// Returns the evidence that our own requests got the response in two parts.
fn own_stamps(case: &Case<'_>, target: TargetId) -> Option<Statement> {
    let body = &case.facts.loads.baseline(target)?.body;
    let text = format!(
        "our own requests got the response in two pieces, the second {} (median) after the first",
        median(body)
    );
    // Two parts with a pause between them also fit a server that pauses.
    Some(
        Statement::fits(EvidenceKind::OwnSocket, text)
            .count(body.count())
            .median(body),
    )
}

fn intervention(result: &ExperimentResult<'_>) -> Option<Statement> {
    let RemovedStall {
        level,
        before,
        after,
    } = removed_stall(result)?;
    let which = match level {
        0.5 => "median".to_owned(),
        level => format!("{:.0}th percentile", level * 100.0),
    };
    let text = format!(
        "with TCP_QUICKACK armed after every read the time from first to last byte fell from {} to \
         {} ({which}); each time it was switched off again, the delay was back",
        human(before),
        human(after),
    );
    let requests = result.treated.latency.count();
    Some(Statement::shows(EvidenceKind::Intervention, text).count(requests))
}

fn server_sockets(case: &Case<'_>, target: TargetId) -> Vec<Statement> {
    let sockets = case.facts.server_sockets(target);
    let mut list = Vec::new();
    let CountOf { count, of } = sockets.nodelay;
    if of > 0 && count * 10 <= of {
        let text = format!(
            "TCP_NODELAY is off on the server's accepted sockets: set in {count} of {} on {}",
            counted(of, "reading", "readings"),
            counted(sockets.sockets(), "socket", "sockets"),
        );
        list.push(Statement::shows(EvidenceKind::ForeignSocket, text).count(of));
    }
    let CountOf { count, of } = sockets.holding;
    if count > 0 {
        let text = format!(
            "in {} of {} the server's kernel held unsent bytes (up to {}) although the windows \
             were open and only a small segment was unacknowledged",
            percent(count as f64 / of.max(1) as f64),
            counted(of, "reading", "readings"),
            sockets.held_bytes,
        );
        list.push(Statement::shows(EvidenceKind::ForeignSocket, text).count(count));
    }
    list
}

fn counter(case: &Case<'_>) -> Option<Statement> {
    let count = case
        .facts
        .counter("TcpExt:DelayedACKs")
        .filter(|&count| count > 0)?;
    let text =
        format!("this kernel sent {count} delayed ACKs in that time (harmless ones included)");
    Some(Statement::fits(EvidenceKind::Counter, text).count(count))
}

/// Adds the look-alikes that are ruled out to the claim.
fn rule_out(claim: &mut Claim, held: &HeldSegments, case: &Case<'_>) {
    if case.has_packets {
        let [stalls, late] = held.by_packets();
        ON_THE_WIRE.tell(
            claim,
            &[
                ("parts", &(stalls + late + held.eager)),
                ("stalls", &stalls),
                ("late", &late),
                ("eager", &held.eager),
            ],
        );
    } else if follows_ack(case) == Some(true) {
        BY_EXPERIMENT.tell(claim, &[]);
    }
}

fn tell(claim: &mut Claim, held: &HeldSegments, case: &Case<'_>) {
    let [nodelay, nopush] = if may_be_nginx(case) {
        DIRECTIVES
    } else {
        [""; 2]
    };
    WORDING.tell(
        claim,
        &[
            ("delay", &median(&held.ack_delay)),
            ("this", &with_trip(held, case)),
            ("typical", &median(&held.tally.saved)),
            ("whole", &median(&held.tally.before)),
            ("nodelay", &nodelay),
            ("nopush", &nopush),
        ],
    );
}

/// Returns the beginning of the sentence on the cost, with the round trip if it is a visible part
/// of the cost: each held segment waits for the round trip as well as for the delay of the ACK.
fn with_trip(held: &HeldSegments, case: &Case<'_>) -> String {
    let delay = held.ack_delay.quantile(0.5).unwrap_or_default();
    let trip = case.round_trip().filter(|&trip| trip * 20 >= delay);
    trip.map_or("This costs".to_owned(), |trip| {
        format!("With the round trip of {}, this costs", human(trip))
    })
}

/// Returns true if the server is nginx, or if its program is not known.
fn may_be_nginx(case: &Case<'_>) -> bool {
    let program = case
        .target
        .and_then(|target| case.facts.server_program(target));
    program.is_none_or(|name| name == "nginx")
}
