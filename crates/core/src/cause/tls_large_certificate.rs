//! The rule of the cause `tls-large-certificate`.

use core::time::Duration;

use super::evidence::human;
use super::secured::{LEAST_FLIGHT_STALL, Secured};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::tls_handshake::{Handshake, Leg, LegPackets};
use crate::exchange::wait::Owner;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, count, counted};
use crate::service::tally::Cost;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "The server's certificates fill {bytes} bytes, more than a new connection may have in \
        flight: the handshake waits {stall} (median) for an ACK, {share} of the request time \
        including connection setup.",
    ruled_out: &[
        (
            Id::TlsSlowHandshake,
            "the flight had begun, and an ACK released the rest",
        ),
        (Id::PacketLoss, "no part of the flight was retransmitted"),
    ],
    overturned_by: "a handshake with the same certificates whose flight arrives without a gap",
    fix: &[
        (
            "server",
            "send less: no root, no superfluous intermediates, an ECDSA key (P-256) instead of \
             RSA, certificates with few names",
        ),
        (
            "server",
            "compress certificates (RFC 8879) if both sides support it",
        ),
        (
            "server",
            "let the first flight be longer: ip route change … initcwnd 20",
        ),
        (
            "client and server",
            "resume sessions: a resumed handshake sends no certificates",
        ),
    ],
};

/// Minimum size of a flight that can stall, in bytes. A smaller flight fits even into the initial
/// window before RFC 6928 (RFC 3390).
const LEAST_FLIGHT: u64 = 4380;

/// Watches server flights that stop for a round trip. The initial congestion window (ten segments,
/// RFC 6928) was full, and the client's ACK released the rest. A lost segment would be
/// retransmitted, and a slow link would spread the flight evenly.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    secured: Secured,
    bytes: Distribution,
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
        let leg = handshake.and_then(|handshake| stalled(handshake));
        let cost = leg.map_or(Cost::default(), |leg| Cost::exactly(leg.spread));
        self.secured.add(exchange, cost);
        if let Some(leg) = leg {
            self.bytes.record(Duration::from_nanos(leg.answer_bytes));
            self.packets = Some(self.packets.map_or(leg.packets, |p| p.min(leg.packets)));
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.secured
            .is_material(case)
            .then(|| self.claim(case))
            .into()
    }
}

/// Returns the leg whose flight stopped in the middle for an ACK.
fn stalled(handshake: &Handshake) -> Option<&Leg> {
    let half = (handshake.round_trip? / 2).max(LEAST_FLIGHT_STALL);
    handshake.legs.iter().find(|leg| {
        leg.answer_bytes >= LEAST_FLIGHT && leg.longest_gap >= half && leg.spread >= half
    })
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let tally = &self.secured.tally;
        let mut claim = self
            .secured
            .claim(Id::TlsLargeCertificate, Owner::Server, case);
        let stall = human(tally.saved.quantile(0.5).unwrap_or_default());
        let bytes = nanos(self.bytes.quantile(0.5).unwrap_or_default());
        let text = format!(
            "in {} of {} TLS handshakes the server's flight with its certificates, {} (median), \
             stopped in the middle and resumed {stall} (median) later, when the client had \
             acknowledged the first part",
            tally.affected,
            case.gathered.bearing.handshakes,
            counted(bytes, "byte", "bytes"),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved)
                .packets(&self.packets.map(LegPackets::numbers).unwrap_or_default()),
        );
        claim.basis = Basis::new(tally.affected, false);
        WORDING.tell(&mut claim, &[("bytes", &count(bytes)), ("stall", &stall)]);
        claim
    }
}
