//! A server: its figures, its rules and its exchanges over time.

use core::time::Duration;

use super::Rules;
use crate::connection::Setup;
use crate::connection::dead_peer::DeadPeer;
use crate::exchange::{Exchange, Side};
use crate::observed::packet::PacketRange;
use crate::report::Unit;
use crate::service::kernel_join::Served;
use crate::service::timeline::Timeline;
use crate::service::{Counts, Ledger};
use crate::stats::histogram::Distribution;

/// Figures and rules of one server's address and port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    pub(crate) ledger: Ledger,
    pub(crate) rules: Rules,
    pub(crate) timeline: Timeline,
    /// Exchanges joined to their turns at the server's kernel.
    pub(crate) served: Served,
    /// The transfers outside exchanges, if there were any.
    pub(crate) outside: Option<Box<Outside>>,
}

/// Figures and rules of the bytes that are in no exchange: stretches of one side's data, each
/// treated as a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    pub(crate) ledger: Ledger,
    pub(crate) rules: Rules,
    pub(crate) dead_peers: DeadPeers,
}

/// The connections of a service that ended with one side never acknowledging data that the other
/// side kept retransmitting.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadPeers {
    /// The durations for which data was retransmitted.
    pub(crate) lasted: Distribution,
    /// The sides that retransmitted.
    pub(crate) senders: Counts<Side>,
    /// Maximum number of retransmissions on one connection.
    pub(crate) repeats: u32,
    /// Duration and packets of the longest series of retransmissions.
    pub(crate) longest: Option<(Duration, PacketRange)>,
}

impl DeadPeers {
    fn add_dead_peer(&mut self, dead_peer: &DeadPeer) {
        self.lasted.record(dead_peer.lasted);
        self.senders.add(dead_peer.sender, 1);
        self.repeats = self.repeats.max(dead_peer.repeats);
        self.longest = self
            .longest
            .max(Some((dead_peer.lasted, dead_peer.packets)));
    }

    fn merge(&mut self, other: Self) {
        self.lasted.absorb(other.lasted);
        self.senders.merge(&other.senders);
        self.repeats = self.repeats.max(other.repeats);
        self.longest = self.longest.max(other.longest);
    }
}

impl Outside {
    fn add_transfer(&mut self, transfer: &Exchange) {
        self.ledger.unit = Unit::Transfers;
        self.ledger.add_exchange(transfer);
        self.rules.observe(&[transfer]);
    }

    fn merge(&mut self, other: Self) {
        self.ledger.merge(other.ledger);
        self.rules.merge(other.rules);
        self.dead_peers.merge(other.dead_peers);
    }
}

impl Service {
    /// Counts exchanges in the order in which they closed.
    pub(crate) fn add_exchanges(&mut self, batch: &[&Exchange]) {
        for exchange in batch {
            self.ledger.add_exchange(exchange);
        }
        for exchange in batch {
            self.timeline.add_exchange(exchange);
        }
        self.rules.observe(batch);
    }

    /// Counts connection setups in their order.
    pub(crate) fn take_setups(&mut self, batch: &[&Setup]) {
        for setup in batch {
            self.ledger.add_setup(setup);
        }
        self.rules.observe_setups(batch);
    }

    /// Records an exchange that began before the figures start and lasted until then. No figure
    /// includes it, because the time since its beginning is unknown.
    pub(crate) fn take_early(&mut self, exchange: &Exchange) {
        self.rules.gathered.starved.observe(exchange);
    }

    /// Counts a stretch of data outside exchanges.
    pub(crate) fn take_transfer(&mut self, transfer: &Exchange) {
        self.outside.get_or_insert_default().add_transfer(transfer);
    }

    /// Counts the end of a connection on which one side became silent.
    pub(crate) fn take_dead_peer(&mut self, dead_peer: &DeadPeer) {
        self.outside
            .get_or_insert_default()
            .dead_peers
            .add_dead_peer(dead_peer);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        if let Some(outside) = other.outside {
            self.outside.get_or_insert_default().merge(*outside);
        }
        self.ledger.merge(other.ledger);
        self.timeline.merge(other.timeline);
        self.rules.merge(other.rules);
        self.served.merge(other.served);
    }
}
