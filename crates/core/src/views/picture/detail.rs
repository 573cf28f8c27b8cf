//! The packets of examples, from a second reading of the capture.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use super::connection::ConnectionDraft;
use super::ladder::{self, EARLY, LadderDraft};
use super::wanted::{self, Known, WantedExample};
use crate::decode::Sieve;
use crate::observed::event::PointId;
use crate::observed::flow::{self, FlowKey};
use crate::observed::segment::Segment;
use crate::report::{Exemplar, Ladder, LadderPacket, Picture, PicturedConnection, Report};
use crate::views::tracker::Tracker;

/// Maximum number of flows that are followed, counted at each capture point.
const MAX_FOLLOWED: usize = 64;

/// Collects the packets of a report's examples when the same capture is read again.
pub struct Detail {
    flows: HashMap<FlowKey, Vec<WantedExample>, SeedableRandomState>,
    followed: BTreeMap<(FlowKey, PointId), Followed>,
    /// Number of ladders that are not complete yet.
    missing: usize,
}

/// A flow at one capture point.
#[derive(Debug, Default)]
struct Followed {
    tracker: Tracker,
    /// The connection's first packets.
    early: Vec<LadderPacket>,
    ladders: Vec<LadderDraft>,
    connection: ConnectionDraft,
    /// Connections with an example, each followed by another connection on the same flow.
    past: Vec<(usize, PicturedConnection)>,
}

impl Detail {
    /// Returns what the report's examples need; `None` if none has packets.
    pub fn wanted(report: &Report, hash_seed: u64) -> Option<Self> {
        Self::of(wanted::wanted(report, Known::Number), hash_seed)
    }

    /// Returns what the report's examples need of the segments from which the report was made. They
    /// are recognised by their times where they have no packet numbers.
    pub(super) fn of_kept(report: &Report, hash_seed: u64) -> Option<Self> {
        Self::of(wanted::wanted(report, Known::Time), hash_seed)
    }

    /// Returns what a single exchange needs; `None` if it has no packets.
    pub fn of_exchange(exchange: &Exemplar, hash_seed: u64) -> Option<Self> {
        Self::of(wanted::alone(exchange).into_iter().collect(), hash_seed)
    }

    fn of(list: Vec<WantedExample>, hash_seed: u64) -> Option<Self> {
        let missing = list.len();
        let mut flows = HashMap::with_hasher(flow::hasher(hash_seed));
        for wanted in list {
            let of_flow: &mut Vec<WantedExample> = flows.entry(wanted.flow).or_default();
            of_flow.push(wanted);
        }
        let followed = BTreeMap::new();
        (missing > 0).then_some(Self {
            flows,
            followed,
            missing,
        })
    }

    /// Returns a sieve that lets the segments of the examples' flows pass. The others need not be
    /// observed.
    pub fn sieve(&self) -> Sieve {
        Sieve::of(self.flows.keys().copied())
    }

    /// Processes the next segment, in the order and with the number that it had for the analyzer.
    #[inline]
    pub fn observe_segment(&mut self, segment: &Segment) {
        if let Some(wanted) = self.flows.get(&segment.flow) {
            let is_full = self.followed.len() >= MAX_FOLLOWED;
            let followed = match self.followed.entry((segment.flow, segment.point)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(_) if is_full => return,
                Entry::Vacant(place) => place.insert(Followed::new(wanted)),
            };
            self.missing = self.missing.saturating_sub(followed.add(segment));
        }
    }

    /// Returns true if all examples were read to their ends, so that reading can stop. Connections
    /// contain what was read until then.
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Adds the ladders and connections to the picture.
    pub fn finish(self, picture: &mut Picture) {
        let mut ladders: BTreeMap<usize, Ladder> = BTreeMap::new();
        let mut connections: Vec<(usize, PicturedConnection)> = Vec::new();
        for mut followed in self.followed.into_values() {
            followed.end_connection();
            connections.append(&mut followed.past);
            for ladder in followed.ladders {
                let rank = ladder.wanted.rank;
                ladders.extend(ladder.finish().map(|ladder| (rank, ladder)));
            }
        }
        connections.sort_by_key(|(rank, connection)| (*rank, connection.start_ns));
        picture.ladders = ladders.into_values().collect();
        picture.connections = connections.into_iter().map(|(_, each)| each).collect();
    }
}

impl Followed {
    fn new(wanted: &[WantedExample]) -> Self {
        Self {
            ladders: wanted.iter().cloned().map(LadderDraft::new).collect(),
            ..Self::default()
        }
    }

    /// Adds a segment; returns the number of ladders that it completes.
    fn add(&mut self, segment: &Segment) -> usize {
        if self.tracker.is_new(segment) {
            self.end_connection();
        }
        let step = self.tracker.observe_segment(segment);
        let up = self.ladders.first().map(|ladder| ladder.wanted.up);
        let from_client = up == Some(segment.direction);
        let packet = ladder::packet(segment, &step, from_client);
        let opening = self.early.first();
        let is_whole = opening.is_some_and(|packet| packet.flags.contains('S'));
        let early = match self.early.len() {
            0..EARLY if is_whole => self.early.as_slice(),
            _ => &[],
        };
        let mut completed = 0;
        for ladder in self
            .ladders
            .iter_mut()
            .filter(|ladder| !ladder.is_complete())
        {
            ladder.add(segment, &packet, early);
            completed += usize::from(ladder.is_complete());
        }
        if self.early.len() < EARLY {
            self.early.push(packet);
        }
        if self.shown().is_some() {
            self.connection.add(segment, &step, from_client);
        }
        completed
    }

    /// Returns the example whose connection is shown, if there is one on this flow.
    fn shown(&self) -> Option<&LadderDraft> {
        let mut ladders = self.ladders.iter();
        ladders.find(|ladder| ladder.wanted.has_connection)
    }

    /// Ends the connection so far. It is kept if it contains the example for which it is shown.
    fn end_connection(&mut self) {
        let connection = core::mem::take(&mut self.connection);
        let shown = self.shown().filter(|ladder| ladder.is_begun());
        let shown = shown.filter(|_| self.past.is_empty());
        let picture = shown.and_then(|LadderDraft { wanted, .. }| {
            let ends = (&wanted.exchange.client, &wanted.exchange.server);
            let connection = connection.finish(wanted.cause, ends.0, ends.1)?;
            Some((wanted.rank, connection))
        });
        self.past.extend(picture);
        self.early.clear();
        self.tracker = Tracker::default();
    }
}
