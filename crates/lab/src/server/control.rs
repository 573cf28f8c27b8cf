//! Faults of a service's processes while it serves: a quota of CPU time through a control group of
//! the run, and stops by signal. This module describes these faults. [`group`] creates the control
//! groups; [`watch`] is the process that stops others and writes the events to the service's log.

pub(crate) mod group;
pub(crate) mod watch;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{duration, format_duration};

/// A quota of CPU time (`cpu.max` of cgroup v2, `cpu.cfs_quota_us` of v1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuQuota {
    /// The CPU time that all processes of the service together may use in a period.
    #[serde(with = "duration")]
    pub quota: Duration,
    /// The period, 1 ms to 1 s.
    #[serde(with = "duration")]
    pub period: Duration,
}

/// Stops of all processes of a service: SIGSTOP, later SIGCONT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The time from the beginning of one stop to the beginning of the next.
    #[serde(with = "duration")]
    pub every: Duration,
    /// The duration of a stop.
    #[serde(with = "duration")]
    pub r#for: Duration,
}

/// The kernel's lower bound of quotas and periods, and its upper bound of periods.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// Maximum duration of a stop.
const LONGEST_STOP: Duration = Duration::from_secs(10);

impl CpuQuota {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.quota < SHORTEST || !(SHORTEST..=LONGEST_PERIOD).contains(&self.period) {
            return Err(format!(
                "a quota of {} in {}: a quota is 1 ms or more, a period 1 ms to 1 s",
                format_duration(self.quota),
                format_duration(self.period)
            ));
        }
        Ok(())
    }
}

impl Stop {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.r#for.is_zero() || self.r#for > LONGEST_STOP || self.r#for >= self.every {
            return Err(format!(
                "a stop of {} every {}: it lasts up to 10 s and ends before the next",
                format_duration(self.r#for),
                format_duration(self.every)
            ));
        }
        Ok(())
    }
}
