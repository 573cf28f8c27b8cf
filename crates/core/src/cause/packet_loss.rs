//! The rule of the cause `packet-loss`.

use super::evidence::human;
use super::loss::RepairKind;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The path loses packets. {part} of the exchanges had to wait for a retransmission, \
        {typical} (median).{tail}",
    ruled_out: &[
        (
            Id::Reordering,
            "segments that were only reordered, by their IP identification or TSval, are not \
             counted",
        ),
        (
            Id::SpuriousRetransmission,
            "retransmissions are not counted if a D-SACK, a very early answer, or an answer with \
             an older timestamp shows that the original arrived",
        ),
    ],
    overturned_by: "a capture at the other end that shows every one of these segments arriving",
    fix: &[
        (
            "path",
            "find the hop that loses packets: a policer, a full queue, a bad link or a duplex \
             mismatch",
        ),
        (
            "path",
            "shape below the policer's rate, or raise the allowance",
        ),
        (
            "sender",
            "pace large messages (fq), keep RACK-TLP on (net.ipv4.tcp_recovery=1)",
        ),
    ],
};

/// The sentence on losses that no later data reveals.
const AT_THE_END: &str = " After the last segments of a message, no later data reveals a loss, so \
                          the sender waits for a timer.";
/// The sentence on losses that timers repaired although they were known.
const AMID: &str = " The senders waited for timers although later data had already revealed the \
                    losses to the receivers.";

/// Counts losses that affect several connections.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let losses = case.gathered.losses.whole();
        let found = losses.claim(Id::PacketLoss, case);
        let Some(mut claim) = found.filter(|_| losses.is_widespread()) else {
            return Conclusion::Nothing;
        };
        let typical = human(losses.tally.saved.quantile(0.5).unwrap_or_default());
        let tail = match losses.kind() {
            RepairKind::Timeout | RepairKind::Probe if losses.are_at_the_end() => AT_THE_END,
            RepairKind::Timeout | RepairKind::Probe => AMID,
            RepairKind::Again | RepairKind::Fast => "",
        };
        WORDING.tell(&mut claim, &[("typical", &typical), ("tail", &tail)]);
        Conclusion::Claim(Box::new(claim))
    }
}
