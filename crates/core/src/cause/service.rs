//! A server with its figures, its rules and its exchanges over time.

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
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// The figures and rules of one server's address and port.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Service {
    pub(crate) ledger: Ledger,
    /// Separate, because they are large and maps of services have free places.
    pub(crate) rules: Box<Rules>,
    pub(crate) timeline: Timeline,
    /// Exchanges that were joined to requests that the server's kernel timed.
    pub(crate) served: Served,
    /// Data outside exchanges, if there was any.
    #[merge(inner)]
    pub(crate) outside: Option<Box<Outside>>,
}

/// The figures and rules of data that is in no exchange. Each run of one side's data is treated
/// like a message.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Outside {
    pub(crate) ledger: Ledger,
    pub(crate) rules: Rules,
    pub(crate) dead_peers: DeadPeers,
}

/// The connections of a service with a dead peer: one side kept retransmitting data, and the other
/// side never acknowledged it.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct DeadPeers {
    /// The times for which data was retransmitted.
    pub(crate) lasted: Distribution,
    /// Number of connections by the side that retransmitted.
    pub(crate) senders: Counts<Side>,
    /// Maximum number of retransmissions on one connection.
    #[merge(max)]
    pub(crate) repeats: u32,
    /// The duration of the longest series of retransmissions, with its first and last packet.
    #[merge(max)]
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
}

impl Outside {
    fn add_transfer(&mut self, transfer: &Exchange) {
        self.ledger.unit = Unit::Transfers;
        self.ledger.add_exchange(transfer);
        self.rules.observe(&[transfer]);
    }
}

impl Service {
    /// Records exchanges in the order in which they closed.
    pub(crate) fn add_exchanges(&mut self, batch: &[&Exchange]) {
        for exchange in batch {
            self.ledger.add_exchange(exchange);
        }
        for exchange in batch {
            self.timeline.add_exchange(exchange);
        }
        self.rules.observe(batch);
    }

    /// Records connection setups in the order in which they ended.
    pub(crate) fn take_setups(&mut self, batch: &[&Setup]) {
        for setup in batch {
            self.ledger.add_setup(setup);
        }
        self.rules.observe_setups(batch);
    }

    /// Records an exchange that was open when the counting of figures began. No figure includes it,
    /// because its time before that is unknown.
    pub(crate) fn take_early(&mut self, exchange: &Exchange) {
        self.rules.gathered.starved.observe(exchange, false);
    }

    /// Records data outside exchanges.
    pub(crate) fn take_transfer(&mut self, transfer: &Exchange) {
        self.outside.get_or_insert_default().add_transfer(transfer);
    }

    /// Records the end of a connection with a dead peer.
    pub(crate) fn take_dead_peer(&mut self, dead_peer: &DeadPeer) {
        self.outside
            .get_or_insert_default()
            .dead_peers
            .add_dead_peer(dead_peer);
    }
}
