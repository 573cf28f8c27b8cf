//! Experiments that changed the latency although no claim explains why.

use core::time::Duration;

use crate::cause::evidence::{MATERIAL_SHARE, MATERIAL_TIME, human};
use crate::claim::{Claim, Statement};
use crate::observed::flow::Endpoint;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, ExperimentOutcome};

/// Minimum cost of a claim that explains an experiment, as a share of the experiment's effect.
const EXPLAINED: f64 = 0.5;

/// Adds evidence of each experiment that reduced the subject's latency by a material share and
/// time, unless one of the `causes` explains the effect. The evidence is added to the service's
/// claim in `places`; if there is none, `bare` makes one.
pub(crate) fn tried(
    experiments: &[ExperimentOutcome],
    at: Endpoint,
    causes: &[Claim],
    places: &mut Vec<Claim>,
    bare: impl Fn() -> Claim,
) {
    for outcome in experiments {
        if outcome.target != "subject" || !is_material(outcome) || is_explained(outcome, causes) {
            continue;
        }
        let known = places.iter().position(|place| place.at == at);
        let known = known.unwrap_or_else(|| {
            places.push(bare());
            places.len() - 1
        });
        if let Some(place) = places.get_mut(known) {
            place.evidence.push(evidence(outcome));
        }
    }
}

/// Returns true if the intervention makes requests quicker with certainty, and by a material share
/// and time.
fn is_material(outcome: &ExperimentOutcome) -> bool {
    let saved = gain(outcome);
    outcome.difference_high_ns < 0
        && saved >= nanos(MATERIAL_TIME)
        && saved as f64 >= outcome.control.mean as f64 * MATERIAL_SHARE
}

fn is_explained(outcome: &ExperimentOutcome, causes: &[Claim]) -> bool {
    causes.iter().any(|cause| {
        let each = cause.time.cost.likely / cause.affected.of.max(1);
        let mut kinds = cause.evidence.iter().map(Statement::kind);
        kinds.any(|kind| kind == EvidenceKind::Intervention)
            || each as f64 >= gain(outcome) as f64 * EXPLAINED
    })
}

/// Returns the time that the intervention saves for each request, in nanoseconds.
fn gain(outcome: &ExperimentOutcome) -> u64 {
    outcome.difference_ns.min(0).unsigned_abs()
}

fn evidence(outcome: &ExperimentOutcome) -> Statement {
    let mean = |ns| human(Duration::from_nanos(ns));
    let text = format!(
        "{} changed the mean from {} to {}, and no finding explains why",
        outcome.experiment,
        mean(outcome.control.mean),
        mean(outcome.treated.mean),
    );
    Statement::fits(EvidenceKind::Intervention, text).count(outcome.treated.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::experiment::Experiment;
    use crate::report::Figures;

    fn outcome(control: u64, treated: u64, high: i64) -> ExperimentOutcome {
        let figures = |mean| Figures {
            count: 100,
            mean,
            ..Figures::default()
        };
        ExperimentOutcome {
            experiment: Experiment::QuickAck,
            target: "subject".to_owned(),
            control: figures(control),
            treated: figures(treated),
            difference_ns: treated as i64 - control as i64,
            difference_low_ns: treated as i64 - control as i64 - 1_000,
            difference_high_ns: high,
            alternations: 4,
            is_conclusive: true,
            meaning: String::new(),
        }
    }

    #[test]
    fn only_an_effect_that_is_sure_and_matters_needs_an_explanation() {
        assert!(is_material(&outcome(44_000_000, 2_000_000, -40_000_000)));
        assert!(!is_material(&outcome(44_000_000, 2_000_000, 100)), "chance");
        assert!(
            !is_material(&outcome(1_200_000, 400_000, -700_000)),
            "short"
        );
        assert!(
            !is_material(&outcome(90_000_000, 87_000_000, -1_000_000)),
            "small"
        );
        assert!(
            !is_material(&outcome(2_000_000, 44_000_000, 43_000_000)),
            "slower"
        );
    }
}
