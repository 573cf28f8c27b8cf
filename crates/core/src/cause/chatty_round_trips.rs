//! `chatty-round-trips`.

use core::time::Duration;

use super::evidence::{self, human};
use super::rhythm::quantile;
use super::sequence::{idle, is_at_once, round_trip, sequences};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::attribution::LEAST_TIMEOUT;
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::protocol::greeting::Greeting;
use crate::report::{Evidence, EvidenceKind, Finding, counted};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;

const WORDING: Wording = Wording {
    summary: "One action takes {requests} requests, one after the other, and {took} (median): \
        {requests} round trips of {travel}. None of them is slow; the time is their number times \
        the round trip.",
    ruled_out: &[(Id::ServerThink, "every response came within the round trip")],
    overturned_by: "the client's program showing that these requests are unrelated",
    fix: &[
        (
            "client",
            "request everything together: one request that returns everything, or a batch",
        ),
        (
            "client",
            "send requests that do not depend on each other in parallel",
        ),
        (
            "server",
            "move it nearer to the client: each request costs a round trip",
        ),
    ],
};

/// Minimum number of requests of a chatty action.
const LEAST_REQUESTS: usize = 4;
/// Minimum time that an action loses to its round trips.
const LEAST_LOSS: Duration = Duration::from_millis(20);
/// Minimum pause that ends an action: far longer than the gap before a request that follows
/// immediately.
const PAUSE: Duration = Duration::from_millis(50);
/// Minimum number of actions for a finding.
const LEAST_ACTIONS: usize = 3;
/// Minimum number of distinct times at which the client pauses: a client that stalls once or twice
/// pauses on all its connections at the same time.
const LEAST_PAUSES: usize = 4;
/// Maximum number of round trips, including the request's way, by which the timeout of a probe for
/// a single segment exceeds the minimum timeout (`tcp_schedule_loss_probe()` in
/// `net/ipv4/tcp_output.c`).
const MOST_TRIPS: u32 = 3;
/// The ratio of long runs to short ones above which, if hardly two runs are alike, the runs are
/// random interruptions of an endless sequence.
const CHANCE: usize = 2;
/// Minimum share of all exchanges that belong to chatty actions, and of an action's exchanges that
/// are quick and follow immediately.
const SHARE: f64 = 0.8;

/// Runs of quick exchanges, each request right after the previous response, with pauses between the
/// runs: one action that takes a round trip for each of its requests.
///
/// The discriminator is the pauses: an endless sequence of requests without pauses comes from a
/// client that always has another request, not from actions. Also, each exchange takes one round
/// trip and no more: a slow server is another cause.
///
/// A protocol that makes the client wait for each reply (FTP, SMTP, POP3, news) leaves no choice,
/// so there is no accusation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    /// Connections on which a server of such a protocol sent its greeting.
    in_turns: u64,
    connections: u64,
}

/// The actions found in the runs.
struct Actions {
    runs: Vec<Vec<Moment>>,
    /// Requests in a typical action.
    requests: usize,
    /// Number of runs of exactly that length.
    alike: usize,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let greeting = setup.greeted().map(|(greeting, ..)| greeting);
        self.in_turns += u64::from(greeting.is_some_and(Greeting::is_in_turns));
        self.connections += 1;
    }

    fn merge(&mut self, other: Self) {
        self.in_turns += other.in_turns;
        self.connections += other.connections;
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_in_turns = self.in_turns * 2 > self.connections;
        // The requests of our own load follow each other by design.
        if !case.has_packets || case.target.is_some() || is_in_turns {
            return Conclusion::Nothing;
        }
        match actions(case) {
            Some(actions) => Conclusion::Finding(Box::new(finding(case, &actions))),
            None => Conclusion::Nothing,
        }
    }
}

fn actions(case: &Case<'_>) -> Option<Actions> {
    let travel = round_trip(case);
    let mut runs: Vec<Vec<Moment>> = Vec::new();
    let mut pauses: Vec<(Timestamp, Timestamp)> = Vec::new();
    for sequence in sequences(case) {
        let split: Vec<&[Moment]> = sequence.chunk_by(|a, b| idle(case, a, b) < PAUSE).collect();
        // A single run means that the client always has another request.
        if split.len() > 1 {
            let next = split.iter().skip(1).filter_map(|run| run.first());
            let last = split.iter().filter_map(|run| run.last());
            pauses.extend(last.zip(next).map(|(last, next)| (last.end, next.begin)));
            runs.extend(split.into_iter().map(<[Moment]>::to_vec));
        }
    }
    // A request whose first copy was lost before the point arrives late: the client did not pause.
    if case.gathered.losses.requests.count() * 2 >= pauses.len() as u64 {
        return None;
    }
    runs.retain(|run| run.len() >= LEAST_REQUESTS && is_prompt(case, run, travel));
    let mut lengths: Vec<usize> = runs.iter().map(Vec::len).collect();
    lengths.sort_unstable();
    let requests = lengths.get(lengths.len() / 2).copied()?;
    let covered: usize = lengths.iter().sum();
    let loss = travel * u32::try_from(requests - 1).ok()?;
    let timeouts = pauses
        .iter()
        .filter(|&&pause| may_be_timeout(pause, travel));
    let are_timeouts = timeouts.count() * 2 >= pauses.len();
    let is_rule = runs.len() >= LEAST_ACTIONS
        && moments(pauses) >= LEAST_PAUSES
        && covered as f64 >= case.rhythm.moments.len() as f64 * SHARE
        && loss >= LEAST_LOSS;
    let alike = lengths.iter().filter(|&&length| length == requests).count();
    // One request in a few dozen that is lost before the point causes a pause of one timeout.
    let short = lengths.get(lengths.len() / 10).copied()?;
    let long = lengths.get(lengths.len() * 9 / 10).copied()?;
    let is_uneven = alike * 2 < lengths.len();
    let is_chance = is_uneven && (long >= short * CHANCE || are_timeouts);
    (is_rule && !is_chance).then_some(Actions {
        runs,
        requests,
        alike,
    })
}

/// Returns true if a pause may have been caused by a lost request that its sender's timer or probe
/// retransmitted: at the server, this is not visible if the clients' packets carry no
/// identifications.
fn may_be_timeout((from, to): (Timestamp, Timestamp), travel: Duration) -> bool {
    let pause = to.since(from);
    (LEAST_TIMEOUT..=LEAST_TIMEOUT + travel * MOST_TRIPS + PAUSE).contains(&pause)
}

/// Returns the number of distinct times of the pauses: overlapping pauses count as one.
fn moments(mut pauses: Vec<(Timestamp, Timestamp)>) -> usize {
    pauses.sort_unstable();
    let mut until = None;
    let mut count = 0;
    for (from, to) in pauses {
        count += usize::from(until.is_none_or(|until| from >= until));
        until = until.max(Some(to));
    }
    count
}

/// Returns true if nearly all of a run's exchanges took hardly more than the path's time, and each
/// began right after the previous one.
fn is_prompt(case: &Case<'_>, run: &[Moment], travel: Duration) -> bool {
    let is_quick = |moment: &&Moment| {
        moment.is_clear && moment.fingerprints.redirect.is_none() && moment.think() * 2 <= travel
    };
    let quick = run.iter().filter(is_quick).count();
    let follows = |pair: &&[Moment]| match (pair.first(), pair.get(1)) {
        (Some(before), Some(next)) => is_at_once(case, idle(case, before, next)),
        _ => false,
    };
    let at_once = run.windows(2).filter(follows).count();
    let most = |part: usize, of: usize| part as f64 >= of as f64 * SHARE;
    most(quick, run.len()) && most(at_once, run.len() - 1)
}

fn finding(case: &Case<'_>, actions: &Actions) -> Finding {
    let travel = round_trip(case);
    let tally = Tally::default();
    let mut finding = evidence::finding(Id::ChattyRoundTrips, Owner::Client, case, &tally);
    let spared: usize = actions.runs.iter().map(|run| run.len() - 1).sum();
    let cost = nanos(travel).saturating_mul(spared as u64);
    let spent: u64 = actions
        .runs
        .iter()
        .filter_map(|run| Some(nanos(span(run)?)))
        .sum();
    let covered: usize = actions.runs.iter().map(Vec::len).sum();
    (finding.cost_ns, finding.cost_high_ns) = (cost, cost);
    // Half of the requests may be needed to know what the others request.
    finding.cost_low_ns = cost / 2;
    finding.wall_ns = spent;
    finding.share = (cost as f64 / spent.max(1) as f64).min(1.0);
    finding.affected.exchanges = covered as u64;
    finding.predicted = None;
    finding.exemplars = case.ledger.latency.slowest.exemplars();
    let mut spans: Vec<Duration> = actions.runs.iter().filter_map(|run| span(run)).collect();
    spans.sort_unstable();
    let alike = if actions.alike == actions.runs.len() {
        "all".to_owned()
    } else {
        format!("{} of them", actions.alike)
    };
    let text = format!(
        "{} of requests, {alike} of exactly {}; in a run each request follows the previous \
         response immediately and takes little more than a round trip ({}), and before and after \
         each run there is a pause",
        counted(actions.runs.len() as u64, "run", "runs"),
        actions.requests,
        human(travel),
    );
    finding.evidence.push(
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(actions.runs.len() as u64)
            .packets(&evidence::answers(&finding.exemplars)),
    );
    // No packet shows that the requests depend on each other.
    let is_uneven = actions.alike * 2 < actions.runs.len();
    // If the protocol cannot be parsed, it may not allow anything else.
    let is_doubtful = is_uneven || case.ledger.is_unowed();
    finding.verdict = evidence::judge(&finding.evidence, actions.runs.len() as u64, is_doubtful);
    WORDING.tell(
        &mut finding,
        &[
            ("requests", &actions.requests),
            ("took", &human(quantile(&spans, 0.5))),
            ("travel", &human(travel)),
        ],
    );
    finding
}

/// Returns the time from a run's first request to its last response.
fn span(run: &[Moment]) -> Option<Duration> {
    Some(run.last()?.end.since(run.first()?.begin))
}
