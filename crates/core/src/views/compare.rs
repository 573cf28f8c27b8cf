//! Comparison of two reports of the same service, before and after a change.
//!
//! The input is two [`Report`]s, and the output a [`Comparison`]. It says if the service is better,
//! no worse or worse, and how certain that is. It lists the findings that are gone, and says if the
//! change of their mechanism was seen. It checks if the predicted latency came true. It uses no
//! clock and a fixed random seed: equal reports give equal bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::{Remark, Report};

mod change;
mod load;
mod mechanism;
mod prediction;
mod remarks;

pub use change::{Judgement, LatencyChange, LatencyFigure, QuantityChange};
pub use load::RunFigures;
pub use mechanism::{Fate, FindingChange, Lever, LeverPlace, Mechanism};
pub use prediction::{PredictedFigure, PredictionCheck};

use crate::conclude::bootstrap::{self, Estimate, RunClusters};
use crate::conclude::generator::SplitMix64;

/// Version of the comparison's schema.
pub const SCHEMA: u32 = 1;
/// Number of resamples of each run.
const RESAMPLES: usize = 1_000;
/// The seed of the random generator. Any fixed number would do.
const SEED: u64 = 0x6c61_6774_7261_6365;

/// The differences between two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of the schema, [`SCHEMA`].
    pub schema: u32,
    /// The verdict.
    pub outcome: Outcome,
    /// The run before.
    pub before: RunFigures,
    /// The run after.
    pub after: RunFigures,
    /// True if both runs had the same rate, within a tenth.
    pub is_equal_rate: bool,
    /// The method of the intervals. `None` if the reports contain too few clusters; figures are
    /// then compared without intervals.
    pub intervals: Option<Intervals>,
    /// Latency figures; empty when either run has no whole exchange.
    pub latency: Vec<LatencyChange>,
    /// Whole exchanges per second.
    pub rate: QuantityChange,
    /// Requests that failed or timed out, as a share of all.
    pub failures: QuantityChange,
    /// The changes of the findings, in the order of the reports.
    pub findings: Vec<FindingChange>,
    /// The check of the predicted latency; `None` if nothing was predicted for the findings that
    /// vanished.
    pub prediction: Option<PredictionCheck>,
    /// Other remarks that a reader should know.
    pub remarks: Vec<Remark>,
}

/// The method of the confidence intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Intervals {
    /// The nominal coverage, 0.95.
    pub confidence: f64,
    /// Number of resamples of each run.
    pub resamples: u64,
    /// The generator's seed.
    pub seed: u64,
    /// Number of clusters of the run before.
    pub clusters_before: u64,
    /// Number of clusters of the run after.
    pub clusters_after: u64,
}

/// The verdict over all compared figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// At least one figure is better, none is worse.
    Better,
    /// No figure is worse.
    NoWorse,
    /// At least one figure is better, and at least one is worse.
    Mixed,
    /// At least one figure is worse, none is better.
    Worse,
    /// Too little was measured for a verdict.
    Undecided,
}

impl Comparison {
    /// Returns true if the run after the change is at least as good as the run before it, as far as
    /// can be determined. The exit code depends on the result.
    pub fn is_no_worse(&self) -> bool {
        matches!(self.outcome, Outcome::Better | Outcome::NoWorse)
    }
}

/// Compares a run after a change with the run before it.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let (sides, is_equal_rate) = load::sides(before, after);
    let resampled = Resampled::new(before, after, RESAMPLES);
    let latency = change::latencies(before, after, resampled.as_ref());
    let rate = change::rate(&sides, resampled.as_ref());
    let failures = change::failures(&sides, resampled.as_ref());
    let findings = mechanism::trace(before, after);
    let outcome = conclude(&sides, &latency, &[&rate, &failures]);
    let [before_side, after_side] = sides;
    let mut comparison = Comparison {
        schema: SCHEMA,
        outcome,
        is_equal_rate,
        intervals: resampled.as_ref().map(Resampled::method),
        latency,
        rate,
        failures,
        prediction: prediction::check(before, after, &findings),
        findings,
        remarks: Vec::new(),
        before: before_side,
        after: after_side,
    };
    comparison.remarks = remarks::collect(before, after, &comparison);
    comparison
}

/// Both runs, and the figures of their resamples.
struct Resampled {
    before: RunClusters,
    after: RunClusters,
    before_estimates: Vec<Estimate>,
    after_estimates: Vec<Estimate>,
}

impl Resampled {
    fn new(before: &Report, after: &Report, resamples: usize) -> Option<Self> {
        let sample = |report: &Report| RunClusters::new(&report.details.as_ref()?.clusters);
        let (before, after) = (sample(before)?, sample(after)?);
        let mut generator = SplitMix64::new(SEED);
        Some(Self {
            before_estimates: before.resample(resamples, &mut generator),
            after_estimates: after.resample(resamples, &mut generator),
            before,
            after,
        })
    }

    /// Returns the interval of the difference of one figure.
    fn interval(&self, figure: impl Fn(&Estimate) -> f64) -> (f64, f64) {
        self.paired(|before, after| figure(after) - figure(before))
    }

    /// Returns the interval of `difference`, a function of both runs.
    fn paired(&self, difference: impl Fn(&Estimate, &Estimate) -> f64) -> (f64, f64) {
        let observed = difference(&self.before.estimate(), &self.after.estimate());
        let resampled = self
            .before_estimates
            .iter()
            .zip(&self.after_estimates)
            .map(|(before, after)| difference(before, after))
            .collect();
        let widening = self.before.widening().max(self.after.widening());
        bootstrap::interval(observed, resampled, widening)
    }

    fn method(&self) -> Intervals {
        Intervals {
            confidence: 0.95,
            resamples: self.before_estimates.len() as u64,
            seed: SEED,
            clusters_before: self.before.clusters() as u64,
            clusters_after: self.after.clusters() as u64,
        }
    }
}

/// Combines the judgements of all figures into a verdict.
///
/// In a closed loop, a faster service gets more load, which lengthens its tail. A longer tail is
/// therefore not worse while the mean is better.
fn conclude(
    sides: &[RunFigures; 2],
    latency: &[LatencyChange],
    rest: &[&QuantityChange],
) -> Outcome {
    let [before, after] = sides;
    match (before.requests, after.requests) {
        (0, 0) => return Outcome::Undecided,
        (0, _) => return Outcome::Better,
        (_, 0) => return Outcome::Worse,
        _ => {}
    }
    let is_mean_better = latency
        .iter()
        .any(|c| c.figure == LatencyFigure::Mean && c.judgement == Judgement::Better);
    let is_tail_excused = is_mean_better && after.rate > before.rate * (1.0 + load::EQUAL_RATE);
    let mut judgements: Vec<Judgement> = rest.iter().map(|c| c.judgement).collect();
    judgements.extend(
        latency
            .iter()
            .filter(|c| !(is_tail_excused && c.figure.is_tail()))
            .map(|c| c.judgement),
    );
    let has = |judgement| judgements.contains(&judgement);
    match (has(Judgement::Better), has(Judgement::Worse)) {
        (true, true) => Outcome::Mixed,
        (true, false) => Outcome::Better,
        (false, true) => Outcome::Worse,
        (false, false) => Outcome::NoWorse,
    }
}

#[cfg(test)]
mod tests;
