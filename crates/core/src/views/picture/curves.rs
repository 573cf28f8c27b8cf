//! Percentile curves of latency.

use super::about::About;
use crate::report::{Curve, CurveName, Figures, Finding, Report};
use crate::stats::curve::curve;
use crate::stats::histogram::Distribution;

/// Returns the curves, in the order of their names.
pub(super) fn curves(about: &About, report: &Report) -> Vec<Curve> {
    let is_own = report.exchanges.measured_by == "own stamps";
    let details = report.details.as_ref();
    let own = details.filter(|_| is_own).map(|details| &details.latency);
    let of = |name, latency: &Distribution| Curve {
        name,
        experiment: None,
        count: latency.count(),
        points: curve(latency),
    };
    let mut list: Vec<Curve> = own
        .map(|own| of(CurveName::Baseline, own))
        .into_iter()
        .collect();
    if about.has_packets {
        list.push(of(CurveName::Observed, &about.services.all.latency.all));
    }
    list.extend(experiments(report));
    list.extend(predicted(report));
    list.retain(|curve| curve.count > 0);
    list
}

/// Returns the curves of the subject's experiments, each with its control.
fn experiments(report: &Report) -> impl Iterator<Item = Curve> + '_ {
    let numbered = report.experiments.iter().zip(0..);
    let of_subject = numbered.filter(|(outcome, _)| outcome.target == "subject");
    of_subject.flat_map(|(outcome, number)| {
        let of = |name, figures: &Figures| Curve {
            name,
            experiment: Some(number),
            count: figures.count,
            points: points(figures),
        };
        [
            of(CurveName::Control, &outcome.control),
            of(CurveName::Treated, &outcome.treated),
        ]
    })
}

fn points(figures: &Figures) -> Vec<(f64, u64)> {
    vec![
        (0.0, figures.min),
        (0.5, figures.p50),
        (0.75, figures.p75),
        (0.9, figures.p90),
        (0.99, figures.p99),
        (0.999, figures.p999),
        (1.0, figures.max),
    ]
}

/// Returns the curve that the first finding that says why predicts for all exchanges.
fn predicted(report: &Report) -> Option<Curve> {
    let first: &Finding = report.accusations().next()?;
    let prediction = first.predicted.as_ref()?;
    let is_of_all = prediction.is_of(&report.exchanges) && !prediction.curve.is_empty();
    is_of_all.then(|| Curve {
        name: CurveName::Predicted,
        experiment: None,
        count: first.affected.of,
        points: prediction.curve.clone(),
    })
}
