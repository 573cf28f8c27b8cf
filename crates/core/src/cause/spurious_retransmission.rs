//! `spurious-retransmission`: what was sent again had arrived, by D-SACK, by
//! an answer too soon or with an older timestamp, or because both copies were
//! seen arriving. Where the sender's numbers show that segments overtook each
//! other, that is the cause, and it is `reordering`'s.

use super::evidence::{self, fix, human, ruled_out};
use super::{Case, Conclusion, Id};
use crate::report::{Evidence, EvidenceKind};
use crate::wait::Owner;

/// Counts repetitions that were not needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let seen = &case.gathered.disorders;
        let is_reordering = seen.overtaken >= seen.resent;
        let is_material = evidence::is_material(case, &seen.tally);
        if seen.resent < evidence::REPEATS || is_reordering || seen.losses > 0 || !is_material {
            return Conclusion::Nothing;
        }
        let mut finding =
            evidence::finding(Id::SpuriousRetransmission, Owner::Path, case, &seen.tally);
        let text = format!(
            "{} segments were sent again although they had arrived, and none was lost",
            seen.resent
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(seen.resent)
                .packets(seen.resent_packets()),
        );
        finding.verdict = evidence::judge(&finding.evidence, seen.resent, false);
        finding.summary = format!(
            "Segments are sent again although none is lost, and the sender slows down for it: \
             {} (median) in {} exchanges.",
            human(seen.tally.saved.quantile(0.5).unwrap_or_default()),
            seen.tally.affected,
        );
        finding.ruled_out = vec![ruled_out(
            Id::PacketLoss,
            "the receiver said that the first copies had arrived",
        )];
        finding.overturned_by =
            "a capture at the receiver that shows only one copy of each arriving".to_owned();
        finding.fix = vec![
            fix(
                "path",
                "find what delays or reorders packets by more than the sender waits",
            ),
            fix(
                "sender",
                "keep RACK, timestamps and D-SACK on (net.ipv4.tcp_recovery=1, tcp_timestamps=1, tcp_dsack=1): with them the sender takes its slowing down back",
            ),
        ];
        Conclusion::Finding(Box::new(finding))
    }
}
