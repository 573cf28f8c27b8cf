//! Losses repaired within exchanges: what the three causes share.

use core::time::Duration;
use std::collections::BTreeSet;

use super::Case;
use super::evidence::{self, percent};
use super::tally::{Cost, Tally};
use crate::exchange::{Exchange, RecoveryMechanism};
use crate::flow::Endpoint;
use crate::report::{Evidence, EvidenceKind, Finding};
use crate::wait::{Owner, WaitKind};

/// Losses on this many connections, and this many in all, are the path's:
/// fewer may be one connection's bad luck.
const SPREAD: usize = 3;
const MANY: u64 = 10;
/// Connections told apart.
const MAX_CLIENTS: usize = 64;
/// Exemplar packets kept.
const MAX_PACKETS: usize = 5;

/// What was lost and how it was repaired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) tally: Tally,
    pub(crate) timeouts: u64,
    pub(crate) fast: u64,
    waiting_for_timers: Duration,
    clients: BTreeSet<Endpoint>,
    packets: Vec<u64>,
}

/// Which of the three causes the losses amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Many, on several connections: the path loses packets.
    Path,
    /// Few, most of their time spent waiting for a timer.
    Timeout,
    /// Few, most repaired at once.
    Fast,
}

impl Losses {
    pub(crate) fn observe(&mut self, exchange: &Exchange) {
        for recovery in &exchange.recoveries {
            match recovery.mechanism {
                RecoveryMechanism::Timeout => {
                    self.timeouts += 1;
                    self.waiting_for_timers += recovery.took;
                }
                RecoveryMechanism::Probe | RecoveryMechanism::Fast => self.fast += 1,
            }
            self.packets.push(recovery.packet);
        }
        self.settle();
        if !exchange.recoveries.is_empty() && self.clients.len() < MAX_CLIENTS {
            self.clients.insert(exchange.client);
        }
        let lost: Duration = exchange
            .waits
            .iter()
            .filter(|wait| wait.kind == WaitKind::Recovery)
            .map(|wait| wait.duration())
            .sum();
        if lost > Duration::ZERO {
            self.tally
                .add(exchange, Cost::exactly(lost), Duration::ZERO);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.timeouts += other.timeouts;
        self.fast += other.fast;
        self.waiting_for_timers += other.waiting_for_timers;
        self.clients.extend(other.clients);
        self.packets.extend(other.packets);
        self.settle();
    }

    /// Keeps the first packets, in whatever order their exchanges closed.
    fn settle(&mut self) {
        self.packets.sort_unstable();
        self.packets.truncate(MAX_PACKETS);
        while self.clients.len() > MAX_CLIENTS {
            self.clients.pop_last();
        }
    }

    pub(crate) fn events(&self) -> u64 {
        self.timeouts + self.fast
    }

    pub(crate) fn kind(&self) -> Kind {
        if self.clients.len() >= SPREAD && self.events() >= MANY {
            return Kind::Path;
        }
        let timers = super::tally::nanos(self.waiting_for_timers);
        if timers.saturating_mul(2) >= self.tally.cost.likely {
            Kind::Timeout
        } else {
            Kind::Fast
        }
    }

    /// The finding under one of the three ids, if the losses are of its kind
    /// and matter.
    pub(crate) fn finding(&self, id: &str, kind: Kind, case: &Case<'_>) -> Option<Finding> {
        if self.events() == 0 || self.kind() != kind || !evidence::is_material(case, &self.tally) {
            return None;
        }
        let mut finding = evidence::finding(id, Owner::Path, case, &self.tally);
        finding.evidence.push(self.wire());
        finding.evidence.extend(retransmission_counter(case));
        finding.verdict = evidence::judge(&finding.evidence, self.events(), false);
        Some(finding)
    }

    fn wire(&self) -> Evidence {
        let text = format!(
            "{} losses were repaired within exchanges on {} connections: {} by a timer or probe \
             (no later data told the sender), {} by fast retransmission; the median exchange \
             that lost something lost {}",
            self.events(),
            self.clients.len(),
            self.timeouts,
            self.fast,
            evidence::median(&self.tally.saved),
        );
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(self.events())
            .median(&self.tally.saved)
            .packets(&self.packets)
    }
}

/// What the kernel counted of its own retransmissions.
fn retransmission_counter(case: &Case<'_>) -> Option<Evidence> {
    let retransmitted = case
        .facts
        .counter("Tcp:RetransSegs")
        .filter(|&count| count > 0)?;
    let sent = case.facts.counter("Tcp:OutSegs").unwrap_or_default().max(1);
    let share = percent(retransmitted as f64 / sent as f64);
    let text = format!("this kernel sent {retransmitted} segments again, {share} of all it sent");
    Some(Evidence::circumstance(EvidenceKind::Counter, text).count(retransmitted))
}
