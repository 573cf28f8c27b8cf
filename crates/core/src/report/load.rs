//! A load run in figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, StatusCount};

/// What a load run came to, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRun {
    /// Connections kept open at once.
    pub connections: u32,
    /// Requests a second that were offered; `None` in closed loop, where each
    /// connection asks again as soon as it was answered.
    pub offered_rate: Option<f64>,
    /// Seconds in which requests could start.
    pub seconds: f64,
    /// Whole responses.
    pub responses: u64,
    /// Whole responses a second.
    pub rate: f64,
    /// Half the width of the 95 % interval of `rate`, from its spread over the
    /// seconds; `None` for fewer than three of them.
    pub rate_margin: Option<f64>,
    /// Whether fewer were answered than were due though the generator was in
    /// time: the wait for a connection grew as long as the run went on.
    pub falls_behind: bool,
    /// Responses by status, failures by kind.
    pub outcomes: Vec<StatusCount>,
    /// Requests without a whole response.
    pub failed: u64,
    /// Connections opened.
    pub connects: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// From when a request was due (at a rate) or sent (in closed loop) to its
    /// last byte; a timeout counts with its age.
    pub latency_ns: Figures,
    /// From when it was sent: what a tool reports that does not count the wait
    /// for a free connection.
    pub service_ns: Figures,
    /// From when it was sent to the first byte of its response.
    pub first_byte_ns: Figures,
    /// What the generator itself needed.
    pub generator: Option<Generator>,
}

/// What the load generator itself needed, and how late it was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Share of one processor that its busiest thread used, 0 to 1.
    pub busiest_share: f64,
    /// Processor time of all its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// How late requests were started though a connection was free, 99th
    /// percentile, in nanoseconds; up to 25 % too high.
    pub start_lag_p99_ns: u64,
    /// How late a response may have been read, 99th percentile, in
    /// nanoseconds; up to 25 % too high.
    pub read_lag_p99_ns: u64,
    /// Whether it, and not the service, may have set the figures.
    pub is_limit: bool,
}
