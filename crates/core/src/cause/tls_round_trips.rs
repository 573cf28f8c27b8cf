//! The rule of the cause `tls-round-trips`.

use core::time::Duration;

use super::evidence::human;
use super::secured::{Secured, version_name};
use super::settings::Measured;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::tls_handshake::LegPackets;
use crate::exchange::tls_handshake::{Handshake, Leg};
use crate::exchange::wait::Owner;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, count, part_of};
use crate::service::tally::Cost;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "Each TLS handshake takes one round trip more than TLS 1.3 needs, {extra} (median), \
        {share} of the request time including connection setup.",
    ruled_out: &[
        (
            Id::TlsSlowHandshake,
            "only the number of flights counts, not the server's time for each",
        ),
        (
            Id::TlsLargeCertificate,
            "the extra flights are the client's, and the server answers each",
        ),
    ],
    overturned_by: "handshakes of one round trip with the same client and server",
    fix: &[(
        "client",
        "keep connections alive: one handshake serves many requests",
    )],
};

/// The change at a client that offers nothing better.
const OFFER: Wording = Wording {
    fix: &[("client", "offer TLS 1.3, and keep sessions for resumption")],
    ..Wording::NONE
};

/// The change at a server, if no client offered more.
const ASK: Wording = Wording {
    fix: &[(
        "server",
        "check first whether it supports TLS 1.3, which no client offered: `openssl s_client \
         -tls1_3`",
    )],
    ..Wording::NONE
};

/// The change at a server that chose a lower version than a client offered.
const ALLOW: Wording = Wording {
    fix: &[(
        "server",
        "allow TLS 1.3: {ssl_protocols} TLSv1.2 TLSv1.3 (nginx)",
    )],
    ..Wording::NONE
};

/// The change at a server, whatever the version.
const RESUME: Wording = Wording {
    fix: &[(
        "server",
        "let sessions resume: {ssl_session_cache} shared:SSL:10m, {ssl_session_tickets} on with keys \
         that all its hosts share",
    )],
    ..Wording::NONE
};

/// The change at a server that requested another key share.
const GROUPS: Wording = Wording {
    fix: &[(
        "server",
        "accept a group for which clients send a key: {ssl_ecdh_curve} X25519:prime256v1 (nginx)",
    )],
    ..Wording::NONE
};

/// The version number of TLS 1.3 (RFC 8446 §4.2.1).
const TLS_1_3: u16 = 0x0304;

/// Watches handshakes of more than one round trip: full handshakes up to TLS 1.2 (RFC 5246 §7.3),
/// and handshakes with a HelloRetryRequest (RFC 8446 §4.1.4). A slow server or a long flight of
/// certificates would delay one leg only.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    secured: Secured,
    full: u64,
    retried: u64,
    /// Number of handshakes in which the client is the limit. It offered no better version and no
    /// session to resume, and the server chose the best that was offered.
    by_client: u64,
    /// Number of handshakes in which the server chose a lower version than offered.
    lowered: u64,
    /// Number of handshakes in which the client offered TLS 1.3.
    offered: u64,
    /// Number of handshakes with TLS 1.3. They show that the server supports it.
    newer: u64,
    /// Number of handshakes in which the client offered a session that was not resumed.
    refused: u64,
    #[merge(max)]
    version: Option<u16>,
    #[merge(least)]
    packets: Option<LegPackets>,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::HANDSHAKE;

    fn observe(&mut self, exchange: &Exchange) {
        let handshake = exchange
            .connecting
            .handshake
            .as_ref()
            .filter(|_| exchange.connecting.setup.is_some());
        let version = exchange
            .connecting
            .handshake
            .as_ref()
            .and_then(|h| h.version);
        self.newer += u64::from(version >= Some(TLS_1_3));
        let extra: Vec<(&Leg, Duration)> =
            handshake.into_iter().flat_map(|h| extra_legs(h)).collect();
        let cost = extra.iter().fold(Cost::default(), |sum, (leg, new_key)| {
            sum.plus(cost_of(leg, *new_key))
        });
        self.secured.add(exchange, cost);
        let (Some(handshake), Some(first)) = (handshake, extra.first()) else {
            return;
        };
        self.full += u64::from(is_full(handshake));
        self.retried += u64::from(handshake.is_retried);
        self.refused += u64::from(handshake.offers_session && !handshake.is_resumed);
        let offers_better = handshake.offered.is_none_or(|offered| offered >= TLS_1_3);
        let is_lowered = handshake.version < handshake.offered && handshake.version.is_some();
        let is_other = is_lowered || handshake.is_retried || handshake.offers_session;
        self.by_client += u64::from(!offers_better && !is_other);
        self.lowered += u64::from(is_lowered);
        self.offered += u64::from(offers_better);
        self.version = self.version.max(handshake.version);
        let packets = first.0.packets;
        self.packets = Some(self.packets.map_or(packets, |p| p.min(packets)));
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.secured
            .is_material(case)
            .then(|| self.claim(case))
            .into()
    }

    fn measured(&self, _: &Case<'_>) -> Measured {
        Measured {
            lowered: self.lowered,
            full: self.full,
            retried: self.retried,
            ..Measured::default()
        }
    }
}

/// Returns true for a full handshake of TLS 1.2 or earlier that TLS 1.3 would shorten. If the server
/// speaks first, it does so in the same round trip with either: it waits for the client's Finished.
fn is_full(handshake: &Handshake) -> bool {
    let is_older = handshake.version.is_some_and(|version| version < TLS_1_3);
    let is_long = handshake.round_trips() > 1 && !handshake.is_server_first;
    is_older && !handshake.is_resumed && is_long
}

/// Returns the legs that TLS 1.3 or a resumption would save. The time that the client then took to
/// make another key is given with each leg.
fn extra_legs(handshake: &Handshake) -> impl Iterator<Item = (&Leg, Duration)> {
    let is_full = is_full(handshake);
    let last = handshake.round_trips().saturating_sub(1);
    let behind = handshake.legs.iter().skip(1).map(|leg| leg.client_think);
    let behind = behind.chain([Duration::ZERO]);
    let legs = handshake.legs.iter().zip(behind).enumerate();
    legs.filter(move |(at, (leg, _))| leg.is_retry || (is_full && *at == last))
        .map(|(_, (leg, behind))| {
            if leg.is_retry {
                (leg, behind)
            } else {
                (leg, Duration::ZERO)
            }
        })
}

/// Returns the cost of a leg, including the way of its answer back to the client. The server's
/// think time counts only if it is shorter than the rest of the leg: a longer think time
/// is work that would remain with fewer legs. The lower bound is the time on the path.
fn cost_of(leg: &Leg, new_key: Duration) -> Cost {
    let whole = leg.end.since(leg.begin) + leg.to_client;
    let trip = whole.saturating_sub(leg.server_think);
    let likely = if leg.server_think > trip { trip } else { whole };
    Cost {
        low: nanos(trip.saturating_sub(leg.spread)),
        ..Cost::exactly(likely + new_key)
    }
}

impl Rule {
    fn culprit(&self) -> Owner {
        if self.by_client * 2 > self.secured.tally.affected && !self.is_servers_limit() {
            Owner::Client
        } else {
            Owner::Server
        }
    }

    /// Returns true if the server chose a lower version than a client offered, and never TLS 1.3.
    /// So the server is the limit for all clients.
    fn is_servers_limit(&self) -> bool {
        self.lowered > 0 && self.newer == 0
    }

    /// Returns true if the client seems to be the limit, but no client offered more. It is then not
    /// known whether the server supports more.
    fn is_untold(&self) -> bool {
        self.culprit() == Owner::Client && self.newer == 0
    }

    /// Returns true if the server is a limit, but each client is one too: none offered TLS 1.3, and
    /// most had no session to resume.
    fn is_limited_twice(&self) -> bool {
        let is_refused = self.refused * 2 > self.secured.tally.affected;
        self.is_servers_limit() && self.offered == 0 && !is_refused
    }

    fn claim(&self, case: &Case<'_>) -> Claim {
        let tally = &self.secured.tally;
        let mut claim = self.secured.claim(Id::TlsRoundTrips, self.culprit(), case);
        let extra = human(tally.saved.quantile(0.5).unwrap_or_default());
        let handshakes = case.gathered.bearing.handshakes;
        let text = format!(
            "{} took an extra round trip ({extra}, median): {}",
            part_of(
                tally.affected,
                handshakes,
                "TLS handshake",
                "TLS handshakes"
            ),
            self.reasons().join(", "),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved)
                .packets(&self.packets.map(LegPackets::numbers).unwrap_or_default()),
        );
        let is_apart = self.is_untold() || self.is_limited_twice();
        claim.basis = Basis::new(tally.affected, is_apart);
        for change in self.changes() {
            change.tell(&mut claim, &[]);
        }
        WORDING.tell(&mut claim, &[("extra", &extra)]);
        claim
    }

    /// Returns one phrase for each reason for another round trip, with its number of handshakes.
    fn reasons(&self) -> Vec<String> {
        let version = version_name(self.version);
        let reasons = [
            (self.full, format!("full handshakes with {version}")),
            (self.retried, "with a HelloRetryRequest".to_owned()),
            (
                self.refused,
                "with a session that the server did not resume".to_owned(),
            ),
        ];
        let some = reasons.into_iter().filter(|(n, _)| *n > 0);
        some.map(|(n, why)| format!("{} {why}", count(n))).collect()
    }

    /// Returns the changes that the handshakes suggest.
    fn changes(&self) -> impl Iterator<Item = &'static Wording> {
        let is_client = self.culprit() == Owner::Client;
        let is_full = self.full > 0;
        // A server cannot choose a version that no client offers.
        let is_lower = self.offered > 0 || self.is_servers_limit();
        let changes: [(bool, &'static Wording); 5] = [
            (is_full && (is_client || self.offered == 0), &OFFER),
            (is_full && is_client && self.is_untold(), &ASK),
            (is_full && !is_client && is_lower, &ALLOW),
            (is_full && !is_client, &RESUME),
            (self.retried > 0, &GROUPS),
        ];
        let needed = changes.into_iter().filter(|&(is_needed, _)| is_needed);
        needed.map(|(_, change)| change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client offers a session and at most TLS 1.2; the server chooses that version and does
    /// not resume the session.
    #[test]
    fn a_server_is_not_told_to_allow_a_version_that_no_client_offers() {
        let rule = |offered| Rule {
            full: 1,
            refused: 1,
            offered,
            ..Rule::default()
        };
        let changes = |offered| -> String {
            let rule = rule(offered);
            let fix = rule.changes().flat_map(|wording| wording.fix);
            fix.map(|(place, change)| format!("{place}: {change}. "))
                .collect()
        };
        assert!(changes(1).contains("server: allow TLS 1.3"));
        assert!(!changes(0).contains("server: allow TLS 1.3"));
        assert!(changes(0).contains("client: offer TLS 1.3"));
        assert!(changes(0).contains("server: let sessions resume"));
    }
}
