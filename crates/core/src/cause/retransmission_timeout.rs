//! `retransmission-timeout`: the repetition came a round trip and 200 ms after the
//! copy before it, or later, whatever the receiver said meanwhile.

use super::loss::{Kind, Losses, Told, conclude_few};
use super::{Case, Conclusion};
use crate::exchange::Exchange;

const TOLD: Told = Told {
    id: "retransmission-timeout",
    kind: Kind::Timeout,
    did: "lost a segment at the end of a message, where nothing follows that would reveal the loss, and waited",
    until: "for a timer",
    fix: &[
        ("path", "find where the segments are lost"),
        ("sender", "tail-loss probes on (net.ipv4.tcp_early_retrans=3); in a data centre a lower rto_min on the route"),
    ],
};

/// Counts losses that only a timer repaired.
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
