//! Peaks of the latency distribution.

use crate::registry::Id;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Exemplar, WaitShare};

/// A peak of the latency distribution and the exchanges in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMode {
    /// Exchanges in it.
    pub count: u64,
    /// Their part of all, 0 to 1.
    pub share: f64,
    /// The latency that a twentieth of them stays below.
    pub low_ns: u64,
    /// Where they are densest.
    pub peak_ns: u64,
    /// The latency that a twentieth of them exceeds.
    pub high_ns: u64,
    /// What their time went to, most first.
    pub waits: Vec<WaitShare>,
    /// The findings that make them as slow as they are, by cause.
    pub causes: Vec<Id>,
    /// The first of them, in full.
    pub exemplars: Vec<Exemplar>,
}
