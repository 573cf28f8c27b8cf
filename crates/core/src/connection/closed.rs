//! What closes on a connection.

use core::net::IpAddr;

use super::pairing::Scratch;
use super::{Setup, Watched};
use crate::event::PointId;
use crate::exchange::Exchange;

/// What closed while a segment was taken in.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) setups: Vec<Setup>,
    /// Connections that ended or were given up: their point, and where it
    /// stands: 0 at the client, 1 at the server, 2 between, 3 untold.
    pub(crate) connections: Vec<(PointId, usize)>,
    /// The same ones with their facts, if those are wanted.
    pub(crate) watched: Vec<Watched>,
    /// Servers whose data was seen, and its time to live.
    pub(crate) servers: Vec<(IpAddr, u8)>,
    /// Memory that the next segment uses again.
    pub(super) scratch: Scratch,
}

impl Closed {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.exchanges.is_empty() && self.setups.is_empty() && self.connections.is_empty()
    }

    /// Uses the memory of an exchange that is done with.
    pub(crate) fn take_back(&mut self, exchange: &mut Exchange) {
        self.scratch.take_back(exchange);
    }

    /// Forgets all and keeps the memory.
    pub(crate) fn clear(&mut self) {
        // Named one by one, so that none is forgotten: what stays is folded
        // again with everything that closes later.
        let Self {
            exchanges,
            setups,
            connections,
            watched,
            servers,
            scratch: _,
        } = self;
        exchanges.clear();
        setups.clear();
        connections.clear();
        watched.clear();
        servers.clear();
    }
}
