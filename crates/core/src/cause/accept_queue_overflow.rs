//! The rule of the cause `accept-queue-overflow`.

use super::delays::Delays;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id, evidence, syn_loss};
use crate::claim::{Advice, Basis, Claim, Statement, Tunable};
use crate::connection::Setup;
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, Outcome};
use crate::observed::event::ListenerSample;
use crate::report::{EvidenceKind, Unit, counted};
use crate::service::tcp_handshakes::{self, WhyRepeated};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Below this number of places, a queue is short: what `listen()` allowed at most for decades, and many
/// programs still ask for.
const SHORT: u32 = 128;

const WORDING: Wording = Wording {
    summary: "The accept queue of the program behind {service} is full. The kernel ignores \
              everything that would add to it: the last ACK of a handshake, the first request \
              after it, new SYNs.",
    ruled_out: &[
        (
            Id::PacketLoss,
            "only packets that open connections are retransmitted",
        ),
        (
            Id::SynLoss,
            "SYN/ACKs came, and requests on open connections were ignored as well",
        ),
    ],
    overturned_by: "`nstat -az TcpExtListenOverflows` not rising on the server during this time",
    fix: &[
        (
            "server",
            "find out why the program accepts so slowly: a busy or blocked loop, or too few \
             workers (while the queue is full, `ss -ltn` shows Recv-Q no lower than Send-Q)",
        ),
        (
            "server",
            "a longer queue{than}: listen({backlog}), nginx `listen … backlog=`, and \
             net.core.somaxconn at least as large",
        ),
        (
            "client",
            "keep connections alive, so that fewer have to be accepted",
        ),
    ],
};

/// The wording if new SYNs were ignored, and no requests on connections that were established.
const SYNS_ONLY: Wording = Wording {
    summary: "The accept queue of the program behind {service} is full, so its kernel ignores new \
              SYNs.",
    ruled_out: &[(
        Id::SynLoss,
        "SYNs were ignored only while the server did not answer on other new connections",
    )],
    ..WORDING
};

/// The wording if the kernel counted that the queue was full.
const COUNTED: Wording = Wording {
    ruled_out: &[(
        Id::SynLoss,
        "the server's kernel found an accept queue full as often as SYNs were ignored, or a little \
         more often",
    )],
    ..SYNS_ONLY
};

/// The wording if the queue itself was seen full.
const SEEN: Wording = Wording {
    ruled_out: &[(
        Id::SynLoss,
        "the kernel ignores each SYN while the queue is as full as it was seen",
    )],
    ..SYNS_ONLY
};

/// Watches connections that are established for the client but not for the server. The server's
/// kernel ignores the client's first data until the program has accepted other connections.
///
/// While the queue is full, the kernel drops new SYNs too. On a lossy path, any packet may be
/// retransmitted. Here, only packets that open connections are retransmitted (`tcp_check_req()` and
/// `tcp_conn_request()` in `net/ipv4/`).
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    delays: Delays,
    unread: u64,
    repeated: u64,
    /// Latencies of the first exchanges of connections.
    first: Distribution,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FIRST;

    fn observe(&mut self, exchange: &Exchange) {
        if exchange.id.ordinal == 0 && matches!(exchange.outcome, Outcome::Complete(_)) {
            self.first.record(exchange.latency());
        }
    }

    fn observe_setup(&mut self, setup: &Setup) {
        let (is_unread, is_repeated) = (
            tcp_handshakes::is_unread(setup),
            tcp_handshakes::is_repeated(setup),
        );
        if is_unread || is_repeated {
            self.delays
                .add_setup(tcp_handshakes::lost_until_taken(setup), setup);
            self.unread += u64::from(is_unread);
            self.repeated += u64::from(is_repeated);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if case.why_syns_repeat() != WhyRepeated::AcceptQueue {
            return Conclusion::Nothing;
        }
        if self.delays.is_material(case) {
            return Conclusion::Claim(Box::new(self.claim(case)));
        }
        // Nothing may get in, so that there are no connections to look at.
        match (case.full_listener(), syn_loss::probed(case)) {
            (Some(listener), Some(probed)) => {
                Conclusion::Claim(Box::new(seen_full(case, listener, probed)))
            }
            _ => Conclusion::Nothing,
        }
    }
}

impl Rule {
    /// Sets the claim's cost: the time until SYNs were retransmitted, plus the waits in the
    /// accept queue. A wait is the time by which a connection's first exchange is slower than the
    /// quickest one; for a single one, the time until its request was taken.
    fn charge(&self, claim: &mut Claim, case: &Case<'_>) {
        let syns = case.ledger.setups.waits.of(WaitKind::Recovery);
        let quickest = self.first.min().unwrap_or_default().as_nanos();
        let waits = self
            .first
            .sum_ns()
            .saturating_sub(quickest * u128::from(self.first.count()));
        let waits = match self.first.count() {
            // There is nothing to compare a single exchange with.
            0 | 1 => self.delays.sum().saturating_sub(syns),
            _ => u64::try_from(waits).unwrap_or(u64::MAX),
        };
        claim.time.cost.low = self.delays.sum().min(syns.saturating_add(waits));
        claim.time.cost.likely = syns.saturating_add(waits).max(claim.time.cost.low);
        claim.time.cost.high = claim.time.cost.likely;
        claim.time.wall_ns = claim.time.cost.likely;
        claim.time.whole_ns = case.ledger.total_with_setup();
    }

    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self
            .delays
            .claim(Id::AcceptQueueOverflow, Owner::Server, case);
        self.charge(&mut claim, case);
        let unread = (self.unread > 0).then(|| {
            let connections = counted(self.unread, "connection", "connections");
            format!("the first data was ignored and had to be retransmitted on {connections}; ")
        });
        let repeated = (self.repeated > 0).then(|| {
            let connections = counted(self.repeated, "connection", "connections");
            format!("SYNs had to be retransmitted on {connections}; ")
        });
        let text = format!(
            "{}{}the last repeat came {} (median) after the first transmission",
            unread.unwrap_or_default(),
            repeated.unwrap_or_default(),
            self.delays.median()
        );
        claim.evidence.push(self.delays.evidence(text));
        let overflows = case.listen_overflows();
        if overflows > 0 {
            let text = format!(
                "the kernel of the server's host found an accept queue full {} meanwhile \
                 (TcpExtListenOverflows)",
                counted(overflows, "time", "times")
            );
            let full = Statement::fits(EvidenceKind::Counter, text);
            claim.evidence.push(full.count(overflows));
        }
        let repeats = if overflows > 0 {
            self.delays.count()
        } else {
            self.unread
        };
        claim.basis = Basis::new(repeats, false);
        let wording = match (self.unread, overflows) {
            (1.., _) => &WORDING,
            (0, _) if case.full_listener().is_some() => &SEEN,
            (0, 1..) => &COUNTED,
            (0, 0) => &SYNS_ONLY,
        };
        let mut listeners = case.facts.kernel.listeners.iter();
        let own = listeners.find(|listener| listener.local.port == case.endpoint.port);
        tell(wording, &mut claim, own);
        claim
    }
}

/// Returns the claim on a queue that was seen full while our own probes had to repeat their SYNs. The
/// statement on its length (`socket_options/listener.rs`) shows the mechanism.
fn seen_full(case: &Case<'_>, listener: &ListenerSample, probed: Statement) -> Claim {
    let mut claim = evidence::bare_claim(Id::AcceptQueueOverflow, Owner::Server, case);
    claim.unit = Unit::Connections;
    let repeats = probed.observed().unwrap_or_default();
    claim.evidence.push(probed.shown_if(false));
    claim.basis = Basis::new(repeats, false);
    tell(&SEEN, &mut claim, Some(listener));
    claim
}

/// Adds the texts. If the queue has so few places that a quick program fills it too, the change that
/// lengthens it comes first.
fn tell(wording: &Wording, claim: &mut Claim, listener: Option<&ListenerSample>) {
    let short = listener.filter(|listener| listener.limit < SHORT);
    let than = short.map(|listener| format!(" than {}", listener.limit));
    wording.tell(claim, &[("than", &than.unwrap_or_default())]);
    if short.is_some() {
        let is_other = |advice: &Advice| !advice.turns(Tunable::AcceptQueue);
        claim.advice.sort_by_key(is_other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_queue_is_to_be_lengthened_first() {
        let at = crate::observed::flow::Endpoint::new([10, 0, 0, 2].into(), 80);
        let listener = |limit| ListenerSample {
            local: at,
            queued: 0,
            limit,
            embryonic: 0,
            syn_backlog: None,
            somaxconn: None,
        };
        let first = |limit| {
            let mut claim = Claim::blank(Id::AcceptQueueOverflow, Owner::Server, at);
            tell(&COUNTED, &mut claim, Some(&listener(limit)));
            claim.advice.swap_remove(0).into_words().change
        };
        assert!(first(16).starts_with("a longer queue than 16"));
        assert!(first(SHORT).starts_with("find out why"));
    }
}
