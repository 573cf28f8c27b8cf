//! What each run was, and whether both carried the same load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::Report;

/// Rates that differ by less than this part count as equal.
pub(super) const EQUAL_RATE: f64 = 0.1;

/// One of the two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The subcommand that made the report.
    pub command: String,
    /// What it is about.
    pub subject: String,
    /// When it was started, RFC 3339.
    pub started: String,
    /// Whole exchanges in the baseline.
    pub requests: u64,
    /// Requests that failed or timed out.
    pub failed: u64,
    /// Whole exchanges a second.
    pub rate: f64,
    /// Requests a second that were offered; `None` in closed loop and for
    /// other people's traffic.
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

    /// Failed part of all requests, 0 to 1; 0 when there were none.
    pub(super) fn failed_share(&self) -> f64 {
        let all = self.requests.saturating_add(self.failed);
        if all == 0 {
            0.0
        } else {
            self.failed as f64 / all as f64
        }
    }
}

/// Both runs, and whether their rates are equal.
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

/// Whether two rates are equal for the purpose of comparing latencies.
pub(super) fn are_equal(one: f64, other: f64) -> bool {
    (one - other).abs() <= EQUAL_RATE * one.abs().max(other.abs())
}

/// The rate offered in the subject's baseline, where it was not captured if
/// there is such a window: that is where the latency figures come from.
pub(super) fn offered_rate(report: &Report) -> Option<f64> {
    report
        .phases
        .iter()
        .filter(|span| span.phase == "baseline" && span.target == "subject")
        .min_by_key(|span| span.is_observed)?
        .offered_rate
}
