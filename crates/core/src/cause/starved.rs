//! Connections that are never served while others are. Each worker keeps the connection that it has
//! accepted, handles one request after the other on it, and accepts no other.

use core::time::Duration;
use std::collections::BTreeSet;

use super::evidence::{self, human};
use super::first_packets::FirstPackets;
use super::rhythm::quantile;
use super::wording::Wording;
use super::{Case, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, Outcome};
use crate::observed::flow::Endpoint;
use crate::observed::packet::PacketNumber;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::{Affected, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{left} connections {fate}, while others were served again and again: each worker \
              serves one connection for as long as it is kept alive, and takes no other.",
    ruled_out: &[(
        Id::NoResponse,
        "the same server answered requests on other connections all the time",
    )],
    overturned_by: "answers on more connections in parallel than the server has workers",
    fix: &[
        (
            "server",
            "more workers than kept-alive connections, or workers that each serve many connections \
             (an event loop instead of a process per connection)",
        ),
        (
            "server",
            "close kept-alive connections sooner: fewer requests on each, a shorter idle timeout",
        ),
        ("client", "fewer concurrent connections, each used more"),
    ],
};

/// Minimum wait of an unanswered request that counts.
const LEAST_UNANSWERED: Duration = Duration::from_millis(500);
/// Minimum ratio of an unanswered request's wait to the time of nearly all other requests. If a
/// server is only slow, its slowest responses are not far from the others.
const OUTSTANDING: u32 = 10;
/// The quantile of the other requests' times with which the wait is compared.
const NEARLY_ALL: f64 = 0.9;
/// Minimum share of the time slices of the wait in which other requests are answered. Otherwise the
/// whole server may stall, or may still be starting. The share is less than 1 because the server
/// may run on after the load has ended.
const MEANWHILE: f64 = 0.5;
/// The length of a time slice, in nanoseconds.
const STRETCH_NS: i64 = 100_000_000;
/// Maximum number of time slices kept. These are the earliest, and cover ten minutes.
const MOST_STRETCHES: usize = 6_000;
/// Minimum number of connections that are not served. If there are fewer, a single worker may be
/// the reason.
const LEAST: usize = 3;
/// Minimum number of responses to other requests.
const LEAST_SERVED: u64 = 50;
/// Maximum number of waiting requests kept.
const MOST: usize = 1024;

/// Watches the first requests of connections that got no response, or got it only after a long
/// time.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::forget)]
pub(crate) struct Starved {
    #[merge(extend)]
    waiting: Vec<Waiting>,
    packets: FirstPackets,
    /// The time slices in which requests other than the first on a connection were answered.
    #[merge(extend)]
    served: BTreeSet<i64>,
    /// The time slice added last: most exchanges end in the same one as those before them.
    #[merge(skip = "only spares the search for the stretch of the next exchange")]
    latest: Option<i64>,
    /// Connections on which a later request took as long.
    #[merge(extend)]
    slow: BTreeSet<Endpoint>,
}

/// The wait of a connection's first request.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    client: Endpoint,
    /// The arrival of the request.
    begin: Timestamp,
    /// The end of the wait; `None` if the request still waited when it was last seen.
    end: Option<Timestamp>,
    is_answered: bool,
    /// True if the service's figures include the wait.
    is_counted: bool,
}

/// The waits of the connections that were passed over.
struct PassedOver {
    /// The waits in ascending order.
    waits: Vec<Duration>,
    answered: usize,
    /// Number of waiting requests that the service's figures do not include, and their waits.
    uncounted: (u64, Duration),
}

impl Starved {
    /// Records an exchange. `is_counted` is true if the service's figures include it.
    pub(crate) fn observe(&mut self, exchange: &Exchange, is_counted: bool) {
        if exchange.id.ordinal > 0 {
            let served =
                matches!(exchange.outcome, Outcome::Complete(_)).then(|| stretch(exchange.end));
            let is_new = served.is_some() && served != self.latest;
            let is_slow = exchange.latency() >= LEAST_UNANSWERED;
            if is_new || is_slow {
                self.served.extend(served);
                self.latest = served.or(self.latest);
                self.slow.extend(is_slow.then_some(exchange.id.client));
                self.forget();
            }
        } else if is_left(exchange) && self.waiting.len() < MOST {
            let is_cut = exchange.outcome == Outcome::Cut;
            self.waiting.push(Waiting {
                client: exchange.id.client,
                begin: exchange.begin,
                end: (!is_cut).then_some(exchange.end),
                is_answered: matches!(exchange.outcome, Outcome::Complete(_)),
                is_counted: is_counted && exchange.outcome.has_latency(),
            });
            self.packets
                .extend(exchange.packets.first.map(PacketNumber::get));
        }
    }

    /// Keeps the earliest time slices and the least addresses. The order in which exchanges close
    /// does not matter.
    fn forget(&mut self) {
        while self.served.len() > MOST_STRETCHES {
            self.served.pop_last();
        }
        while self.slow.len() > MOST {
            self.slow.pop_last();
        }
    }

    /// Returns true if other requests were answered in enough of the time slices from `begin` to
    /// `end`.
    fn has_served(&self, begin: Timestamp, end: Timestamp) -> bool {
        let within = stretch(begin) + 1..stretch(end).max(stretch(begin) + 1);
        let all = within.end - within.start;
        all > 0 && self.served.range(within).count() as f64 >= all as f64 * MEANWHILE
    }

    /// Returns true if there is a [`Starved::claim`].
    pub(super) fn is_shown(&self, case: &Case<'_>) -> bool {
        self.passed_over(case).is_some()
    }

    /// Returns the waits of the connections that were passed over; `None` if there are too few, or
    /// if no other requests were answered in the meantime.
    fn passed_over(&self, case: &Case<'_>) -> Option<PassedOver> {
        let usual = case.gathered.thinking.quantile(NEARLY_ALL)?;
        // After the end of the load, no other requests are answered, so a later wait shows nothing.
        let last = Timestamp::from_nanos(
            self.served
                .last()?
                .saturating_add(1)
                .saturating_mul(STRETCH_NS),
        );
        let mut found = PassedOver {
            waits: Vec::new(),
            answered: 0,
            uncounted: (0, Duration::ZERO),
        };
        for waiting in &self.waiting {
            let end = waiting.end.map_or(last, |end| end.min(last));
            let wait = end.since(waiting.begin);
            // A worker that has taken a connection answers its later requests quickly. On a
            // connection whose requests just take long, they do so again.
            let is_slow = waiting.is_answered && self.slow.contains(&waiting.client);
            let is_short = wait < LEAST_UNANSWERED.max(usual * OUTSTANDING);
            if is_slow || is_short || !self.has_served(waiting.begin, end) {
                continue;
            }
            found.waits.push(wait);
            found.answered += usize::from(waiting.is_answered);
            if !waiting.is_counted {
                found.uncounted.0 += 1;
                found.uncounted.1 += wait;
            }
        }
        found.waits.sort_unstable();
        let left = found.waits.len();
        let is_most = left >= LEAST && left * 2 >= self.waiting.len();
        (is_most && case.ledger.whole() >= LEAST_SERVED).then_some(found)
    }

    /// Returns the claim, if other requests were answered during the waits.
    pub(super) fn claim(&self, case: &Case<'_>) -> Option<Claim> {
        let passed_over = self.passed_over(case)?;
        let mut claim = charged(case, &passed_over);
        let left = passed_over.waits.len();
        let wait = human(quantile(&passed_over.waits, 0.5));
        let usual = case.gathered.thinking.quantile(NEARLY_ALL)?;
        let text = format!(
            "the first requests of {} got no answer for {wait} (median); in that time {} on others \
             were answered, nearly all within {}",
            counted(left as u64, "connection", "connections"),
            counted(case.ledger.whole(), "request", "requests"),
            human(usual),
        );
        claim.evidence.push(
            Statement::shows(case.timed_by(), text)
                .count(left as u64)
                .packets(&self.packets),
        );
        claim.basis = Basis::new(left as u64, false);
        let fate = if passed_over.answered * 2 > left {
            format!("waited {wait} (median) for their first answer")
        } else {
            "were not served at all".to_owned()
        };
        WORDING.tell(&mut claim, &[("left", &left), ("fate", &fate)]);
        Some(claim)
    }
}

/// Returns the connections that are passed over; `None` if there are none, or if requests wait for
/// another reason too.
pub(super) fn passed_over<'a>(case: &Case<'a>) -> Option<&'a Starved> {
    let starved = &case.gathered.starved;
    (case.rhythm.claim(case).is_none() && starved.is_shown(case)).then_some(starved)
}

/// Returns a claim whose cost is the sum of the waits.
fn charged(case: &Case<'_>, passed_over: &PassedOver) -> Claim {
    let none = Tally::default();
    let mut claim = evidence::claim(Id::WorkerSaturation, Owner::Server, case, &none);
    let waits = &passed_over.waits;
    let cost = nanos(waits.iter().sum());
    let (uncounted, beyond) = passed_over.uncounted;
    claim.time.cost_exactly(cost);
    claim.time.wall_ns = waits.last().copied().map_or(0, nanos);
    claim.time.whole_ns = case.ledger.total().saturating_add(nanos(beyond));
    claim.time.predicted = None;
    claim.affected = Affected {
        exchanges: waits.len() as u64,
        of: case.ledger.latency.all.count() + uncounted,
    };
    claim
}

/// Returns the number of the time slice that contains `at`.
fn stretch(at: Timestamp) -> i64 {
    at.as_nanos() / STRETCH_NS
}

/// Returns true for a connection's first request that the server's kernel received and the program
/// did not answer for a long time.
pub(super) fn is_left(exchange: &Exchange) -> bool {
    if exchange.id.ordinal > 0 {
        return false;
    }
    let has_thought = || exchange.waited(WaitKind::ServerThink) >= LEAST_UNANSWERED;
    match exchange.outcome {
        Outcome::Complete(_) => has_thought(),
        // The client left within the response.
        Outcome::TimedOut if exchange.signs.has_response => has_thought(),
        // The response may be missing in the capture.
        Outcome::Cut if !exchange.signs.is_left_waiting => false,
        Outcome::Cut | Outcome::TimedOut => {
            !exchange.signs.has_response && exchange.signs.is_request_acked
        }
        _ => false,
    }
}
