//! Silences before requests that last as long as a retransmission timeout.
//!
//! A capture at the server sees only the retransmission of a lost request. If the client's packets
//! carry no identifications (IPv6), the retransmission cannot be distinguished from the request of
//! a client that paused.

use core::time::Duration;
use std::collections::BTreeSet;

use super::evidence::REPEATS;
use super::trips::is_far;
use crate::exchange::Exchange;
use crate::observed::flow::Endpoint;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::nanos;
use crate::service::tally::{Cost, Tally};
use crate::stats::histogram::Distribution;

/// Allowance for the kernel's tick and the variation of the round trip.
const STRAY: Duration = Duration::from_millis(50);
/// The number of timeouts that may follow each other, as multiples of one timeout: a probe and a
/// timeout, or a timeout and its double.
const TIMES: core::ops::RangeInclusive<u32> = 2..=3;
/// Maximum spread of the middle half of a timer's silences: a kernel's tick, and the variation of
/// the round trip. A few silences are longer because an acknowledgement was lost as well.
const ALIKE: Duration = Duration::from_millis(12);
/// Minimum ratio of silences with a timer's length to longer ones. Clients pause occasionally, and
/// in step with their work.
const PAUSES: u64 = 4;
/// Minimum ratio of requests to those that follow such a silence.
const RARE: u64 = 4;
/// Minimum number of connections with such silences.
const SPREAD: usize = 3;
/// Maximum number of connections distinguished.
const MAX_CLIENTS: usize = 64;

/// The silences before one service's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silences {
    /// The silences with a timer's length.
    tally: Tally,
    clients: BTreeSet<Endpoint>,
    /// Number of silences that are longer, and so not a timer's.
    pauses: u64,
    /// All silences of clients whose packets carry no identifications.
    silences: Distribution,
    /// Number of requests whose client's identifications show which packets are missing.
    numbered: u64,
}

impl Silences {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let Some(idle) = exchange.path.idle.filter(|_| is_far(exchange)) else {
            return;
        };
        if exchange.path.is_numbered {
            self.numbered += 1;
            return;
        }
        self.silences.record(idle);
        let trip = exchange.path.to_client + exchange.path.to_server.unwrap_or_default();
        let timer = TCP_RTO_MIN + trip * 7 / 8..=TCP_RTO_MIN + trip * 2 + STRAY;
        if timer.contains(&idle) {
            self.tally.add(exchange, Cost::exactly(idle), idle);
            self.clients.insert(exchange.id.client);
            if self.clients.len() > MAX_CLIENTS {
                self.clients.pop_last();
            }
            return;
        }
        let is_repeated = TIMES
            .into_iter()
            .any(|times| timer.contains(&(idle / times)));
        self.pauses += u64::from(idle > *timer.end() && !is_repeated);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.clients.extend(other.clients);
        while self.clients.len() > MAX_CLIENTS {
            self.clients.pop_last();
        }
        self.pauses += other.pauses;
        self.silences.absorb(other.silences);
        self.numbered += other.numbered;
    }

    /// Returns the silences that look like timers rather than idle clients, minus the silence that
    /// is before any request.
    pub(crate) fn timers(&self) -> Option<Tally> {
        let affected = self.tally.affected;
        let all = self.silences.count();
        let at = |quantile| self.tally.saved.quantile(quantile).unwrap_or_default();
        let usual = self.silences.quantile(0.5).unwrap_or_default();
        let is_timer = affected >= REPEATS
            && self.clients.len() >= SPREAD
            && at(0.75).saturating_sub(at(0.25)) <= ALIKE
            && usual * 2 <= at(0.5);
        let is_rare = affected * RARE <= all && self.pauses * PAUSES <= affected;
        if !is_timer || !is_rare || self.numbered >= all {
            return None;
        }
        let mut tally = self.tally.clone();
        let usual = nanos(usual).saturating_mul(affected);
        tally.cost.low = 0;
        tally.cost.likely = tally.cost.likely.saturating_sub(usual);
        Some(tally)
    }
}
