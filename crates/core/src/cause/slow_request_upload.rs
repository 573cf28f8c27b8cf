//! The rule of the cause `slow-request-upload`.

use core::time::Duration;

use super::evidence::{self, ORDINARY_WORK, median};
use super::upstream::{UpstreamRole, claimed};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::Exchange;
use crate::exchange::wait::{Owner, WaitKind};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The client begins its request and pauses before it sends the rest, {saved} (median), \
              {share} of all request time. The server cannot answer an incomplete request.",
    ruled_out: &[],
    overturned_by: "the client's own trace showing that the request was written in one call",
    fix: &[(
        "client",
        "produce the request before sending its first byte",
    )],
};

/// Watches pauses within requests in which nothing held the data back.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule(Tally);

impl super::Rule for Rule {
    const CONCERNS: Features = Features::wait(WaitKind::RequestPause);

    fn observe(&mut self, exchange: &Exchange) {
        // The wait for a `100 Continue` is a separate cause.
        let expected = exchange.particulars.expectation.as_deref();
        let expected = expected.filter(|expected| !expected.is_answered);
        let paused = exchange
            .waited(WaitKind::RequestPause)
            .saturating_sub(expected.map(|e| e.waited).unwrap_or_default());
        if paused >= ORDINARY_WORK {
            self.0.add(exchange, Cost::exactly(paused), Duration::ZERO);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        // The time in which a proxy could already have forwarded the upload is the proxy's.
        let behind = claimed(case, &[UpstreamRole::IsAskedLate]);
        let rest = behind.map(|(upstream, _, _)| upstream.upload_rest());
        let tally = rest.as_ref().unwrap_or(&self.0);
        let is_told = !case.ledger.is_untold();
        if !is_told || !evidence::is_material(case, tally) || !evidence::recurs(case, tally) {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(Id::SlowRequestUpload, Owner::Client, case, tally);
        let text = format!(
            "{} paused for {} (median) between two parts, although nothing held the second part \
             back",
            counted(tally.affected, "request", "requests"),
            median(&tally.saved),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved),
        );
        claim.basis = Basis::new(tally.affected, false);
        WORDING.tell(&mut claim, &[("saved", &median(&tally.saved))]);
        Conclusion::Claim(Box::new(claim))
    }
}
