//! Periods in which none of our own requests was answered on any connection, while no packets were
//! captured. They are stalls of the server if nothing else can have stalled.

use core::time::Duration;

use super::evidence::{self, human, percent};
use super::rhythm::{LONG_STALL, OCCASIONS, quantile};
use super::{Case, Id};
use crate::claim::{Claim, Statement};
use crate::exchange::wait::Owner;
use crate::observed::event::Silence;
use crate::observed::time::nanos;
use crate::report::{Affected, EvidenceKind, counted};
use crate::service::tally::Tally;

/// Minimum number of connections. Two may wait together by chance.
const LEAST_CONNECTIONS: u32 = 3;
/// Minimum ratio of a silence to the median time of requests.
const OUTSTANDING: u32 = 4;
/// Maximum share of the requests that waited in silences. Above it, the server is always slow.
const RARE: f64 = 0.75;
/// Maximum round trip to a server with nothing in between that could stall: a loopback or a pair of
/// virtual devices.
const NEAR: Duration = Duration::from_millis(1);
/// Our own threads may be late by at most a silence's length divided by this number. If a thread
/// was later, this host may have stalled.
const OWN_PART: u32 = 4;

/// The silences that are stalls of the server.
#[derive(Clone, Debug)]
pub(super) struct LoadSilences {
    pub(super) count: usize,
    connections: u32,
    /// The lengths of the silences, in ascending order.
    lengths: Vec<Duration>,
    /// Number of requests that waited in the silences.
    requests: u64,
    /// The total time for which requests waited in the silences.
    pub(super) waited: Duration,
}

impl LoadSilences {
    /// Returns the silences of a server on this host. Other servers are at the end of a path, which
    /// may stall too. `None` if the silences do not matter, or if this host itself stalled.
    pub(super) fn of(case: &Case<'_>) -> Option<Self> {
        let target = case.target?;
        let loads = &case.facts.loads;
        let usual = loads.baseline(target)?.service.quantile(0.5)?;
        let own = loads.standstill?;
        let counts = |silence: &&Silence| {
            let length = silence.end.since(silence.begin);
            silence.target == target
                && silence.connections >= LEAST_CONNECTIONS
                && length >= usual * OUTSTANDING
                && length >= own * OWN_PART
        };
        let found: Vec<&Silence> = loads.silences.iter().filter(counts).collect();
        let is_many = found.len() >= OCCASIONS;
        let is_told =
            |silence: &&&Silence| is_many || silence.end.since(silence.begin) >= LONG_STALL;
        let told: Vec<&Silence> = found.iter().filter(is_told).copied().collect();
        let mut lengths: Vec<Duration> = told.iter().map(|s| s.end.since(s.begin)).collect();
        lengths.sort_unstable();
        let all: Duration = lengths.iter().sum();
        let part = all.as_secs_f64() / loads.baseline_seconds(target).max(1e-9);
        let requests = told.iter().map(|s| u64::from(s.connections)).sum::<u64>();
        let is_rare = requests as f64 <= loads.all(target).whole() as f64 * RARE;
        let counts = part >= evidence::MATERIAL_SHARE && is_rare;
        (is_near(case) && counts && !told.is_empty()).then(|| Self {
            count: told.len(),
            connections: told.iter().map(|s| s.connections).max().unwrap_or_default(),
            lengths,
            requests,
            waited: told
                .iter()
                .map(|s| s.end.since(s.begin) * s.connections)
                .sum(),
        })
    }

    /// Returns the evidence from our own requests.
    pub(super) fn evidence(&self, case: &Case<'_>) -> Statement {
        let when = if case.has_packets {
            "while nothing was captured, "
        } else {
            ""
        };
        let text = format!(
            "{when}all {} waited together {} for {}; none was answered in that time, and then all \
             were; lagtrace's own watchdog thread kept running",
            counted(u64::from(self.connections), "connection", "connections"),
            times(self.count),
            typical(&self.lengths),
        );
        Statement::shows(EvidenceKind::OwnSocket, text).count(self.requests)
    }

    /// Returns a claim that only the silences support; `None` if they do not matter.
    pub(super) fn claim(&self, case: &Case<'_>) -> Option<Claim> {
        let load = case.facts.loads.baseline(case.target?)?;
        let all = u64::try_from(load.latency.sum_ns())
            .unwrap_or(u64::MAX)
            .max(1);
        let share = nanos(self.waited) as f64 / all as f64;
        if share < evidence::MATERIAL_SHARE {
            return None;
        }
        let mut claim = evidence::claim(Id::StopTheWorld, Owner::Server, case, &Tally::default());
        let cost = nanos(self.waited);
        claim.time.cost_exactly(cost);
        claim.time.wall_ns = nanos(self.lengths.iter().sum());
        claim.time.whole_ns = all;
        claim.affected = Affected {
            exchanges: self.requests,
            of: load.whole(),
        };
        claim.time.predicted = None;
        claim.evidence.push(self.evidence(case));
        claim.text.summary = format!(
            "The whole server stalls at times, for {}, {} {}; {} of {} affected, {} of all their \
             time. All connections wait together and resume together.",
            typical(&self.lengths),
            times(self.count),
            if case.has_packets {
                "before packets were captured"
            } else {
                "during the load"
            },
            self.requests,
            counted(load.whole(), "request was", "requests were"),
            percent(claim.time.share()),
        );
        Some(claim)
    }
}

/// Returns true if the server is on this host, with no path in between. An emulated path would have
/// a delay or losses.
fn is_near(case: &Case<'_>) -> bool {
    // Without packets, probes show the round trip.
    let probed = || case.facts.round_trip(case.target?);
    let trip = case.ledger.trips.handshake.or_else(probed);
    let is_short = trip.is_some_and(|trip| trip <= NEAR);
    is_short && !case.facts.kernel.listeners.is_empty() && case.ledger.losses.repaired.sum() == 0
}

/// Formats the median of the sorted `lengths` for a sentence.
pub(super) fn typical(lengths: &[Duration]) -> String {
    let length = human(quantile(lengths, 0.5));
    if lengths.len() > 1 {
        format!("{length} (median)")
    } else {
        length
    }
}

/// Formats a number of occurrences for a sentence.
pub(super) fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}
