//! `reordering`: a gap was filled by a segment that its sender had sent before the segments that
//! arrived first. The segment has an older IP identification or TSval, or came too soon for a
//! retransmission. A retransmission would have newer numbers. Reordering costs time if the sender
//! retransmits the late segments, or if data that has arrived waits for them.

use super::evidence::{self, human};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The path delivers packets out of order. Early packets wait for late ones, {saved} \
              (median) in {affected} exchanges, and the sender takes some late ones for lost.",
    ruled_out: &[
        (
            Id::PacketLoss,
            "the segments that filled the gaps have an older IP identification or TSval than \
             segments that arrived before them, or came sooner than the sender can have learned of \
             the gap: they were sent first",
        ),
        (
            Id::FastRetransmit,
            "retransmissions have a newer IP identification or TSval",
        ),
    ],
    overturned_by: "a capture at the sender that shows these segments leaving in the order they arrived",
    fix: &[
        (
            "path",
            "distribute load over links by flow, not by packet; look for parallel links of unequal \
             length",
        ),
        (
            "sender",
            "keep RACK on (net.ipv4.tcp_recovery=1): it waits a quarter of a round trip before it \
             marks a segment as lost",
        ),
    ],
};

/// Maximum share of losses among the late segments, in percent.
const LOSSES: u64 = 20;

/// Counts segments that others overtook.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let seen = &case.gathered.disorders;
        let is_seen = seen.overtaken >= evidence::REPEATS && seen.overtaken >= seen.resent;
        let is_lossy = seen.losses * 100 > seen.overtaken * LOSSES;
        if !is_seen || is_lossy || !evidence::is_material(case, &seen.tally) {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(Id::Reordering, Owner::Path, case, &seen.tally);
        let in_vain = match seen.resent {
            0 => String::new(),
            resent => {
                let were = counted(resent, "was", "were");
                format!("; {were} retransmitted needlessly")
            }
        };
        let text = format!(
            "{} arrived after others that were sent later, by their IP identification or TSval, or \
             because they came sooner than a retransmission could{in_vain}",
            counted(seen.overtaken, "segment", "segments")
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(seen.overtaken)
                .median(&seen.tally.saved)
                .packets(seen.overtaken_packets()),
        );
        claim.basis = Basis::new(seen.overtaken, false);
        WORDING.tell(
            &mut claim,
            &[
                (
                    "saved",
                    &human(seen.tally.saved.quantile(0.5).unwrap_or_default()),
                ),
                ("affected", &seen.tally.affected),
            ],
        );
        Conclusion::Claim(Box::new(claim))
    }
}
