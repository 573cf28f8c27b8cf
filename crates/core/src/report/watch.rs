//! What the kernel showed of a live service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, Stage, Tally};

/// What watching the kernel came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watch {
    /// Every turn of every connection that was watched, from the first byte
    /// that arrived to the last that was given to the device; at most an
    /// eighth too long, as the kernel counts them in steps.
    pub latency_ns: Figures,
    /// Connections met.
    pub connections: u64,
    /// Share of connections that were looked at turn by turn, 0 to 1.
    pub sampled_share: f64,
    /// Observations lost for want of room; what they would have shown is
    /// missing here.
    pub lost_records: u64,
    /// Connections that were not followed for want of room.
    pub lost_connections: u64,
    /// Processor time of the programs in the kernel, where it was counted.
    pub cost_ns: Option<u64>,
    /// What was looked at turn by turn, by the service's address.
    pub services: Vec<WatchedService>,
}

/// The turns of one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedService {
    /// Its address.
    pub service: String,
    /// Who read the requests: `nginx[4711]`.
    pub programs: Vec<String>,
    /// Turns looked at one by one.
    pub turns: u64,
    /// How long they took.
    pub latency_ns: Figures,
    /// Where that went, of those whose stages are known: `unread` in the
    /// socket's queue, `program` from the first read to the last write, `held`
    /// by Nagle's algorithm, `sending` for windows, pacing and the rest.
    pub stages: Vec<Stage>,
    /// How often Nagle's algorithm held something back, and of those how often
    /// something had arrived when it let go.
    pub released_by_arrival: Tally,
}
