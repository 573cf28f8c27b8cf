//! Findings: claims in words, as reports have them.

use super::witnesses::witnesses;
use super::{Scene, display_filter, route};
use crate::claim::{Advice, Claim};
use crate::report::{Finding, Fix};

/// Returns the findings of the claims, in the same order.
pub(super) fn word(scene: &Scene<'_>, mut claims: Vec<Claim>) -> Vec<Finding> {
    let observations = scene.observations;
    route::support(&mut claims, &observations.facts);
    let worded = |claim: Claim| {
        let witnesses = witnesses(&claim, &scene.observed(claim.at));
        Finding {
            witnesses,
            ..finding(claim)
        }
    };
    let mut findings: Vec<Finding> = claims.into_iter().map(worded).collect();
    // Packets that were watched live are in no file.
    if observations.capture.is_some() && !observations.is_only_watched() {
        for finding in &mut findings {
            finding.display_filter = display_filter::display_filter(finding);
        }
    }
    findings
}

/// Returns the finding of a claim, without witnesses.
pub(crate) fn finding(claim: Claim) -> Finding {
    let mut evidence = claim.evidence.clone();
    evidence.extend_from_slice(&claim.inherited);
    Finding {
        cause: claim.cause,
        verdict: claim.verdict(),
        culprit: claim.culprit,
        service: claim.service(),
        cost_ns: claim.time.cost.likely,
        cost_low_ns: claim.time.cost.low,
        cost_high_ns: claim.time.cost.high,
        wall_ns: claim.time.wall_ns,
        share: claim.time.share(),
        affected: claim.affected,
        unit: claim.unit,
        extent: None,
        display_filter: None,
        locates: claim.locates(),
        witnesses: Vec::new(),
        waits: claim.time.waits,
        predicted: claim.time.predicted,
        title: claim.text.title,
        summary: claim.text.summary,
        overturned_by: claim.text.overturned_by,
        next: words(claim.text.next),
        evidence,
        ruled_out: claim.ruled_out,
        candidates: claim.candidates,
        fix: words(claim.advice),
        exemplars: claim.exemplars,
        location: claim.location,
    }
}

fn words(advice: Vec<Advice>) -> Vec<Fix> {
    advice.into_iter().map(Advice::into_words).collect()
}
