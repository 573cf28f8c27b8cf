//! A share of the connections: those whose flow key hashes here.
//!
//! The number of shards is fixed, whatever the number of threads, so that the
//! outcome depends on neither. Each has its own budget.

use core::hash::BuildHasher;
use core::time::Duration;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::connection::{Closed, Connection, Parting};
use crate::connections::Collected;
use crate::event::PointId;
use crate::flow::FlowKey;
use crate::icmp::IcmpError;
use crate::segment::Segment;
use crate::time::Timestamp;

/// Shards in all: a power of two.
pub(crate) const SHARDS: usize = 64;
/// Connections that one shard remembers at most; the longest idle go first.
const MAX_CONNECTIONS: usize = 4 * 1024;
/// A connection that ended is forgotten after this long: late retransmissions
/// of its FIN still belong to it.
pub(crate) const LINGER: Duration = Duration::from_secs(60);
/// An idle one is given up after this long.
const IDLE: Duration = Duration::from_secs(600);

/// Connections by observation point and flow.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Boxed, because half of a table's places stand empty.
    connections: HashMap<(PointId, FlowKey), Box<Connection>, SeedableRandomState>,
}

/// The hash that places a flow; seeded, because its keys come from the network.
pub(crate) fn hasher(seed: u64) -> SeedableRandomState {
    SeedableRandomState::with_seed(seed, foldhash::SharedSeed::global_fixed())
}

/// The shard of a flow.
pub(crate) fn place(hasher: &SeedableRandomState, flow: &FlowKey) -> usize {
    // The table inside uses the low bits; take others.
    (hasher.hash_one(flow) >> 48) as usize % SHARDS
}

impl Shard {
    pub(crate) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            connections: HashMap::with_hasher(hasher),
        }
    }

    /// Takes in one segment; what it closed lands in `closed`. Connections'
    /// numbers are collected if `collected` wants them.
    pub(crate) fn take(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        collected: &mut Collected,
        closed: &mut Closed,
    ) {
        let key = (segment.point, segment.flow);
        if !self.connections.contains_key(&key) && self.connections.len() >= MAX_CONNECTIONS {
            self.evict(closed);
        }
        let connection = self
            .connections
            .entry(key)
            .or_insert_with(|| Box::new(Connection::begin(segment, collected)));
        if connection.is_succeeded_by(segment) {
            connection.give_up(Parting::Succeeded, closed);
            **connection = Connection::begin(segment, collected);
        }
        connection.take(segment, payload, closed);
    }

    /// Takes in an ICMP error; one about no connection that was seen is idle talk.
    pub(crate) fn take_icmp(&mut self, error: &IcmpError) {
        if let Some(connection) = self.connections.get_mut(&(error.point, error.flow)) {
            connection.take_icmp(error);
        }
    }

    /// Closes everything, in an order that does not depend on the hash.
    pub(crate) fn finish(self, closed: &mut Closed) {
        let mut rest: Vec<_> = self.connections.into_iter().collect();
        rest.sort_unstable_by_key(|&(key, _)| key);
        for (_, mut connection) in rest {
            connection.give_up(Parting::CaptureEnded, closed);
        }
    }

    /// Gives up connections that ended or have long been idle.
    pub(crate) fn sweep(&mut self, now: Timestamp, closed: &mut Closed) {
        let mut stale: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let idle = now.since(connection.last_seen);
                idle > IDLE || (connection.is_over() && idle > LINGER)
            })
            .map(|(&key, _)| key)
            .collect();
        stale.sort_unstable();
        self.give_up(&stale, Parting::Idle, closed);
    }

    /// Makes room: the eighth that has been idle longest goes.
    fn evict(&mut self, closed: &mut Closed) {
        let mut by_age: Vec<_> = self
            .connections
            .iter()
            .map(|(&key, connection)| (connection.last_seen, key))
            .collect();
        by_age.sort_unstable();
        let oldest: Vec<_> = by_age
            .into_iter()
            .take(MAX_CONNECTIONS / 8)
            .map(|(_, k)| k)
            .collect();
        self.give_up(&oldest, Parting::Crowded, closed);
    }

    fn give_up(&mut self, keys: &[(PointId, FlowKey)], parting: Parting, closed: &mut Closed) {
        for key in keys {
            if let Some(mut connection) = self.connections.remove(key) {
                connection.give_up(parting, closed);
            }
        }
    }
}
