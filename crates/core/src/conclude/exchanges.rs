//! The figures of all exchanges and connection setups of a report.

use super::{OWN_STAMPS, Observations};
use crate::cause::Statuses;
use crate::connection::SetupOutcome;
use crate::exchange::Outcome;
use crate::facts::Facts;
use crate::observed::event::TargetId;
use crate::report::{Details, Exchanges, Figures, SetupOutcome as SetupCount, Setups, StatusCount};
use crate::service::{Counts, Ledger};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Returns the figures of a target or, for a capture without targets, of all services together.
pub(super) fn ledger(observations: &Observations, target: TargetId) -> Ledger {
    let mut sum = Ledger::default();
    for (_, ledger) in observations.ledgers(target) {
        sum.merge(ledger.clone());
    }
    sum
}

pub(super) fn exchanges(ledger: &Ledger, facts: &Facts, target: TargetId) -> Exchanges {
    let given_up = ledger.given_up().min(ledger.counts.timeouts);
    let mut exchanges = Exchanges {
        count: ledger.counts.count,
        errors: ledger.counts.errors + Statuses::of(&ledger.counts.outcomes).refused(),
        timeouts: given_up,
        cut: ledger.counts.cut + (ledger.counts.timeouts - given_up),
        rate: ledger.rate() * facts.turns.each_for(),
        measured_by: "packets".to_owned(),
        latency_ns: Figures::from(&ledger.latency.all),
        waits: ledger.shares.exchanges.shares(),
        waits_of: ledger.latency.all.count(),
        slowest: ledger.latency.slowest.exemplars(),
        statuses: statuses(&ledger.counts.outcomes),
        modes: Vec::new(),
    };
    if let Some(load) = facts.loads.baseline(target) {
        let seconds = facts.loads.baseline_seconds(target);
        exchanges.count = load.whole();
        exchanges.errors = load.errors(&facts.loads.expected);
        exchanges.timeouts = load.timeouts();
        exchanges.rate = if seconds > 0.0 {
            load.whole() as f64 / seconds
        } else {
            0.0
        };
        exchanges.measured_by = OWN_STAMPS.to_owned();
        exchanges.latency_ns = Figures::from(&load.latency);
        exchanges.statuses = load.outcomes();
    }
    exchanges
}

pub(super) fn twin(observations: &Observations) -> Option<Exchanges> {
    let has_twin = observations
        .targets
        .iter()
        .any(|(target, _)| *target == TargetId::Twin);
    let ledger = has_twin.then(|| ledger(observations, TargetId::Twin))?;
    Some(exchanges(&ledger, &observations.facts, TargetId::Twin))
}

pub(super) fn details(ledger: &Ledger, facts: &Facts) -> Details {
    let load = facts.loads.baseline(TargetId::Subject);
    let clusters = facts
        .loads
        .clusters
        .iter()
        .filter(|(target, _)| *target == TargetId::Subject);
    Details {
        clusters: clusters.map(|(_, cluster)| cluster.clone()).collect(),
        latency: load.map_or_else(|| ledger.latency.all.clone(), |load| load.latency.clone()),
        body: load.map_or_else(Distribution::default, |load| load.body.clone()),
    }
}

pub(super) fn setups(ledger: &Ledger) -> Setups {
    let setups = &ledger.setups;
    let name = |outcome: SetupOutcome| match outcome {
        SetupOutcome::Established => "established",
        SetupOutcome::Refused => "refused",
        SetupOutcome::Unanswered => "unanswered",
        SetupOutcome::Cut => "cut",
    };
    Setups {
        count: setups.count,
        outcomes: setups
            .outcomes
            .iter()
            .map(|(outcome, count)| SetupCount {
                outcome: name(outcome).to_owned(),
                count,
            })
            .collect(),
        latency_ns: Figures::from(&setups.latency),
        waits: setups.waits.shares(),
    }
}

fn statuses(outcomes: &Counts<Outcome>) -> Vec<StatusCount> {
    let mut counts: Vec<StatusCount> = outcomes
        .iter()
        .map(|(outcome, count)| StatusCount {
            status: outcome.to_string(),
            count,
        })
        .collect();
    counts.sort_by(|a, b| a.status.cmp(&b.status));
    counts
}
