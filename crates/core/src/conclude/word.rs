//! Findings: claims in words, as reports have them.

use super::Scene;
use super::witnesses::witnesses;
use crate::claim::Claim;
use crate::report::Finding;

/// Returns the findings of `claims`, in the same order.
pub(super) fn word(scene: &Scene<'_>, claims: Vec<Claim>) -> Vec<Finding> {
    let worded = |claim: Claim| {
        let witnesses = witnesses(&claim, &scene.watched(claim.at));
        Finding {
            witnesses,
            ..finding(claim)
        }
    };
    claims.into_iter().map(worded).collect()
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
        next: claim.text.next,
        evidence,
        ruled_out: claim.ruled_out,
        candidates: claim.candidates,
        fix: claim.fix,
        exemplars: claim.exemplars,
        location: claim.location,
    }
}
