//! Losses that were repaired within exchanges. The rules on loss share this file.

use core::time::Duration;
use std::collections::BTreeSet;

use super::evidence::{self, percent};
use super::features::Features;
use super::first_packets::FirstPackets;
use super::limited::beyond_largest_window;
use super::lost_requests::LostRequests;
use super::trips::whole_outside;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, Recovery, RecoveryMechanism};
use crate::observed::flow::Endpoint;
use crate::report::{Candidate, EvidenceKind, Unit, count, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Minimum number of connections with losses, and minimum number of losses, before the path is
/// blamed. Fewer may be chance.
const SPREAD: usize = 3;
const MANY: u64 = 10;
/// Minimum number of exchanges of fewer connections that had losses, at times of their own, before the
/// path is blamed.
const OFTEN: u64 = 20;
/// A capture that lost more than this part of its packets, as a divisor, does not show which segments
/// arrived.
const MOST_LACKING: u64 = 100;
/// Maximum number of connections kept.
const MAX_CLIENTS: usize = 64;
/// Counters of this kernel for segments that arrived and were dropped.
const DISCARDS: [&str; 3] = [
    "TcpExt:TCPRcvQDrop",
    "TcpExt:PruneCalled",
    "TcpExt:TCPBacklogDrop",
];

/// The kind of repair of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepairKind {
    /// The retransmission timer expired.
    Timeout,
    /// A tail-loss probe retransmitted the segment.
    Probe,
    /// Later data arrived and revealed the loss.
    Fast,
    /// The segment was retransmitted a second time, because the first retransmission was lost too.
    Again,
}

impl RepairKind {
    fn of(recovery: &Recovery) -> Self {
        match recovery.mechanism {
            _ if recovery.again => Self::Again,
            RecoveryMechanism::Timeout => Self::Timeout,
            RecoveryMechanism::Probe => Self::Probe,
            RecoveryMechanism::Fast => Self::Fast,
        }
    }
}

/// The losses of a service and their repairs.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
pub(crate) struct Losses {
    pub(crate) tally: Tally,
    /// The number and total time of repairs, by [`RepairKind`].
    repairs: [(u64, Duration); 4],
    /// The part of the time of timers and probes in which the receiver already knew of the loss.
    revealed: Duration,
    #[merge(extend)]
    clients: BTreeSet<Endpoint>,
    packets: FirstPackets,
    /// Requests that were lost before the capture point. They are in no exchange.
    pub(super) requests: LostRequests,
    /// Number of retransmissions that turned out to be unnecessary: the receiver reported by D-SACK
    /// that the original had arrived.
    taken_back: u64,
    /// Number of repaired losses that may not have been losses.
    doubtful: u64,
    /// The time that exchanges lost, both to losses and to windows that losses had reduced.
    whole: Tally,
    /// The time that each exchange lost to windows that losses had reduced.
    slowed: Distribution,
}

/// If the receiver reported at least one in this many lost segments as a duplicate, the other
/// losses are doubtful too, because a receiver cannot report every duplicate.
const DOUBTED: u64 = 5;

impl Losses {
    pub(super) const CONCERNS: Features = Features::RECOVERIES
        .or(Features::wait(WaitKind::Recovery))
        .or(Features::DELIVERIES);

    pub(crate) fn observe(&mut self, exchange: &Exchange) {
        if !exchange.loss.recoveries.is_empty() {
            self.note(exchange);
        }
        let (lost, slowed) = (lost(exchange), slowed(exchange));
        let whole = Cost::exactly(lost).plus(slowed);
        if lost > Duration::ZERO {
            let cost = Cost::exactly(lost);
            self.tally.add(exchange, cost, Duration::ZERO);
        }
        if slowed.likely > 0 {
            self.slowed.record(Duration::from_nanos(slowed.likely));
        }
        if whole.likely > 0 {
            self.whole.add(exchange, whole, Duration::ZERO);
        }
    }

    /// Records reports that nothing was lost. They may be in a later exchange than the
    /// retransmission.
    pub(super) fn hear(&mut self, exchange: &Exchange) {
        self.taken_back += u64::from(exchange.loss.disorder.taken_back);
    }

    /// Returns true if the receiver reported at least half of the losses as received twice.
    pub(super) fn are_taken_back(&self) -> bool {
        self.taken_back > 0 && self.taken_back * 2 >= self.events()
    }

    pub(super) fn taken_back(&self) -> u64 {
        self.taken_back
    }

    fn note(&mut self, exchange: &Exchange) {
        for recovery in &exchange.loss.recoveries {
            let kind = RepairKind::of(recovery);
            if let Some((count, took)) = self.repairs.get_mut(kind as usize) {
                *count += 1;
                *took += recovery.took;
            }
            if recovery.is_revealed && matches!(kind, RepairKind::Timeout | RepairKind::Probe) {
                self.revealed += recovery.took;
            }
            self.packets.add(recovery.packet);
            self.doubtful += u64::from(recovery.is_doubtful);
        }
        self.clients.insert(exchange.id.client);
        self.settle();
    }

    /// Returns all losses, with the requests that were lost before the capture point. A timer
    /// repaired each lost request.
    pub(super) fn whole(&self) -> Self {
        let mut whole = self.clone();
        let count = self.requests.count();
        if count > 0 {
            whole.tally.merge(self.requests.own());
            whole.whole.merge(self.requests.own());
            if let Some((timeouts, took)) = whole.repairs.get_mut(RepairKind::Timeout as usize) {
                *timeouts += count;
                *took += self.requests.took;
            }
            whole.clients.extend(&self.requests.clients);
            whole.packets.extend(self.requests.packets.clone());
            whole.settle();
        }
        whole
    }

    /// Keeps the first clients. The order in which exchanges close does not matter.
    fn settle(&mut self) {
        while self.clients.len() > MAX_CLIENTS {
            self.clients.pop_last();
        }
    }

    fn repaired_by(&self, kind: RepairKind) -> (u64, Duration) {
        self.repairs.get(kind as usize).copied().unwrap_or_default()
    }

    /// Returns the share of the repair time that `kind` took.
    fn share_of(&self, kind: RepairKind) -> f64 {
        let all: Duration = self.repairs.iter().map(|(_, took)| took).sum();
        self.repaired_by(kind).1.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns true if timers and probes mostly repaired losses that no later data had revealed.
    pub(super) fn are_at_the_end(&self) -> bool {
        let (_, timers) = self.repaired_by(RepairKind::Timeout);
        let (_, probes) = self.repaired_by(RepairKind::Probe);
        self.revealed * 2 <= timers + probes
    }

    pub(crate) fn events(&self) -> u64 {
        self.repairs.iter().map(|(count, _)| count).sum()
    }

    /// Returns true if there are many losses on several connections, or time and again on a few, so
    /// that the path loses packets.
    pub(crate) fn is_widespread(&self) -> bool {
        let recurs = || self.tally.affected >= OFTEN && self.tally.occasions() >= OFTEN;
        self.events() >= MANY && (self.clients.len() >= SPREAD || recurs())
    }

    /// Returns the kind of repair that took most of the time.
    pub(super) fn kind(&self) -> RepairKind {
        [
            RepairKind::Timeout,
            RepairKind::Again,
            RepairKind::Probe,
            RepairKind::Fast,
        ]
        .into_iter()
        .max_by_key(|&kind| self.repaired_by(kind).1)
        .unwrap_or(RepairKind::Fast)
    }

    /// Returns the claim on the losses under the cause `id`; `None` if there were none, or if
    /// they do not matter.
    pub(crate) fn claim(&self, id: Id, case: &Case<'_>) -> Option<Claim> {
        let is_material =
            evidence::is_material(case, &self.whole) || self.requests.is_material(case);
        if self.events() == 0 || !is_material || self.are_taken_back() || self.is_chance(case) {
            return None;
        }
        let mut claim = evidence::claim(id, Owner::Path, case, &self.whole);
        claim.evidence.push(self.wire(case));
        claim.evidence.extend(self.cut_windows(case));
        claim.evidence.extend(self.before());
        if self.requests.count() > 0 {
            let least = case.round_trip().unwrap_or_default();
            claim.time.whole_ns = whole_outside(case, &self.whole, least);
        }
        claim.evidence.extend(retransmission_counter(case));
        claim.candidates.extend(discarded(case));
        claim.basis = Basis::new(self.events(), self.are_doubtful(case));
        Some(claim)
    }

    /// Returns true if the losses may not have been losses:
    /// - Few connections had them, and most are doubtful: the capture shows neither two copies nor
    ///   a gap, or the retransmission came too soon to decide.
    /// - Or the receiver reported many of them as received twice.
    /// - Or the capture itself lost as many packets, and not few: the packets that it lacks may be
    ///   those that would show that nothing was lost.
    fn are_doubtful(&self, case: &Case<'_>) -> bool {
        let all = self.events();
        let is_mostly = self.doubtful * 2 > all && !self.is_widespread();
        let is_taken_back = self.taken_back > 0 && self.taken_back * DOUBTED >= all;
        is_mostly || is_taken_back || lacks(case, all)
    }

    /// Returns true if the losses may be a few segments that were late when a tail-loss probe
    /// retransmitted them. A probe is sent two round trips after the segment, and reordering on the
    /// path may take as long.
    fn is_chance(&self, case: &Case<'_>) -> bool {
        let is_probe = self.kind() == RepairKind::Probe;
        is_probe && self.are_doubtful(case) && !evidence::is_repeated(case, &self.whole)
    }

    /// Returns the evidence of the requests that were lost before the capture point.
    fn before(&self) -> Option<Statement> {
        let count = self.requests.count();
        let text = format!(
            "{} arrived late by a retransmission timeout, after a gap in the client's IP \
             identifications or sequence numbers: they had been sent before and were lost on the \
             path to the server",
            counted(count, "request", "requests"),
        );
        let circumstance = Statement::fits(EvidenceKind::Wire, text).count(count);
        (count > 0).then(|| circumstance.packets(&self.requests.packets))
    }

    /// Returns the evidence of windows that losses had reduced.
    fn cut_windows(&self, case: &Case<'_>) -> Option<Statement> {
        let count = self.slowed.count();
        let text = format!(
            "{count} {} after a loss had a smaller congestion window than before, and took {} \
             (median) longer than with the largest window",
            case.ledger.unit.words()[usize::from(count != 1)],
            evidence::median(&self.slowed),
        );
        (count > 0).then(|| Statement::fits(EvidenceKind::Wire, text).count(count))
    }

    /// Returns one phrase for each kind of repair, with its number of losses.
    fn repairs(&self) -> Vec<String> {
        let ways = self.ways();
        ways.map(|(n, by)| format!("{} {by}", count(n))).collect()
    }

    /// Returns the kinds of repair that occurred: the number of losses, and words for the kind.
    fn ways(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let kinds = [
            (RepairKind::Timeout, "by a timer"),
            (RepairKind::Probe, "by a tail-loss probe"),
            (RepairKind::Fast, "by fast retransmit"),
            (RepairKind::Again, "only after more than one retransmission"),
        ];
        let repaired = kinds.map(|(kind, by)| (self.repaired_by(kind).0, by));
        repaired.into_iter().filter(|(count, _)| *count > 0)
    }

    /// Returns the words for a single loss. Most of the time may have passed after its repair, such
    /// as with the smaller congestion window that the loss left.
    fn only_one(&self, one: &str) -> String {
        let by: String = self.ways().map(|(_, by)| by).collect();
        let took: Duration = self.repairs.iter().map(|(_, took)| took).sum();
        let waited = self.tally.saved.quantile(0.5).unwrap_or_default();
        if waited > took * 2 {
            let waited = evidence::human(waited);
            return format!(
                "1 loss was repaired {by}; the {one} waited {waited} for this and its consequences"
            );
        }
        format!(
            "1 loss was repaired {by}, {} later",
            evidence::human(waited)
        )
    }

    fn wire(&self, case: &Case<'_>) -> Statement {
        let one = match case.ledger.unit {
            Unit::Requests => "exchange",
            unit => unit.words()[0],
        };
        let text = match self.events() {
            1 => self.only_one(one),
            events => format!(
                "{} losses were repaired on {}: {}; the median {one} with a loss waited {} for \
                 this",
                count(events),
                counted(self.clients.len() as u64, "connection", "connections"),
                self.repairs().join(", "),
                evidence::median(&self.tally.saved),
            ),
        };
        Statement::shows(EvidenceKind::Wire, text)
            .count(self.events())
            .median(&self.tally.saved)
            .packets(&self.packets)
    }
}

/// Returns true if the capture lost at least so many packets, and a part of all that matters.
fn lacks(case: &Case<'_>, losses: u64) -> bool {
    let captures = || case.facts.captures.iter().map(|(_, capture)| capture);
    let lost: u64 = captures().filter_map(|capture| capture.dropped).sum();
    let all: u64 = captures().map(|capture| capture.packets).sum();
    lost >= losses && lost.saturating_mul(MOST_LACKING) > all
}

/// Returns the time for which an exchange waited until losses on the path were repaired.
pub(crate) fn lost(exchange: &Exchange) -> Duration {
    // If the data arrived and its host ignored it, the wait has another owner.
    exchange
        .waits
        .iter()
        .filter(|wait| wait.kind == WaitKind::Recovery && wait.owner == Owner::Path)
        .map(|wait| wait.duration())
        .sum()
}

/// Returns the cost of windows that losses had reduced, summed over the messages of an exchange.
fn slowed(exchange: &Exchange) -> Cost {
    let deliveries = exchange.sending.deliveries.iter();
    deliveries
        .map(beyond_largest_window)
        .fold(Cost::default(), Cost::plus)
}

/// The observation that would refute a claim on few losses.
pub(super) const IN_TIME: &str =
    "a capture at the other end that shows these segments arriving in time";

/// Where a timer repaired a loss, and what makes the repair faster: after the last data, or before
/// data that arrived.
const AT_THE_END: (&str, &str) = (
    "at the end of a message, where no later data follows to reveal the loss",
    "tail-loss probes on (net.ipv4.tcp_early_retrans=3); in a data centre a lower rto_min on the \
     route",
);
const AMID: (&str, &str) = (
    "although later data had already revealed the loss to the receiver",
    "SACK and RACK on (net.ipv4.tcp_sack=1, net.ipv4.tcp_recovery=1): they repair what later data \
     reveals without a timer; in a data centre a lower rto_min on the route",
);

/// Returns the conclusion on a few losses, if `kind` of repair took most of their time.
pub(super) fn conclude_few(
    case: &Case<'_>,
    id: Id,
    kind: RepairKind,
    wording: &Wording,
) -> Conclusion {
    let losses = case.gathered.losses.whole();
    if losses.is_widespread() || losses.kind() != kind {
        return Conclusion::Nothing;
    }
    let Some(mut claim) = losses.claim(id, case) else {
        return Conclusion::Nothing;
    };
    let [one, many] = match claim.unit {
        Unit::Requests => ["exchange", "exchanges"],
        unit => unit.words(),
    };
    let exchanges = counted(losses.tally.affected, one, many);
    let most = match percent(losses.share_of(kind)) {
        whole if whole == percent(1.0) => "all".to_owned(),
        part => part,
    };
    let (place, change) = if losses.are_at_the_end() {
        AT_THE_END
    } else {
        AMID
    };
    wording.tell(
        &mut claim,
        &[
            ("place", &place),
            ("change", &change),
            ("exchanges", &exchanges),
            ("saved", &typical(&losses.tally.saved)),
            ("most", &most),
        ],
    );
    Conclusion::Claim(Box::new(claim))
}

/// Formats the median of the times, or the only time.
fn typical(times: &Distribution) -> String {
    match times.count() {
        1 => evidence::median(times),
        _ => format!("{} (median)", evidence::median(times)),
    }
}

/// Returns the candidate that the receiver had no memory for the segments. A receiver without
/// memory drops segments that have arrived, and they are retransmitted as if they had been lost.
/// The counters of this kernel show it.
fn discarded(case: &Case<'_>) -> Option<Candidate> {
    let counted = DISCARDS.map(|name| (name, case.facts.counter(name).unwrap_or_default()));
    let (name, count) = counted.into_iter().max_by_key(|&(_, count)| count)?;
    (count > 0).then(|| Candidate {
        cause: Id::SocketMemoryPressure,
        because: format!("{name} of this kernel rose by {count} in that time"),
        decided_by: "look at `ss -tm` (receive queue and rb) and net.ipv4.tcp_mem while it happens"
            .to_owned(),
    })
}

/// Returns the evidence of this kernel's counter of retransmissions.
fn retransmission_counter(case: &Case<'_>) -> Option<Statement> {
    let retransmitted = case
        .facts
        .counter("Tcp:RetransSegs")
        .filter(|&count| count > 0)?;
    let sent = case.facts.counter("Tcp:OutSegs").unwrap_or_default().max(1);
    let share = percent(retransmitted as f64 / sent as f64);
    let text = format!(
        "this kernel retransmitted {}, {share} of all it sent",
        counted(retransmitted, "segment", "segments"),
    );
    Some(Statement::fits(EvidenceKind::Counter, text).count(retransmitted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_after_a_repair_is_not_the_time_of_the_repair() {
        let told = |took, waited| {
            let mut losses = Losses::default();
            losses.repairs[RepairKind::Fast as usize] = (1, Duration::from_millis(took));
            losses.tally.saved.record(Duration::from_millis(waited));
            losses.only_one("exchange")
        };
        assert_eq!(
            told(30, 440),
            "1 loss was repaired by fast retransmit; the exchange waited 440 ms for this and its \
             consequences"
        );
        assert_eq!(
            told(30, 30),
            "1 loss was repaired by fast retransmit, 30.0 ms later"
        );
    }
}
