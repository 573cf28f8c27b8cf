//! The rule of the cause `tls-revocation-fetch`.

use super::evidence::{ORDINARY_WORK, human};
use super::secured::Secured;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::tls_handshake::Leg;
use crate::exchange::tls_handshake::LegPackets;
use crate::exchange::wait::Owner;
use crate::observed::time::nanos;
use crate::report::EvidenceKind;
use crate::service::Stretches;
use crate::service::tally::Cost;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The client interrupts the TLS handshake to ask whether the certificate is revoked: \
        {pause} (median), {share} of the request time including connection setup.",
    ruled_out: &[(
        Id::TlsSlowHandshake,
        "the server had answered, and the client had to send the next flight",
    )],
    overturned_by: "the same pauses with the client's revocation checks switched off",
    fix: &[
        (
            "server",
            "staple the OCSP response: {ssl_stapling} on; ssl_stapling_verify on (nginx)",
        ),
        (
            "server",
            "send the whole chain, so that no issuer has to be fetched",
        ),
        (
            "client",
            "keep responses for as long as they are valid, or check offline (CRLite, short-lived \
             certificates)",
        ),
    ],
};

/// Minimum share of the pauses in which a fetch took place.
const SHARE: f64 = 0.5;

/// Watches clients that have received the server's flight and do not continue. Meanwhile, the same
/// host fetches an OCSP response, a revocation list or an issuer's certificate elsewhere. If the
/// capture contains no such fetch, the pause is the client's own work, and there is no claim. A
/// fetch that began before the certificates came is not for them.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    secured: Secured,
    pauses: Stretches,
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
        let legs = handshake
            .map(|handshake| handshake.legs.as_slice())
            .unwrap_or_default();
        let paused = legs.iter().max_by_key(|leg| leg.client_think);
        let Some(leg) = paused.filter(|leg| leg.client_think >= ORDINARY_WORK) else {
            return self.secured.add(exchange, Cost::default());
        };
        let cost = cost_of(exchange, leg);
        self.secured.add(exchange, cost);
        self.pauses.add(
            exchange.id.client.addr,
            leg.begin - leg.client_think,
            leg.begin,
        );
        self.packets = Some(self.packets.map_or(leg.packets, |p| p.min(leg.packets)));
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let fetched = self.pauses.enclosing(case.fetches);
        let is_shown = fetched > 0 && fetched as f64 >= self.pauses.count() as f64 * SHARE;
        (is_shown && self.secured.is_material(case))
            .then(|| self.claim(case, fetched))
            .into()
    }
}

/// Returns the cost of a fetch: the whole pause, or the pause minus a round trip.
///
/// Without the fetch, Nagle's algorithm would hold the client's Finished for the ACK of the
/// ChangeCipherSpec before it. With the fetch, it holds the request for the ACK of the Finished
/// instead. If it does, the round trip is not saved.
fn cost_of(exchange: &Exchange, leg: &Leg) -> Cost {
    let pause = leg.client_think;
    let (end, trip) = exchange
        .connecting
        .handshake
        .as_ref()
        .map_or((exchange.begin, None), |h| (h.end, h.round_trip));
    let trip = trip.unwrap_or_default();
    let is_held = trip > ORDINARY_WORK && exchange.begin.since(end) >= trip * 3 / 4;
    let rest = pause.saturating_sub(trip);
    Cost {
        low: nanos(rest.min(pause.saturating_sub(ORDINARY_WORK))),
        likely: nanos(if is_held { rest } else { pause }),
        high: nanos(pause),
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>, fetched: u64) -> Claim {
        let tally = &self.secured.tally;
        let mut claim = self
            .secured
            .claim(Id::TlsRevocationFetch, Owner::Client, case);
        let pause = human(tally.saved.quantile(0.5).unwrap_or_default());
        let text = format!(
            "in {} of {} TLS handshakes the client had the server's certificates and went on {pause} \
             (median) later; in {fetched} of these pauses the same host fetched an OCSP response, \
             a revocation list or an issuer's certificate",
            tally.affected, case.gathered.bearing.handshakes,
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(fetched)
                .median(&tally.saved)
                .packets(&self.packets.map(LegPackets::numbers).unwrap_or_default()),
        );
        claim.basis = Basis::new(fetched, false);
        WORDING.tell(&mut claim, &[("pause", &pause)]);
        claim
    }
}
