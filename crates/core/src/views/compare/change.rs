//! Single figures before and after a change, and the judgement of their difference.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Resampled;
use super::load::{RunFigures, are_equal};
use crate::conclude::bootstrap::Estimate;
use crate::report::{Figures, Report};

/// Relative difference, as a share of the smaller figure, below which a difference does not matter.
const MATERIAL_SHARE: f64 = 0.05;
/// Difference in nanoseconds below which a difference does not matter.
const MATERIAL_NS: f64 = 100_000.0;
/// Share of all requests below which a change of failures does not matter.
const MATERIAL_FAILURES: f64 = 0.001;

/// The judgement of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Better by enough to matter, and by more than chance if there are intervals.
    Better,
    /// Worse by enough to matter, and by more than chance if there are intervals.
    Worse,
    /// The interval includes zero, and the difference would not matter.
    NoDifference,
    /// More than chance, but too little to matter.
    Immaterial,
    /// Enough to matter, but the interval includes zero: too noisy for a judgement.
    Uncertain,
    /// A difference of rates without meaning, because the runs did not offer the same rate.
    NotJudged,
}

/// The latency figures that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyFigure {
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
}

impl LatencyFigure {
    const ALL: [Self; 4] = [Self::Mean, Self::P50, Self::P90, Self::P99];

    /// Returns true if the figure describes the slow requests only.
    pub(super) fn is_tail(self) -> bool {
        matches!(self, Self::P90 | Self::P99)
    }

    fn of_estimate(self, estimate: &Estimate) -> f64 {
        let [p50, p90, p99] = estimate.quantiles;
        match self {
            Self::Mean => estimate.mean,
            Self::P50 => p50,
            Self::P90 => p90,
            Self::P99 => p99,
        }
    }

    fn of_figures(self, figures: &Figures) -> f64 {
        let ns = match self {
            Self::Mean => figures.mean,
            Self::P50 => figures.p50,
            Self::P90 => figures.p90,
            Self::P99 => figures.p99,
        };
        ns as f64
    }
}

/// A latency figure before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyChange {
    /// The figure.
    pub figure: LatencyFigure,
    /// Value before.
    pub before_ns: u64,
    /// Value after.
    pub after_ns: u64,
    /// Value after minus value before; negative when latency decreased.
    pub difference_ns: i64,
    /// Lower end of the 95 % interval of the difference; `None` without clusters.
    pub low_ns: Option<i64>,
    /// Upper end of the 95 % interval.
    pub high_ns: Option<i64>,
    /// The judgement of the difference.
    pub judgement: Judgement,
}

/// A figure other than latency, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuantityChange {
    /// Value before.
    pub before: f64,
    /// Value after.
    pub after: f64,
    /// Value after minus value before.
    pub difference: f64,
    /// Lower end of the 95 % interval of the difference; `None` without clusters.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
    /// The judgement of the difference.
    pub judgement: Judgement,
}

/// Compares the latency figures. They come from the clusters if both runs have clusters, otherwise
/// from the reports.
pub(super) fn latencies(
    before: &Report,
    after: &Report,
    resampled: Option<&Resampled>,
) -> Vec<LatencyChange> {
    if before.exchanges.count == 0 || after.exchanges.count == 0 {
        return Vec::new();
    }
    let [old, new] = [before, after].map(|report| &report.exchanges.latency_ns);
    let compare = |figure: LatencyFigure| {
        let of = |estimate: &Estimate| figure.of_estimate(estimate);
        let values = match resampled {
            Some(runs) => [&runs.before, &runs.after].map(|run| of(&run.estimate())),
            None => [figure.of_figures(old), figure.of_figures(new)],
        };
        latency(figure, values, resampled.map(|runs| runs.interval(of)))
    };
    LatencyFigure::ALL.map(compare).into()
}

fn latency(
    figure: LatencyFigure,
    [before, after]: [f64; 2],
    interval: Option<(f64, f64)>,
) -> LatencyChange {
    let material = (before.min(after) * MATERIAL_SHARE).max(MATERIAL_NS);
    let judgement = judge(after - before, interval, material);
    // A few slow requests change the mean and the tail, so these need an interval.
    let is_robust = interval.is_some() || figure == LatencyFigure::P50;
    LatencyChange {
        figure,
        before_ns: before as u64,
        after_ns: after as u64,
        difference_ns: (after - before) as i64,
        low_ns: interval.map(|(low, _)| low.floor() as i64),
        high_ns: interval.map(|(_, high)| high.ceil() as i64),
        judgement: match judgement {
            Judgement::Better | Judgement::Worse if !is_robust => Judgement::NotJudged,
            judgement => judgement,
        },
    }
}

/// Compares the rates. Rates that a generator offered are only comparable if both runs offered the
/// same. In a closed loop the service determines the rate.
pub(super) fn rate(sides: &[RunFigures; 2], resampled: Option<&Resampled>) -> QuantityChange {
    let [before, after] = sides;
    let interval = resampled.map(|runs| {
        // A resample covers as many seconds as its run. The ratio of the rates is therefore the
        // ratio of the numbers of requests.
        let factor = |requests: f64, of: f64, rate: f64| rate * requests / of.max(1.0);
        let old_requests = runs.before.estimate().requests;
        let new_requests = runs.after.estimate().requests;
        runs.paired(|old, new| {
            factor(new.requests, new_requests, after.rate)
                - factor(old.requests, old_requests, before.rate)
        })
    });
    let material = before.rate.min(after.rate) * MATERIAL_SHARE;
    let is_judged = match (before.offered_rate, after.offered_rate) {
        (Some(one), Some(other)) => are_equal(one, other),
        (None, None) => true,
        _ => false,
    };
    let judged = judge(
        before.rate - after.rate,
        interval.map(|(low, high)| (-high, -low)),
        material,
    );
    let judgement = if is_judged {
        judged
    } else {
        Judgement::NotJudged
    };
    quantity(before.rate, after.rate, interval, judgement)
}

/// Compares the shares of failed requests.
pub(super) fn failures(sides: &[RunFigures; 2], resampled: Option<&Resampled>) -> QuantityChange {
    let [before, after] = sides.each_ref().map(RunFigures::failed_share);
    let is_counted = |run: &super::RunClusters, side: &RunFigures| {
        side.failed == 0 || run.estimate().failed > 0.0
    };
    let [old, new] = sides;
    let interval = resampled
        .filter(|runs| is_counted(&runs.before, old) && is_counted(&runs.after, new))
        .map(|runs| runs.paired(|old, new| new.failed - old.failed))
        .map(|(low, high)| (low.min(after - before), high.max(after - before)));
    let judgement = judge(after - before, interval, MATERIAL_FAILURES);
    quantity(before, after, interval, judgement)
}

fn quantity(
    before: f64,
    after: f64,
    interval: Option<(f64, f64)>,
    judgement: Judgement,
) -> QuantityChange {
    QuantityChange {
        before,
        after,
        difference: after - before,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        judgement,
    }
}

/// Judges a difference of a figure for which lower is better.
fn judge(difference: f64, interval: Option<(f64, f64)>, material: f64) -> Judgement {
    let is_significant = interval.is_none_or(|(low, high)| low > 0.0 || high < 0.0);
    let is_material = difference.abs() >= material && difference != 0.0;
    match (is_significant, is_material) {
        (true, true) if difference < 0.0 => Judgement::Better,
        (true, true) => Judgement::Worse,
        (true, false) if interval.is_some() => Judgement::Immaterial,
        (_, false) => Judgement::NoDifference,
        (false, true) => Judgement::Uncertain,
    }
}
