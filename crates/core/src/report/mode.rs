//! Peaks of the latency distribution.

use crate::registry::Id;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Exemplar, WaitShare};

/// A peak of the latency distribution and the exchanges in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMode {
    /// Number of exchanges in the peak.
    pub count: u64,
    /// Share of all exchanges, 0 to 1.
    pub share: f64,
    /// The 5th percentile of the exchanges' latency.
    pub low_ns: u64,
    /// The latency at which the exchanges are densest.
    pub peak_ns: u64,
    /// The 95th percentile of the exchanges' latency.
    pub high_ns: u64,
    /// The time of the exchanges by kind of wait, most first.
    pub waits: Vec<WaitShare>,
    /// The findings that make these exchanges slow, by cause.
    pub causes: Vec<Id>,
    /// The first exchange of the peak, in full.
    pub exemplars: Vec<Exemplar>,
}
