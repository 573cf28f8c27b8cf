//! `tail-loss-probe`: the repetition came sooner than a timer, and the receiver had
//! reported nothing that would have asked for it.

use super::loss::{Kind, Told, conclude_few};
use super::{Case, Conclusion, Id};

const TOLD: Told = Told {
    id: Id::TailLossProbe,
    kind: Kind::Probe,
    went_to: "probes, which a sender makes after two round trips of silence behind the end of a message",
    fix: &[
        ("path", "find where the segments are lost"),
        (
            "sender",
            "keep tail-loss probes on (net.ipv4.tcp_early_retrans=3): without them each of these waits for a timer",
        ),
    ],
};

/// Counts losses that a probe revealed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        conclude_few(case, &TOLD)
    }
}
