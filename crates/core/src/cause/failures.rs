//! Requests that failed although the server had accepted them. The rules on faulty servers use
//! them.

use core::time::Duration;

use super::attempts::{Attempts, repeats};
use super::evidence::{self, REPEATS};
use super::first_packets::FirstPackets;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Ceiling, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome};
use crate::observed::event::{ProbeAnswer, RequestFailure};
use crate::observed::packet::PacketNumber;
use crate::report::{Affected, EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

/// Minimum share of failed requests for a claim, if at least `REPEATS` failed.
const SHARE: f64 = 0.05;
/// Minimum number of failed requests for a claim, if at least half of all requests failed.
const FEW: u64 = 2;

/// The requests that failed in one way.
#[derive(Clone, Debug, Default, Merge)]
pub(super) struct Failures {
    pub(super) tally: Tally,
    /// Number of failed requests that the end of the capture cut off. No ledger counts them.
    cut: u64,
    packets: FirstPackets,
}

/// A way in which requests fail.
pub(super) struct FailureKind {
    pub(super) id: Id,
    /// Predicates that select our own requests by their outcome.
    pub(super) is_answer: fn(ProbeAnswer) -> bool,
    pub(super) is_failure: fn(RequestFailure) -> bool,
    /// Returns true if our own requests show that not all requests fail in this way.
    pub(super) is_refuted: fn(&Attempts) -> bool,
    /// The end of a sentence that begins with the number of requests, such as "were closed or reset
    /// before a complete response".
    pub(super) what: &'static str,
}

impl Failures {
    /// Counts an exchange that failed.
    pub(super) fn add(&mut self, exchange: &Exchange) {
        let cost = Cost::exactly(exchange.latency());
        self.tally.add(exchange, cost, Duration::ZERO);
        self.cut += u64::from(exchange.outcome == Outcome::Cut);
        self.packets
            .extend(exchange.packets.first.map(PacketNumber::get));
    }

    /// Returns the number of all requests, failed or not.
    fn all(&self, case: &Case<'_>) -> u64 {
        case.ledger.uncut() + self.cut
    }

    /// Returns the claim with its evidence from packets and from our own requests. `words` adds
    /// the texts.
    pub(super) fn conclude(
        &self,
        case: &Case<'_>,
        kind: &FailureKind,
        words: impl FnOnce(&mut Claim),
    ) -> Conclusion {
        self.conclude_of(case, kind, (self.tally.affected, false), words)
    }

    /// Returns the conclusion for `failed` requests, if not all counted requests really failed, and
    /// whether they may have failed for another reason than the server.
    pub(super) fn conclude_of(
        &self,
        case: &Case<'_>,
        kind: &FailureKind,
        (failed, has_look_alike): (u64, bool),
        words: impl FnOnce(&mut Claim),
    ) -> Conclusion {
        let probed = probed(case, kind);
        // Without packets, the requests are our own, which `probed` counts too.
        let mut found = if self.packets.is_empty() && !probed.is_empty() {
            Vec::new()
        } else {
            self.seen(case, kind, failed)
        };
        found.extend(probed);
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(kind.id, Owner::Server, case, &self.tally);
        claim.time.predicted = None;
        claim.affected = Affected {
            exchanges: failed,
            of: self.all(case),
        };
        claim.basis = Basis::new(repeats(&found), false);
        if has_look_alike {
            claim.basis.cap(Ceiling::OneEnd);
        }
        claim.evidence = found;
        words(&mut claim);
        Conclusion::Claim(Box::new(claim))
    }

    /// Returns the evidence from the failed requests; empty if there are too few.
    fn seen(&self, case: &Case<'_>, kind: &FailureKind, failed: u64) -> Vec<Statement> {
        let all = self.all(case);
        let is_many = failed >= REPEATS && failed as f64 >= all as f64 * SHARE;
        let is_half = failed >= FEW && failed * 2 >= all;
        if !is_many && !is_half {
            return Vec::new();
        }
        let text = format!(
            "{failed} of {} {}",
            counted(all, "request", "requests"),
            kind.what,
        );
        let by = if self.packets.is_empty() {
            EvidenceKind::OwnSocket
        } else {
            EvidenceKind::Wire
        };
        vec![
            Statement::shows(by, text)
                .count(failed)
                .median(&self.tally.saved)
                .packets(&self.packets),
        ]
    }
}

/// Returns the evidence from our own requests; empty if any of them did better.
fn probed(case: &Case<'_>, kind: &FailureKind) -> Vec<Statement> {
    let attempts = Attempts::of(case).unwrap_or_default();
    if (kind.is_refuted)(&attempts) {
        return Vec::new();
    }
    let has_connected = attempts.has_connected();
    let is_answer =
        |answer| (kind.is_answer)(answer) && (has_connected || answer != ProbeAnswer::Silence);
    attempts.requests(is_answer, kind.is_failure, kind.what)
}
