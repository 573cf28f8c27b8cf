//! Connections that are never served while others are: each worker keeps the connection that it has
//! accepted, request after request, and accepts no other.

use core::time::Duration;
use std::collections::BTreeSet;

use super::evidence::{self, human};
use super::rhythm::quantile;
use super::wording::Wording;
use super::{Case, Id};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, Outcome};
use crate::observed::packet::PacketNumber;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::{Affected, Evidence, EvidenceKind, Finding, counted};
use crate::service::tally::Tally;

const WORDING: Wording = Wording {
    summary: "{left} connections are never served, while others are served again and again: each \
              worker serves one connection for as long as it is kept alive, and takes no other.",
    ruled_out: &[(
        Id::NoResponse,
        "the same server answered requests on other connections all the time",
    )],
    overturned_by: "answers on more connections in parallel than the server has workers",
    fix: &[
        (
            "server",
            "more workers than kept-alive connections, or workers that each serve many connections \
             (events instead of a process for each)",
        ),
        (
            "server",
            "close kept-alive connections sooner: fewer requests on each, a shorter idle timeout",
        ),
        ("client", "fewer concurrent connections, each used more"),
    ],
};

/// Minimum age of an unanswered request for it to be significant.
const PATIENCE: Duration = Duration::from_millis(500);
/// Minimum ratio of that age to the time that nearly all other requests take: if a server is only
/// slow, its slowest responses are not far from the others.
const OUTSTANDING: u32 = 10;
/// The quantile of the other requests' times for that comparison.
const NEARLY_ALL: f64 = 0.9;
/// Minimum share of the time slices of a request's wait in which others are answered: otherwise
/// the whole server may be stalled or starting. The share is not 1 because a server may run on
/// after a load has ended.
const MEANWHILE: f64 = 0.5;
/// The length of a time slice in nanoseconds.
const STRETCH_NS: i64 = 100_000_000;
/// Maximum number of time slices remembered, the earliest ones: ten minutes.
const MOST_STRETCHES: usize = 6_000;
/// Minimum number of connections left unserved: fewer may be a single worker's mishap.
const LEAST: usize = 3;
/// Minimum number of responses to other requests.
const LEAST_SERVED: u64 = 50;
/// Maximum number of first requests remembered.
const MOST: usize = 1024;

/// Watches first requests of connections that got no response, or got one only after a long time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starved {
    /// The arrival of each request, and the end of its wait if that was before the capture's end.
    waiting: Vec<(Timestamp, Option<Timestamp>)>,
    packets: Vec<u64>,
    /// The time slices in which later requests of connections were answered.
    served: BTreeSet<i64>,
}

impl Starved {
    pub(crate) fn observe(&mut self, exchange: &Exchange) {
        if exchange.id.ordinal > 0 {
            if matches!(exchange.outcome, Outcome::Complete(_)) {
                self.served.insert(stretch(exchange.end));
                self.forget();
            }
        } else if is_left(exchange) && self.waiting.len() < MOST {
            let is_cut = exchange.outcome == Outcome::Cut;
            self.waiting
                .push((exchange.begin, (!is_cut).then_some(exchange.end)));
            self.packets
                .extend(exchange.packets.first.map(PacketNumber::get));
        }
    }

    /// Keeps the earliest time slices, whatever their order of arrival.
    fn forget(&mut self) {
        while self.served.len() > MOST_STRETCHES {
            self.served.pop_last();
        }
    }

    /// Returns true if other requests were repeatedly answered between two instants.
    fn has_served(&self, begin: Timestamp, end: Timestamp) -> bool {
        let within = stretch(begin) + 1..stretch(end).max(stretch(begin) + 1);
        let all = within.end - within.start;
        all > 0 && self.served.range(within).count() as f64 >= all as f64 * MEANWHILE
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.waiting.extend(other.waiting);
        self.packets.extend(other.packets);
        self.served.extend(other.served);
        self.forget();
    }

    /// Returns the finding, if others were served throughout.
    pub(super) fn finding(&self, case: &Case<'_>) -> Option<Finding> {
        let served = case.ledger.whole();
        let usual = case.gathered.thinking.quantile(NEARLY_ALL)?;
        let last = Timestamp::from_nanos(
            self.served
                .last()?
                .saturating_add(1)
                .saturating_mul(STRETCH_NS),
        );
        // No others can be served when the load is over: a wait after that is no evidence.
        let ended = |&(begin, end): &(Timestamp, Option<Timestamp>)| {
            (begin, end.map_or(last, |end| end.min(last)))
        };
        let is_passed_over = |&(begin, end): &(Timestamp, Timestamp)| {
            end.since(begin) >= PATIENCE.max(usual * OUTSTANDING) && self.has_served(begin, end)
        };
        let waits = self.waiting.iter().map(ended).filter(is_passed_over);
        let mut passed_over: Vec<Duration> = waits.map(|(begin, end)| end.since(begin)).collect();
        passed_over.sort_unstable();
        let left = passed_over.len();
        if left < LEAST || left * 2 < self.waiting.len() || served < LEAST_SERVED {
            return None;
        }
        let mut finding = self.charged(case, &passed_over, served);
        let mut packets = self.packets.clone();
        packets.sort_unstable();
        packets.truncate(5);
        let text = format!(
            "the first requests of {} got no answer for {} (median); in that time {} on others \
             were answered, nearly all within {}",
            counted(left as u64, "connection", "connections"),
            human(quantile(&passed_over, 0.5)),
            counted(served, "request", "requests"),
            human(usual),
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(left as u64)
                .packets(&packets),
        );
        finding.verdict = evidence::judge(&finding.evidence, left as u64, false);
        WORDING.tell(&mut finding, &[("left", &left)]);
        Some(finding)
    }

    /// Returns a finding that costs the sum of `waits`.
    fn charged(&self, case: &Case<'_>, waits: &[Duration], served: u64) -> Finding {
        let none = Tally::default();
        let mut finding = evidence::finding(Id::WorkerSaturation, Owner::Server, case, &none);
        let cost = nanos(waits.iter().sum());
        finding.cost_low_ns = cost;
        finding.cost_ns = cost;
        finding.cost_high_ns = cost;
        finding.wall_ns = waits.last().copied().map_or(0, nanos);
        finding.share = cost as f64 / case.ledger.total().saturating_add(cost).max(1) as f64;
        finding.predicted = None;
        finding.affected = Affected {
            exchanges: waits.len() as u64,
            of: served + self.waiting.iter().filter(|(_, end)| end.is_none()).count() as u64,
        };
        finding
    }
}

/// Returns the number of the time slice that contains an instant.
fn stretch(at: Timestamp) -> i64 {
    at.as_nanos() / STRETCH_NS
}

/// Returns true if the server's kernel received the exchange's request, the first of its
/// connection, but the program did not answer it for a long time.
fn is_left(exchange: &Exchange) -> bool {
    match exchange.outcome {
        Outcome::Complete(_) => exchange.waited(WaitKind::ServerThink) >= PATIENCE,
        // The capture may have missed the response.
        Outcome::Cut if !exchange.signs.is_left_waiting => false,
        Outcome::Cut | Outcome::TimedOut => {
            !exchange.signs.has_response && exchange.signs.is_request_acked
        }
        _ => false,
    }
}
