//! The rule of the cause `head-of-line-blocking`.

use core::time::Duration;

use super::evidence::{self, median};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::wait::{Owner, WaitKind};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "Several requests share a connection on which responses come in the order of the \
              requests: requests after a slow one wait {waited} (median) for it, {share} of all \
              request time.",
    ruled_out: &[(
        Id::ServerThink,
        "the time of these requests passed before the response ahead of theirs was complete",
    )],
    overturned_by: "the server's log showing that each of these requests took that long by itself",
    fix: &[
        (
            "client",
            "more connections and one request at a time on each, instead of pipelining",
        ),
        (
            "client and server",
            "HTTP/2 or HTTP/3, whose streams do not wait for each other",
        ),
        (
            "server",
            "make the slow responses faster: they hold up the rest",
        ),
    ],
};

/// Minimum wait that counts. Shorter waits are the transmission of earlier responses.
const LEAST_WAIT_BEHIND: Duration = Duration::from_millis(5);

/// Watches requests that were sent before an earlier request on their connection was answered.
/// Their responses had to wait for the earlier response (RFC 9112 §9.3.2).
///
/// The sign is that the request had already been sent. A client that sends only after a response
/// may also have a request ready, but packets do not show that.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule(Tally);

impl super::Rule for Rule {
    const CONCERNS: Features = Features::wait(WaitKind::Behind);

    fn observe(&mut self, exchange: &Exchange) {
        let behind = exchange.waited(WaitKind::Behind);
        if behind >= LEAST_WAIT_BEHIND {
            self.0.add(exchange, Cost::exactly(behind), Duration::ZERO);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let tally = &self.0;
        if !evidence::is_material(case, tally) || !evidence::recurs(case, tally) {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(claim(case, tally)))
    }
}

fn claim(case: &Case<'_>, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::HeadOfLineBlocking, Owner::Client, case, tally);
    let text = format!(
        "{} had been sent before the response ahead of theirs was complete, and waited {} (median) \
         for it",
        counted(tally.affected, "request", "requests"),
        median(&tally.saved),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(tally.affected)
            .median(&tally.saved)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    claim.basis = Basis::new(tally.affected, false);
    WORDING.tell(&mut claim, &[("waited", &median(&tally.saved))]);
    claim
}
