//! The rule of the cause `chatty-round-trips`.

use core::time::Duration;

use super::evidence::{self, human};
use super::rhythm::quantile;
use super::sequence::{idle, is_at_once, round_trip, sequences};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::attribution::LEAST_TIMEOUT;
use crate::claim::{Basis, Claim, Statement};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::protocol::greeting::Greeting;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;
use crate::stats::Merge;

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
            "move the server nearer to the client: each request costs a round trip",
        ),
    ],
};

/// Minimum number of requests in a chatty action.
const LEAST_REQUESTS: usize = 4;
/// Minimum time that an action loses to its round trips.
const LEAST_LOSS: Duration = Duration::from_millis(20);
/// Minimum pause that separates two actions. It is far longer than the gap before a request that
/// follows immediately.
const PAUSE: Duration = Duration::from_millis(50);
/// Minimum number of actions for a claim.
const LEAST_ACTIONS: usize = 3;
/// Minimum number of distinct times at which the client pauses. A client that stalls once or twice
/// pauses on all its connections at the same time.
const LEAST_PAUSES: usize = 4;
/// Maximum number of round trips, beyond the minimum timeout, of a request that a tail-loss probe
/// repaired: two until the probe of a single segment (`tcp_schedule_loss_probe()` in
/// `net/ipv4/tcp_output.c`), and one for the request itself.
const MOST_TRIPS: u32 = 3;
/// Ratio of the 90th to the 10th percentile of the runs' lengths. If few runs have equal length and
/// the ratio is this large, the runs may be one endless sequence with random interruptions.
const CHANCE: usize = 2;
/// Minimum share of all exchanges that belong to chatty actions. Also the minimum share of an
/// action's exchanges that are quick, and that follow immediately.
const SHARE: f64 = 0.8;

/// Watches runs of quick exchanges with pauses between the runs. Within a run, each request follows
/// the previous response immediately. Such a run is one action that takes a round trip for each of
/// its requests.
///
/// Two signs distinguish it from other causes. There are pauses: without them, the client just
/// always has another request. And each exchange takes one round trip only, so the server is not
/// slow.
///
/// Protocols that make the client wait for each reply (FTP, SMTP, POP3, NNTP) are not accused,
/// because the client has no choice.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    /// Number of connections with the greeting of a protocol that makes the client wait for each
    /// reply, such as SMTP.
    in_turns: u64,
    connections: u64,
}

/// The actions that were found.
struct Actions {
    runs: Vec<Vec<Moment>>,
    /// The median number of requests in an action.
    requests: usize,
    /// Number of runs with exactly `requests` requests.
    alike: usize,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let greeting = setup.greeted().map(|(greeting, ..)| greeting);
        self.in_turns += u64::from(greeting.is_some_and(Greeting::is_in_turns));
        self.connections += 1;
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_in_turns = self.in_turns * 2 > self.connections;
        // The requests of our own load follow each other by design.
        if !case.has_packets || case.target.is_some() || is_in_turns {
            return Conclusion::Nothing;
        }
        match actions(case) {
            Some(actions) => Conclusion::Claim(Box::new(claim(case, &actions))),
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
        // If there is only one run, the client always has another request.
        if split.len() > 1 {
            let next = split.iter().skip(1).filter_map(|run| run.first());
            let last = split.iter().filter_map(|run| run.last());
            pauses.extend(last.zip(next).map(|(last, next)| (last.end, next.begin)));
            runs.extend(split.into_iter().map(<[Moment]>::to_vec));
        }
    }
    // If a request's first copy is lost before the capture point, the request arrives late. The
    // client did not pause.
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
    // If one in a few dozen requests is lost before the capture point, runs end at random, with
    // pauses of one timeout.
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

/// Returns true if the pause may be the timeout of a lost request, which a retransmission or a
/// tail-loss probe ended. A capture at the server does not show this if the client's packets have
/// no IP identifications.
fn may_be_timeout((from, to): (Timestamp, Timestamp), travel: Duration) -> bool {
    let pause = to.since(from);
    (LEAST_TIMEOUT..=LEAST_TIMEOUT + travel * MOST_TRIPS + PAUSE).contains(&pause)
}

/// Returns the number of pauses that do not overlap.
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

/// Returns true if nearly all exchanges of a run took little more than a round trip, and began
/// right after the previous exchange.
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

fn claim(case: &Case<'_>, actions: &Actions) -> Claim {
    let travel = round_trip(case);
    let tally = Tally::default();
    let mut claim = evidence::claim(Id::ChattyRoundTrips, Owner::Client, case, &tally);
    let spared: usize = actions.runs.iter().map(|run| run.len() - 1).sum();
    let cost = nanos(travel).saturating_mul(spared as u64);
    let spent: u64 = actions
        .runs
        .iter()
        .filter_map(|run| Some(nanos(span(run)?)))
        .sum();
    let covered: usize = actions.runs.iter().map(Vec::len).sum();
    (claim.time.cost.likely, claim.time.cost.high) = (cost, cost);
    // The client may need up to half of the responses before it knows what else to request.
    claim.time.cost.low = cost / 2;
    claim.time.wall_ns = spent;
    claim.time.whole_ns = spent;
    claim.affected.exchanges = covered as u64;
    claim.time.predicted = None;
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let mut spans: Vec<Duration> = actions.runs.iter().filter_map(|run| span(run)).collect();
    spans.sort_unstable();
    let alike = if actions.alike == actions.runs.len() {
        "all".to_owned()
    } else {
        format!("{} of them", actions.alike)
    };
    let text = format!(
        "{} of requests, {alike} of them with exactly {}; in a run each request follows the \
         previous response immediately and takes little more than a round trip ({}), and before \
         and after each run there is a pause",
        counted(actions.runs.len() as u64, "run", "runs"),
        actions.requests,
        human(travel),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(actions.runs.len() as u64)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    // Packets do not show whether the requests depend on each other.
    let is_uneven = actions.alike * 2 < actions.runs.len();
    // A protocol that cannot be parsed may require these round trips.
    let is_doubtful = is_uneven || case.ledger.is_unowed();
    claim.basis = Basis::new(actions.runs.len() as u64, is_doubtful);
    WORDING.tell(
        &mut claim,
        &[
            ("requests", &actions.requests),
            ("took", &human(quantile(&spans, 0.5))),
            ("travel", &human(travel)),
        ],
    );
    claim
}

/// Returns the time from a run's first request to its last response.
fn span(run: &[Moment]) -> Option<Duration> {
    Some(run.last()?.end.since(run.first()?.begin))
}
