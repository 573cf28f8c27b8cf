//! `spurious-retransmission`: the retransmitted data had already arrived. A D-SACK shows it, or an
//! ACK that came too soon or has an older timestamp, or a capture that contains both copies. If the
//! sender's numbers show that segments overtook each other, `reordering` is the cause instead.

use super::evidence::{self, human};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "Segments are retransmitted although they are not lost, and the sender slows down \
              because of this: {saved} (median) in {affected} exchanges.",
    ruled_out: &[(
        Id::PacketLoss,
        "the receiver said that the first copies had arrived",
    )],
    overturned_by: "a capture at the receiver that shows only one copy of each arriving",
    fix: &[
        (
            "path",
            "find what delays or reorders packets for longer than the sender waits",
        ),
        (
            "sender",
            "keep RACK, timestamps and D-SACK on (net.ipv4.tcp_recovery=1, tcp_timestamps=1, \
             tcp_dsack=1): with them the sender undoes the reduction of its window",
        ),
    ],
};

/// Counts needless retransmissions.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let seen = &case.gathered.disorders;
        let losses = &case.gathered.losses;
        // If the receiver later reported most losses as received twice, they were needless
        // retransmissions. Their number and time are still in the losses.
        let (resent, tally) = if losses.are_taken_back() {
            (seen.resent + losses.taken_back(), &losses.tally)
        } else {
            (seen.resent, &seen.tally)
        };
        let left = seen.losses.saturating_sub(losses.taken_back());
        let is_reordering = seen.overtaken >= resent;
        let is_material = evidence::is_material(case, tally);
        if resent < evidence::REPEATS || is_reordering || left > resent || !is_material {
            return Conclusion::Nothing;
        }
        if left > 0 && !losses.are_taken_back() {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(Id::SpuriousRetransmission, Owner::Path, case, tally);
        let untold = match left {
            0 => String::new(),
            _ => format!(
                "; for {} this is not known",
                counted(left, "other", "others")
            ),
        };
        let text = format!(
            "{} retransmitted although they had arrived{untold}",
            counted(resent, "segment was", "segments were")
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(resent)
                .packets(seen.resent_packets()),
        );
        claim.basis = Basis::new(resent, false);
        WORDING.tell(
            &mut claim,
            &[
                (
                    "saved",
                    &human(tally.saved.quantile(0.5).unwrap_or_default()),
                ),
                ("affected", &tally.affected),
            ],
        );
        Conclusion::Claim(Box::new(claim))
    }
}
