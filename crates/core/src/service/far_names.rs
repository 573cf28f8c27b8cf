//! Names and times of a second capture, nearer to the servers, translated into those of the first.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use crate::observed::flow::Endpoint;
use crate::observed::time::{ClockMap, Timestamp};

/// The near capture's names and times of what the far one saw.
#[derive(Clone, Debug)]
pub struct FarNames {
    clock: ClockMap,
    /// The connections in both captures, by the far capture's names of client and server.
    connections: BTreeSet<(Endpoint, Endpoint)>,
    /// The near capture's names of their ends.
    ends: BTreeMap<Endpoint, Endpoint>,
    /// The near capture's names of the servers' hosts.
    hosts: BTreeMap<IpAddr, IpAddr>,
}

impl FarNames {
    pub(crate) fn new(clock: ClockMap) -> Self {
        Self {
            clock,
            connections: BTreeSet::new(),
            ends: BTreeMap::new(),
            hosts: BTreeMap::new(),
        }
    }

    /// Adds a connection in both captures, with each one's names of client and server.
    pub(crate) fn add_connection(
        &mut self,
        far: (Endpoint, Endpoint),
        (client, server): (Endpoint, Endpoint),
    ) {
        self.connections.insert(far);
        self.ends.insert(far.0, client);
        self.ends.insert(far.1, server);
        self.hosts.insert(far.1.addr, server.addr);
    }

    /// Returns true if both captures have a connection of this client and server.
    pub(crate) fn has(&self, client: Endpoint, server: Endpoint) -> bool {
        self.connections.contains(&(client, server))
    }

    /// Returns the near capture's name of an end, as far as it has another one.
    pub(crate) fn end(&self, far: Endpoint) -> Endpoint {
        let end = self.ends.get(&far).copied();
        end.unwrap_or_else(|| Endpoint::new(self.host(far.addr), far.port))
    }

    /// Returns the near capture's name of a host, as far as it has another one.
    pub(crate) fn host(&self, far: IpAddr) -> IpAddr {
        self.hosts.get(&far).copied().unwrap_or(far)
    }

    /// Converts a time of the far clock to the near clock.
    pub(crate) fn at(&self, far: Timestamp) -> Timestamp {
        self.clock.to_near(far)
    }
}
