//! Connections that are never served while others are: each worker keeps the one that it has
//! taken, request after request, and takes up no other.

use core::time::Duration;

use super::evidence::{self, fix, human, ruled_out};
use super::rhythm::quantile;
use super::tally::{Tally, nanos};
use super::{Case, Id};
use crate::exchange::{Exchange, Outcome};
use crate::report::{Affected, Evidence, EvidenceKind, Finding};
use crate::time::Timestamp;
use crate::wait::Owner;

/// A request without an answer says something from this age on …
const PATIENCE: Duration = Duration::from_millis(500);
/// … if it is so many times what nearly all others take: the slowest answers of a server that
/// is only slow are not far from the others.
const OUTSTANDING: u32 = 10;
/// The part of the others that take no longer.
const NEARLY_ALL: f64 = 0.99;
/// Others must be asked and answered until this long before the end of its wait, or the whole
/// server may stand still.
const MEANWHILE: Duration = Duration::from_millis(400);
/// Fewer may be a single worker's mishap.
const LEAST: usize = 3;
/// Answers to others that must be seen.
const LEAST_SERVED: u64 = 50;
/// First requests remembered.
const MOST: usize = 1024;

/// Watches the first requests of connections that have no answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Starved {
    /// When they came, and when the client gave up, if it did before the capture ended.
    waiting: Vec<(Timestamp, Option<Timestamp>)>,
    packets: Vec<u64>,
    /// When the latest request came that was answered.
    latest: Option<Timestamp>,
}

impl Starved {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        if matches!(exchange.outcome, Outcome::Complete(_)) {
            self.latest = self.latest.max(Some(exchange.begin));
        } else if is_left(exchange) && self.waiting.len() < MOST {
            let has_given_up = exchange.outcome == Outcome::TimedOut;
            self.waiting
                .push((exchange.begin, has_given_up.then_some(exchange.end)));
            self.packets.push(exchange.first_packet);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.waiting.extend(other.waiting);
        self.packets.extend(other.packets);
        self.latest = self.latest.max(other.latest);
    }

    /// The finding, if others were served all the time.
    pub(super) fn finding(&self, case: &Case<'_>) -> Option<Finding> {
        let (latest, served) = (self.latest?, case.ledger.whole());
        let usual = case.gathered.thinking.quantile(NEARLY_ALL)?;
        let waits = self
            .waiting
            .iter()
            .map(|&(begin, end)| (begin, end.unwrap_or(latest).since(begin)));
        let is_passed_over = |&(begin, waited): &(Timestamp, Duration)| {
            waited >= PATIENCE.max(usual * OUTSTANDING) && begin + waited <= latest + MEANWHILE
        };
        let mut passed_over: Vec<Duration> =
            waits.filter(is_passed_over).map(|(_, wait)| wait).collect();
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
            "the first requests of {left} connections were acknowledged and had no answer in {} \
             (median); meanwhile {served} on others were answered, nearly all within {}",
            human(quantile(&passed_over, 0.5)),
            human(usual),
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(left as u64)
                .packets(&packets),
        );
        finding.verdict = evidence::judge(&finding.evidence, left as u64, false);
        finding.summary = format!(
            "{left} connections are never served while others are, again and again: each worker \
             stays with the connection that it has, as long as that is kept alive, and takes up \
             no other."
        );
        finding.ruled_out.push(ruled_out(
            Id::NoResponse,
            "the same server answered requests on other connections all the time",
        ));
        finding.overturned_by =
            "answers on more connections side by side than the server has workers".to_owned();
        finding.fix = vec![
            fix(
                "server",
                "more workers than connections that are kept alive, or workers that wait for \
                 many connections at once (events instead of a process for each)",
            ),
            fix(
                "server",
                "let kept-alive connections go sooner: fewer requests on each, a shorter time \
                 idle",
            ),
            fix("client", "fewer connections at once, each used more"),
        ];
        Some(finding)
    }

    /// A finding that costs what `waits` sum up to.
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
            of: served + self.waiting.len() as u64,
        };
        finding
    }
}

/// Whether it is the first of its connection, which the server's kernel has and nobody answered.
fn is_left(exchange: &Exchange) -> bool {
    matches!(exchange.outcome, Outcome::Cut | Outcome::TimedOut)
        && exchange.ordinal == 0
        && !exchange.signs.has_response
        && exchange.signs.is_request_acked
}
