//! `fast-retransmit`: the repetition came sooner than a timer, after the receiver had
//! reported later data (SACK, or the same acknowledgement again).

use super::loss::{Kind, Losses, Told, conclude_few};
use super::{Case, Conclusion};
use crate::exchange::Exchange;

const TOLD: Told = Told {
    id: "fast-retransmit",
    kind: Kind::Fast,
    did: "lost a segment that later data revealed; each waited",
    until: "until it was sent again",
    fix: &[
        ("path", "find where the segments are lost"),
    ],
};

/// Counts losses that later data revealed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule(Losses);

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        self.0.observe(exchange);
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        conclude_few(&self.0, case, &TOLD)
    }
}
