//! `close-delimited-body`.

use core::time::Duration;

use super::evidence::{self, median};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::report::{Evidence, EvidenceKind, Finding, count, counted};
use crate::service::tally::{Cost, Tally};
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
            "until then close the connection right after the last byte",
        ),
    ],
};

/// Minimum time until the close that counts: a server that closes right after its last byte needs
/// less.
const NOTABLE: Duration = Duration::from_millis(5);

/// Watches responses whose last byte had arrived but whose end was shown only by the end of the
/// connection: the length was not announced, or was larger than the number of bytes.
///
/// The discriminator is that only a FIN follows: a server that pauses within its response sends
/// more of the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    tally: Tally,
    /// Latencies of the affected responses, with the wait and without it: some responses are not
    /// whole and so in no ledger.
    before: Distribution,
    after: Distribution,
    /// Responses that announced more bytes than they had, and the maximum number of bytes missing.
    too_long: u64,
    missing: u64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::CLOSE_WAIT;

    fn observe(&mut self, exchange: &Exchange) {
        let wait = exchange.particulars.close_wait.unwrap_or_default();
        if wait < NOTABLE {
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

    fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.before.absorb(other.before);
        self.after.absorb(other.after);
        self.too_long += other.too_long;
        self.missing = self.missing.max(other.missing);
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
        Conclusion::Finding(Box::new(self.finding(case, all)))
    }
}

impl Rule {
    fn finding(&self, case: &Case<'_>, all: u64) -> Finding {
        let tally = &self.tally;
        let mut finding = evidence::finding(Id::CloseDelimitedBody, Owner::Server, case, tally);
        finding.affected.of = all.max(tally.affected);
        if self.too_long > 0 {
            // Responses cut short are in no ledger from which a latency could be predicted.
            finding.predicted = None;
            let total = u64::try_from(self.before.sum_ns())
                .unwrap_or(u64::MAX)
                .max(1);
            let share = tally.cost.likely as f64 / total.max(case.ledger.total()) as f64;
            finding.share = share.min(1.0);
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
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved)
                .packets(&evidence::answers(&finding.exemplars)),
        );
        finding.verdict = evidence::judge(&finding.evidence, tally.affected, false);
        let reason = match self.too_long {
            0 => "the response does not state where it ends",
            long if long == tally.affected => "its Content-Length is larger than its body",
            _ => "its Content-Length is missing or larger than its body",
        };
        WORDING.tell(
            &mut finding,
            &[("wait", &median(&tally.saved)), ("reason", &reason)],
        );
        finding
    }
}
