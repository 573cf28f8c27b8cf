//! Conclusions from probes that differ only in one parameter: a faulty member of parallel paths,
//! the size above which packets are lost, and the kind of packet filter.

mod flags;
mod ports;
mod sizes;
#[cfg(test)]
mod tests;

use crate::facts::{Facts, ProbeKey, StepTally, SweptProbes};
use crate::observed::event::{ProbeAnswer, ProbeStep};
use crate::observed::segment::TcpFlags;
use crate::report::{ProbeStepRow, Remark};

/// Returns the rows of one group's sweep.
pub(super) fn rows(sweep: &SweptProbes) -> Vec<ProbeStepRow> {
    let row = |(step, tally): (&ProbeStep, &StepTally)| {
        let (by, value) = match step {
            ProbeStep::SourcePort(port) => ("source-port", port.to_string()),
            ProbeStep::Size(size) => ("size", size.to_string()),
            ProbeStep::Flags(flags) => ("flags", TcpFlags(*flags).to_string()),
        };
        ProbeStepRow {
            by: by.to_owned(),
            value,
            sent: tally.sent,
            received: tally.answered(),
            answer: tally.usual().map_or_else(String::new, ProbeAnswer::name),
            least_ns: tally.least.map(|least| least.as_nanos() as u64),
        }
    };
    sweep.steps.iter().map(row).collect()
}

/// Returns the remarks on the sweeps, one sentence each.
pub(super) fn remarks(facts: &Facts) -> Vec<Remark> {
    let groups = facts.probes.iter();
    groups
        .flat_map(|(key, group)| {
            let sweep = &group.sweep;
            [
                ports::remark(key, sweep),
                sizes::remark(key, sweep),
                flags::remark(key, sweep),
            ]
        })
        .flatten()
        .collect()
}

fn told(id: &str, key: &ProbeKey, text: &str) -> Remark {
    Remark {
        id: id.to_owned(),
        text: format!("{}: {text}", key.target_name()),
    }
}
