//! Requests that were lost before they reached an observation point at the server. The point sees
//! only the retransmission; the only signs of the loss are a gap in the client's IP identifications
//! and a silence as long as a retransmission timeout. A lost acknowledgement leaves only the gap, a
//! pause of the client only the silence.

use core::time::Duration;
use std::collections::BTreeSet;

use super::Case;
use super::trips::{is_far, matters_outside};
use crate::exchange::Exchange;
use crate::observed::flow::Endpoint;
use crate::observed::packet::PacketNumber;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::nanos;
use crate::service::tally::{Cost, Tally};
use crate::stats::histogram::Distribution;

/// Maximum number of round trips by which the timeout exceeds its minimum: one, or more if the
/// round trip varied; a probe of a single segment takes two (`tcp_schedule_loss_probe()`).
const ROUNDS: u32 = 4;
/// Allowance for rounding to the kernel's tick, and for the client's own time before the request.
const STRAY: Duration = Duration::from_millis(50);
/// Maximum number of retransmissions: each waits twice as long as the previous one, and after more
/// of them the silence cannot be distinguished from a pause.
const MOST_COPIES: u16 = 4;
/// Maximum number of connections distinguished.
const MAX_CLIENTS: usize = 64;
/// Maximum number of packet numbers kept as examples.
const MAX_PACKETS: usize = 5;

/// The requests lost on the path before the observation point.
#[derive(Clone, Debug, Default)]
pub(super) struct LostRequests {
    pub(super) tally: Tally,
    pub(super) took: Duration,
    pub(super) clients: BTreeSet<Endpoint>,
    pub(super) packets: Vec<u64>,
    /// Number of silences of that length without a gap: these are the client's own.
    pauses: u64,
    /// The silences of connections before their requests.
    silences: Distribution,
}

impl LostRequests {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let Some(idle) = exchange.path.idle.filter(|_| is_far(exchange)) else {
            return;
        };
        self.silences.record(idle);
        if idle < TCP_RTO_MIN {
            return;
        }
        if !is_repetition(exchange, idle) {
            self.pauses += 1;
            return;
        }
        // All of the silence is before the exchange as seen at the point.
        self.tally.add(exchange, Cost::exactly(idle), idle);
        self.tally.add_wall(exchange.begin - idle, exchange.begin);
        self.took += idle;
        self.clients.insert(exchange.id.client);
        self.packets
            .extend(exchange.packets.first.map(PacketNumber::get));
        self.settle();
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.took += other.took;
        self.clients.extend(other.clients);
        self.packets.extend(other.packets);
        self.pauses += other.pauses;
        self.silences.merge(&other.silences);
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

    /// Returns the number of lost requests, if they can be distinguished from pauses of the
    /// clients: a client that happens to be idle for as long may have lost an acknowledgement.
    pub(super) fn count(&self) -> u64 {
        if self.pauses < self.tally.affected {
            self.tally.affected
        } else {
            0
        }
    }

    /// Returns true if the losses matter to the client: in a capture at the server they are not
    /// visible in the exchanges.
    pub(super) fn is_material(&self, case: &Case<'_>) -> bool {
        let least = case.round_trip().unwrap_or_default();
        self.count() > 0 && matters_outside(case, &self.own(), least)
    }

    /// Returns the cost minus the silence that is before any request.
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

/// Returns true if a request after this silence is a retransmission: if the packets missing before
/// it had been sent immediately, they would have timed out just then.
fn is_repetition(exchange: &Exchange, idle: Duration) -> bool {
    let missing = exchange.path.skipped;
    let trip = exchange.path.to_client + exchange.path.to_server.unwrap_or_default();
    let timeout = TCP_RTO_MIN + trip * ROUNDS + STRAY;
    (1..=MOST_COPIES).contains(&missing) && idle <= timeout * ((1 << missing) - 1)
}
