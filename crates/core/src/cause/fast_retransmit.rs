//! `fast-retransmit`: the repetition came sooner than a timer, after the receiver had
//! reported later data (SACK, or the same acknowledgement again).

use super::loss::{Kind, Told, conclude_few};
use super::{Case, Conclusion, Id};

const TOLD: Told = Told {
    id: Id::FastRetransmit,
    kind: Kind::Fast,
    went_to: "segments whose loss later data revealed",
    fix: &[("path", "find where the segments are lost")],
};

/// Counts losses that later data revealed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        conclude_few(case, &TOLD)
    }
}
