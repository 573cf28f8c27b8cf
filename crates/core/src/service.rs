//! What all exchanges with one server amount to.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use crate::cause::Rules;
use crate::cause::example::Worst;
use crate::cause::tally::nanos;
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::{Exchange, Outcome, Side};
use crate::handshakes::Handshakes;
use crate::histogram::Distribution;
use crate::modes::Bands;
use crate::report::WaitShare;
use crate::time::Timestamp;
use crate::timeline::Timeline;
use crate::wait::{Owner, Wait, WaitKind};

/// Figures and rules of one server's address and port.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub(crate) ledger: Ledger,
    pub(crate) rules: Rules,
    pub(crate) timeline: Timeline,
}

impl Service {
    pub(crate) fn take(&mut self, exchange: &Exchange) {
        self.ledger.take(exchange);
        self.timeline.take(exchange);
        self.rules.observe(exchange);
    }

    pub(crate) fn take_setup(&mut self, setup: &Setup) {
        self.ledger.take_setup(setup);
        self.rules.observe_setup(setup);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.ledger.merge(other.ledger);
        self.timeline.merge(other.timeline);
        self.rules.merge(other.rules);
    }
}

/// The figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) timeouts: u64,
    pub(crate) cut: u64,
    pub(crate) latency: Distribution,
    /// Least round trip to the client plus that to the server.
    pub(crate) round_trip: Option<Duration>,
    pub(crate) waits: Shares,
    pub(crate) slowest: Worst,
    pub(crate) bands: Bands,
    /// How exchanges ended, those cut by the capture aside.
    pub(crate) outcomes: BTreeMap<Outcome, u64>,
    pub(crate) span: Option<(Timestamp, Timestamp)>,
    pub(crate) setups: SetupLedger,
    /// Requests on connections that had been idle and were dead.
    pub(crate) stale: u64,
    /// Losses repaired, by whose data was lost.
    pub(crate) recoveries: BTreeMap<Side, u64>,
    /// Delayed ACKs that held nothing back.
    pub(crate) harmless_delays: Distribution,
    /// Fetches of what a certificate's validity rests on.
    pub(crate) fetches: Stretches,
}

/// Sums of waits by kind and owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// In the order they came: few, so that looking through them is quickest.
    sums: Vec<((WaitKind, Owner), u64)>,
}

/// Figures of connections made.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetupLedger {
    pub(crate) count: u64,
    pub(crate) outcomes: BTreeMap<SetupOutcome, u64>,
    pub(crate) latency: Distribution,
    pub(crate) waits: Shares,
    pub(crate) handshakes: Handshakes,
}

impl Ledger {
    fn take(&mut self, exchange: &Exchange) {
        let outcome = exchange.outcome;
        self.setups.handshakes.take_exchange(exchange);
        self.stale += u64::from(exchange.is_stale());
        if outcome == Outcome::Cut {
            self.cut += 1;
            return;
        }
        *self.outcomes.entry(outcome).or_default() += 1;
        self.extend_span(exchange.begin, exchange.end);
        match outcome {
            Outcome::Complete(status) => {
                self.count += 1;
                self.errors += u64::from(status.is_some_and(|status| status >= 500));
            }
            Outcome::Failed => {
                self.count += 1;
                self.errors += 1;
            }
            Outcome::TimedOut => self.timeouts += 1,
            _ => {
                self.errors += 1;
                return;
            }
        }
        let latency = exchange.latency();
        self.latency.record(latency);
        self.bands.take(exchange);
        self.waits.add(&exchange.waits);
        self.slowest.offer(nanos(latency), exchange);
        for recovery in &exchange.recoveries {
            *self.recoveries.entry(recovery.sender).or_default() += 1;
        }
        if let Some(delay) = exchange.harmless_delay {
            self.harmless_delays.record(delay);
        }
        if exchange.is_revocation {
            // Its connection was made for it.
            let before = exchange.setup.unwrap_or_default();
            let begin = exchange.begin - before;
            self.fetches.add(exchange.client.addr, begin, exchange.end);
        }
    }

    fn take_setup(&mut self, setup: &Setup) {
        self.setups.count += 1;
        if let Some(outcome) = setup.outcome {
            *self.setups.outcomes.entry(outcome).or_default() += 1;
        }
        if setup.outcome == Some(SetupOutcome::Established) {
            self.setups.latency.record(setup.duration());
            let clean = (setup.retransmissions == 0).then(|| setup.duration());
            self.round_trip = self.round_trip.into_iter().chain(clean).min();
        }
        self.setups.waits.add(&setup.waits);
        self.setups.handshakes.take(setup);
    }

    fn extend_span(&mut self, begin: Timestamp, end: Timestamp) {
        self.span = Some(match self.span {
            Some((first, last)) => (first.min(begin), last.max(end)),
            None => (begin, end),
        });
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.timeouts += other.timeouts;
        self.cut += other.cut;
        self.latency.absorb(other.latency);
        self.round_trip = self.round_trip.into_iter().chain(other.round_trip).min();
        self.waits.merge(&other.waits);
        self.slowest.merge(other.slowest);
        self.bands.merge(other.bands);
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        if let Some((begin, end)) = other.span {
            self.extend_span(begin, end);
        }
        self.setups.merge(other.setups);
        self.stale += other.stale;
        for (side, count) in other.recoveries {
            *self.recoveries.entry(side).or_default() += count;
        }
        self.harmless_delays.absorb(other.harmless_delays);
        self.fetches.merge(other.fetches);
    }

    /// How many exchanges the capture did not cut.
    pub(crate) fn uncut(&self) -> u64 {
        self.outcomes.values().sum()
    }

    /// How many had a whole response.
    pub(crate) fn whole(&self) -> u64 {
        let is_whole = |outcome: &Outcome| matches!(outcome, Outcome::Complete(_));
        let outcomes = self
            .outcomes
            .iter()
            .filter(|(outcome, _)| is_whole(outcome));
        outcomes.map(|(_, count)| count).sum()
    }

    /// Whether any exchange was seen, whole or not.
    pub(crate) fn has_exchanges(&self) -> bool {
        self.count + self.errors + self.timeouts > 0
    }

    /// Sum of all exchanges' durations, in nanoseconds.
    pub(crate) fn total(&self) -> u64 {
        self.waits.total()
    }

    /// Whole exchanges a second while they ran; 0 for fewer than two.
    pub(crate) fn rate(&self) -> f64 {
        let Some((begin, end)) = self.span else {
            return 0.0;
        };
        let seconds = end.since(begin).as_secs_f64();
        if seconds > 0.0 && self.count > 1 {
            self.count as f64 / seconds
        } else {
            0.0
        }
    }
}

impl Shares {
    pub(crate) fn add(&mut self, waits: &[Wait]) {
        for wait in waits {
            self.count((wait.kind, wait.owner), wait.nanos());
        }
    }

    /// The time that went to this kind, in nanoseconds.
    pub(crate) fn of(&self, kind: WaitKind) -> u64 {
        let of_kind = self.sums.iter().filter(|((k, _), _)| *k == kind);
        of_kind.fold(0, |sum, (_, time)| sum.saturating_add(*time))
    }

    /// Whether any time went to this kind.
    pub(crate) fn has(&self, kind: WaitKind) -> bool {
        self.sums.iter().any(|((k, _), _)| *k == kind)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for &(key, total) in &other.sums {
            self.count(key, total);
        }
    }

    fn count(&mut self, key: (WaitKind, Owner), time: u64) {
        match self.sums.iter_mut().find(|(of, _)| *of == key) {
            Some((_, sum)) => *sum = sum.saturating_add(time),
            None => self.sums.push((key, time)),
        }
    }

    /// Each with its part in the whole, most first.
    pub(crate) fn shares(&self) -> Vec<WaitShare> {
        let total = self.total();
        let mut list: Vec<WaitShare> = self
            .sums
            .iter()
            .map(|&((kind, owner), total_ns)| WaitShare {
                kind,
                owner,
                total_ns,
                share: total_ns as f64 / total.max(1) as f64,
            })
            .collect();
        list.sort_by_key(|share| core::cmp::Reverse((share.total_ns, share.kind, share.owner)));
        list
    }

    /// All of them, in nanoseconds; saturates, for a capture's stamps may be
    /// centuries apart.
    pub(crate) fn total(&self) -> u64 {
        self.sums
            .iter()
            .fold(0, |sum: u64, (_, time)| sum.saturating_add(*time))
    }
}

/// Stretches of time by host, the earliest of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretches {
    list: Vec<(Timestamp, Timestamp, IpAddr)>,
}

/// Stretches of one kind kept for a service.
const MAX_STRETCHES: usize = 1024;

impl Stretches {
    pub(crate) fn add(&mut self, host: IpAddr, begin: Timestamp, end: Timestamp) {
        self.list.push((begin, end, host));
        if self.list.len() >= 2 * MAX_STRETCHES {
            self.settle();
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.list.extend(other.list);
        self.settle();
    }

    /// Those of them that one of `others`, on the same host, shares a moment with.
    pub(crate) fn overlapping(&self, others: &Self) -> u64 {
        let is_shared = |&&(begin, end, host): &&(Timestamp, Timestamp, IpAddr)| {
            let mut others = others.list.iter();
            others.any(|&(from, to, other)| other == host && from < end && to > begin)
        };
        self.list.iter().filter(is_shared).count() as u64
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> u64 {
        self.list.len() as u64
    }

    fn settle(&mut self) {
        self.list.sort_unstable();
        self.list.truncate(MAX_STRETCHES);
    }
}

impl SetupLedger {
    fn merge(&mut self, other: Self) {
        self.count += other.count;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.latency.absorb(other.latency);
        self.waits.merge(&other.waits);
        self.handshakes.merge(other.handshakes);
    }
}
