//! Silences before requests that last as long as the timer which repeats what was lost, at a
//! point beside the server and from clients that number nothing: it sees a lost request's
//! repetition only, and nothing in that tells it from the request of a client that paused.

use core::time::Duration;
use std::collections::BTreeSet;

use super::evidence::REPEATS;
use super::tally::{Cost, Tally, nanos};
use super::trips::is_far;
use crate::exchange::Exchange;
use crate::flow::Endpoint;
use crate::histogram::Distribution;

/// The least retransmission timeout, to which a round trip is added (`TCP_RTO_MIN` in
/// `include/net/tcp.h`, `tcp_set_rto()`), …
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
/// … one more before it where the acknowledgement of the response came with the request, and
/// this for the kernel's tick and what the round trip varied by.
const STRAY: Duration = Duration::from_millis(50);
/// A probe and a timeout, or a timeout and its double, last so many times as long.
const TIMES: core::ops::RangeInclusive<u32> = 2..=3;
/// The middle half of a timer's silences differs by so much: a kernel's tick, and what the round
/// trip varied by; a few are longer where an acknowledgement was lost as well.
const ALIKE: Duration = Duration::from_millis(12);
/// Clients pause now and then, and in step with what they do: of so many silences of a timer's
/// length one may last longer, …
const PAUSES: u64 = 4;
/// … and of so many requests one may come after such a silence.
const RARE: u64 = 4;
/// What is lost is lost on so many connections.
const SPREAD: usize = 3;
/// Connections told apart.
const MAX_CLIENTS: usize = 64;

/// The silences before one service's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silences {
    /// Those of a timer's length.
    tally: Tally,
    clients: BTreeSet<Endpoint>,
    /// As long or longer, and no timer's.
    pauses: u64,
    /// All of clients whose packets bear no numbers.
    silences: Distribution,
    /// Requests whose client's numbers tell what is missing.
    numbered: u64,
}

impl Silences {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let Some(idle) = exchange.travel.idle.filter(|_| is_far(exchange)) else {
            return;
        };
        if exchange.travel.is_numbered {
            self.numbered += 1;
            return;
        }
        self.silences.record(idle);
        let trip = exchange.travel.beyond + exchange.least_trip.unwrap_or_default();
        let timer = LEAST_TIMEOUT + trip * 7 / 8..=LEAST_TIMEOUT + trip * 2 + STRAY;
        if timer.contains(&idle) {
            self.tally.add(exchange, Cost::exactly(idle), idle);
            self.clients.insert(exchange.client);
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

    /// Those that look like timers and not like clients that rest, less the silence that any
    /// request has before it.
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
