//! The services to which a shard's flows lead.

use core::time::Duration;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::cause::service::Service;
use crate::connection::Setup;
use crate::connection::dead_peer::DeadPeer;
use crate::exchange::Exchange;
use crate::observed::flow::Endpoint;
use crate::service::kernel_join::Served;

/// Maximum number of servers with separate figures. Further servers are not counted.
const MAX_SERVICES: usize = 256;
/// Number of closed exchanges or connections counted in one batch. Each rule processes a whole
/// batch before the next rule starts, so its code and sums are loaded into the processor's caches
/// once per batch.
pub(super) const BATCH: usize = 128;

/// Services by their address and port, and the queues of items that each still has to count.
#[derive(Debug)]
pub(super) struct Services {
    places: HashMap<Endpoint, usize, SeedableRandomState>,
    list: Vec<(Endpoint, Box<Service>)>,
    /// The index that was last asked for: mostly, the next exchange is with the same server.
    latest: usize,
    /// The index of the service of each closed exchange; `None` if the exchange is not counted. The
    /// exchanges themselves are not moved, because they are large.
    exchanges: Vec<Option<usize>>,
    /// The index of the service of each newly opened connection.
    setups: Vec<Option<usize>>,
}

impl Services {
    pub(super) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            places: HashMap::with_hasher(hasher),
            list: Vec::new(),
            latest: 0,
            exchanges: Vec::new(),
            setups: Vec::new(),
        }
    }

    /// Returns the index of this server's service; `None` if there are already too many services.
    pub(super) fn place(&mut self, server: Endpoint) -> Option<usize> {
        let is_same = |(latest, _): &(Endpoint, _)| *latest == server;
        if self.list.get(self.latest).is_some_and(is_same) {
            return Some(self.latest);
        }
        let place = self.find(server)?;
        self.latest = place;
        Some(place)
    }

    fn find(&mut self, server: Endpoint) -> Option<usize> {
        let has_room = self.list.len() < MAX_SERVICES;
        match self.places.entry(server) {
            Entry::Occupied(place) => Some(*place.get()),
            Entry::Vacant(entry) if has_room => {
                let place = *entry.insert(self.list.len());
                self.list.push((server, Box::default()));
                Some(place)
            }
            Entry::Vacant(_) => None,
        }
    }

    pub(super) fn get(&self, server: &Endpoint) -> Option<&Service> {
        let place = *self.places.get(server)?;
        self.list.get(place).map(|(_, service)| &**service)
    }

    /// Returns the result of joining the kernel's turns for the service at this index.
    pub(super) fn served(&mut self, place: usize) -> Option<&mut Served> {
        let service = self.list.get_mut(place);
        service.map(|(_, service)| &mut service.served)
    }

    /// Queues the next closed exchange. `place` is the index of its service; `None` if it is not
    /// counted.
    pub(super) fn queue_exchange(&mut self, place: Option<usize>) {
        self.exchanges.push(place);
    }

    /// Queues the next opened connection. `place` is the index of its service; `None` if it is not
    /// counted.
    pub(super) fn take_setup(&mut self, place: Option<usize>) {
        self.setups.push(place);
    }

    /// Counts data that the service's server sent or received outside of exchanges.
    pub(super) fn take_transfer(&mut self, transfer: &Exchange) {
        let place = self.place(transfer.id.server);
        if let Some((_, service)) = place.and_then(|place| self.list.get_mut(place)) {
            service.take_transfer(transfer);
        }
    }

    /// Counts the end of a connection to the service after one side no longer answered.
    pub(super) fn take_dead_peer(&mut self, dead_peer: &DeadPeer) {
        let place = self.place(dead_peer.server);
        if let Some((_, service)) = place.and_then(|place| self.list.get_mut(place)) {
            service.take_dead_peer(dead_peer);
        }
    }

    /// Records the round trip that the FIN of a connection to this server showed.
    pub(super) fn take_fin_trip(&mut self, server: Endpoint, trip: Duration) {
        let place = self.places.get(&server);
        if let Some((_, service)) = place.and_then(|&place| self.list.get_mut(place)) {
            service.ledger.add_fin_trip(trip);
        }
    }

    /// Records an exchange that began before the measurement and ended during it.
    pub(super) fn take_early(&mut self, exchange: &Exchange) {
        let place = self.place(exchange.id.server);
        if let Some((_, service)) = place.and_then(|place| self.list.get_mut(place)) {
            service.take_early(exchange);
        }
    }

    /// Returns the numbers of exchanges and of opened connections that are queued.
    pub(super) fn taken(&self) -> (usize, usize) {
        (self.exchanges.len(), self.setups.len())
    }

    /// Returns true if the queues are long enough to be counted.
    pub(super) fn is_due(&self) -> bool {
        self.exchanges.len() >= BATCH || self.setups.len() >= BATCH
    }

    /// Counts everything that is queued.
    pub(super) fn count_closed(&mut self, exchanges: &[Exchange], setups: &[Setup]) {
        for_each_service(&mut self.list, &self.setups, setups, Service::take_setups);
        for_each_service(
            &mut self.list,
            &self.exchanges,
            exchanges,
            Service::add_exchanges,
        );
        self.setups.clear();
        self.exchanges.clear();
    }

    /// Iterates over the services. Their figures lack the queued items.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Endpoint, &Service)> {
        self.list
            .iter()
            .map(|(server, service)| (*server, &**service))
    }

    /// Iterates over the services by value. Their figures lack the queued items.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (Endpoint, Box<Service>)> {
        self.list.into_iter()
    }
}

/// Passes its part of `closed` to each service, in the order of closing.
fn for_each_service<T>(
    services: &mut [(Endpoint, Box<Service>)],
    places: &[Option<usize>],
    closed: &[T],
    take: impl Fn(&mut Service, &[&T]),
) {
    let placed = places.iter().zip(closed);
    let mut sorted: Vec<(usize, &T)> = placed
        .filter_map(|(place, each)| Some(((*place)?, each)))
        .collect();
    sorted.sort_by_key(|(place, _)| *place);
    let mut batch = Vec::with_capacity(sorted.len());
    for of_one in sorted.chunk_by(|(one, _), (other, _)| one == other) {
        batch.clear();
        batch.extend(of_one.iter().map(|(_, each)| *each));
        let place = of_one.first().map(|(place, _)| *place);
        if let Some((_, service)) = place.and_then(|place| services.get_mut(place)) {
            take(service, &batch);
        }
    }
}
