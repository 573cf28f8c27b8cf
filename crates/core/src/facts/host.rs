//! Facts about whole hosts rather than single services.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use crate::connection::{Setup, SetupOutcome};
use crate::observed::flow::Endpoint;

/// Maximum number of hosts remembered.
const MAX_HOSTS: usize = 4096;

/// The hosts that answered something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    servers: BTreeMap<IpAddr, Server>,
    /// Resolvers, each with the minimum time in which it answered a query.
    pub(crate) resolvers: BTreeMap<IpAddr, Duration>,
}

/// A host's figures from its SYN/ACKs and data segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// Minimum time from a SYN to its SYN/ACK.
    nearest: Option<Duration>,
    /// The minimum and the maximum TTL of the host's packets.
    ttl: (u8, u8),
}

impl Hosts {
    /// Records the SYN/ACK of a handshake.
    pub(crate) fn add_setup(&mut self, setup: &Setup, server: Endpoint) {
        let is_answered = matches!(
            setup.outcome,
            Some(SetupOutcome::Established | SetupOutcome::Cut)
        );
        let Some(ttl) = setup.answer.ttl.filter(|_| is_answered) else {
            return;
        };
        if let Some(host) = self.take_ttl(server.addr, ttl) {
            host.nearest = host
                .nearest
                .into_iter()
                .chain(setup.answered_within())
                .min();
        }
    }

    /// Records the TTL of one of a host's packets.
    pub(crate) fn take_ttl(&mut self, server: IpAddr, ttl: u8) -> Option<&mut Server> {
        if self.servers.len() >= MAX_HOSTS && !self.servers.contains_key(&server) {
            return None;
        }
        let host = self.servers.entry(server).or_insert(Server {
            nearest: None,
            ttl: (ttl, ttl),
        });
        host.ttl = (host.ttl.0.min(ttl), host.ttl.1.max(ttl));
        Some(host)
    }

    /// Adds the hosts of another shard of the analyzer.
    pub(crate) fn merge(&mut self, other: Self) {
        // Resolvers are found before the packets are divided among shards.
        let Self {
            servers,
            resolvers: _,
        } = other;
        for (address, server) in servers {
            let (least, most) = server.ttl;
            self.take_ttl(address, least);
            if let Some(host) = self.take_ttl(address, most) {
                host.nearest = host.nearest.into_iter().chain(server.nearest).min();
            }
        }
    }

    /// Returns the minimum time in which the host answered a SYN or a DNS query.
    pub(crate) fn nearest(&self, host: IpAddr) -> Option<Duration> {
        let server = self.servers.get(&host).and_then(|server| server.nearest);
        server
            .into_iter()
            .chain(self.resolvers.get(&host).copied())
            .min()
    }

    /// Returns true if the host answered anything.
    pub(crate) fn answers(&self, host: IpAddr) -> bool {
        self.servers.contains_key(&host)
    }

    /// Returns the minimum and the maximum TTL of the host's packets.
    pub(crate) fn ttl(&self, host: IpAddr) -> Option<(u8, u8)> {
        self.servers.get(&host).map(|server| server.ttl)
    }
}
