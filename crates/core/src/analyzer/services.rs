//! The services of a share of the flows.

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

/// The most servers with figures of their own; those beyond count nowhere.
const MAX_SERVICES: usize = 256;
/// The number of closed exchanges or connections counted at a time: one rule after the other looks
/// at all of them, so that the code and the sums of each come into the processor's caches once for
/// many.
const BATCH: usize = 128;

/// Services by their address and port, with the places of what they have yet to count.
#[derive(Debug)]
pub(super) struct Services {
    places: HashMap<Endpoint, usize, SeedableRandomState>,
    list: Vec<(Endpoint, Box<Service>)>,
    /// The place of the service of each closed exchange; `None`: it counts nowhere. The exchanges
    /// stay where they closed: they are large.
    exchanges: Vec<Option<usize>>,
    /// The place of the service of each connection that was made.
    setups: Vec<Option<usize>>,
}

impl Services {
    pub(super) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            places: HashMap::with_hasher(hasher),
            list: Vec::new(),
            exchanges: Vec::new(),
            setups: Vec::new(),
        }
    }

    /// Returns the place of this server's service; `None`: there is no room for it.
    pub(super) fn place(&mut self, server: Endpoint) -> Option<usize> {
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

    /// Returns the result of joining turns for the service at a place.
    pub(super) fn served(&mut self, place: usize) -> Option<&mut Served> {
        let service = self.list.get_mut(place);
        service.map(|(_, service)| &mut service.served)
    }

    /// Queues the next closed exchange for the service at that place, if it counts anywhere.
    pub(super) fn take(&mut self, place: Option<usize>) {
        self.exchanges.push(place);
    }

    /// Queues the next connection that was made for the service at that place.
    pub(super) fn take_setup(&mut self, place: Option<usize>) {
        self.setups.push(place);
    }

    /// Counts the data that its server sent or received outside of exchanges.
    pub(super) fn take_transfer(&mut self, transfer: &Exchange) {
        let place = self.place(transfer.server);
        if let Some((_, service)) = place.and_then(|place| self.list.get_mut(place)) {
            service.take_transfer(transfer);
        }
    }

    /// Counts the end of a connection of its server on which one side fell silent.
    pub(super) fn take_dead_peer(&mut self, dead_peer: &DeadPeer) {
        let place = self.place(dead_peer.server);
        if let Some((_, service)) = place.and_then(|place| self.list.get_mut(place)) {
            service.take_dead_peer(dead_peer);
        }
    }

    /// Takes in the round trip that the end of a connection to this server shows.
    pub(super) fn take_fin_trip(&mut self, server: Endpoint, trip: Duration) {
        let place = self.places.get(&server);
        if let Some((_, service)) = place.and_then(|&place| self.list.get_mut(place)) {
            service.ledger.take_fin_trip(trip);
        }
    }

    /// Notes an exchange that began before the figures are taken and lasted until then.
    pub(super) fn take_early(&mut self, exchange: &Exchange) {
        let place = self.place(exchange.server);
        if let Some((_, service)) = place.and_then(|place| self.list.get_mut(place)) {
            service.take_early(exchange);
        }
    }

    /// Returns the numbers of exchanges and of connections made that were taken and not counted
    /// yet.
    pub(super) fn taken(&self) -> (usize, usize) {
        (self.exchanges.len(), self.setups.len())
    }

    /// Returns true if it is time to count.
    pub(super) fn is_due(&self) -> bool {
        self.exchanges.len() >= BATCH || self.setups.len() >= BATCH
    }

    /// Counts what was taken.
    pub(super) fn settle(&mut self, exchanges: &[Exchange], setups: &[Setup]) {
        for_each_service(&mut self.list, &self.setups, setups, Service::take_setups);
        for_each_service(&mut self.list, &self.exchanges, exchanges, Service::take);
        self.setups.clear();
        self.exchanges.clear();
    }

    /// Iterates over the services; what was taken and not counted yet is missing.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Endpoint, &Service)> {
        self.list
            .iter()
            .map(|(server, service)| (*server, &**service))
    }

    /// Iterates over the services by value; what was taken and not counted yet is missing.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (Endpoint, Box<Service>)> {
        self.list.into_iter()
    }
}

/// Hands each service its own part of `closed`, in the order in which it closed.
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
