//! The services of a picture.

use std::collections::BTreeMap;

use crate::observed::flow::Endpoint;
use crate::report::PictureService;
use crate::service::Ledger;
use crate::stats::Merge;

/// The number of a server in a collector, in the order in which servers were first seen.
pub(super) type ServerIndex = u16;

/// Maximum number of servers that are counted separately. It is not reached with the figures of
/// services, which have a lower limit in each shard. All further servers are counted together.
pub(super) const MAX_SERVERS: usize = 1024;

/// The number of all servers beyond [`MAX_SERVERS`].
pub(super) const BEYOND: ServerIndex = MAX_SERVERS as ServerIndex;

/// Maximum number of services in the picture. If there are more, the last one is all others
/// together.
const MAX_SERVICES: usize = 8;

/// The services of the picture, each with the figures of its servers.
pub(super) struct PicturedServices {
    pub(super) list: Vec<PictureService>,
    pub(super) ledgers: Vec<Ledger>,
    /// The figures of all servers.
    pub(super) all: Ledger,
    places: BTreeMap<Endpoint, u8>,
    /// The service of all servers that have none of their own.
    pub(super) others: Option<u8>,
}

impl PicturedServices {
    /// Returns the services with the most exchanges, most first; of several with equally many, the
    /// lowest address first.
    pub(super) fn of<'a>(ledgers: impl Iterator<Item = (Endpoint, &'a Ledger)>) -> Self {
        let count = |ledger: &Ledger| ledger.latency.all.count();
        let mut used: Vec<_> = ledgers.filter(|(_, ledger)| count(ledger) > 0).collect();
        used.sort_by_key(|&(server, ledger)| (core::cmp::Reverse(count(ledger)), server));
        let is_cut = used.len() > MAX_SERVICES;
        let own = if is_cut { MAX_SERVICES - 1 } else { used.len() };
        let mut services = Self {
            list: Vec::new(),
            ledgers: Vec::new(),
            all: Ledger::default(),
            places: BTreeMap::new(),
            others: is_cut.then_some(own as u8),
        };
        for (place, (server, ledger)) in used.into_iter().enumerate() {
            services.add((place < own).then_some(server), place.min(own), ledger);
        }
        services
    }

    /// Adds the figures of a server to the service at `place`; `server` is `None` for one of the
    /// others.
    fn add(&mut self, server: Option<Endpoint>, place: usize, ledger: &Ledger) {
        if let Some(server) = server {
            self.places.insert(server, place as u8);
        }
        if place == self.list.len() {
            let server = server.map_or(String::new(), |server| server.to_string());
            self.list.push(PictureService { server, count: 0 });
            self.ledgers.push(Ledger::default());
        }
        if let (Some(service), Some(sum)) = (self.list.get_mut(place), self.ledgers.get_mut(place))
        {
            service.count += ledger.latency.all.count();
            for sum in [sum, &mut self.all] {
                sum.latency.all.merge(&ledger.latency.all);
                sum.latency.bands.merge(ledger.latency.bands.clone());
            }
        }
    }

    /// Returns true if the address is that of a service, or of a listener on all addresses that may
    /// be the service's.
    pub(super) fn is_at(&self, end: &Endpoint) -> bool {
        let is_of = |server: &Endpoint| end.addr.is_unspecified() && server.port == end.port;
        self.of_server(*end).is_some() || self.places.keys().any(is_of)
    }

    /// Returns the index of a server's service.
    pub(super) fn of_server(&self, server: Endpoint) -> Option<u8> {
        self.places.get(&server).copied().or(self.others)
    }
}
