//! `retransmission-timeout`: the retransmission was sent at least a round trip plus 200 ms after
//! the previous copy, whatever the receiver reported in that time.

use super::loss::{IN_TIME, RepairKind, conclude_few};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{exchanges} lost segments and waited {saved} until these were \
        retransmitted; {most} of the time until the repairs was spent waiting for \
        timers, {place}.",
    overturned_by: IN_TIME,
    fix: &[
        ("path", "find where the segments are lost"),
        ("sender", "{change}"),
    ],
    ..Wording::NONE
};

/// Counts losses that only a retransmission timer repaired.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        conclude_few(
            case,
            Id::RetransmissionTimeout,
            RepairKind::Timeout,
            &WORDING,
        )
    }
}
