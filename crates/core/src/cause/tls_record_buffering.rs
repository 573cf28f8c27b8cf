//! The rule of the cause `tls-record-buffering`.

use super::evidence::human;
use super::secured::{LEAST_FLIGHT_STALL, Secured};
use super::settings::Measured;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::ExchangePackets;
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, FirstRecord};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Cost;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The response's first TLS record is longer than what a new connection may have in \
        flight. A record can be decrypted only as a whole: the first byte reaches the program \
        {stall} (median) later than it would with short records, {share} of the request time \
        including connection setup; the last byte arrives at the same time either way.",
    ruled_out: &[(Id::ServerPause, "an ACK released the rest of the record")],
    overturned_by: "a program that uses the first byte only after it has the last one",
    fix: &[
        (
            "server",
            "shorter records at a connection's start: {ssl_buffer_size} 4k (nginx), dynamic record \
             sizes (HAProxy tune.ssl.maxrecord, Apache's core output filter)",
        ),
        (
            "client",
            "keep connections alive: a window that has grown takes whole records",
        ),
    ],
};

/// Minimum size of a long record, in bytes. A smaller record and its header fit even into the
/// initial window before RFC 6928 (RFC 3390).
const LONG_RECORD: u64 = 4380;

/// Watches responses whose first record stops for a round trip in the middle, because the
/// congestion window is full. A record can be decrypted only as a whole, so the client's program
/// receives nothing until the rest has arrived.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    secured: Secured,
    #[merge(max)]
    longest: u64,
    #[merge(least)]
    packets: Option<ExchangePackets>,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FIRST_RECORD;

    fn observe(&mut self, exchange: &Exchange) {
        let record = exchange
            .response
            .first_record
            .as_deref()
            .filter(|record| is_stalled(exchange, record));
        let cost = record.map_or(Cost::default(), |record| Cost::exactly(record.took));
        self.secured.add(exchange, cost);
        if let Some(record) = record {
            self.longest = self.longest.max(record.bytes);
            let packets = exchange.packets;
            self.packets = Some(self.packets.map_or(packets, |p| p.min(packets)));
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.secured
            .is_material(case)
            .then(|| self.claim(case))
            .into()
    }

    fn measured(&self, _: &Case<'_>) -> Measured {
        Measured {
            record: Some(self.longest),
            ..Measured::default()
        }
    }
}

/// Returns true if the congestion window delayed the end of the record, and neither the program nor
/// a loss did.
fn is_stalled(exchange: &Exchange, record: &FirstRecord) -> bool {
    let Some(trip) = record.round_trip else {
        return false;
    };
    let half = (trip / 2).max(LEAST_FLIGHT_STALL);
    let otherwise = exchange.waited(WaitKind::ServerPause) + exchange.waited(WaitKind::Recovery);
    record.bytes > LONG_RECORD && record.longest_gap >= half && otherwise < half
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let tally = &self.secured.tally;
        let mut claim = self
            .secured
            .claim(Id::TlsRecordBuffering, Owner::Server, case);
        let stall = human(tally.saved.quantile(0.5).unwrap_or_default());
        let text = format!(
            "in {} the first TLS record (at most {}) was complete only {stall} (median) after its \
             first byte: a round trip interrupted it",
            counted(tally.affected, "response", "responses"),
            counted(self.longest, "byte", "bytes"),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved)
                .packets(
                    &self
                        .packets
                        .map(ExchangePackets::numbers)
                        .unwrap_or_default(),
                ),
        );
        claim.basis = Basis::new(tally.affected, false);
        WORDING.tell(&mut claim, &[("stall", &stall)]);
        claim
    }
}
