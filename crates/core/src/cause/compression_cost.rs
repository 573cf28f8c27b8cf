//! The rule of the cause `compression-cost`.
//!
//! A response that is compressed while it is sent has a content encoding and no length. The
//! compressor is blamed if uncompressed responses for the same target are much quicker. Without
//! such responses, it is blamed with less certainty if the server stops repeatedly between parts
//! that come at a constant rate. A server that computes before it answers would wait only once,
//! before the first byte.

use core::time::Duration;

use super::evidence::{self, ORDINARY_WORK, human, median};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::delivery::{Delivery, Limit};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, Side};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::bounded::Few;

const WORDING: Wording = Wording {
    summary: "The server compresses each response while the client waits, and compression is \
              slower than the network: {own} (median) in {affected} of {all} requests, {share} of \
              all request time.",
    ruled_out: &[(
        Id::BandwidthLimit,
        "each part arrived immediately, and nothing was in flight between the parts",
    )],
    overturned_by: "the same request with `Accept-Encoding: identity` taking equally long: then \
                    generating the content is slow",
    fix: &[
        (
            "server",
            "compress beforehand, and send the stored result (nginx: gzip_static on; brotli_static \
             on)",
        ),
        (
            "server",
            "a lower level ({gzip_comp_level} 4, brotli 4): nearly as small, several times faster",
        ),
        (
            "server",
            "cache the compressed response; do not compress content that does not shrink",
        ),
    ],
};

/// Minimum number of pauses within a response that count as regular.
const LEAST_PAUSES: u32 = 3;
/// Maximum number of targets compared. These are the targets with the lowest hash values.
const MAX_TARGETS: usize = 64;
/// Minimum number of plain responses, and of compressed responses, for a comparison.
const LEAST_COMPARED: u64 = 5;
/// Minimum ratio of the time of compressed responses to that of plain responses.
const FACTOR: u32 = 2;

/// Watches responses that are compressed while they are sent.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    /// Number of compressed responses that stopped repeatedly and came at a constant rate.
    steady: u64,
    /// The server's times by the hash of the request target.
    targets: Few<u64, Compared, MAX_TARGETS>,
}

/// The number of responses for one target and the server's total time for them, without compression
/// and with it.
#[derive(Clone, Copy, Debug, Default, Merge)]
struct Compared {
    plain: (u64, Duration),
    encoded: (u64, Duration),
}

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        let is_encoded = exchange.particulars.is_encoded_on_the_fly;
        // The target is 0 if no response had a content encoding, and then there is nothing to
        // compare.
        if !is_encoded && exchange.particulars.target == 0 {
            return;
        }
        let own = own_time(exchange);
        self.compare(exchange.particulars.target, is_encoded, own);
        if !is_encoded || own < ORDINARY_WORK {
            return;
        }
        self.tally.add(exchange, Cost::exactly(own), Duration::ZERO);
        let is_steady = |delivery: &Delivery| {
            let is_own = delivery.sender == Side::Server && delivery.limit == Limit::Program;
            is_own && delivery.stops >= LEAST_PAUSES && delivery.rate.is_some()
        };
        self.steady += u64::from(exchange.sending.deliveries.iter().any(is_steady));
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let tally = &self.tally;
        if !evidence::is_material(case, tally) || !evidence::is_repeated(case, tally) {
            return Conclusion::Nothing;
        }
        let compared = self.compared();
        let is_told = match compared {
            Some((plain, encoded)) => encoded >= plain * FACTOR && encoded >= plain + ORDINARY_WORK,
            None => self.steady * 2 >= tally.affected,
        };
        is_told.then(|| self.claim(case, compared)).into()
    }
}

/// Returns the time that the server took itself, before and within its response.
fn own_time(exchange: &Exchange) -> Duration {
    let (mut thinks, mut pauses) = (0_u64, 0_u64);
    for wait in &exchange.waits {
        match wait.kind {
            WaitKind::ServerThink => thinks = thinks.saturating_add(wait.nanos()),
            WaitKind::ServerPause => pauses = pauses.saturating_add(wait.nanos()),
            _ => {}
        }
    }
    let close_wait = exchange.particulars.close_wait.unwrap_or_default();
    Duration::from_nanos(thinks) + Duration::from_nanos(pauses).saturating_sub(close_wait)
}

impl Rule {
    fn compare(&mut self, target: u64, is_encoded: bool, own: Duration) {
        if target == 0 {
            return;
        }
        let Some(compared) = self.targets.of(target) else {
            return;
        };
        let of = if is_encoded {
            &mut compared.encoded
        } else {
            &mut compared.plain
        };
        of.0 += 1;
        of.1 += own;
    }

    /// Returns the server's mean times without and with compression, over the targets that were
    /// requested both ways.
    fn compared(&self) -> Option<(Duration, Duration)> {
        let targets = || self.targets.iter().map(|(_, compared)| compared);
        let both = || targets().filter(|of| of.plain.0 > 0 && of.encoded.0 > 0);
        let mean = |of: fn(&Compared) -> (u64, Duration)| {
            let count: u64 = both().map(|compared| of(compared).0).sum();
            let sum: Duration = both().map(|compared| of(compared).1).sum();
            (count >= LEAST_COMPARED).then(|| sum.div_f64(count as f64))
        };
        mean(|compared| compared.plain).zip(mean(|compared| compared.encoded))
    }

    fn claim(&self, case: &Case<'_>, compared: Option<(Duration, Duration)>) -> Claim {
        let tally = &self.tally;
        let mut claim = evidence::claim(Id::CompressionCost, Owner::Server, case, tally);
        let text = match compared {
            Some((plain, encoded)) => format!(
                "the server itself takes {} (mean) for a compressed response, {} for the same \
                 target without compression",
                human(encoded),
                human(plain)
            ),
            None => format!(
                "{} of {} that were compressed on the fly came in parts at a constant rate, and the \
                 time between the parts was the server's own",
                self.steady,
                counted(tally.affected, "response", "responses"),
            ),
        };
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved),
        );
        claim.basis = Basis::new(tally.affected, compared.is_none());
        let affected = claim.affected;
        WORDING.tell(
            &mut claim,
            &[
                ("own", &median(&tally.saved)),
                ("affected", &affected.exchanges),
                ("all", &affected.of),
            ],
        );
        claim
    }
}
