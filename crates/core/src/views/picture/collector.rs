//! Collects what a picture needs of each exchange.

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use super::about::About;
use super::grid::{Grid, dominant};
use super::kept::Chosen;
use super::points::{Dot, Dots};
use super::services::{BEYOND, MAX_SERVERS, ServerIndex};
use super::sketch::Sketch;
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome};
use crate::observed::flow::Endpoint;
use crate::service::latency_modes;
use crate::stats::Merge;

/// Data of exchanges for a picture. Bounded, and independent of the exchanges' order.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    servers: HashMap<Endpoint, ServerIndex, SeedableRandomState>,
    grid: Grid,
    /// The exchanges that the capture cuts.
    cut: Grid,
    dots: Dots,
    chosen: Chosen,
}

impl Collector {
    pub(crate) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            servers: HashMap::with_hasher(hasher),
            grid: Grid::default(),
            cut: Grid::default(),
            dots: Dots::default(),
            chosen: Chosen::default(),
        }
    }

    /// Adds an exchange, if its latency counts or the capture cuts it.
    pub(crate) fn add_exchange(&mut self, exchange: &Exchange) {
        if exchange.outcome == Outcome::Cut {
            let server = self.index(exchange.id.server);
            self.cut.add(server, exchange.begin, 0, Owner::Unknown);
        }
        if !exchange.outcome.has_latency() {
            return;
        }
        let server = self.index(exchange.id.server);
        let owner = dominant(&exchange.waits);
        let latency_ns = exchange.end.nanos_since(exchange.begin);
        let band = latency_modes::index_of_nanos(latency_ns);
        self.grid.add(server, exchange.begin, band, owner);
        self.dots.add(Dot {
            begin_ns: exchange.begin.as_nanos(),
            latency_ns,
            server,
            owner,
        });
        self.chosen.offer(exchange, latency_ns);
    }

    fn index(&mut self, server: Endpoint) -> ServerIndex {
        let next = self.servers.len();
        if next >= MAX_SERVERS {
            return self.servers.get(&server).copied().unwrap_or(BEYOND);
        }
        *self.servers.entry(server).or_insert(next as ServerIndex)
    }

    /// Adds the exchanges of another shard.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self {
            servers,
            grid,
            cut,
            dots,
            chosen,
        } = other;
        let mut servers: Vec<(Endpoint, ServerIndex)> = servers.into_iter().collect();
        servers.sort_unstable_by_key(|(_, index)| *index);
        let numbers: Vec<ServerIndex> = servers
            .iter()
            .map(|(server, _)| self.index(*server))
            .collect();
        let renumbered = |index: ServerIndex| {
            let own = numbers.get(usize::from(index));
            own.copied().unwrap_or(BEYOND)
        };
        self.grid.merge(grid, renumbered);
        self.cut.merge(cut, renumbered);
        self.dots.merge(dots, renumbered);
        self.chosen.merge(chosen);
    }

    /// Assigns the exchanges to the services of `about`; others are left out.
    pub(crate) fn sketch(self, about: About) -> Sketch {
        let services = &about.services;
        let mut places: Vec<Option<u8>> = vec![services.others; self.servers.len()];
        for (server, index) in &self.servers {
            if let Some(place) = places.get_mut(usize::from(*index)) {
                *place = services.of_server(*server);
            }
        }
        let service = |index: ServerIndex| {
            let own = places.get(usize::from(index)).copied();
            own.unwrap_or(services.others)
        };
        Sketch {
            raster: self.grid.finish(service),
            cut: Some(self.cut.finish(service)).filter(|cut| !cut.cells.is_empty()),
            points: self.dots.finish(service),
            chosen: self.chosen,
            about,
        }
    }
}
