//! `tail-loss-probe`: the retransmission came before a retransmission timer would expire, and no
//! report of the receiver required it.

use super::loss::{IN_TIME, RepairKind, conclude_few};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{exchanges} lost segments and waited {saved} until these were \
        retransmitted; {most} of the time until the repairs was spent waiting for \
        probes, which a sender sends after two round trips of silence at the end of a \
        message.",
    overturned_by: IN_TIME,
    fix: &[
        ("path", "find where the segments are lost"),
        (
            "sender",
            "keep tail-loss probes on (net.ipv4.tcp_early_retrans=3): without them each of these waits for a timer",
        ),
    ],
    ..Wording::NONE
};

/// Counts losses that a tail-loss probe repaired.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        conclude_few(case, Id::TailLossProbe, RepairKind::Probe, &WORDING)
    }
}
