//! The rule of the cause `port-exhaustion`.

use core::net::IpAddr;
use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::evidence::{self};
use super::first_packets::FirstPackets;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::observed::time::Timestamp;
use crate::report::{Affected, EvidenceKind, counted};
use crate::stats::Merge;
use crate::stats::bounded::Least;

const WORDING: Wording = Wording {
    summary: "The client {addr} has {ports} local ports for connections to {service}. While all \
              are in use, connect() fails immediately (EADDRNOTAVAIL) and sends nothing. Packets \
              do not show how long the program then waits.",
    ruled_out: &[],
    overturned_by: "the program choosing these ports itself, or a wider range in `sysctl \
        net.ipv4.ip_local_port_range`",
    fix: &[
        ("client", "keep connections alive and pool them"),
        (
            "client",
            "`sysctl net.ipv4.ip_local_port_range=\"10000 65000\"`; more source addresses; \
             IP_BIND_ADDRESS_NO_PORT if the program binds a source address",
        ),
    ],
};

/// Maximum number of ports of a client that counts as a narrow range.
const MAX_PORTS: usize = 64;
/// Maximum number of clients kept.
const MAX_CLIENTS: usize = 256;
/// Minimum number of ports. A single port was requested by the program itself.
const LEAST_PORTS: usize = 2;
/// Minimum number of connections per port. With fewer, the reuse of ports may be chance.
const REUSES: usize = 3;
/// Minimum number of times at which all ports were in use.
const FULL: u64 = 2;
/// Maximum number of connections kept for one client. They suffice to reuse each port several
/// times.
const MAX_CONNECTIONS: usize = MAX_PORTS * 16;

/// Watches clients that reuse a few adjacent ports, and repeatedly have all of them in use: they
/// have no other ports. The error of connect() (EADDRNOTAVAIL) is not visible in packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    /// The clients by their addresses.
    clients: HashMap<IpAddr, Client, FixedState>,
}

#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::narrow)]
struct Client {
    /// The ports in ascending order.
    #[merge(with = join)]
    ports: Vec<u16>,
    /// The start time of each connection, with its port.
    begun: Instants,
    /// The end of each exchange, with the port.
    ended: Instants,
    packets: FirstPackets,
    #[merge(any)]
    is_wide: bool,
}

type Instants = Least<(Timestamp, u16), MAX_CONNECTIONS>;

impl Merge for Rule {
    fn merge(&mut self, other: Self) {
        let Self { clients } = other;
        let mut others: Vec<_> = clients.into_iter().collect();
        others.sort_unstable_by_key(|(addr, _)| *addr);
        for (addr, theirs) in others {
            if self.clients.len() >= MAX_CLIENTS && !self.clients.contains_key(&addr) {
                continue;
            }
            self.clients.entry(addr).or_default().merge(theirs);
        }
    }
}

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        let port = exchange.id.client.port;
        if let Some(client) = self.client(exchange.id.client.addr, port) {
            client.ended.add((exchange.end, port));
        }
    }

    fn observe_setup(&mut self, setup: &Setup) {
        let (Some((from, _)), Some(begin)) = (setup.ends, setup.begin) else {
            return;
        };
        if setup.outcome != Some(SetupOutcome::Established) {
            return;
        }
        if let Some(client) = self.client(from.addr, from.port) {
            client.begun.add((begin, from.port));
            client.packets.add(setup.syns.packets.first);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let full = self.clients.iter();
        let full = full.filter_map(|(addr, client)| Some((*addr, client, client.fullness()?)));
        let found = full.min_by_key(|(addr, ..)| *addr);
        match found {
            Some((addr, client, full)) => {
                Conclusion::Claim(Box::new(claim(case, addr, client, full)))
            }
            None => Conclusion::Nothing,
        }
    }
}

impl Rule {
    fn client(&mut self, addr: IpAddr, port: u16) -> Option<&mut Client> {
        let has_room = self.clients.len() < MAX_CLIENTS;
        let client = match self.clients.entry(addr) {
            Entry::Occupied(client) => client.into_mut(),
            Entry::Vacant(place) if has_room => place.insert(Client::default()),
            Entry::Vacant(_) => return None,
        };
        client.note(port);
        (!client.is_wide).then_some(client)
    }
}

/// Adds ports to others; both and the sum are in ascending order.
fn join(own: &mut Vec<u16>, other: Vec<u16>) {
    own.extend(other);
    own.sort_unstable();
    own.dedup();
}

impl Client {
    fn note(&mut self, port: u16) {
        if self.is_wide {
            return;
        }
        if let Err(place) = self.ports.binary_search(&port) {
            self.ports.insert(place, port);
            self.narrow();
        }
    }

    /// If the client uses too many ports, marks it as such and drops its connections.
    fn narrow(&mut self) {
        if self.is_wide || self.ports.len() > MAX_PORTS {
            *self = Self {
                is_wide: true,
                ..Self::default()
            };
        }
    }

    /// Returns the number of times at which all ports were in use, and the number of connections.
    /// `None` if the ports are not a narrow range that is reused.
    fn fullness(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.ports.first()?, self.ports.last()?);
        let is_range = usize::from(last - first) < self.ports.len();
        if self.ports.len() < LEAST_PORTS || !is_range {
            return None;
        }
        let begun = self.begun.sorted();
        if begun.len() < self.ports.len() * REUSES {
            return None;
        }
        let made = begun.len() as u64;
        let ended = self.ended.sorted().into_iter();
        let ended = ended.map(|(at, port)| (at, false, port));
        let begun = begun.into_iter().map(|(at, port)| (at, true, port));
        let mut events: Vec<_> = begun.chain(ended).collect();
        events.sort_unstable();
        let (mut used, mut full) = (BTreeSet::new(), 0);
        for (_, is_begin, port) in events {
            if !is_begin {
                used.remove(&port);
            } else if used.insert(port) && used.len() == self.ports.len() {
                full += 1;
            }
        }
        (full >= FULL).then_some((full, made))
    }
}

fn claim(case: &Case<'_>, addr: IpAddr, client: &Client, (full, made): (u64, u64)) -> Claim {
    let mut claim = evidence::bare_claim(Id::PortExhaustion, Owner::Client, case);
    let (first, last) = (client.ports.first(), client.ports.last());
    let range = format!(
        "{}–{}",
        first.copied().unwrap_or(0),
        last.copied().unwrap_or(0)
    );
    let text = format!(
        "{addr} made {} from {} only ({range}); {} all of these ports were in use at the same \
         time",
        counted(made, "connection", "connections"),
        counted(client.ports.len() as u64, "port", "ports"),
        counted(full, "time", "times"),
    );
    claim.affected = Affected {
        exchanges: full,
        of: made,
    };
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(full)
            .packets(&client.packets),
    );
    claim.basis = Basis::new(full, true);
    WORDING.tell(
        &mut claim,
        &[("addr", &addr), ("ports", &client.ports.len())],
    );
    claim
}
