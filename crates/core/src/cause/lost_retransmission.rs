//! `lost-retransmission`: the same bytes were needed a third time, the first repetition
//! having been lost like the original.

use super::loss::{Kind, Told, conclude_few};
use super::{Case, Conclusion, Id};

const TOLD: Told = Told {
    id: Id::LostRetransmission,
    kind: Kind::Again,
    went_to: "repetitions that were lost too",
    fix: &[
        (
            "path",
            "find where the segments are lost: what loses a repetition too loses in bursts, or all segments of a kind",
        ),
        (
            "sender",
            "RACK on (net.ipv4.tcp_recovery=1): it notices a lost repetition within a round trip where others wait for a timer",
        ),
    ],
};

/// Counts losses whose repetition was lost too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        conclude_few(case, &TOLD)
    }
}
