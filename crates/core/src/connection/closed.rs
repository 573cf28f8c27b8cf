//! Exchanges, setups and connections that have closed.

use core::net::IpAddr;
use core::time::Duration;

use super::dead_peer::DeadPeer;
use super::pairing::Scratch;
use super::{Setup, Vantage, Watched};
use crate::exchange::Exchange;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;

/// Everything that closed on the connections of a shard.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// Closed exchanges, kept until they are counted; never moved, because they are large.
    pub(crate) exchanges: Vec<Exchange>,
    /// Setups of connections, kept until they are counted.
    pub(crate) setups: Vec<Setup>,
    /// Stretches of one side's bytes that belong to no exchange, tiled like a message.
    pub(crate) transfers: Vec<Exchange>,
    /// Ends of connections on which one side never acknowledged what the other retransmitted.
    pub(crate) dead_peers: Vec<DeadPeer>,
    /// Connections that ended or were dropped: the observation point and its position.
    pub(crate) connections: Vec<(PointId, Vantage)>,
    /// Round trips measured at the ends of connections, with the server of each.
    pub(crate) fin_trips: Vec<(Endpoint, Duration)>,
    /// Ended connections with their facts, if those are wanted.
    pub(crate) watched: Vec<Watched>,
    /// Servers whose data was seen, with the data's time to live.
    pub(crate) servers: Vec<(IpAddr, u8)>,
    /// Numbers of exchanges and setups that were reported.
    reported: Reported,
    /// Memory reused for the next segment.
    pub(super) scratch: Scratch,
}

/// Number of closed things that were reported but are still to be counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reported {
    exchanges: usize,
    setups: usize,
}

impl Closed {
    fn counts(&self) -> Reported {
        Reported {
            exchanges: self.exchanges.len(),
            setups: self.setups.len(),
        }
    }

    /// Returns true if anything that closed was not reported yet.
    #[inline]
    pub(crate) fn has_unreported(&self) -> bool {
        self.reported.exchanges != self.exchanges.len() || self.has_more_than_exchanges()
    }

    /// Returns true if anything other than exchanges closed and was not reported yet.
    #[inline]
    pub(crate) fn has_more_than_exchanges(&self) -> bool {
        self.reported.setups != self.setups.len()
            || !self.connections.is_empty()
            || !self.transfers.is_empty()
            || !self.fin_trips.is_empty()
            || !self.dead_peers.is_empty()
    }

    /// Drops the items that were reported, except the exchanges and setups that are still to be
    /// counted. Keeps the memory.
    pub(crate) fn forget_reported(&mut self) {
        self.reported = self.counts();
        for transfer in &mut self.transfers {
            self.scratch.take_back(transfer);
        }
        self.transfers.clear();
        self.dead_peers.clear();
        self.fin_trips.clear();
        self.connections.clear();
        self.watched.clear();
        self.servers.clear();
    }

    /// Forgets the exchanges and setups that were counted; keeps their memory.
    pub(crate) fn forget_counted(&mut self) {
        for exchange in &mut self.exchanges {
            self.scratch.take_back(exchange);
        }
        self.exchanges.clear();
        self.setups.clear();
        self.reported = Reported::default();
    }
}
