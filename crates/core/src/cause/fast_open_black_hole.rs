//! The rule of the cause `fast-open-black-hole`.

use super::delays::Delays;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::wait::Owner;
use crate::report::counted;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "Something on the path to {service} drops SYNs that carry data. TCP Fast Open, which \
        should save a round trip, costs {lost} (median).",
    ruled_out: &[(Id::SynLoss, "no SYN without data was lost")],
    overturned_by: "a SYN with data on the same path that is answered",
    fix: &[
        (
            "client",
            "switch Fast Open off for this path: net.ipv4.tcp_fastopen=0, or the program's own \
             option",
        ),
        ("path", "let SYNs with data through"),
    ],
};

/// Minimum number of lost SYNs with data for a claim.
const LOST: u64 = 2;

/// Watches SYNs with data (TCP Fast Open, RFC 7413) that are never answered, although the same SYN
/// without data is answered immediately.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    delays: Delays,
    /// Number of SYNs with data that were answered.
    passed: u64,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        if !setup.opening.has_data || setup.outcome != Some(SetupOutcome::Established) {
            return;
        }
        if setup.syns.retransmissions == 0 {
            self.passed += 1;
        } else {
            self.delays.add_setup(setup.repeated_for(), setup);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_hole = self.delays.count() >= LOST && self.passed == 0;
        if !is_hole || !self.delays.is_material(case) {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case)))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self.delays.claim(Id::FastOpenBlackHole, Owner::Path, case);
        let text = format!(
            "all {} with data stayed unanswered; the same without data was answered immediately, \
             {} (median) later",
            counted(self.delays.count(), "SYN", "SYNs"),
            self.delays.median(),
        );
        claim.evidence.push(self.delays.evidence(text));
        claim.basis = Basis::new(self.delays.count(), false);
        WORDING.tell(&mut claim, &[("lost", &self.delays.median())]);
        claim
    }
}
