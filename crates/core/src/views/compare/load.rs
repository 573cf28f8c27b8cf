//! The two runs, and the comparison of their loads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::Report;

/// The relative difference below which rates count as equal.
pub(super) const EQUAL_RATE: f64 = 0.1;

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The subcommand that made the report.
    pub command: String,
    /// The subject of the report.
    pub subject: String,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// Whole exchanges in the baseline.
    pub requests: u64,
    /// Requests that failed or timed out.
    pub failed: u64,
    /// Whole exchanges per second.
    pub rate: f64,
    /// Requests per second offered; `None` in closed loop and for other people's traffic.
    pub offered_rate: Option<f64>,
}

impl Side {
    fn new(report: &Report) -> Self {
        let exchanges = &report.exchanges;
        Self {
            command: report.command.clone(),
            subject: report.subject.clone(),
            started: report.started.clone(),
            requests: exchanges.count,
            failed: exchanges.errors.saturating_add(exchanges.timeouts),
            rate: exchanges.rate,
            offered_rate: offered_rate(report),
        }
    }

    /// Returns the failed share of all requests, 0 to 1; 0 when there were none.
    pub(super) fn failed_share(&self) -> f64 {
        let all = self.requests.saturating_add(self.failed);
        if all == 0 {
            0.0
        } else {
            self.failed as f64 / all as f64
        }
    }
}

/// Returns both runs, and true if their rates are equal.
pub(super) fn sides(before: &Report, after: &Report) -> ([Side; 2], bool) {
    let sides = [Side::new(before), Side::new(after)];
    let [first, second] = &sides;
    let is_equal = are_equal(first.rate, second.rate)
        && match (first.offered_rate, second.offered_rate) {
            (Some(before), Some(after)) => are_equal(before, after),
            (None, None) => true,
            _ => false,
        };
    (sides, is_equal)
}

/// Returns true if two rates are equal for the purpose of comparing latencies.
pub(super) fn are_equal(one: f64, other: f64) -> bool {
    (one - other).abs() <= EQUAL_RATE * one.abs().max(other.abs())
}

/// Returns the rate offered in the subject's baseline, where it was not captured if there is such a
/// window: the latency figures come from there.
pub(super) fn offered_rate(report: &Report) -> Option<f64> {
    report
        .phases
        .iter()
        .filter(|span| span.phase == "baseline" && span.target == "subject")
        .min_by_key(|span| span.is_observed)?
        .offered_rate
}
