//! A sweep: probes that differ in one parameter, such as their size, grouped by the parameter's
//! value.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::observed::event::{Coming, ProbeAnswer, ProbeSample, ProbeStep};

/// Maximum number of parameter values kept in a sweep.
const MAX_STEPS: usize = 4_096;
/// Maximum number of kinds of answers kept for each value.
const MAX_ANSWERS: usize = 8;

/// The answers to a sweep's probes, by the parameter's value.
#[derive(Clone, Debug, Default)]
pub(crate) struct SweptProbes {
    pub(crate) steps: BTreeMap<ProbeStep, StepTally>,
    /// Number of bytes before the payload of each packet.
    pub(crate) headers: u16,
}

/// The answers to the probes with one value of the parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepTally {
    pub(crate) sent: u64,
    /// Number of probes by kind of answer. Silence counts as a kind.
    pub(crate) answers: BTreeMap<ProbeAnswer, u64>,
    /// Minimum round trip of the answers from the target itself.
    pub(crate) least: Option<Duration>,
}

impl StepTally {
    /// Returns the number of probes that any host answered, the target or a router.
    pub(crate) fn answered(&self) -> u64 {
        self.sent - self.silent()
    }

    fn silent(&self) -> u64 {
        let silent = self.answers.get(&ProbeAnswer::Silence);
        silent.copied().unwrap_or_default().min(self.sent)
    }

    /// Returns the most frequent answer. If several are equally frequent, the smallest in their
    /// order is returned.
    pub(crate) fn usual(&self) -> Option<ProbeAnswer> {
        let usual = self.answers.iter().rev().max_by_key(|(_, count)| **count);
        usual.map(|(answer, _)| *answer)
    }
}

impl SweptProbes {
    /// Records a probe, or a late answer to a probe that was counted as unanswered.
    pub(crate) fn add_probe(&mut self, sample: &ProbeSample) {
        let Some(step) = sample.step else {
            return;
        };
        if !self.steps.contains_key(&step) && self.steps.len() >= MAX_STEPS {
            return;
        }
        self.headers = self.headers.max(sample.headers);
        let tally = self.steps.entry(step).or_default();
        match sample.coming {
            Coming::InTime => tally.sent += 1,
            Coming::Late => {
                if let Some(silent) = tally.answers.get_mut(&ProbeAnswer::Silence) {
                    *silent = silent.saturating_sub(1);
                }
                tally.answers.retain(|_, count| *count > 0);
            }
            Coming::Again => return,
        }
        if tally.answers.contains_key(&sample.answer) || tally.answers.len() < MAX_ANSWERS {
            *tally.answers.entry(sample.answer).or_default() += 1;
        }
        let is_its = super::is_by_target(sample.method, sample.answer);
        if let Some(rtt) = sample.rtt.filter(|_| is_its) {
            tally.least = Some(tally.least.map_or(rtt, |least| least.min(rtt)));
        }
    }
}
