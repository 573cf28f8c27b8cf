//! The fold from observations to a report.

use core::fmt;
use std::collections::BTreeMap;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::conclude::{self, Evidence};
use crate::connection::{Closed, Setup};
use crate::connections::{Collected, ConnectionSink, Wanted};
use crate::decode::Packet;
use crate::event::{CaptureSummary, Event, EventBody, Phase, PointId, TargetId};
use crate::exchange::Exchange;
use crate::experiment::Experiment;
use crate::facts::Facts;
use crate::flow::{Endpoint, FlowKey, Transport};
use crate::icmp::IcmpError;
use crate::report::{Capture, CapturePoint, Report};
use crate::segment::Segment;
use crate::service::Service;
use crate::shard::{self, LINGER, SHARDS, Shard};
use crate::time::Timestamp;

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
    /// Which connections' numbers the report is to have.
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
    shards: Vec<Shard>,
    /// Beside each shard, what its connections' servers amount to.
    services: Vec<Services>,
    facts: Facts,
    /// Phases of our own flows, each from an instant on.
    phases: HashMap<FlowKey, Vec<(Timestamp, Phase)>, SeedableRandomState>,
    points: BTreeMap<PointId, Point>,
    /// Connections one by one, if they are wanted.
    collected: Collected,
    /// When idle connections are next looked for, by trace time: in all shards
    /// at once, for what shares a shard depends on the seed.
    next_sweep: Timestamp,
    sink: Option<Sink>,
}

/// What one observation point delivered.
#[derive(Clone, Copy, Debug)]
struct Point {
    segments: u64,
    bytes: u64,
    first: Timestamp,
    last: Timestamp,
    connections: u64,
    /// Connections seen from the client's side, the server's, and neither.
    near: [u64; 3],
}

impl Analyzer {
    /// An analyzer that has seen nothing.
    pub fn new(options: Options) -> Self {
        let hasher = shard::hasher(options.hash_seed);
        Self {
            shards: (0..SHARDS).map(|_| Shard::new(hasher.clone())).collect(),
            services: (0..SHARDS).map(|_| Services::new()).collect(),
            facts: Facts::default(),
            phases: HashMap::with_hasher(hasher.clone()),
            points: BTreeMap::new(),
            collected: Collected::new(options.connections, hasher.clone()),
            next_sweep: Timestamp::MIN,
            sink: None,
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
            Packet::Other => {}
        }
    }

    /// Takes in what a router or host says about a packet of a flow.
    pub fn icmp(&mut self, error: &IcmpError) {
        let place = shard::place(&self.hasher, &error.flow);
        if let Some(shard) = self.shards.get_mut(place) {
            shard.take_icmp(error);
        }
    }

    /// Takes in one TCP segment and as much of its payload as was captured.
    /// Segments of one point come in its order.
    pub fn segment(&mut self, segment: &Segment, payload: &[u8]) {
        self.count(segment);
        self.sweep(segment.at);
        let mut closed = Closed::default();
        let place = shard::place(&self.hasher, &segment.flow);
        if let Some(shard) = self.shards.get_mut(place) {
            shard.take(segment, payload, &mut self.collected, &mut closed);
        }
        self.fold(place, &closed);
        self.collected.take(core::mem::take(&mut closed.watched));
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
        let shards = core::mem::take(&mut self.shards).into_iter();
        let closed = shards.map(|shard| {
            let mut closed = Closed::default();
            shard.finish(&mut closed);
            closed
        });
        let closed: Vec<Closed> = closed.collect();
        self.fold_all(closed);
        let capture = self.capture();
        let connections = self.collected.finish();
        let mut services = Services::new();
        for (endpoint, service) in self.services.into_iter().flatten() {
            services.entry(endpoint).or_default().merge(service);
        }
        conclude::conclude(Evidence {
            targets: self.options.targets,
            services,
            facts: self.facts,
            capture,
            connections,
        })
    }

    fn count(&mut self, segment: &Segment) {
        let point = self.points.entry(segment.point).or_insert(Point {
            segments: 0,
            bytes: 0,
            first: segment.at,
            last: segment.at,
            connections: 0,
            near: [0; 3],
        });
        point.segments += 1;
        point.bytes += u64::from(segment.payload_len);
        point.first = point.first.min(segment.at);
        point.last = point.last.max(segment.at);
    }

    /// Looks for idle connections once in a while, also after stamps that
    /// jumped far ahead and back.
    fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep && self.next_sweep.since(now) <= LINGER {
            return;
        }
        self.next_sweep = now + LINGER / 2;
        let closed = self.shards.iter_mut().map(|shard| {
            let mut closed = Closed::default();
            shard.sweep(now, &mut closed);
            closed
        });
        let closed: Vec<Closed> = closed.collect();
        self.fold_all(closed);
    }

    /// Folds what was closed in every shard at once; the sink gets it in an
    /// order that does not depend on the shards.
    fn fold_all(&mut self, mut closed: Vec<Closed>) {
        self.collected.take_all(&mut closed);
        let sink = self.sink.take();
        for (place, closed) in closed.iter().enumerate() {
            self.fold(place, closed);
        }
        self.sink = sink;
        if let Some(sink) = &mut self.sink {
            let mut exchanges: Vec<&Exchange> =
                closed.iter().flat_map(|closed| &closed.exchanges).collect();
            exchanges.sort_by_key(|x| (x.begin, x.point, x.client, x.server, x.ordinal));
            exchanges.into_iter().for_each(sink);
        }
    }

    fn fold(&mut self, place: usize, closed: &Closed) {
        for setup in &closed.setups {
            self.fold_setup(place, setup);
        }
        for exchange in &closed.exchanges {
            if let Some(sink) = &mut self.sink {
                sink(exchange);
            }
            let phase = self.phase(exchange.client, exchange.server, exchange.begin);
            if phase == Phase::Baseline && self.is_meant(exchange.server) {
                if let Some(service) = self.service(place, exchange.server) {
                    service.take(exchange);
                }
            }
        }
        for &(point, near) in &closed.connections {
            if let Some(point) = self.points.get_mut(&point) {
                point.connections += 1;
                if let Some(count) = point.near.get_mut(near) {
                    *count += 1;
                }
            }
        }
    }

    fn fold_setup(&mut self, place: usize, setup: &Setup) {
        let (Some((client, server)), Some(begin)) = (setup.ends, setup.begin) else {
            return;
        };
        let phase = self.phase(client, server, begin);
        // A connection made while warming up is one like the others.
        let counts = matches!(phase, Phase::Baseline | Phase::WarmUp);
        if counts && self.is_meant(server) {
            if let Some(service) = self.service(place, server) {
                service.take_setup(setup);
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
            false => (0_u16..)
                .zip(summaries)
                .map(|(id, summary)| match self.points.get(&PointId(id)) {
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
        let dropped = summaries.iter().filter_map(|summary| summary.dropped);
        Some(Capture {
            packets: points.iter().map(|point| point.packets).sum(),
            bytes: match summaries.is_empty() {
                true => self.points.values().map(|point| point.bytes).sum(),
                false => summaries.iter().map(|summary| summary.bytes).sum(),
            },
            start_ns: first.as_nanos(),
            end_ns: last.as_nanos(),
            dropped: dropped.reduce(|a, b| a + b),
            truncated: summaries.iter().map(|summary| summary.cut_records).sum(),
            points,
        })
    }
}

impl Point {
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
