//! The check of the latency that the report before the change predicted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::are_equal;
use super::mechanism::{Fate, FindingChange};
use crate::registry::Id;
use crate::report::{Prediction, Report};

/// Maximum relative deviation of a correct prediction, as a share of the measured value.
const TOLERANCE_SHARE: f64 = 0.2;
/// Maximum deviation in nanoseconds of a prediction that is correct although its relative deviation
/// is greater.
const TOLERANCE_NS: u64 = 500_000;

/// A prediction compared with the measured values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionCheck {
    /// The cause whose removal the prediction assumes.
    pub cause: Id,
    /// The rate for which the prediction is valid, in requests per second.
    pub at_rate: f64,
    /// Requests per second measured after the change.
    pub measured_rate: f64,
    /// The median.
    pub p50: PredictedFigure,
    /// The 99th percentile.
    pub p99: PredictedFigure,
    /// True if both percentiles came true; `None` if the run after the change had another rate, for
    /// which there is no prediction.
    pub holds: Option<bool>,
    /// The predicted range of the closed loop's rate.
    pub closed_loop_rate: Option<(f64, f64)>,
    /// True if the measured rate is in `closed_loop_rate`; `None` if no range was predicted, or if
    /// the run after the change was not a closed loop.
    pub closed_loop_holds: Option<bool>,
}

/// A predicted figure and the measured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PredictedFigure {
    /// The predicted value.
    pub predicted_ns: u64,
    /// The measured value.
    pub measured_ns: u64,
    /// True if both agree within 20 % or 0.5 ms.
    pub agrees: bool,
}

impl PredictedFigure {
    fn new(predicted_ns: u64, measured_ns: u64) -> Self {
        let off = predicted_ns.abs_diff(measured_ns);
        let agrees = off <= TOLERANCE_NS || off as f64 <= measured_ns as f64 * TOLERANCE_SHARE;
        Self {
            predicted_ns,
            measured_ns,
            agrees,
        }
    }
}

/// Checks the prediction of the only finding that vanished. If several vanished together, no
/// prediction can be checked, because each assumes that the other causes are still present.
pub(super) fn check(
    before: &Report,
    after: &Report,
    findings: &[FindingChange],
) -> Option<PredictionCheck> {
    let mut vanished = findings
        .iter()
        .filter(|finding| finding.fate == Fate::Vanished);
    let (Some(only), None) = (vanished.next(), vanished.next()) else {
        return None;
    };
    let finding = before
        .findings
        .iter()
        .find(|f| f.cause == only.cause && f.service == only.service)?;
    let prediction = finding.predicted.as_ref()?;
    (after.exchanges.count > 0).then(|| weigh(only.cause, prediction, after))
}

fn weigh(cause: Id, prediction: &Prediction, after: &Report) -> PredictionCheck {
    let measured = &after.exchanges.latency_ns;
    let p50 = PredictedFigure::new(prediction.latency_ns.p50, measured.p50);
    let p99 = PredictedFigure::new(prediction.latency_ns.p99, measured.p99);
    let rate = after.exchanges.rate;
    let is_closed_loop = super::load::offered_rate(after).is_none();
    PredictionCheck {
        cause,
        at_rate: prediction.at_rate,
        measured_rate: rate,
        p50,
        p99,
        holds: are_equal(prediction.at_rate, rate).then_some(p50.agrees && p99.agrees),
        closed_loop_rate: prediction.closed_loop_rate,
        closed_loop_holds: prediction
            .closed_loop_rate
            .filter(|_| is_closed_loop)
            .map(|(low, high)| (low..=high).contains(&rate)),
    }
}
