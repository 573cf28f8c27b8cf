//! `lost-retransmission`: the same bytes were sent a third time, because the first retransmission
//! was lost like the original.

use super::loss::{IN_TIME, RepairKind, conclude_few};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{exchanges} lost segments and waited {saved} until these were \
        retransmitted; {most} of the time until the repairs was for retransmissions that \
        were lost too.",
    overturned_by: IN_TIME,
    fix: &[
        (
            "path",
            "find where the segments are lost: a place that also drops retransmissions drops in \
             bursts, or drops all segments of one kind",
        ),
        (
            "sender",
            "keep RACK on (net.ipv4.tcp_recovery=1): it notices a lost retransmission within a \
             round trip; without it the sender waits for a timer",
        ),
    ],
    ..Wording::NONE
};

/// Counts losses whose retransmission was lost too.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        conclude_few(case, Id::LostRetransmission, RepairKind::Again, &WORDING)
    }
}
