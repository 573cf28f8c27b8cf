//! A share of the flows, and what their servers amount to.

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::entrance::Admission;
use super::points::Vantages;
use crate::connection::{Closed, Setup, Watched};
use crate::event::{Phase, TargetId};
use crate::exchange::Exchange;
use crate::facts::{Facts, Hosts};
use crate::flow::{Endpoint, FlowKey, Transport};
use crate::icmp::IcmpError;
use crate::quic;
use crate::segment::Segment;
use crate::service::Service;
use crate::table::{Arrived, Table, Tallied};
use crate::time::Timestamp;

/// Services told apart in each shard; a capture of a port scan has no more worth naming.
const MAX_SERVICES: usize = 256;
/// Flows whose phase is remembered.
const MAX_FLOWS: usize = 1 << 20;

/// Services by address and port.
type Services = HashMap<Endpoint, Box<Service>, SeedableRandomState>;

/// What all shards know and none changes.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) facts: Facts,
    /// Phases of our own flows, each from an instant on.
    phases: HashMap<FlowKey, Vec<(Timestamp, Phase)>, SeedableRandomState>,
    targets: Vec<(TargetId, Endpoint)>,
}

/// A share of the flows.
#[derive(Debug)]
pub(super) struct Shard {
    connections: Table,
    pub(super) services: Services,
    pub(super) hosts: Hosts,
    pub(super) vantages: Vantages,
    /// What the segment at hand closed; kept for its memory.
    closed: Closed,
    /// Whether somebody wants to see exchanges one by one.
    pub(super) tells_exchanges: bool,
    /// Whether connections' numbers are wanted.
    pub(super) is_collecting: bool,
    pub(super) told: Vec<Told>,
}

/// Something that somebody wants to see.
#[derive(Debug)]
pub(super) struct Told {
    /// Number of the packet that it came with; of its connection's first one
    /// at the end of everything.
    pub(super) ordinal: u64,
    pub(super) news: News,
}

#[derive(Debug)]
pub(super) enum News {
    Exchange(Box<Exchange>),
    Connection(Watched),
    Quic(Box<quic::Flow>),
}

/// What a worker has to tell: exchanges and connections that closed.
#[derive(Debug, Default)]
pub struct Tidings(pub(super) Vec<Told>);

/// Works on one share of the flows; several may at the same time.
#[derive(Debug)]
pub struct Worker<'a> {
    shard: &'a mut Shard,
    common: &'a Common,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shard: &'a mut Shard, common: &'a Common) -> Self {
        Self { shard, common }
    }

    /// What it has to tell since it was last asked.
    pub fn tidings(&mut self) -> Tidings {
        Tidings(core::mem::take(&mut self.shard.told))
    }

    /// Takes in one segment of its flows, in their order.
    #[inline]
    pub fn segment(&mut self, segment: &Segment, payload: &[u8], admission: Admission) {
        self.shard.segment(self.common, segment, payload, admission);
    }

    /// Takes in what a router or host says about a packet of one of its flows.
    pub fn icmp(&mut self, error: &IcmpError) {
        self.shard.icmp(error);
    }

    /// Closes all connections: no more packets come.
    pub fn close(&mut self) {
        self.shard.close(self.common);
    }
}

impl Common {
    pub(super) fn new(
        targets: Vec<(TargetId, Endpoint)>,
        phases: HashMap<FlowKey, Vec<(Timestamp, Phase)>, SeedableRandomState>,
    ) -> Self {
        Self {
            facts: Facts::default(),
            phases,
            targets,
        }
    }

    /// The flow is of this phase from then on.
    pub(super) fn begin_phase(&mut self, flow: FlowKey, at: Timestamp, phase: Phase) {
        if self.phases.len() < MAX_FLOWS || self.phases.contains_key(&flow) {
            self.phases.entry(flow).or_default().push((at, phase));
        }
    }

    fn is_meant(&self, server: Endpoint) -> bool {
        let targets = &self.targets;
        targets.is_empty() || targets.iter().any(|(_, endpoint)| *endpoint == server)
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
}

impl Shard {
    pub(super) fn new(hasher: SeedableRandomState, max: usize, is_collecting: bool) -> Self {
        Self {
            services: Services::with_hasher(hasher.clone()),
            connections: Table::new(hasher, max),
            hosts: Hosts::default(),
            vantages: Vantages::new(),
            closed: Closed::default(),
            tells_exchanges: false,
            is_collecting,
            told: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn segment(
        &mut self,
        common: &Common,
        segment: &Segment,
        payload: &[u8],
        admission: Admission,
    ) {
        let ordinal = admission.ordinal;
        let arrived = Arrived {
            id: ordinal,
            stream: self.is_collecting.then_some(admission.stream),
            approach: admission.approach,
        };
        self.connections
            .take(segment, payload, arrived, &mut self.closed);
        if !self.closed.is_empty() {
            self.fold_closed(common, ordinal);
        }
    }

    pub(super) fn icmp(&mut self, error: &IcmpError) {
        self.connections.take_icmp(error);
    }

    /// Closes all connections.
    pub(super) fn close(&mut self, common: &Common) {
        for open in self.connections.drain() {
            let id = self.connections.close(open, &mut self.closed);
            self.fold_closed(common, id);
        }
    }

    pub(super) fn tallied(&self) -> Tallied {
        self.connections.tallied()
    }

    pub(super) fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// Sums up what closed, and forgets it.
    fn fold_closed(&mut self, common: &Common, ordinal: u64) {
        self.fold(common);
        let told = &mut self.told;
        let mut tell = |news| told.push(Told { ordinal, news });
        let closed = &mut self.closed;
        if self.tells_exchanges {
            for exchange in closed.exchanges.drain(..) {
                tell(News::Exchange(Box::new(exchange)));
            }
        }
        if !closed.watched.is_empty() {
            let watched = closed.watched.drain(..);
            watched.for_each(|watched| tell(News::Connection(watched)));
        }
        closed.clear();
    }

    fn fold(&mut self, common: &Common) {
        let closed = &self.closed;
        for setup in &closed.setups {
            fold_setup(setup, common, &mut self.services, &mut self.hosts);
        }
        for exchange in &closed.exchanges {
            let phase = common.phase(exchange.client, exchange.server, exchange.begin);
            if phase == Phase::Baseline && common.is_meant(exchange.server) {
                if let Some(service) = service(&mut self.services, exchange.server) {
                    service.take(exchange);
                }
            }
        }
        for &(server, ttl) in &closed.servers {
            self.hosts.take_ttl(server, ttl);
        }
        for &(id, vantage) in &closed.connections {
            if let Some(count) = self.vantages.entry(id).or_default().get_mut(vantage) {
                *count += 1;
            }
        }
    }
}

fn fold_setup(setup: &Setup, common: &Common, services: &mut Services, hosts: &mut Hosts) {
    let (Some((client, server)), Some(begin)) = (setup.ends, setup.begin) else {
        return;
    };
    let phase = common.phase(client, server, begin);
    // A connection made while warming up is one like the others.
    let counts = matches!(phase, Phase::Baseline | Phase::WarmUp);
    if counts && common.is_meant(server) {
        hosts.take(setup, server);
        if let Some(service) = service(services, server) {
            service.take_setup(setup);
        }
    }
}

/// The server's service, as long as there is room for another.
fn service(services: &mut Services, server: Endpoint) -> Option<&mut Service> {
    let has_room = services.len() < MAX_SERVICES;
    match services.entry(server) {
        Entry::Occupied(service) => Some(service.into_mut()),
        Entry::Vacant(place) if has_room => Some(place.insert(Box::default())),
        Entry::Vacant(_) => None,
    }
}
