//! The kinds of evidence on a claim: which of them support it, and which contradict it.

use crate::claim::Claim;
use crate::conclude::judge::Observed;
use crate::conclude::kernel_join;
use crate::exchange::wait::WaitKind;
use crate::observed::event::TargetId;
use crate::observed::experiment::Experiment;
use crate::report::{EvidenceKind, Says, Witness};

const KINDS: [EvidenceKind; 7] = [
    EvidenceKind::Wire,
    EvidenceKind::OwnSocket,
    EvidenceKind::ForeignSocket,
    EvidenceKind::KernelTrace,
    EvidenceKind::Configuration,
    EvidenceKind::Counter,
    EvidenceKind::Intervention,
];

/// Returns for each kind of evidence whether it supports or contradicts `claim`, is silent on it,
/// or is not available.
pub(super) fn witnesses(claim: &Claim, observed: &Observed<'_>) -> Vec<Witness> {
    let says = |kind| {
        let mut evidence = claim.evidence.iter();
        if is_against(kind, claim, observed) {
            Says::Contradicts
        } else if evidence.any(|statement| statement.kind() == kind) {
            Says::Supports
        } else if is_available(kind, observed) {
            Says::Silent
        } else {
            Says::NotAvailable
        }
    };
    let witness = |kind| Witness {
        kind,
        says: says(kind),
    };
    KINDS.into_iter().map(witness).collect()
}

fn is_available(kind: EvidenceKind, observed: &Observed<'_>) -> bool {
    let facts = observed.facts;
    match kind {
        EvidenceKind::Wire => observed.has_packets,
        EvidenceKind::OwnSocket => facts.loads.baseline(TargetId::Subject).is_some(),
        EvidenceKind::ForeignSocket => !facts.sockets.is_empty() || facts.calls.tally.is_some(),
        EvidenceKind::KernelTrace => facts.turns.tally.is_some(),
        EvidenceKind::Configuration => !facts.configuration.is_empty(),
        EvidenceKind::Counter => !facts.kernel.counters.is_empty(),
        EvidenceKind::Intervention => {
            let outcomes = facts.loads.outcomes(TargetId::Subject);
            outcomes.iter().any(|outcome| !outcome.is_blind)
        }
    }
}

fn is_against(kind: EvidenceKind, claim: &Claim, observed: &Observed<'_>) -> bool {
    match kind {
        // Settings and calls are compared with the rule's own figures, which are not known here.
        EvidenceKind::Configuration | EvidenceKind::ForeignSocket => {
            let mut own = claim.own_evidence();
            own.any(|statement| statement.is_against() && statement.kind() == kind)
        }
        EvidenceKind::KernelTrace => {
            let service = observed.service;
            service.is_some_and(|service| kernel_join::is_contradicted(claim, &service.served))
        }
        EvidenceKind::Intervention => {
            let is_held = claim.time.waits.contains(&WaitKind::ResponseHeld);
            let outcomes = observed.facts.loads.outcomes(TargetId::Subject);
            let mut tried = outcomes
                .iter()
                .filter(|outcome| outcome.experiment == Experiment::QuickAck && !outcome.is_blind);
            is_held && tried.any(|outcome| outcome.low <= 0 && outcome.high >= 0)
        }
        _ => false,
    }
}
