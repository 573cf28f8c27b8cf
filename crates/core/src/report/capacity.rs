//! What a service carries, and who uses the processors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the service carries, as levels of our own load show it.
///
/// If the asked load makes requests wait for each other, delay is judged at a lower level, unless
/// the reason is a limited number of workers: then the wait itself is a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// True if the asked load makes requests wait for each other.
    pub is_saturated: bool,
    /// Responses per second under the asked load, or while delay was judged if that was more: what the
    /// service carries, if it is saturated.
    pub rate: f64,
    /// What limits the rate; `None` unless the service is saturated.
    pub limit: Option<CapacityLimit>,
    /// The load that the user asked for, as far as the service works off its requests within three
    /// seconds.
    pub asked: LoadLevel,
    /// Connections that the user asked for.
    pub asked_connections: u32,
    /// The highest measured level at which requests do not wait for each other.
    pub carried: LoadLevel,
    /// Connections with which delay was judged: those of all other figures of the report.
    pub judged_connections: u32,
    /// Requests per second offered while delay was judged; `None` in closed loop.
    pub judged_rate: Option<f64>,
    /// Median time of a request if the service has no other.
    pub idle_ns: u64,
    /// Mean time for which a request waits for others under the asked load. In closed loop, this is
    /// what Little's law says: connections divided by the rate under this load, minus `idle_ns`.
    pub queue_ns: u64,
    /// Mean number of requests that are served at the same time: `rate` times `idle_ns` without the
    /// round trip, if probes measured it.
    pub served_at_once: f64,
    /// Who used the processors of this host under the asked load; `None` if that was not measured.
    pub processors: Option<ProcessorShares>,
    /// The measured levels, in order.
    pub levels: Vec<LoadLevel>,
}

/// What limits the rate of a saturated service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityLimit {
    /// All processors of this host are busy, with the service and the load itself.
    Processors,
    /// All processors of this host are busy, and processes that belong neither to the service nor
    /// to lagtrace use a large part of them.
    SharedProcessors,
    /// A process of the service uses one processor fully, and others are idle.
    OneProcessor,
    /// The load generator uses its processor fully.
    Generator,
    /// Processors are idle: a limited number of workers, a lock, a pool, or a rate limit.
    Workers,
    /// Not known: the service is not on this host, or its processes are not accessible.
    Unknown,
}

/// A measured level of load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadLevel {
    /// Connections in use.
    pub connections: u32,
    /// Requests per second offered; `None` in closed loop.
    pub offered_rate: Option<f64>,
    /// Whole responses.
    pub responses: u64,
    /// Whole responses per second.
    pub rate: f64,
    /// Mean time of a request, in nanoseconds.
    pub mean_ns: u64,
    /// Median time of a request, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile of the time of a request, in nanoseconds.
    pub p99_ns: u64,
    /// Requests without a whole response: failed, out of time, or given up at the level's end.
    pub failed: u64,
}

/// Who used the processors of this host, as shares of the time of all of them, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessorShares {
    /// Number of processors.
    pub processors: u32,
    /// All work.
    pub busy: f64,
    /// Work of the service's own processes; `None` if they are not known.
    pub service: Option<f64>,
    /// Work of lagtrace itself.
    pub lagtrace: f64,
    /// Work of all other processes.
    pub others: f64,
    /// The other processes that used most, those with most work first.
    pub most: Vec<ProcessorShare>,
    /// Share of the time in which some process waited for a processor; `None` if the kernel does
    /// not tell.
    pub waited: Option<f64>,
}

/// A process and its share of the time of all processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessorShare {
    /// Process id.
    pub pid: u32,
    /// The process's `comm`.
    pub name: String,
    /// The share of the process, 0 to 1.
    pub share: f64,
}

/// The requests that lagtrace sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestsSent {
    /// All requests to the targets, of all steps.
    pub all: u64,
    /// The requests of the experiments.
    pub in_experiments: u64,
}
