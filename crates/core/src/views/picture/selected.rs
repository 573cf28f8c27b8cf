//! The exchanges that a reader of the picture selects, from another reading of the capture.

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::BTreeMap;

use serde::Serialize;

use super::exchanges::pictured;
use super::grid::dominant;
use super::kept::Smallest;
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::packet::PacketNumber;
use crate::report::{PictureService, PicturedExchange, Why};

/// Maximum number of exchanges that are listed.
const MOST: usize = 200;

/// The exchanges to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All exchanges in a part of the picture.
    Part(PicturePart),
    /// One exchange.
    One(ExchangeKey),
}

/// A part of the picture of latency over time. Ranges do not contain their ends, so that parts side
/// by side contain each exchange once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PicturePart {
    /// The service; `None` for all.
    pub service: Option<u8>,
    /// The owner of most of the exchanges' time; `None` for all.
    pub owner: Option<Owner>,
    /// The starts of the exchanges, after the start of the raster.
    pub begun_ns: Range<u64>,
    /// The latencies of the exchanges.
    pub latency_ns: Range<u64>,
}

/// The facts that distinguish an exchange from all others of a capture, however often it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeKey {
    /// The requesting end of the connection.
    pub client: Endpoint,
    /// The answering end of the connection.
    pub server: Endpoint,
    /// Number of the exchange's first packet. Several requests can be in one packet.
    pub first_packet: u64,
    /// The exchange's index among those seen on its connection, from 0.
    pub ordinal: u32,
}

/// Finds selected exchanges while a capture is read. Bounded, and independent of the exchanges'
/// order.
#[derive(Clone, Debug)]
pub struct Selected {
    selection: Selection,
    start_ns: i64,
    places: BTreeMap<Endpoint, u8>,
    /// The service of all servers that have none of their own.
    others: Option<u8>,
    total: u64,
    slowest: Smallest,
}

/// The exchanges of a selection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Listed {
    /// Number of exchanges in the selection.
    pub total: u64,
    /// The slowest 200 of them, slowest first.
    pub exchanges: Vec<PicturedExchange>,
}

impl Selected {
    /// Starts to look for exchanges. `services` and `start_ns` are those of the picture and of its
    /// raster.
    pub fn new(selection: Selection, services: &[PictureService], start_ns: i64) -> Self {
        let numbered = || services.iter().zip(0_u8..);
        let places = numbered().filter_map(|(it, place)| Some((endpoint(&it.server)?, place)));
        let mut nameless = numbered().filter(|(it, _)| it.server.is_empty());
        Self {
            selection,
            start_ns,
            places: places.collect(),
            others: nameless.next().map(|(_, place)| place),
            total: 0,
            slowest: Smallest::new(MOST),
        }
    }

    /// Adds an exchange, if it is in the picture and selected.
    pub fn add_exchange(&mut self, exchange: &Exchange) {
        let Some(service) = self.service_of(exchange.id.server) else {
            return;
        };
        if exchange.outcome.has_latency() && self.contains(exchange, service) {
            self.total += 1;
            let latency_ns = exchange.end.nanos_since(exchange.begin);
            self.slowest.offer(!latency_ns, exchange);
        }
    }

    /// Returns what was found. `captures` are the names of the captures, each with its first
    /// observation point, ascending.
    pub fn finish(self, captures: &[(PointId, String)]) -> Listed {
        let (places, others) = (self.places, self.others);
        let list = self.slowest.into_sorted().filter_map(|kept| {
            let service = places.get(&kept.example.server).copied().or(others)?;
            Some(pictured(*kept, service, Why::Slowest, captures))
        });
        Listed {
            total: self.total,
            exchanges: list.collect(),
        }
    }

    fn service_of(&self, server: Endpoint) -> Option<u8> {
        self.places.get(&server).copied().or(self.others)
    }

    fn contains(&self, exchange: &Exchange, service: u8) -> bool {
        match &self.selection {
            Selection::Part(part) => part.contains(exchange, service, self.start_ns),
            Selection::One(key) => key.is_of(exchange),
        }
    }
}

impl PicturePart {
    fn contains(&self, exchange: &Exchange, service: u8, start_ns: i64) -> bool {
        let begun = i128::from(exchange.begin.as_nanos()) - i128::from(start_ns);
        let latency_ns = exchange.end.nanos_since(exchange.begin);
        u64::try_from(begun).is_ok_and(|begun| self.begun_ns.contains(&begun))
            && self.latency_ns.contains(&latency_ns)
            && self.service.is_none_or(|own| own == service)
            && self
                .owner
                .is_none_or(|own| own == dominant(&exchange.waits))
    }
}

impl ExchangeKey {
    /// Returns the key of an exchange in a picture; `None` if only the report's example of it is
    /// known.
    pub fn of(pictured: &PicturedExchange) -> Option<Self> {
        let exchange = &pictured.exchange;
        Some(Self {
            client: endpoint(&exchange.client)?,
            server: endpoint(&exchange.server)?,
            first_packet: exchange.first_packet?,
            ordinal: pictured.ordinal?,
        })
    }

    fn is_of(&self, exchange: &Exchange) -> bool {
        let id = &exchange.id;
        let first = exchange.packets.first.map(PacketNumber::get);
        (id.client, id.server, id.ordinal) == (self.client, self.server, self.ordinal)
            && first == Some(self.first_packet)
    }
}

fn endpoint(text: &str) -> Option<Endpoint> {
    let address: SocketAddr = text.parse().ok()?;
    Some(address.into())
}
