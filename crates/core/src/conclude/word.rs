//! Findings: claims in words, as reports have them.

use std::collections::BTreeSet;

use super::witnesses::witnesses;
use super::{Scene, display_filter, route};
use crate::claim::{Advice, Claim, Statement};
use crate::report::{Evidence, Finding, Fix};

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
    let is_in_file = observations.capture.is_some() && !observations.is_only_watched();
    for finding in &mut findings {
        if is_in_file {
            finding.display_filter = display_filter::display_filter(finding);
        }
        once(&mut finding.evidence);
    }
    findings
}

/// Drops evidence that says the same as evidence before it: a cause and a merged consequence of it
/// can rest on the same packets.
fn once(evidence: &mut Vec<Evidence>) {
    let mut said = BTreeSet::new();
    evidence.retain(|one| said.insert(one.text.clone()));
}

/// Returns the finding of a claim, without witnesses.
pub(crate) fn finding(claim: Claim) -> Finding {
    let statements = claim.evidence.iter().cloned();
    let (against, mut evidence): (Vec<_>, Vec<_>) = statements.partition(Statement::is_against);
    evidence.sort_by_key(|statement| !statement.is_own());
    let against = against.into_iter().map(|one| one.into_words().text);
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
        overturned_by: against.fold(claim.text.overturned_by, |all, one| all + "; " + &one),
        next: words(claim.text.next),
        evidence: evidence.into_iter().map(Statement::into_words).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::wait::Owner;
    use crate::observed::flow::Endpoint;
    use crate::registry::Id;
    use crate::report::EvidenceKind;

    #[test]
    fn own_evidence_comes_first_and_what_contradicts_is_what_overturns() {
        let at = Endpoint::new([10, 0, 0, 2].into(), 80);
        let mut claim = Claim::blank(Id::DeferAccept, Owner::Server, at);
        claim.text.overturned_by = "data".to_owned();
        claim.evidence = vec![
            Statement::shows(EvidenceKind::Wire, "merged").inherited(),
            Statement::contradicts(EvidenceKind::Configuration, "no `deferred`"),
            Statement::shows(EvidenceKind::Wire, "packets"),
        ];
        let finding = finding(claim);
        let texts: Vec<&str> = finding
            .evidence
            .iter()
            .map(|one| one.text.as_str())
            .collect();
        assert_eq!(texts, ["packets", "merged"]);
        assert_eq!(finding.overturned_by, "data; no `deferred`");
    }
}
