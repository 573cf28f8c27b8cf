//! `softirq-backlog`: in packets, this time looks like the program's. The server's kernel shows
//! when a segment arrived, and when its network stack began to process it.

use super::kernel_place::KernelPlace;
use super::served;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::Claim;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: " between the device's driver and the network stack: packets wait for the softirqs of \
        a busy processor.",
    ruled_out: &[],
    overturned_by: "`time_squeeze` in /proc/net/softnet_stat not rising",
    fix: &[
        (
            "server",
            "spread the device's interrupts over more processors (RSS queues, RPS, irqbalance)",
        ),
        (
            "server",
            "raise `net.core.netdev_budget` and `netdev_budget_usecs` if `time_squeeze` grows",
        ),
        (
            "server",
            "keep real-time tasks off the processors that handle the interrupts",
        ),
    ],
};

/// Watches requests that have arrived, but that the network stack does not process yet.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let found = served::claim(Id::SoftirqBacklog, case, |place| {
            place == KernelPlace::Backlog
        });
        found.map(|(claim, _)| told(claim)).into()
    }
}

fn told(mut claim: Claim) -> Claim {
    WORDING.tell(&mut claim, &[]);
    claim
}
