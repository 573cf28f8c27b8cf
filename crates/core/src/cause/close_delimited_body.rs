//! The rule of the cause `close-delimited-body`.

use core::time::Duration;

use super::evidence::{self, ORDINARY_WORK, median};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, count, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "The response has arrived, but the client cannot know that it is complete, because \
        {reason}; the client waits {wait} (median) until the server closes the connection, {share} \
        of all request time.",
    ruled_out: &[(
        Id::ServerPause,
        "no byte of the response followed the silence",
    )],
    overturned_by: "bytes of these responses that the capture missed after the silence",
    fix: &[
        (
            "server",
            "send the right Content-Length, or Transfer-Encoding: chunked with its last chunk",
        ),
        (
            "server",
            "until then, close the connection right after the last byte",
        ),
    ],
};

/// Watches responses whose end only the close of the connection shows, although the last byte
/// arrived earlier. The response has no length, or its length is larger than the body.
///
/// The sign is that only a FIN follows. A server that pauses within a response sends more data
/// after the pause.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    /// Latencies of the affected responses with the wait (`before`) and without it (`after`). Some
    /// of these responses are incomplete, and the ledger does not contain them.
    before: Distribution,
    after: Distribution,
    /// Number of responses whose length was larger than their body, and the maximum number of
    /// missing bytes.
    too_long: u64,
    #[merge(max)]
    missing: u64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::CLOSE_WAIT;

    fn observe(&mut self, exchange: &Exchange) {
        let wait = exchange.particulars.close_wait.unwrap_or_default();
        if wait < ORDINARY_WORK {
            return;
        }
        self.tally
            .add(exchange, Cost::exactly(wait), Duration::ZERO);
        self.before.record(exchange.latency());
        self.after.record(exchange.latency().saturating_sub(wait));
        let missing = exchange.particulars.missing_bytes;
        self.too_long += u64::from(missing > 0);
        self.missing = self.missing.max(missing);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let all = case.ledger.counts.count + case.ledger.counts.errors;
        let is_repeated =
            self.tally.affected >= evidence::REPEATS || self.tally.affected * 2 >= all;
        let is_material = if self.too_long * 2 >= self.tally.affected {
            evidence::betters(&self.before, &self.after)
        } else {
            evidence::is_material(case, &self.tally)
        };
        if !is_material || !is_repeated || self.tally.affected == 0 {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case, all)))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>, all: u64) -> Claim {
        let tally = &self.tally;
        let mut claim = evidence::claim(Id::CloseDelimitedBody, Owner::Server, case, tally);
        claim.affected.of = all.max(tally.affected);
        if self.too_long > 0 {
            // The ledger does not contain incomplete responses, so no latency can be predicted.
            claim.time.predicted = None;
            let total = u64::try_from(self.before.sum_ns()).unwrap_or(u64::MAX);
            claim.time.whole_ns = case.weigh(total.max(case.ledger.total()));
        }
        let why = match self.too_long {
            0 => "no Content-Length and no chunked coding".to_owned(),
            long => format!(
                "in {} of them Content-Length is larger than the body, by up to {}",
                count(long),
                counted(self.missing, "byte", "bytes")
            ),
        };
        let text = format!(
            "after the last byte of {} nothing more came until the server's FIN, {} \
             (median) later; {why}",
            counted(tally.affected, "response", "responses"),
            median(&tally.saved),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved)
                .packets(&evidence::answers(&claim.exemplars)),
        );
        claim.basis = Basis::new(tally.affected, false);
        let reason = match self.too_long {
            0 => "the response does not state where it ends",
            long if long == tally.affected => "its Content-Length is larger than its body",
            _ => "its Content-Length is missing or larger than its body",
        };
        WORDING.tell(
            &mut claim,
            &[("wait", &median(&tally.saved)), ("reason", &reason)],
        );
        claim
    }
}
