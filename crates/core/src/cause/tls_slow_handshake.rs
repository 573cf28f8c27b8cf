//! The rule of the cause `tls-slow-handshake`.

use core::time::Duration;

use super::evidence::human;
use super::secured::{ROUND_TRIPS, Secured};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::tls_handshake::LegPackets;
use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::event::ProbeMethod;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Cost;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "The server takes {think} (median) before it answers within a TLS handshake, {share} \
        of the request time including connection setup: a costly key, or handshakes that queue for \
        its processors.",
    ruled_out: &[
        (
            Id::TlsRoundTrips,
            "network transit is subtracted: only the server's own time within a flight is counted",
        ),
        (
            Id::ServerThink,
            "requests after the handshakes were answered much faster",
        ),
    ],
    overturned_by: "the server's own trace showing that it answered the ClientHello sooner",
    fix: &[
        (
            "server",
            "an ECDSA key (P-256): it signs ten times as fast as RSA of 2048 bits, a hundred times \
             as fast as RSA of 4096",
        ),
        (
            "server",
            "let sessions resume (ssl_session_cache, ssl_session_tickets), and keep connections \
             alive",
        ),
        (
            "server",
            "more workers or processors: worker_processes auto (nginx)",
        ),
    ],
};

/// The wording if most of the slow handshakes resume a session: these need no signature.
const RESUMED: Wording = Wording {
    summary: "The server takes {think} (median) before it answers within a TLS handshake, {share} \
        of the request time including connection setup. Most of these handshakes resume a session \
        and need no signature, so handshakes wait for the server's program or its processors.",
    fix: &[
        (
            "server",
            "find out what the program does before it answers: starting a process, looking up the \
             session elsewhere",
        ),
        WORDING.fix[2],
    ],
    ..WORDING
};

/// Minimum time of the server that counts. An RSA signature with 2048 bits takes a millisecond or
/// two on any processor. A longer time is queueing or a slow key.
const LEAST_CRYPTOGRAPHY: Duration = Duration::from_millis(8);
/// Minimum ratio of the server's time for requests to its time for handshakes, if the server is
/// slow in general.
const SHARE_OF_REQUESTS: f64 = 0.5;

/// The server's time without load, from our own probes, minus the round trips.
#[derive(Clone, Copy, Debug)]
struct Idle {
    /// The quickest full handshake.
    handshake: Duration,
    /// The median of the requests on new connections.
    request: Duration,
}

impl Idle {
    /// Returns the times if handshakes are slow and requests are not. Under load, requests then
    /// wait for the handshakes before them.
    fn of(case: &Case<'_>) -> Option<Self> {
        let target = case.target?;
        let probed = |method| Some(&case.facts.probes_of(target, method, false)?.rtt);
        let trip = case.facts.round_trip(target).or(case.round_trip())?;
        let handshake = probed(ProbeMethod::TlsFull)?.min()?;
        let request = probed(ProbeMethod::HttpFresh)?.quantile(0.5)?;
        let idle = Self {
            handshake: handshake.saturating_sub(trip * ROUND_TRIPS),
            request: request.saturating_sub(trip),
        };
        let share = idle.handshake.as_secs_f64() * SHARE_OF_REQUESTS;
        let is_apart = idle.handshake >= LEAST_CRYPTOGRAPHY && idle.request.as_secs_f64() <= share;
        is_apart.then_some(idle)
    }
}

/// If there is at least one loss for this many exchanges, the path may have delayed handshakes too.
const UNSTEADY: u64 = 5;

/// Maximum number of the client's flights in a handshake that the server answers (RFC 5246 §7.3).
const FLIGHTS: u32 = 2;

/// Watches the server's time within handshakes: its kernel has received the ClientHello, and its
/// program has not answered yet.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    secured: Secured,
    /// The server's think times for the requests after the handshakes.
    thinks: Distribution,
    /// Number of slow handshakes that resumed a session.
    resumed: u64,
    #[merge(least)]
    packets: Option<LegPackets>,
    /// The setups of our own connections without packets, as far as they exceed the round trips.
    own: Secured,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::HANDSHAKE.or(Features::SETUP);

    fn observe(&mut self, exchange: &Exchange) {
        if let Some(beyond) = beyond_round_trips(exchange) {
            self.own.add(exchange, Cost::exactly(beyond));
        }
        let handshake = exchange
            .connecting
            .handshake
            .as_ref()
            .filter(|_| exchange.connecting.setup.is_some());
        let legs = handshake
            .map(|handshake| handshake.legs.as_slice())
            .unwrap_or_default();
        let think: Duration = legs.iter().map(|leg| leg.server_think).sum();
        let cost = if think >= LEAST_CRYPTOGRAPHY {
            Cost::exactly(think)
        } else {
            Cost::default()
        };
        self.secured.add(exchange, cost);
        if cost.likely == 0 {
            return;
        }
        self.resumed += u64::from(handshake.is_some_and(|handshake| handshake.is_resumed));
        self.thinks.record(exchange.waited(WaitKind::ServerThink));
        if let Some(leg) = legs.iter().max_by_key(|leg| leg.server_think) {
            self.packets = Some(self.packets.map_or(leg.packets, |p| p.min(leg.packets)));
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if !case.has_packets {
            return self.own_finding(case).into();
        }
        let median = |of: &Distribution| of.quantile(0.5).unwrap_or_default().as_secs_f64();
        let is_slow_at_large =
            median(&self.thinks) > median(&self.secured.tally.saved) * SHARE_OF_REQUESTS;
        let wait = self.secured.tally.saved.quantile(0.5).unwrap_or_default();
        let is_servers = !case.ledger.is_behind_relay(wait, FLIGHTS);
        (is_servers
            && self.secured.is_material(case)
            && (!is_slow_at_large || Idle::of(case).is_some()))
        .then(|| self.claim(case))
        .into()
    }
}

/// Returns the time by which the setup of a connection of our own, whose packets were not captured,
/// exceeds the round trips of TCP and TLS, if it is notable.
fn beyond_round_trips(exchange: &Exchange) -> Option<Duration> {
    let is_seen = exchange.packets.first.is_some() || exchange.connecting.handshake.is_some();
    let setup = exchange.connecting.setup.filter(|_| !is_seen)?;
    let trips = exchange.path.to_server? * (1 + ROUND_TRIPS);
    setup
        .checked_sub(trips)
        .filter(|beyond| *beyond >= LEAST_CRYPTOGRAPHY)
}

/// Returns true if the path loses so many segments that it may have delayed a handshake.
fn is_unsteady(case: &Case<'_>) -> bool {
    case.ledger.losses.repaired.sum() * UNSTEADY >= case.ledger.counts.count
}

impl Rule {
    /// Returns the claim from the timestamps of our own load, if packets were not captured.
    fn own_finding(&self, case: &Case<'_>) -> Option<Claim> {
        let idle = Idle::of(case).filter(|_| self.own.is_material(case))?;
        let tally = &self.own.tally;
        let mut claim = self.own.claim(Id::TlsSlowHandshake, Owner::Server, case);
        let think = human(tally.saved.quantile(0.5).unwrap_or_default());
        let text = format!(
            "{} of lagtrace's own load took {think} (median) longer than their round trips; with \
             the idle server a full handshake took at least {} longer, and a request on the new \
             connection then {} (median)",
            counted(tally.affected, "TLS handshake", "TLS handshakes"),
            human(idle.handshake),
            human(idle.request),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::OwnSocket, text)
                .count(tally.affected)
                .median(&tally.saved),
        );
        claim.basis = Basis::new(tally.affected, false);
        let transport = case.facts.loads.transports.get(&case.target?);
        let tls = transport.and_then(|transport| transport.tls.as_ref());
        let is_resumed = tls.is_some_and(|tls| tls.resumed.count() > tls.full.count());
        let wording = if is_resumed { &RESUMED } else { &WORDING };
        wording.tell(&mut claim, &[("think", &think)]);
        Some(claim)
    }

    fn claim(&self, case: &Case<'_>) -> Claim {
        let tally = &self.secured.tally;
        let mut claim = self
            .secured
            .claim(Id::TlsSlowHandshake, Owner::Server, case);
        let think = human(tally.saved.quantile(0.5).unwrap_or_default());
        let text = format!(
            "in {} of {} TLS handshakes the server answered {think} (median) after it had the \
             client's flight; after the handshakes it took {} (median) to answer a request",
            tally.affected,
            case.gathered.bearing.handshakes,
            human(self.thinks.quantile(0.5).unwrap_or_default()),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved)
                .packets(&self.packets.map(LegPackets::numbers).unwrap_or_default()),
        );
        // If a relay acknowledges in the server's place, the capture does not show the path from
        // the relay to the server.
        let is_apart = is_unsteady(case) || case.ledger.is_relayed();
        claim.basis = Basis::new(tally.affected, is_apart);
        let wording = if self.resumed * 2 > tally.affected {
            &RESUMED
        } else {
            &WORDING
        };
        wording.tell(&mut claim, &[("think", &think)]);
        claim
    }
}
