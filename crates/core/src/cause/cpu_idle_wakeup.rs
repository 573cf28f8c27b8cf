//! `cpu-idle-wakeup`: the server's kernel shows that the program's threads were runnable. The
//! processors that then ran them had been idle.

use core::time::Duration;

use super::evidence::human;
use super::kernel_place::KernelPlace;
use super::served;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Claim, Statement};
use crate::report::EvidenceKind;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: " with the program's threads runnable while an idle processor is slow to run them: \
              it sleeps too deeply.",
    ruled_out: &[
        (
            Id::CpuQuota,
            "no control group of these threads has a quota",
        ),
        (
            Id::WorkerSaturation,
            "the processor that ran them had been idle",
        ),
    ],
    overturned_by: "the same times while a program keeps `/dev/cpu_dma_latency` open with 0 in \
        it, so that no processor sleeps",
    fix: &[
        (
            "server's machine",
            "`cpupower idle-set -D 10` and the `performance` governor, or a `tuned` profile for \
             latency: no deep sleep between requests",
        ),
        (
            "server's machine",
            "in a virtual machine whose steal time grows: dedicated processors (pinned, not shared \
             with others)",
        ),
    ],
};

/// The wording if the hypervisor took the processor time.
const STOLEN: Wording = Wording {
    summary: " with the program's threads runnable while an idle processor is slow to run them: \
              the hypervisor has given it to others.",
    ..WORDING
};

/// Watches processors that wake slowly, or that the hypervisor has given to others.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_there = |place| matches!(place, KernelPlace::WakeUp(_));
        match served::claim(Id::CpuIdleWakeup, case, is_there) {
            Some((claim, KernelPlace::WakeUp(stolen))) => Some(told(claim, stolen)),
            _ => None,
        }
        .into()
    }
}

fn told(mut claim: Claim, stolen: Option<Duration>) -> Claim {
    let stolen = stolen.filter(|stolen| !stolen.is_zero());
    if let Some(stolen) = stolen {
        let text = format!(
            "in that time the hypervisor gave {} of its processors' time to others (steal time)",
            human(stolen)
        );
        claim
            .evidence
            .push(Statement::fits(EvidenceKind::Counter, text));
    }
    let wording = match stolen {
        Some(_) => &STOLEN,
        None => &WORDING,
    };
    wording.tell(&mut claim, &[]);
    claim
}
