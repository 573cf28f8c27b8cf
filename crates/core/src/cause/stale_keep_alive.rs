//! The rule of the cause `stale-keep-alive`.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeSet;

use super::evidence::{self, human};
use super::settings::Measured;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Staleness};
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::{Affected, EvidenceKind, count, counted};
use crate::service::LEAST_PATIENCE;
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::bounded::Least;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "The client reuses connections that were idle for {idle} or longer and that {what} in \
        the meantime. The request is lost, and after {lost} (median) it has to be sent again on a \
        new connection.",
    ruled_out: &[
        (
            Id::ConnectionClosed,
            "requests on connections in use are answered",
        ),
        (Id::NoResponse, "the lost requests were not acknowledged"),
    ],
    overturned_by: "requests that fail on connections that were never idle",
    fix: &[
        (
            "client",
            "close idle connections first: set the pool's idle timeout below the server's and the \
             path's",
        ),
        (
            "client",
            "send TCP keep-alives at intervals shorter than the path's idle timeout \
             (TCP_KEEPIDLE); set TCP_USER_TIMEOUT",
        ),
        (
            "server or path",
            "a longer idle timeout (nginx {keepalive_timeout}; the load balancer's)",
        ),
    ],
};

/// Maximum number of times kept of each kind. These are the first ones.
const MAX_INSTANTS: usize = 4096;
/// Maximum time until the client's next connection. A later connection has another reason.
const LATEST_RECONNECT: Duration = Duration::from_secs(130);
/// Minimum number of failed requests for a claim.
const REPEATS: u64 = 2;

/// Watches requests on connections that had been idle and turned out to be dead. The request is
/// reset within a round trip, or retransmitted and never acknowledged.
///
/// A server that fails would also reset requests on busy connections. A server that does not
/// respond would still acknowledge them.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    idle: Distribution,
    /// Number of requests on idle connections that succeeded.
    alive: u64,
    closed: u64,
    reset: u64,
    forgotten: u64,
    /// The client and the time of each request that got no packet in return.
    ignored: Instants,
    /// The client and the time of each new connection.
    openings: Instants,
}

type Instants = Least<(IpAddr, Timestamp), MAX_INSTANTS>;

impl super::Rule for Rule {
    const CONCERNS: Features = Features::IDLE;

    fn observe(&mut self, exchange: &Exchange) {
        let (Some(idle), Some(staleness)) = (exchange.signs.idle, exchange.staleness()) else {
            return;
        };
        match staleness {
            Staleness::Alive => {
                self.alive += 1;
                return;
            }
            Staleness::Untold => return,
            Staleness::Closed => self.closed += 1,
            Staleness::Reset => self.reset += 1,
            Staleness::Forgotten => self.forgotten += 1,
        }
        self.idle.record(idle);
        let is_ignored = staleness == Staleness::Forgotten;
        let lost = if is_ignored {
            Duration::ZERO
        } else {
            exchange.latency()
        };
        self.tally
            .add(exchange, Cost::exactly(lost), Duration::ZERO);
        if is_ignored {
            let instant = (exchange.id.client.addr, exchange.begin);
            self.ignored.add(instant);
        }
    }

    fn observe_setup(&mut self, setup: &Setup) {
        if let (Some((client, _)), Some(begin)) = (setup.ends, setup.begin) {
            self.openings.add((client.addr, begin));
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if self.tally.affected < REPEATS {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case)))
    }

    fn measured(&self, _: &Case<'_>) -> Measured {
        Measured {
            idle: self.idle.min().filter(|_| self.culprit() != Owner::Path),
            ..Measured::default()
        }
    }
}

impl Rule {
    /// Returns one phrase for each way in which requests failed, with their number.
    fn ends(&self) -> Vec<String> {
        let ends = [
            (self.closed, "came after the server's FIN or crossed it"),
            (self.reset, "were answered by a reset"),
            (self.forgotten, "got no ACK"),
        ];
        let some = ends.into_iter().filter(|(n, _)| *n > 0);
        some.map(|(n, how)| format!("{} {how}", count(n))).collect()
    }

    /// Returns the times for which clients waited after an unanswered request until they opened
    /// another connection.
    fn patience(&self) -> Distribution {
        let mut waited = Distribution::default();
        let mut openings: BTreeSet<_> = self.openings.sorted().into_iter().collect();
        for (client, at) in self.ignored.sorted() {
            let (soonest, latest) = (at + LEAST_PATIENCE, at + LATEST_RECONNECT);
            let next = openings.range((client, soonest)..=(client, latest)).next();
            if let Some(next) = next.copied() {
                openings.remove(&next);
                waited.record(next.1.since(at));
            }
        }
        waited
    }

    /// Returns the path if most connections were dead although the server had sent no FIN, and the
    /// client otherwise.
    fn culprit(&self) -> Owner {
        if self.forgotten + self.reset > self.closed {
            Owner::Path
        } else {
            Owner::Client
        }
    }

    fn claim(&self, case: &Case<'_>) -> Claim {
        let culprit = self.culprit();
        let mut claim = evidence::claim(Id::StaleKeepAlive, culprit, case, &self.tally);
        // Each request must be sent again on a new connection. If a RST was captured where it was
        // sent, its way to the client is added.
        let trip = case.round_trip().unwrap_or_default();
        let seen = self.tally.saved.quantile(0.5).unwrap_or_default();
        let unseen = if self.reset > 0 {
            trip.saturating_sub(seen) * times(self.reset)
        } else {
            Duration::ZERO
        };
        let patience = self.patience();
        let waited = u64::try_from(patience.sum_ns()).unwrap_or(u64::MAX);
        let again = nanos(trip * times(self.tally.affected) + unseen).saturating_add(waited);
        for cost in [&mut claim.time.cost.likely, &mut claim.time.cost.high] {
            *cost = cost.saturating_add(again);
        }
        claim.time.whole_ns = case.ledger.total().saturating_add(claim.time.cost.likely);
        claim.time.predicted = None;
        claim.affected = Affected {
            exchanges: self.tally.affected,
            of: case.ledger.counts.count + case.ledger.counts.errors + case.ledger.counts.timeouts,
        };
        let lost = if self.forgotten * 2 > self.tally.affected {
            &patience
        } else {
            &self.tally.saved
        };
        let idle = human(self.idle.min().unwrap_or_default());
        let alive = (self.alive > 0).then(|| {
            let requests = counted(self.alive, "request", "requests");
            format!("; the server answered {requests} on such connections")
        });
        let text = format!(
            "{} on connections idle for {idle} or longer failed: {}{}",
            counted(self.tally.affected, "request", "requests"),
            self.ends().join(", "),
            alive.unwrap_or_default(),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(self.tally.affected)
                .median(lost),
        );
        claim.basis = Basis::new(self.tally.affected, false);
        WORDING.tell(
            &mut claim,
            &[
                ("idle", &idle),
                (
                    "what",
                    &match culprit {
                        Owner::Path => "a device on the path has dropped",
                        _ => "the server has closed",
                    },
                ),
                ("lost", &human(lost.quantile(0.5).unwrap_or_default())),
            ],
        );
        claim
    }
}

fn times(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
