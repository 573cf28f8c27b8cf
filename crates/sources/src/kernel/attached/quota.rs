//! Throttling of the watched programs by the CPU quotas of their cgroups during a watch
//! (`cpu.stat`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lagtrace_core::observed::kernel_span::Throttling;

use crate::socket::cgroup;

/// Maximum number of processes whose cgroups are looked up.
const MAX_PROCESSES: usize = 256;

/// The cgroups of the watched programs, each with its counts when it was first seen.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    processes: BTreeSet<u32>,
    groups: BTreeMap<PathBuf, Throttling>,
}

impl Quotas {
    /// Adds the cgroups of a newly seen process.
    pub(super) fn meet(&mut self, pid: u32) {
        if self.processes.contains(&pid) || self.processes.len() >= MAX_PROCESSES {
            return;
        }
        self.processes.insert(pid);
        for folder in cgroup::folders_of_cpu(pid) {
            if let Some(counted) = counted(&folder) {
                self.groups.entry(folder).or_insert(counted);
            }
        }
    }

    /// Returns the sum of the counts since each cgroup was first seen; `None` without a quota.
    pub(super) fn since(&self) -> Option<Throttling> {
        let since = self.groups.iter().filter_map(|(folder, before)| {
            let now = counted(folder)?;
            Some(Throttling {
                periods: now.periods.saturating_sub(before.periods),
                time: now.time.saturating_sub(before.time),
            })
        });
        since.reduce(|sum, one| Throttling {
            periods: sum.periods + one.periods,
            time: sum.time + one.time,
        })
    }
}

/// Reads `nr_throttled` and, by cgroup version, `throttled_usec` (2) or `throttled_time` in ns (1)
/// (`kernel/sched/core.c: cpu_cfs_stat_show()`).
fn counted(folder: &Path) -> Option<Throttling> {
    read(&fs::read_to_string(folder.join("cpu.stat")).ok()?)
}

fn read(text: &str) -> Option<Throttling> {
    let value = |name: &str| -> Option<u64> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
    };
    let micros = || value("throttled_usec").map(Duration::from_micros);
    let nanos = || value("throttled_time").map(Duration::from_nanos);
    Some(Throttling {
        periods: value("nr_throttled")?,
        time: micros().or_else(nanos)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let expected = Some(Throttling {
            periods: 7,
            time: Duration::from_millis(5),
        });
        let second = "usage_usec 1\nnr_periods 9\nnr_throttled 7\nthrottled_usec 5000\n";
        assert_eq!(read(second), expected);
        let first = "nr_periods 9\nnr_throttled 7\nthrottled_time 5000000\n";
        assert_eq!(read(first), expected);
        assert_eq!(
            read("usage_usec 1\n"),
            None,
            "a group without the controller"
        );
    }
}
