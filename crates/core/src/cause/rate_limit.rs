//! `rate-limit`: of requests here, of bytes in [`byte_rate`](super::byte_rate).

use super::byte_rate::ByteRate;
use super::evidence::{self, fix, human, median, percent, ruled_out};
use super::rhythm::{Gate, Nature};
use super::tally::Tally;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::Exchange;
use crate::report::{Evidence, EvidenceKind, Finding};
use crate::wait::Owner;

/// Answers one at a time, a fixed time apart, by a server that answers a
/// request which meets no other at once: the distance is a limit, not work.
///
/// The discriminator is the quick answer: a worker that needs a turn for each
/// request needs it for the first one too. And its rate is a round number, as
/// limits are: a server that takes up connections at some pace of its own shows
/// the same turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    bytes: ByteRate,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::DELIVERIES;

    fn observe(&mut self, exchange: &Exchange) {
        self.bytes.observe(exchange);
    }

    fn merge(&mut self, other: Self) {
        self.bytes.merge(other.bytes);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            Some((Nature::Admits(gate), tally)) => {
                Conclusion::Finding(Box::new(finding(case, gate, tally)))
            }
            _ => self.bytes.conclude(case),
        }
    }
}

fn finding(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Finding {
    let mut finding = evidence::finding(Id::RateLimit, Owner::Server, case, tally);
    finding.exemplars = case.ledger.slowest.exemplars();
    let (even, of) = gate.even;
    let text = format!(
        "{even} of {of} answers to requests that waited side by side came {} after the one before",
        human(gate.turn)
    );
    finding.evidence.push(
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(even as u64)
            .packets(&evidence::answers(&finding.exemplars)),
    );
    let text = format!(
        "a request that met no other was answered in {}",
        human(gate.quickest)
    );
    finding
        .evidence
        .push(Evidence::mechanism(EvidenceKind::Wire, text));
    finding.verdict = evidence::judge(&finding.evidence, tally.affected, false);
    finding.summary = format!(
        "The server answers one request every {}, {:.3} a second, whatever it is asked: the \
         others wait their turn, {} (median), {} of all request time. It can answer sooner, for \
         it does where nothing waits.",
        human(gate.turn),
        1.0 / gate.turn.as_secs_f64(),
        median(&tally.saved),
        percent(finding.share),
    );
    finding.ruled_out.push(ruled_out(
        Id::WorkerSaturation,
        format!(
            "a worker that needs {} for a request needs it for the first one too; here it took {}",
            human(gate.turn),
            human(gate.quickest)
        ),
    ));
    finding.overturned_by =
        "the server's configuration without a limit, or quick answers between the turns".to_owned();
    finding.fix = vec![
        fix(
            "server",
            "raise the limit, or let bursts pass at once: `limit_req … burst=N nodelay` (nginx)",
        ),
        fix(
            "client",
            "ask no faster than the limit: what is above it only waits",
        ),
    ];
    finding
}
