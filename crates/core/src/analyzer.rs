//! The fold from observations to a report.

use core::fmt;
use core::hash::BuildHasher;
use std::collections::BTreeMap;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::approach::Approaches;
use crate::conclude::{self, Evidence};
use crate::connection::{Closed, Parting, Setup};
use crate::connections::{Collected, ConnectionSink, Wanted};
use crate::datagram::{Datagram, Neighbour};
use crate::decode::Packet;
use crate::event::{CaptureSummary, Event, EventBody, Note, Phase, PointId, TargetId};
use crate::exchange::Exchange;
use crate::experiment::Experiment;
use crate::facts::Facts;
use crate::flow::{Endpoint, FlowKey, Transport};
use crate::icmp::IcmpError;
use crate::report::{Capture, CapturePoint, Report};
use crate::segment::Segment;
use crate::service::Service;
use crate::table::{self, MAX_CONNECTIONS, Table, Tallied};
use crate::time::Timestamp;

/// Shares that each service's connections are dealt to, by hash; what they come
/// to is merged in the end, so that the outcome rests on no order of flows.
const SHARDS: usize = 2;
/// Services told apart in each shard; a capture of a port scan has no more worth naming.
const MAX_SERVICES: usize = 256;
/// Flows whose phase is remembered.
const MAX_FLOWS: usize = 1 << 20;

/// What the analyzer is told before it begins.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seed of the flow tables' hashes: random, because the keys come from the
    /// network. The report does not depend on it.
    pub hash_seed: u64,
    /// The servers under investigation. Empty for captures: every server counts.
    pub targets: Vec<(TargetId, Endpoint)>,
    /// How many connections are followed at a time; beyond that those idle
    /// longest are given up and counted. `None`: 65,536, about 100 MB.
    pub max_connections: Option<usize>,
    /// Which connections' numbers are collected.
    pub connections: Wanted,
}

/// Receives every exchange as it closes.
pub type Sink = Box<dyn FnMut(&Exchange) + Send>;

/// Services by address and port.
type Services = BTreeMap<Endpoint, Service>;

/// Folds segments and events; concludes once.
pub struct Analyzer {
    options: Options,
    hasher: SeedableRandomState,
    connections: Table,
    /// What each shard's connections' servers amount to.
    services: Vec<Services>,
    facts: Facts,
    /// Phases of our own flows, each from an instant on.
    phases: HashMap<FlowKey, Vec<(Timestamp, Phase)>, SeedableRandomState>,
    points: BTreeMap<PointId, Point>,
    /// What connections followed; the only place where flows meet.
    approaches: Approaches,
    /// The point of the last segment: most are of the same.
    point: Option<(PointId, Point)>,
    /// What the segment at hand closed; kept for its memory.
    closed: Closed,
    sink: Option<Sink>,
    /// Connections one by one, if they are wanted.
    collected: Collected,
}

/// What one observation point delivered.
#[derive(Clone, Copy, Debug)]
struct Point {
    segments: u64,
    bytes: u64,
    first: Timestamp,
    last: Timestamp,
    connections: u64,
    /// Connections seen from the client's side, the server's, and between.
    near: [u64; 3],
}

impl Analyzer {
    /// An analyzer that has seen nothing.
    pub fn new(options: Options) -> Self {
        let hasher = table::hasher(options.hash_seed);
        let max = options.max_connections.unwrap_or(MAX_CONNECTIONS);
        Self {
            connections: Table::new(hasher.clone(), max),
            services: (0..SHARDS).map(|_| Services::new()).collect(),
            facts: Facts::default(),
            phases: HashMap::with_hasher(hasher.clone()),
            points: BTreeMap::new(),
            approaches: Approaches::default(),
            point: None,
            closed: Closed::default(),
            sink: None,
            collected: Collected::new(options.connections, hasher.clone()),
            options,
            hasher,
        }
    }

    /// Hands every exchange to `sink` as it closes, in the order they close.
    pub fn with_sink(mut self, sink: Sink) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Hands every connection's numbers to `sink` as it ends or is given up.
    pub fn with_connection_sink(mut self, sink: ConnectionSink) -> Self {
        self.collected.set_sink(sink);
        self
    }

    /// Takes in one decoded packet. Packets of one point come in its order.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        match packet {
            Packet::Tcp(segment, payload) => self.segment(segment, payload),
            Packet::Icmp(error) => self.icmp(error),
            Packet::Udp(datagram, payload) => self.datagram(datagram, payload),
            Packet::Neighbour(step) => self.neighbour(step),
            Packet::Other => {}
        }
    }

    /// Takes in what a router or host says about a packet of a flow.
    pub fn icmp(&mut self, error: &IcmpError) {
        self.connections.take_icmp(error);
    }

    /// Takes in one UDP datagram and as much of its payload as was captured.
    pub fn datagram(&mut self, datagram: &Datagram, payload: &[u8]) {
        self.approaches.datagram(datagram, payload);
        self.collected.datagram(datagram, payload);
    }

    /// Takes in a step of the search for a hardware address.
    pub fn neighbour(&mut self, step: &Neighbour) {
        self.approaches.neighbour(step);
    }

    /// Takes in one TCP segment and as much of its payload as was captured.
    /// Segments of one point come in its order.
    pub fn segment(&mut self, segment: &Segment, payload: &[u8]) {
        self.count(segment);
        self.approaches.segment(segment, payload);
        let (collected, closed) = (&mut self.collected, &mut self.closed);
        self.connections.take(segment, payload, collected, closed);
        if !self.closed.is_empty() {
            self.fold_closed();
        }
    }

    /// Takes in anything else that was observed.
    pub fn observe(&mut self, event: Event) {
        if let EventBody::FlowPhase(flow) = event.body {
            if self.phases.len() < MAX_FLOWS || self.phases.contains_key(&flow) {
                self.phases
                    .entry(flow)
                    .or_default()
                    .push((event.at, event.phase));
            }
            return;
        }
        self.facts.observe(event);
    }

    /// The interventions that would tell the remaining hypotheses apart, the
    /// most telling first; none where nothing is slow.
    pub fn next_experiments(&self) -> Vec<Experiment> {
        conclude::next_experiments(&self.facts, &self.services, &self.options.targets)
    }

    /// Concludes. `command`, `subject` and `started` are the caller's to fill in.
    pub fn finish(mut self) -> Report {
        let empty = Table::new(self.hasher.clone(), 1);
        let table = core::mem::replace(&mut self.connections, empty);
        let tallied = table.finish(|mut connection| {
            connection.give_up(Parting::CaptureEnded, &mut self.closed);
            self.fold_closed();
        });
        self.points.extend(self.point.take());
        self.note(&tallied);
        let capture = self.capture();
        let connections = self.collected.finish();
        self.facts.hosts.resolvers = self.approaches.resolvers();
        let silent = self.approaches.silent();
        let mut shards = self.services.into_iter();
        let mut services = shards.next().unwrap_or_default();
        for (endpoint, service) in shards.flatten() {
            services.entry(endpoint).or_default().merge(service);
        }
        conclude::conclude(Evidence {
            targets: self.options.targets,
            services,
            facts: self.facts,
            silent,
            capture,
            connections,
        })
    }

    #[inline]
    fn count(&mut self, segment: &Segment) {
        match &mut self.point {
            Some((id, point)) if *id == segment.point => point.count(segment),
            _ => self.change_point(segment),
        }
    }

    #[cold]
    fn change_point(&mut self, segment: &Segment) {
        self.points.extend(self.point.take());
        let point = self.points.remove(&segment.point);
        let mut point = point.unwrap_or_else(|| Point::new(segment.at));
        point.count(segment);
        self.point = Some((segment.point, point));
    }

    /// The share that a flow's service is summed up in.
    fn place(&self, client: Endpoint, server: Endpoint) -> usize {
        // The table uses the low bits; take others.
        (self.hasher.hash_one((client, server)) >> 48) as usize % SHARDS
    }

    /// What the capture cannot show, or shows twice.
    fn note(&mut self, tallied: &Tallied) {
        let segments: u64 = self.points.values().map(|point| point.segments).sum();
        let max = self.options.max_connections.unwrap_or(MAX_CONNECTIONS);
        let remarks = remarks(tallied, segments, max);
        for (id, text) in remarks {
            let id = id.to_owned();
            let body = EventBody::Note(Note { id, text });
            self.observe(Event::here(Timestamp::MAX, Phase::Baseline, body));
        }
    }

    /// Sums up what closed, and forgets it.
    fn fold_closed(&mut self) {
        let mut closed = core::mem::take(&mut self.closed);
        self.fold(&closed);
        self.collected.take(&mut closed.watched);
        closed.clear();
        self.closed = closed;
    }

    fn fold(&mut self, closed: &Closed) {
        for setup in &closed.setups {
            self.fold_setup(setup);
        }
        for exchange in &closed.exchanges {
            if let Some(sink) = &mut self.sink {
                sink(exchange);
            }
            let phase = self.phase(exchange.client, exchange.server, exchange.begin);
            if phase == Phase::Baseline && self.is_meant(exchange.server) {
                let place = self.place(exchange.client, exchange.server);
                if let Some(service) = self.service(place, exchange.server) {
                    service.take(exchange);
                }
            }
        }
        for &(server, ttl) in &closed.servers {
            self.facts.hosts.take_ttl(server, ttl);
        }
        for &(id, near) in &closed.connections {
            match &mut self.point {
                Some((point, current)) if *point == id => current.count_connection(near),
                _ => {
                    if let Some(point) = self.points.get_mut(&id) {
                        point.count_connection(near);
                    }
                }
            }
        }
    }

    fn fold_setup(&mut self, setup: &Setup) {
        let (Some((client, server)), Some(begin)) = (setup.ends, setup.begin) else {
            return;
        };
        let phase = self.phase(client, server, begin);
        // A connection made while warming up is one like the others.
        let counts = matches!(phase, Phase::Baseline | Phase::WarmUp);
        if counts && self.is_meant(server) {
            let (flow, _) = FlowKey::new(Transport::Tcp, client, server);
            let approach = self.approaches.of(setup.point, flow, begin);
            self.facts.hosts.take(setup, server);
            let place = self.place(client, server);
            if let Some(service) = self.service(place, server) {
                match approach {
                    None => service.take_setup(setup),
                    Some(approach) => service.take_setup(&setup.after(approach)),
                }
            }
        }
    }

    fn is_meant(&self, server: Endpoint) -> bool {
        let targets = &self.options.targets;
        targets.is_empty() || targets.iter().any(|(_, endpoint)| *endpoint == server)
    }

    fn service(&mut self, place: usize, server: Endpoint) -> Option<&mut Service> {
        let services = self.services.get_mut(place)?;
        let has_room = services.len() < MAX_SERVICES || services.contains_key(&server);
        has_room.then(|| services.entry(server).or_default())
    }

    fn phase(&self, client: Endpoint, server: Endpoint, at: Timestamp) -> Phase {
        if self.phases.is_empty() {
            return Phase::Baseline;
        }
        let (flow, _) = FlowKey::new(Transport::Tcp, client, server);
        let Some(phases) = self.phases.get(&flow) else {
            return Phase::Baseline;
        };
        let since = phases.iter().rev().find(|(since, _)| *since <= at);
        let phase = since
            .or(phases.first())
            .map_or(Phase::Baseline, |&(_, phase)| phase);
        // What our own flows carry before or after their phase is counted nowhere.
        if self.facts.loads.covers(phase, at) {
            phase
        } else {
            Phase::WarmUp
        }
    }

    /// What was seen at the points of the source whose first one this is:
    /// each has those up to the next one's first.
    fn points_from(&self, first: PointId) -> Option<Point> {
        let starts = self.facts.captures.iter().map(|&(start, _)| start);
        let next = starts.filter(|&start| start > first).min();
        let of_source = self
            .points
            .iter()
            .filter(|&(&id, _)| id >= first && next.is_none_or(|next| id < next));
        of_source.map(|(_, point)| *point).reduce(Point::with)
    }

    fn capture(&self) -> Option<Capture> {
        let summaries = &self.facts.captures;
        if self.points.is_empty() && summaries.is_empty() {
            return None;
        }
        let points: Vec<CapturePoint> = match summaries.is_empty() {
            true => self
                .points
                .values()
                .map(|point| point.describe(None))
                .collect(),
            false => summaries
                .iter()
                .map(|(first, summary)| match self.points_from(*first) {
                    Some(point) => point.describe(Some(summary)),
                    None => Point::unseen(summary),
                })
                .collect(),
        };
        let first = self
            .points
            .values()
            .map(|point| point.first)
            .min()
            .unwrap_or_default();
        let last = self
            .points
            .values()
            .map(|point| point.last)
            .max()
            .unwrap_or_default();
        let summaries = || self.facts.captures.iter().map(|(_, summary)| summary);
        let dropped = summaries().filter_map(|summary| summary.dropped);
        Some(Capture {
            packets: points.iter().map(|point| point.packets).sum(),
            bytes: match self.facts.captures.is_empty() {
                true => self.points.values().map(|point| point.bytes).sum(),
                false => summaries().map(|summary| summary.bytes).sum(),
            },
            start_ns: first.as_nanos(),
            end_ns: last.as_nanos(),
            dropped: dropped.reduce(|a, b| a + b),
            truncated: summaries().map(|summary| summary.cut_records).sum(),
            points,
        })
    }
}

/// What must be known of a capture's oddities, each with its id.
fn remarks(tallied: &Tallied, segments: u64, max: usize) -> Vec<(&'static str, String)> {
    let Tallied {
        connections,
        evicted,
        one_sided,
        copies,
    } = *tallied;
    let mut list = Vec::new();
    if evicted > 0 {
        list.push(("connections-given-up", format!(
            "{evicted} of {connections} connections were closed early, those idle longest first, because more than {max} were open at a time: what came later on them counts as another connection's."
        )));
    }
    if copies > 0 {
        list.push(("duplicate-packets", format!(
            "{copies} of {segments} TCP packets are copies of others: the capture saw them on several devices (`any`, a bridge, a mirror port), or those of both ends were merged into one file. Only the first copy of each counts. Merged captures are better analysed as two files."
        )));
    }
    if one_sided > 0 {
        list.push(("one-direction", format!(
            "{one_sided} of {connections} connections were seen in one direction only: what their other end did, and so what its time went to, is not in the capture. Capture where both directions pass."
        )));
    }
    list
}

impl Point {
    fn new(at: Timestamp) -> Self {
        Self {
            segments: 0,
            bytes: 0,
            first: at,
            last: at,
            connections: 0,
            near: [0; 3],
        }
    }

    #[inline]
    fn count(&mut self, segment: &Segment) {
        self.segments += 1;
        self.bytes += u64::from(segment.payload_len);
        self.first = self.first.min(segment.at);
        self.last = self.last.max(segment.at);
    }

    fn count_connection(&mut self, near: usize) {
        self.connections += 1;
        if let Some(count) = self.near.get_mut(near) {
            *count += 1;
        }
    }

    /// Both together.
    fn with(self, other: Self) -> Self {
        let [a, b, c] = self.near;
        let [d, e, f] = other.near;
        Self {
            segments: self.segments + other.segments,
            bytes: self.bytes + other.bytes,
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            connections: self.connections + other.connections,
            near: [a + d, b + e, c + f],
        }
    }

    fn describe(&self, summary: Option<&CaptureSummary>) -> CapturePoint {
        CapturePoint {
            name: summary.map(|s| s.name.clone()).unwrap_or_default(),
            packets: summary.map_or(self.segments, |s| s.packets),
            undecoded: summary.map_or(0, |s| s.undecoded),
            connections: self.connections,
            vantage: self.vantage().to_owned(),
            damage: summary.and_then(|s| s.damage.clone()),
        }
    }

    fn unseen(summary: &CaptureSummary) -> CapturePoint {
        CapturePoint {
            name: summary.name.clone(),
            packets: summary.packets,
            undecoded: summary.undecoded,
            connections: 0,
            vantage: "unknown".to_owned(),
            damage: summary.damage.clone(),
        }
    }

    /// Where most connections say the point stands.
    fn vantage(&self) -> &'static str {
        let [client, server, neither] = self.near;
        let most = client.max(server).max(neither);
        match most {
            0 => "unknown",
            _ if client == most => "client",
            _ if server == most => "server",
            _ => "middle",
        }
    }
}

impl fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analyzer")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
