//! Transfers outside exchanges: data that no request asked for, or that was not answered. The
//! transport rules treat this data like messages. If exchanges show the same cause, the claim
//! outside exchanges becomes further evidence of it.
//!
//! At a high rate, the kernel of a watched server passes only a sample of the segments. A gap
//! between the samples is not a pause, and the time next to it has no owner.

use core::time::Duration;

use super::Observations;
use super::blank::Blank;
use crate::cause::evidence::{MATERIAL_SHARE, Measures, human};
use crate::cause::service::{Outside, Service};
use crate::cause::{Case, Conclusion};
use crate::claim::Claim;
use crate::exchange::wait::WaitKind;
use crate::observed::flow::Endpoint;
use crate::report::LayerState;
use crate::service::Ledger;
use crate::stats::Merge;

/// Adds the claims outside exchanges to the other claims.
pub(super) fn add(evidence: &Observations, claims: &mut Vec<Claim>) {
    let services = evidence.services.iter();
    let outside =
        services.filter_map(|(&at, service)| Some((at, service, service.outside.as_ref()?)));
    for (endpoint, service, outside) in outside {
        for claim in found(evidence, endpoint, outside) {
            if let Some(claim) = weigh(claim, service, outside) {
                join(claims, claim);
            }
        }
    }
}

fn found(evidence: &Observations, endpoint: Endpoint, outside: &Outside) -> Vec<Claim> {
    let blank = Blank::default();
    let case = Case {
        ledger: &outside.ledger,
        latency: Measures::of(&outside.ledger.latency.all),
        gathered: &outside.rules.gathered,
        ..blank.case(endpoint, &evidence.facts)
    };
    let conclusions = outside.rules.conclude(&case).into_iter();
    let claims = conclusions.filter_map(|conclusion| match conclusion {
        Conclusion::Claim(claim) => Some(*claim),
        Conclusion::Note(_) | Conclusion::Nothing => None,
    });
    claims
        .filter(|claim| claim.cause.cause().holds_any_data)
        .collect()
}

/// Returns the reason why transfers outside exchanges prevent a cleared transport layer: data
/// stalled, or nothing shows what limited it. `within` contains the figures of the exchanges.
pub(super) fn doubt(evidence: &Observations, within: &Ledger) -> Option<(LayerState, String)> {
    let mut sum = Ledger::default();
    let services = evidence.services.values();
    for outside in services.filter_map(|service| service.outside.as_ref()) {
        sum.merge(outside.ledger.clone());
    }
    let all = sum.total().saturating_add(within.total()) as f64;
    let is_much = |time: u64| time > 0 && time as f64 >= all * MATERIAL_SHARE;
    let human = |time: u64| human(Duration::from_nanos(time));
    let (full, repair) = (
        sum.shares.exchanges.of(WaitKind::WindowFull),
        sum.shares.exchanges.of(WaitKind::Recovery),
    );
    if is_much(full.saturating_add(repair)) {
        let line = format!(
            "outside of requests, data stalled for {} because of a full window and for {} because \
             of losses",
            human(full),
            human(repair)
        );
        return Some((LayerState::Suspected, line));
    }
    let mut untold = sum.shares.exchanges.of(WaitKind::Unknown);
    // If the protocol cannot be parsed, the pauses within exchanges have no owner either.
    if within.doubtful.unread * 2 > within.counts.count {
        untold = untold.saturating_add(within.shares.exchanges.of(WaitKind::Unknown));
    }
    is_much(untold).then(|| {
        let line = format!(
            "for {}, it is not known what limited the data, or whether any program waited",
            human(untold)
        );
        (LayerState::NotMeasured, line)
    })
}

/// Computes the claim's share of the service's whole time, and drops the claim if the share is
/// too small: a lost segment of a greeting is negligible next to a thousand requests.
fn weigh(mut claim: Claim, service: &Service, outside: &Outside) -> Option<Claim> {
    let all = service
        .ledger
        .total()
        .saturating_add(outside.ledger.total());
    claim.time.whole_ns = all;
    claim.time.predicted = None;
    (claim.time.share() >= MATERIAL_SHARE).then_some(claim)
}

/// Merges two claims on the same cause of the same service. The one with the higher cost stays,
/// and gets the other's evidence.
fn join(claims: &mut Vec<Claim>, claim: Claim) {
    let same = claims
        .iter_mut()
        .find(|known| known.cause == claim.cause && known.at == claim.at);
    match same {
        Some(known) => known.join(claim),
        None => claims.push(claim),
    }
}
