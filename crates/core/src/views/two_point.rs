//! Two captures of the same connections, compared packet by packet.
//!
//! The input is the segments of both captures, each in its own order and on its own clock, and the
//! exchanges of one capture. The output is the relation of the clocks, the delays and losses on the
//! paths between the captures, and the places where the exchanges' time passed. Packets are matched
//! by their sequence and acknowledgement numbers, timestamps and IP identification. Translated
//! addresses and clocks that differ by years therefore do not matter.

mod clock;
mod matching;
mod place;
mod sighting;
mod way;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::observed::flow;
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;
use crate::report::Joined;
use crate::service::far_names::FarNames;

use clock::FarClock;
use matching::{Matched, Pairs};
pub use place::ExchangeSpan;
use sighting::{SightedFlow, Sighting};

/// Maximum number of packets per capture that are compared.
const MAX_SIGHTINGS: usize = 1 << 20;

/// Collects the segments of two captures.
#[derive(Debug)]
pub struct Joining {
    hasher: SeedableRandomState,
    views: [View; 2],
}

/// The collected segments of one capture.
#[derive(Debug)]
struct View {
    flows: Vec<SightedFlow>,
    by_key: HashMap<crate::observed::flow::FlowKey, u32, SeedableRandomState>,
    sightings: Vec<Sighting>,
    is_partial: bool,
}

/// Two captures that contain the same connections.
#[derive(Debug)]
pub struct Recognised {
    views: [View; 2],
    pairs: Pairs,
    matched: Matched,
    clock: FarClock,
    /// Index of the capture nearer to the clients.
    client: usize,
}

impl Joining {
    /// Creates an empty join of two captures; `hash_seed` does not affect the result.
    pub fn new(hash_seed: u64) -> Self {
        let hasher = flow::hasher(hash_seed);
        let view = || View {
            flows: Vec::new(),
            by_key: HashMap::with_hasher(hasher.clone()),
            sightings: Vec::new(),
            is_partial: false,
        };
        Self {
            views: [view(), view()],
            hasher,
        }
    }

    /// Processes the next segment of the first capture (0) or the second (1). Returns `false` if
    /// that capture has reached its maximum number of packets.
    pub fn observe_segment(&mut self, capture: usize, segment: &Segment) -> bool {
        self.views
            .get_mut(capture)
            .is_some_and(|view| view.observe_segment(segment))
    }

    /// Matches the connections that are in both captures. `None` if they are fewer than half of the
    /// smaller capture's connections, or if only one direction was seen.
    pub fn recognise(self) -> Option<Recognised> {
        let [first, second] = &self.views;
        let pairs = matching::pair(first, second, &self.hasher);
        let fewest = first.flows.len().min(second.flows.len());
        if pairs.flows.is_empty() || pairs.flows.len() * 2 < fewest {
            return None;
        }
        let client = clock::nearer_to_clients(&self.views, &pairs)?;
        let clock = FarClock::estimate(&self.views, &pairs, client)?;
        let matched = Matched::new(&self.views, &pairs, client);
        Some(Recognised {
            views: self.views,
            pairs,
            matched,
            clock,
            client,
        })
    }
}

impl Recognised {
    /// Returns what translates the far capture into the names and times of the near one.
    pub fn far_names(&self) -> FarNames {
        let mut names = FarNames::new(self.clock.map);
        let [first, second] = &self.views;
        for (&other, pair) in &self.pairs.flows {
            let flows = first.flow(pair.first).zip(second.flow(other));
            let Some((one, other)) = flows else { continue };
            let (near, far) = match self.client {
                0 => (one, other),
                _ => (other, one),
            };
            let ends = |flow: &SightedFlow| {
                let up = flow.client();
                (flow.key.source(up), flow.key.destination(up))
            };
            names.add_connection(ends(far), ends(near));
        }
        names
    }

    /// Returns the index of the capture nearer to the clients, 0 or 1. Its exchanges are the ones
    /// to diagnose.
    pub fn client(&self) -> usize {
        self.client
    }

    /// Returns the joint view. `names` are the names of the captures in the order given;
    /// `exchanges` are those seen in the client's capture.
    pub fn conclude(&self, names: [&str; 2], exchanges: &[ExchangeSpan]) -> Joined {
        let [first, second] = names;
        let (near, far) = match self.client {
            0 => (first, second),
            _ => (second, first),
        };
        let crossings = way::crossings(self);
        let pairs = &self.pairs;
        Joined {
            client_capture: near.to_owned(),
            server_capture: far.to_owned(),
            connections: pairs.flows.len() as u64,
            translated: pairs
                .flows
                .values()
                .filter(|pair| pair.is_translated)
                .count() as u64,
            packets: pairs.packets.len() as u64,
            is_partial: self.views.iter().any(|view| view.is_partial),
            clock: self.clock.relation(),
            ways: vec![
                way::way(self, &crossings, true),
                way::way(self, &crossings, false),
            ],
            places: place::places(self, &crossings, exchanges),
        }
    }

    fn near(&self) -> &View {
        let [first, second] = &self.views;
        if self.client == 0 { first } else { second }
    }

    fn far(&self) -> &View {
        let [first, second] = &self.views;
        if self.client == 0 { second } else { first }
    }

    /// Returns the time of `sighting` on the clock of the client's capture.
    fn instant(&self, sighting: &Sighting, is_near: bool) -> Timestamp {
        if is_near {
            sighting.at
        } else {
            self.clock.map.to_near(sighting.at)
        }
    }
}

impl View {
    fn observe_segment(&mut self, segment: &Segment) -> bool {
        if self.sightings.len() >= MAX_SIGHTINGS {
            self.is_partial = true;
            return false;
        }
        let next = u32::try_from(self.flows.len()).unwrap_or(u32::MAX);
        let flow = *self.by_key.entry(segment.flow).or_insert(next);
        if flow == next {
            self.flows.push(SightedFlow::new(segment));
        }
        if let Some(known) = self.flows.get_mut(flow as usize) {
            let position = known.observe_segment(segment);
            self.sightings.push(Sighting::new(segment, flow, position));
        }
        true
    }

    fn sighting(&self, index: u32) -> Option<&Sighting> {
        self.sightings.get(index as usize)
    }

    fn flow(&self, index: u32) -> Option<&SightedFlow> {
        self.flows.get(index as usize)
    }
}

/// The flags used for matching packets.
const TELLING: u8 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0;
