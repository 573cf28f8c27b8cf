//! Requests that were lost before they reached a capture point at the server. The capture contains
//! only the retransmission. Two signs show the loss: a silence as long as a retransmission timeout,
//! and a gap, in the client's IP identifications or in the sequence numbers of its ACKs. A lost ACK
//! leaves only a gap in the identifications, and a pause of the client only the silence.

use core::time::Duration;
use std::collections::BTreeSet;

use super::Case;
use super::first_packets::FirstPackets;
use super::trips::{is_far, matters_outside};
use crate::exchange::Exchange;
use crate::observed::flow::Endpoint;
use crate::observed::packet::PacketNumber;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::nanos;
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Maximum number of round trips by which the timeout exceeds its minimum. It is one round trip, or
/// more if the round trip varied. A tail-loss probe for a single segment takes two
/// (`tcp_schedule_loss_probe()`).
const ROUNDS: u32 = 4;
/// Maximum additional time: rounding to the kernel's tick, and the client's own time before the
/// request.
const STRAY: Duration = Duration::from_millis(50);
/// Maximum number of retransmissions. Each timeout is twice as long as the previous one. After more
/// retransmissions, the silence cannot be distinguished from a pause.
const MOST_COPIES: u16 = 4;
/// Maximum number of connections kept.
const MAX_CLIENTS: usize = 64;

/// Requests that were lost on the path before the capture point.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
pub(super) struct LostRequests {
    pub(super) tally: Tally,
    pub(super) took: Duration,
    #[merge(extend)]
    pub(super) clients: BTreeSet<Endpoint>,
    pub(super) packets: FirstPackets,
    /// Number of silences that are as long as a timeout, but have no gap. These are pauses of
    /// clients.
    pauses: u64,
    /// The silences of connections before their requests.
    silences: Distribution,
}

impl LostRequests {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let Some(idle) = silence(exchange).filter(|_| is_far(exchange)) else {
            return;
        };
        self.silences.record(idle);
        if idle < TCP_RTO_MIN {
            return;
        }
        let Some(cost) = cost(exchange, idle) else {
            self.pauses += 1;
            return;
        };
        // The exchange as captured begins after the silence.
        let waited = Duration::from_nanos(cost.likely);
        self.tally.add(exchange, cost, waited);
        self.tally.add_wall(exchange.begin - waited, exchange.begin);
        self.took += waited;
        self.clients.insert(exchange.id.client);
        self.packets
            .extend(exchange.packets.first.map(PacketNumber::get));
        self.settle();
    }

    /// Keeps the first clients. The order in which exchanges close does not matter.
    fn settle(&mut self) {
        while self.clients.len() > MAX_CLIENTS {
            self.clients.pop_last();
        }
    }

    /// Returns the number of lost requests. It is 0 if pauses of the same length without a gap are
    /// at least as frequent: then a gap may be a lost ACK, and a silence may be a pause.
    pub(super) fn count(&self) -> u64 {
        if self.pauses < self.tally.affected {
            self.tally.affected
        } else {
            0
        }
    }

    /// Returns true if the losses matter to the client. The exchanges as captured at the server do
    /// not contain their time.
    pub(super) fn is_material(&self, case: &Case<'_>) -> bool {
        let least = case.round_trip().unwrap_or_default();
        self.count() > 0 && matters_outside(case, &self.own(), least)
    }

    /// Returns the cost without the median silence before a request, which has nothing to do with
    /// losses.
    pub(super) fn own(&self) -> Tally {
        let usual = nanos(self.silences.quantile(0.5).unwrap_or_default());
        let usual = usual.saturating_mul(self.tally.affected);
        let mut tally = self.tally.clone();
        tally.cost = Cost {
            low: tally.cost.low.saturating_sub(usual),
            likely: tally.cost.likely.saturating_sub(usual),
            high: tally.cost.high,
        };
        tally
    }
}

/// Returns the client's silence before the request. If the client had sent the request before, it
/// lasts from the previous exchange on: the server may have retransmitted data whose ACK was lost
/// with the request, and the client acknowledged it once more.
fn silence(exchange: &Exchange) -> Option<Duration> {
    let since_exchange = exchange.signs.idle.filter(|_| exchange.path.is_announced);
    since_exchange.or(exchange.path.idle)
}

/// Returns the time that the loss of a request cost, if the request after this silence may be a
/// retransmission. The number of missing packets must be possible, and their timeouts must be at
/// least as long as the silence, unless the client had sent the request before: then a longer
/// silence contains a pause of the client before it first sent the request.
fn cost(exchange: &Exchange, idle: Duration) -> Option<Cost> {
    let is_announced = exchange.path.is_announced;
    let missing = exchange.path.skipped.max(u16::from(is_announced));
    let trip = exchange.path.to_client + exchange.path.to_server.unwrap_or_default();
    let first = TCP_RTO_MIN + trip * ROUNDS + STRAY;
    let longest = first * ((1 << missing.min(MOST_COPIES)) - 1);
    if (1..=MOST_COPIES).contains(&missing) && idle <= longest {
        return Some(Cost::exactly(idle));
    }
    is_announced.then(|| Cost {
        low: nanos(TCP_RTO_MIN),
        likely: nanos(TCP_RTO_MIN + trip),
        high: nanos(longest),
    })
}
