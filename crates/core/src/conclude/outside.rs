//! Transfers outside exchanges: data that no request asked for, or that was not answered. The
//! transport rules treat this data like messages. If exchanges show the same cause, the finding
//! outside exchanges becomes further evidence of it.
//!
//! At a high rate, the kernel of a watched server passes only a sample of the segments. A gap
//! between the samples is not a pause, and the time next to it has no owner.

use core::time::Duration;

use super::Evidence;
use super::blank::Blank;
use crate::cause::evidence::{MATERIAL_SHARE, Measures, human};
use crate::cause::service::{Outside, Service};
use crate::cause::{Case, Conclusion};
use crate::exchange::wait::WaitKind;
use crate::observed::flow::Endpoint;
use crate::registry::Id;
use crate::report::{Finding, LayerState};
use crate::service::Ledger;

/// The causes that can hold back any data. Causes that need to know which side owes a response, or
/// what a program meant to send, are not among them.
const SPEAKS: [Id; 10] = [
    Id::ZeroWindow,
    Id::ReceiveWindow,
    Id::PacketLoss,
    Id::RetransmissionTimeout,
    Id::FastRetransmit,
    Id::TailLossProbe,
    Id::LostRetransmission,
    Id::Reordering,
    Id::SpuriousRetransmission,
    Id::BandwidthLimit,
];

/// Adds the findings outside exchanges to the other findings.
pub(super) fn add(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let services = evidence.services.iter();
    let outside =
        services.filter_map(|(&at, service)| Some((at, service, service.outside.as_ref()?)));
    for (endpoint, service, outside) in outside {
        for finding in found(evidence, endpoint, outside) {
            if let Some(finding) = weigh(finding, service, outside) {
                join(findings, finding);
            }
        }
    }
}

fn found(evidence: &Evidence, endpoint: Endpoint, outside: &Outside) -> Vec<Finding> {
    let blank = Blank::default();
    let case = Case {
        ledger: &outside.ledger,
        latency: Measures::of(&outside.ledger.latency.all),
        gathered: &outside.rules.gathered,
        ..blank.case(endpoint, &evidence.facts)
    };
    let conclusions = outside.rules.conclude(&case).into_iter();
    let findings = conclusions.filter_map(|conclusion| match conclusion {
        Conclusion::Finding(finding) => Some(*finding),
        Conclusion::Note(_) | Conclusion::Nothing => None,
    });
    findings
        .filter(|finding| SPEAKS.contains(&finding.cause))
        .collect()
}

/// Returns the reason why transfers outside exchanges prevent a cleared transport layer: data
/// stalled, or nothing shows what limited it. `within` contains the figures of the exchanges.
pub(super) fn doubt(evidence: &Evidence, within: &Ledger) -> Option<(LayerState, String)> {
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

/// Computes the finding's share of the service's whole time, and drops the finding if the share is
/// too small: a lost segment of a greeting is negligible next to a thousand requests.
fn weigh(mut finding: Finding, service: &Service, outside: &Outside) -> Option<Finding> {
    let all = service
        .ledger
        .total()
        .saturating_add(outside.ledger.total());
    finding.share = (finding.cost_ns as f64 / all.max(1) as f64).min(1.0);
    finding.predicted = None;
    (finding.share >= MATERIAL_SHARE).then_some(finding)
}

/// Merges two findings on the same cause of the same service. The one with the higher cost stays,
/// and gets the other's evidence.
fn join(findings: &mut Vec<Finding>, mut finding: Finding) {
    let same = findings
        .iter_mut()
        .find(|known| known.cause == finding.cause && known.service == finding.service);
    let Some(known) = same else {
        findings.push(finding);
        return;
    };
    if finding.cost_ns > known.cost_ns {
        core::mem::swap(known, &mut finding);
    }
    known.verdict = known.verdict.max(finding.verdict);
    known.evidence.append(&mut finding.evidence);
}
