//! `fast-retransmit`: the retransmission came before any timer expired, after the receiver had
//! reported later data by SACK or duplicate ACKs.

use super::loss::{IN_TIME, RepairKind, conclude_few};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{exchanges} lost segments and waited {saved} until these were \
        retransmitted; {most} of the time until the repairs was for segments whose loss \
        was revealed by later data.",
    overturned_by: IN_TIME,
    fix: &[("path", "find where the segments are lost")],
    ..Wording::NONE
};

/// Counts losses that later data revealed.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        conclude_few(case, Id::FastRetransmit, RepairKind::Fast, &WORDING)
    }
}
