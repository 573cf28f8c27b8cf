//! `cpu-quota`: the server's kernel shows that the program's threads were runnable, but that their
//! control group was throttled.

use super::kernel_place::KernelPlace;
use super::served;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::Claim;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: " with the program's threads runnable but throttled: their control group's quota is \
              used up, and they stop until the next period.",
    ruled_out: &[(
        Id::StopTheWorld,
        "the threads did not wait for each other: they were runnable",
    )],
    overturned_by: "`nr_throttled` in the group's cpu.stat not rising",
    fix: &[
        (
            "server",
            "a higher quota (`cpu.max`, `--cpus`, `CPUQuota=`, a higher CPU limit of the pod) or \
             none",
        ),
        (
            "server",
            "as many threads as the quota has processors: more of them use it up sooner",
        ),
        ("server", "`cpu.max.burst`, if the load comes in bursts"),
    ],
};

/// Watches threads that are runnable, but must wait for the next quota period.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_there = |place| matches!(place, KernelPlace::Throttled(_));
        let found = served::claim(Id::CpuQuota, case, is_there);
        found.map(|(claim, _)| told(claim)).into()
    }
}

fn told(mut claim: Claim) -> Claim {
    WORDING.tell(&mut claim, &[]);
    claim
}
