//! Silences before requests that are as long as a retransmission timeout.
//!
//! A capture at the server contains only the retransmission of a lost request. If the client's
//! packets have no IP identifications (IPv6), it looks like the request of a client that paused.

use core::time::Duration;
use std::collections::BTreeSet;

use super::evidence::REPEATS;
use super::trips::is_far;
use crate::exchange::Exchange;
use crate::observed::flow::Endpoint;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::nanos;
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Maximum additional time, for the kernel's tick and a varying round trip.
const STRAY: Duration = Duration::from_millis(50);
/// The lengths of two timeouts in a row, as multiples of one timeout: a probe and a timeout (2), or
/// a timeout and its double (3).
const TIMES: core::ops::RangeInclusive<u32> = 2..=3;
/// Maximum spread of the middle half of the silences: a kernel's tick and the variation of the
/// round trip. A few silences are longer because an ACK was lost too.
const ALIKE: Duration = Duration::from_millis(12);
/// Minimum ratio of silences as long as a timeout to longer ones. Pauses of clients have various
/// lengths.
const PAUSES: u64 = 4;
/// Minimum ratio of all requests to the requests after a silence as long as a timeout.
const RARE: u64 = 4;
/// Minimum number of connections with silences as long as a timeout.
const SPREAD: usize = 3;
/// Maximum number of connections kept.
const MAX_CLIENTS: usize = 64;

/// The silences before the requests of one service.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
pub(crate) struct TimerSilences {
    /// The silences that are as long as a timeout.
    tally: Tally,
    #[merge(extend)]
    clients: BTreeSet<Endpoint>,
    /// Number of silences that are too long for timeouts.
    pauses: u64,
    /// All silences of clients whose packets have no IP identifications.
    silences: Distribution,
    /// Number of requests whose client's IP identifications show missing packets.
    numbered: u64,
}

impl TimerSilences {
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
            self.settle();
            return;
        }
        let is_repeated = TIMES
            .into_iter()
            .any(|times| timer.contains(&(idle / times)));
        self.pauses += u64::from(idle > *timer.end() && !is_repeated);
    }

    /// Keeps the first clients. The order in which exchanges close does not matter.
    fn settle(&mut self) {
        while self.clients.len() > MAX_CLIENTS {
            self.clients.pop_last();
        }
    }

    /// Returns the silences that look like timeouts rather than pauses of clients. The median
    /// silence before a request is subtracted. `None` if there are too few, or if clients pause too
    /// often.
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
