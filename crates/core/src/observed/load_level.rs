//! A level of load: how a service answered a number of connections, or a rate, and who used the
//! processors meanwhile.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// The answers of the subject under one level of load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelSample {
    /// Connections that send a request each as soon as the previous one is answered.
    pub connections: u32,
    /// Requests per second offered; `None` in closed loop.
    pub offered_rate: Option<f64>,
    /// True for the load that the user asked for. The levels before it are lower.
    pub is_asked: bool,
    /// Connections of the asked load that were left out, because the service would have worked on
    /// their requests for too long.
    pub left_out: u32,
    /// Time from the first request until the last answer.
    pub lasted: Duration,
    /// Whole responses.
    pub responses: u64,
    /// Mean time of a request. One that was given up counts with the time until then.
    pub mean: Duration,
    /// Median time of a request.
    pub median: Duration,
    /// 99th percentile of the time of a request that was not given up.
    pub p99: Duration,
    /// Requests that were still in flight when the level ended, and were given up.
    pub abandoned: u64,
    /// Requests that waited for nearly the whole level.
    pub unserved: u64,
    /// Requests that failed or ran out of time.
    pub failed: u64,
    /// Connections that could not be opened by the end of the level.
    pub unopened: u32,
    /// Share of a processor that the busiest thread of the load generator used, 0 to 1.
    pub generator_share: f64,
    /// Who used the processors of this host; `None` if that was not measured.
    pub processors: Option<ProcessorUse>,
}

impl LevelSample {
    /// Returns the responses per second.
    pub fn rate(&self) -> f64 {
        self.responses as f64 / self.lasted.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Who used the processors of this host for a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessorUse {
    /// Number of processors.
    pub processors: u32,
    /// Length of the time.
    pub wall: Duration,
    /// Time in which processors worked, the sum over all of them (`/proc/stat`).
    pub busy: Duration,
    /// Processor time of the target's processes; `None` if they are not known, or not on this host.
    pub service: Option<Duration>,
    /// Processor time of the busiest of these processes.
    pub busiest: Duration,
    /// Time for which threads of these processes waited for a processor, the sum over all of them.
    pub queued: Duration,
    /// Processor time of lagtrace itself.
    pub own: Duration,
    /// The other processes that used most, those with most time first.
    pub others: Vec<ProcessorUser>,
    /// Processor time of all other processes.
    pub by_others: Duration,
    /// The part of it by which they used more than before the load: those that the target calls do.
    pub rose: Duration,
    /// Time in which some process waited for a processor (`/proc/pressure/cpu`); `None` if the
    /// kernel does not tell.
    pub some_waited: Option<Duration>,
}

/// A process that used processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorUser {
    /// Process id.
    pub pid: u32,
    /// The process's `comm`.
    pub name: String,
    /// Processor time of the process.
    pub time: Duration,
}

/// The most time in the queue of a processor that each time unit on it explains. Many threads that
/// wake at once and hardly compute wait for much longer together, and no processor limits them.
const MOST_QUEUED: u32 = 10;

impl ProcessorUse {
    /// Returns the processor time that the target's processes want: what they had, and what they
    /// waited for; `None` if they are not known.
    pub fn wanted(&self) -> Option<Duration> {
        let had = self.service?;
        Some(had + self.queued.min(had * MOST_QUEUED))
    }

    /// Returns the share of all processors' time in which they worked, 0 to 1.
    pub fn busy_share(&self) -> f64 {
        self.part(self.busy)
    }

    /// Returns the share of all processors' time that processes used that have nothing to do with the
    /// load, 0 to 1.
    pub fn foreign_share(&self) -> f64 {
        self.part(self.by_others.saturating_sub(self.rose))
    }

    /// Returns the time for which the target's threads, and those of the programs that it calls, ran
    /// or waited for a processor, the sum over all of them.
    pub fn runnable(&self) -> Duration {
        self.service.unwrap_or_default() + self.queued + self.rose
    }

    /// Returns a processor time as a share of that of all processors, 0 to 1.
    pub fn part(&self, time: Duration) -> f64 {
        let all = self.wall.as_secs_f64() * f64::from(self.processors);
        (time.as_secs_f64() / all.max(f64::MIN_POSITIVE)).min(1.0)
    }
}

/// The requests that an investigation sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRequests {
    /// All requests to the targets, of all steps.
    pub all: u64,
    /// The requests of the experiments.
    pub in_experiments: u64,
}
