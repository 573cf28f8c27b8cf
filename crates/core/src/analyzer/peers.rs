//! Endpoints that serve, found by who talks to them: of a connection whose beginning was not
//! captured, the ports often do not show which end is the server (a port that a container runtime
//! gave out lies among those of clients). The end that several others talk to is.

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::connection::serves;
use crate::observed::flow::{Direction, Endpoint};
use crate::observed::segment::{Segment, TcpFlags};

/// Number of peers from which on an endpoint serves. A client may use a port again for another
/// server.
const SEVERAL: usize = 3;
/// Maximum number of endpoints that are remembered: the earliest.
const MAX: usize = 4096;
/// The lowest port from which Linux clients send (`net.ipv4.ip_local_port_range`).
const EPHEMERAL: u16 = 32_768;

/// The endpoints of segments whose ports do not show the server, with their peers.
#[derive(Debug)]
pub(super) struct Peers {
    known: HashMap<Endpoint, Met, SeedableRandomState>,
}

/// The first peers of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    peers: [Option<Endpoint>; SEVERAL],
    /// True if a client opened a connection to the endpoint.
    is_opened: bool,
}

impl Met {
    fn meet(&mut self, peer: Endpoint) {
        let mut peers = self.peers.iter_mut();
        if let Some(place) = peers.find(|known| known.is_none_or(|known| known == peer)) {
            *place = Some(peer);
        }
    }

    fn serves(&self) -> bool {
        self.is_opened || self.peers.iter().all(Option::is_some)
    }

    fn has_one(&self) -> bool {
        !self.is_opened && self.peers.iter().flatten().count() <= 1
    }
}

impl Peers {
    pub(super) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            known: HashMap::with_hasher(hasher),
        }
    }

    /// Processes a segment. Returns the direction in which the client sends, if only the peers of
    /// both ends show it.
    #[inline]
    pub(super) fn observe(&mut self, segment: &Segment) -> Option<Direction> {
        let source = segment.flow.source(segment.direction);
        let destination = segment.flow.destination(segment.direction);
        let is_told = (source.port >= EPHEMERAL) != (destination.port >= EPHEMERAL)
            || serves(source.port) != serves(destination.port);
        if is_told {
            return None;
        }
        self.meet(segment, source, destination)
    }

    #[cold]
    fn meet(
        &mut self,
        segment: &Segment,
        source: Endpoint,
        destination: Endpoint,
    ) -> Option<Direction> {
        if segment.flags.contains(TcpFlags::SYN) {
            let is_reply = segment.flags.contains(TcpFlags::ACK);
            let server = if is_reply { source } else { destination };
            if let Some(met) = self.met(server) {
                met.is_opened = true;
            }
            return None;
        }
        if segment.payload_len == 0 {
            return None;
        }
        let from = self.met(source)?;
        from.meet(destination);
        let from = *from;
        let to = self.met(destination)?;
        to.meet(source);
        if to.serves() && from.has_one() {
            Some(segment.direction)
        } else if from.serves() && to.has_one() {
            Some(segment.direction.reverse())
        } else {
            None
        }
    }

    /// Returns the entry of an endpoint; `None` if there is no room for it.
    fn met(&mut self, endpoint: Endpoint) -> Option<&mut Met> {
        let has_room = self.known.len() < MAX || self.known.contains_key(&endpoint);
        has_room.then(|| self.known.entry(endpoint).or_default())
    }
}
