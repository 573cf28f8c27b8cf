//! A shard: a part of the flows, and the figures of their servers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use super::closed::{ClosedBatch, ClosedItem, ClosedRecord};
use super::ingress::Routed;
use super::points::Vantages;
use super::services::{BATCH, Services};
use crate::cause::service::Service;
use crate::connection::table::{Arrived, Table, Tallied};
use crate::connection::{Closed, Setup};
use crate::exchange::Exchange;
use crate::facts::{Facts, Hosts, WatchedStream};
use crate::observed::event::{Phase, TargetId, Upstream};
use crate::observed::flow::{Direction, Endpoint, FlowKey, Transport};
use crate::observed::icmp::IcmpError;
use crate::observed::kernel_span::RequestSpan;
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;
use crate::service::kernel_join::Waiting;
use crate::stats::Merge;
use crate::views::picture::Collector;

/// Maximum number of flows whose phase is stored.
const MAX_FLOWS: usize = 1 << 20;

/// Maximum number of upstreams whose exchanges are counted.
const MAX_UPSTREAMS: usize = 64;

/// Facts that all shards read and none of them changes.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) facts: Facts,
    /// Phases of our own flows, each with its start time.
    phases: HashMap<FlowKey, Vec<(Timestamp, Phase)>, SeedableRandomState>,
    targets: Vec<(TargetId, Endpoint)>,
    /// The upstreams of the targets' programs.
    upstreams: Vec<Upstream>,
    /// Ports that are known to belong only to services.
    ports: Vec<u16>,
    /// True if the kernel has timed requests of our own flows.
    has_own_turns: bool,
}

/// A part of the flows, and the figures of their servers.
#[derive(Debug)]
pub(super) struct Shard {
    connections: Table,
    pub(super) services: Services,
    pub(super) hosts: Hosts,
    pub(super) vantages: Vantages,
    /// Turns of the shard's flows whose exchanges have not closed yet, and passages.
    pub(super) waiting: Waiting,
    /// The closed exchanges of watched connections on which requests overtake each other.
    pub(super) streams: Vec<WatchedStream>,
    /// Exchanges and connections that closed and are not counted yet.
    closed: Closed,
    /// True if individual exchanges are requested.
    pub(super) tells_exchanges: bool,
    /// True if the figures of connections are requested.
    pub(super) is_collecting: bool,
    pub(super) undelivered: Vec<ClosedRecord>,
    /// The data of exchanges for a picture, if one is requested.
    pub(super) picture: Option<Box<Collector>>,
    /// Number of requests of other clients to the subject during an observed load.
    foreign: u64,
}

/// The sum of the figures of several shards.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) services: BTreeMap<Endpoint, Service>,
    pub(super) vantages: Vantages,
    pub(super) hosts: Hosts,
    pub(super) tallied: Tallied,
    /// Turns whose exchanges never closed. It is empty until the input has ended.
    pub(super) waiting: Waiting,
    /// The data of exchanges for a picture, of each shard, if one is requested. They are merged when
    /// the picture is drawn: a running watch waits while they are copied, and not for more.
    pub(super) pictures: Vec<Collector>,
    /// Number of requests of other clients to the subject during an observed load.
    pub(super) foreign: u64,
}

/// Processes one shard of the flows. Several workers may run in parallel.
#[derive(Debug)]
pub struct Worker<'a> {
    shard: &'a mut Shard,
    common: &'a Common,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shard: &'a mut Shard, common: &'a Common) -> Self {
        Self { shard, common }
    }

    /// Returns the exchanges and connections that closed since the last call.
    pub fn take_closed(&mut self) -> ClosedBatch {
        self.shard.fold_left(self.common);
        ClosedBatch(core::mem::take(&mut self.shard.undelivered))
    }

    /// Processes one segment of the shard's flows, in order. What it closes is complete after
    /// [`take_closed`](Self::take_closed).
    #[inline]
    pub fn segment(&mut self, segment: &Segment, payload: &[u8], routed: Routed) {
        let shard = &mut *self.shard;
        let (ordinal, before) = (routed.ordinal, shard.closed.exchanges.len());
        shard.take_in(self.common, segment, payload, routed);
        if shard.is_fold_due() {
            // What earlier segments closed comes first, as if it had not been left.
            shard.fold_exchanges(self.common, ordinal, before);
            shard.fold_closed(self.common, ordinal);
        }
    }

    /// Processes an ICMP error about a packet of one of the shard's flows.
    pub fn icmp(&mut self, error: &IcmpError) {
        self.shard.icmp(error);
    }

    /// Closes all connections at the end of the input.
    pub fn close(&mut self) {
        self.shard.close(self.common);
    }
}

impl Common {
    pub(super) fn new(
        targets: Vec<(TargetId, Endpoint)>,
        ports: Vec<u16>,
        phases: HashMap<FlowKey, Vec<(Timestamp, Phase)>, SeedableRandomState>,
    ) -> Self {
        Self {
            facts: Facts::default(),
            phases,
            targets,
            upstreams: Vec::new(),
            ports,
            has_own_turns: false,
        }
    }

    /// Returns the direction in which the client sends, if the service ports alone determine it.
    #[inline]
    fn client_of(&self, segment: &Segment) -> Option<Direction> {
        if self.ports.is_empty() {
            return None;
        }
        let serves = |end: Endpoint| self.ports.contains(&end.port);
        let from = serves(segment.flow.source(segment.direction));
        let to = serves(segment.flow.destination(segment.direction));
        match (from, to) {
            (false, true) => Some(segment.direction),
            (true, false) => Some(segment.direction.reverse()),
            _ => None,
        }
    }

    /// Records that the flow belongs to `phase` from `at` on.
    pub(super) fn begin_phase(&mut self, flow: FlowKey, at: Timestamp, phase: Phase) {
        if self.phases.len() < MAX_FLOWS || self.phases.contains_key(&flow) {
            self.phases.entry(flow).or_default().push((at, phase));
        }
    }

    /// Records an upstream that a target's program calls.
    pub(super) fn add_upstream(&mut self, upstream: Upstream) {
        if self.upstreams.len() < MAX_UPSTREAMS && !self.upstreams.contains(&upstream) {
            self.upstreams.push(upstream);
        }
    }

    /// Returns true if an exchange is counted. Of the exchanges of upstreams, those are that begin
    /// during the observed load and come from the target's host.
    fn counts_exchange(&self, exchange: &Exchange) -> bool {
        let (client, server) = (exchange.id.client, exchange.id.server);
        let called = Upstream {
            caller: client.addr,
            endpoint: server,
        };
        if self.upstreams.contains(&called) {
            return self.facts.loads.is_observed(exchange.begin);
        }
        self.is_meant(server)
            && !(self.knows_flows() && self.is_unknown(client, server))
            && self.phase(client, server, exchange.begin) == Phase::Baseline
    }

    /// Returns true if the exchange is a request of another client to the subject while the load was
    /// observed.
    fn is_foreign(&self, exchange: &Exchange) -> bool {
        let (client, server) = (exchange.id.client, exchange.id.server);
        self.knows_flows()
            && self.is_unknown(client, server)
            && self.is_subject(server)
            && self.facts.loads.is_observed(exchange.begin)
    }

    /// Returns true if all flows of an investigation's load are known.
    fn knows_flows(&self) -> bool {
        !self.targets.is_empty() && !self.phases.is_empty() && self.phases.len() < MAX_FLOWS
    }

    fn is_unknown(&self, client: Endpoint, server: Endpoint) -> bool {
        let (flow, _) = FlowKey::new(Transport::Tcp, client, server);
        !self.phases.contains_key(&flow)
    }

    fn is_meant(&self, server: Endpoint) -> bool {
        let targets = &self.targets;
        targets.is_empty() || targets.iter().any(|(_, endpoint)| *endpoint == server)
    }

    /// Returns true if the report's figures are about this server.
    fn is_subject(&self, server: Endpoint) -> bool {
        self.targets.is_empty() || self.targets.contains(&(TargetId::Subject, server))
    }

    /// Returns the server to which a connection was opened, if the connection is counted.
    fn server_made(&self, setup: &Setup) -> Option<Endpoint> {
        let (client, server) = setup.ends?;
        let phase = self.phase(client, server, setup.begin?);
        // A connection opened during warm-up is counted like any other.
        let counts = matches!(phase, Phase::Baseline | Phase::WarmUp);
        Some(server).filter(|_| counts && self.is_meant(server))
    }

    /// Returns true if a turn is counted.
    ///
    /// The server's kernel may see other addresses than we do: requests of unknown flows are those of
    /// other clients only if it has timed some of ours.
    pub(super) fn counts(&mut self, turn: &RequestSpan) -> bool {
        if !self.is_meant(turn.local) {
            return false;
        }
        if self.knows_flows() {
            let is_own = !self.is_unknown(turn.remote, turn.local);
            self.has_own_turns |= is_own;
            if self.has_own_turns && !is_own {
                return false;
            }
        }
        self.phase(turn.remote, turn.local, turn.arrived) == Phase::Baseline
    }

    fn phase(&self, client: Endpoint, server: Endpoint, at: Timestamp) -> Phase {
        match self.phase_of_flow(client, server, at) {
            None => Phase::Baseline,
            Some(phase) if self.facts.loads.covers(phase, at) => phase,
            // Traffic of our own flows outside their phase is not counted.
            Some(_) => Phase::WarmUp,
        }
    }

    /// Returns the phase for which one of our own flows was opened.
    fn phase_of_flow(&self, client: Endpoint, server: Endpoint, at: Timestamp) -> Option<Phase> {
        if self.phases.is_empty() {
            return None;
        }
        let (flow, _) = FlowKey::new(Transport::Tcp, client, server);
        let phases = self.phases.get(&flow)?;
        let since = phases.iter().rev().find(|(since, _)| *since <= at);
        let phase = since.or(phases.first()).map(|&(_, phase)| phase);
        Some(phase.unwrap_or_default())
    }

    /// Returns true if an exchange began during warm-up and was still open when the baseline began.
    fn reaches_baseline(&self, exchange: &Exchange) -> bool {
        let phase = self.phase_of_flow(exchange.id.client, exchange.id.server, exchange.begin);
        let reaches = |phase| {
            self.facts
                .loads
                .begins_within(phase, exchange.begin, exchange.end)
        };
        phase == Some(Phase::Baseline)
            && self.is_meant(exchange.id.server)
            && reaches(Phase::Baseline)
    }
}

impl Sum {
    /// Returns the data for a picture, of all shards.
    pub(super) fn take_picture(&mut self) -> Option<Collector> {
        let pictures = core::mem::take(&mut self.pictures).into_iter();
        pictures.reduce(|mut sum, other| {
            sum.merge(other);
            sum
        })
    }

    fn add_services(&mut self, services: impl Iterator<Item = (Endpoint, Service)>) {
        for (endpoint, service) in services {
            match self.services.entry(endpoint) {
                Entry::Vacant(place) => {
                    place.insert(service);
                }
                Entry::Occupied(mut place) => place.get_mut().merge(service),
            }
        }
    }

    fn add_rest(&mut self, vantages: &Vantages, hosts: Hosts, tallied: Tallied) {
        for (&point, counts) in vantages {
            self.vantages.entry(point).or_default().merge(*counts);
        }
        self.hosts.merge(hosts);
        self.tallied.merge(tallied);
    }
}

impl Shard {
    pub(super) fn new(hasher: SeedableRandomState, max: usize, is_collecting: bool) -> Self {
        Self {
            services: Services::new(hasher.clone()),
            connections: Table::new(hasher, max),
            hosts: Hosts::default(),
            vantages: Vantages::new(),
            waiting: Waiting::default(),
            streams: Vec::new(),
            closed: Closed::default(),
            tells_exchanges: false,
            is_collecting,
            undelivered: Vec::new(),
            picture: None,
            foreign: 0,
        }
    }

    #[inline]
    pub(super) fn segment(
        &mut self,
        common: &Common,
        segment: &Segment,
        payload: &[u8],
        routed: Routed,
    ) {
        let ordinal = routed.ordinal;
        self.take_in(common, segment, payload, routed);
        if self.closed.has_unreported() {
            self.fold_closed(common, ordinal);
        }
    }

    #[inline(always)]
    fn take_in(&mut self, common: &Common, segment: &Segment, payload: &[u8], routed: Routed) {
        let arrived = Arrived {
            id: routed.ordinal,
            stream: self.is_collecting.then_some(routed.stream),
            approach: routed.approach,
            shares_counter: routed.sender.shares_counter,
            tick_ns: routed.sender.tick_ns,
            client: common.client_of(segment),
            likely_client: routed.client,
        };
        self.connections
            .observe_segment(segment, payload, arrived, &mut self.closed);
    }

    /// Returns true if what closed has to be folded now. Exchanges alone are left until there is a
    /// batch of them: the code that segments pass fits into the processor's cache without theirs.
    #[inline]
    fn is_fold_due(&self) -> bool {
        let is_told = self.tells_exchanges && self.closed.has_unreported();
        is_told || self.closed.has_more_than_exchanges() || self.closed.exchanges.len() >= BATCH
    }

    /// Folds the exchanges that were left.
    fn fold_left(&mut self, common: &Common) {
        if self.closed.has_unreported() {
            self.fold_closed(common, 0);
        }
    }

    pub(super) fn icmp(&mut self, error: &IcmpError) {
        self.connections.take_icmp(error);
    }

    /// Closes all connections.
    pub(super) fn close(&mut self, common: &Common) {
        self.fold_left(common);
        for open in self.connections.drain() {
            let id = self.connections.close(open, &mut self.closed);
            self.fold_closed(common, id);
        }
        self.count_closed();
    }

    /// Counts the exchanges and connections that closed and are not counted yet.
    pub(super) fn count_closed(&mut self) {
        let closed = &mut self.closed;
        self.services
            .count_closed(&closed.exchanges, &closed.setups);
        closed.forget_counted();
    }

    /// Adds the figures so far. Items that are not counted yet are missing.
    pub(super) fn add_to(&self, sum: &mut Sum) {
        let services = self.services.iter();
        sum.add_services(services.map(|(at, service)| (at, service.clone())));
        sum.add_rest(
            &self.vantages,
            self.hosts.clone(),
            self.connections.tallied(),
        );
        sum.foreign += self.foreign;
    }

    /// Adds the figures of a shard at the end of the input.
    pub(super) fn end_in(self, sum: &mut Sum) {
        let tallied = self.connections.tallied();
        let services = self.services.into_iter();
        sum.add_services(services.map(|(at, service)| (at, *service)));
        sum.add_rest(&self.vantages, self.hosts, tallied);
        sum.foreign += self.foreign;
        sum.waiting.merge(self.waiting);
        sum.pictures.extend(self.picture.map(|picture| *picture));
    }

    pub(super) fn has_undelivered(&self) -> bool {
        !self.undelivered.is_empty()
    }

    /// Passes on the exchanges and connections that closed with packet `ordinal`.
    fn fold_closed(&mut self, common: &Common, ordinal: u64) {
        self.fold_setups(common);
        self.fold_exchanges(common, ordinal, usize::MAX);
        self.fold_transfers(common);
        let closed = &mut self.closed;
        for &(server, ttl) in &closed.servers {
            self.hosts.take_ttl(server, ttl);
        }
        for &(id, vantage) in &closed.connections {
            self.vantages.entry(id).or_default().count(vantage);
        }
        for watched in closed.watched.drain(..) {
            let item = ClosedItem::Connection(watched);
            self.undelivered.push(ClosedRecord { ordinal, item });
        }
        closed.forget_reported();
        if self.services.is_due() {
            self.count_closed();
        }
    }

    /// Passes on the closed exchanges before the one at `until`.
    fn fold_exchanges(&mut self, common: &Common, ordinal: u64, until: usize) {
        let (taken, _) = self.services.taken();
        let closed = self.closed.exchanges.iter_mut();
        for exchange in closed.take(until).skip(taken) {
            let is_denied = self.waiting.deny(exchange);
            let counts = !is_denied && common.counts_exchange(exchange);
            let place = if counts {
                self.services.place(exchange.id.server)
            } else {
                None
            };
            self.services.queue_exchange(place);
            if is_denied {
                continue;
            }
            if !counts && common.reaches_baseline(exchange) {
                self.services.take_early(exchange);
            }
            self.foreign += u64::from(common.is_foreign(exchange));
            if let Some(place) = place
                && let Some(served) = self.services.served(place)
            {
                let span = self.waiting.take_span(exchange);
                if exchange.signs.stream.is_read && self.waiting.has_passages() {
                    let has_latency = exchange.outcome.has_latency();
                    self.streams.push(WatchedStream {
                        latency: has_latency.then(|| exchange.latency()),
                        span: span.clone().filter(|_| has_latency),
                    });
                }
                served.join(exchange, span.as_ref());
            }
            if let Some(picture) = &mut self.picture
                && place.is_some()
                && common.is_subject(exchange.id.server)
            {
                picture.add_exchange(exchange);
            }
            if self.tells_exchanges {
                let item = ClosedItem::Exchange(Box::new(exchange.clone()));
                self.undelivered.push(ClosedRecord { ordinal, item });
            }
        }
    }

    /// Counts data transferred outside of exchanges, in a capture or on a watched server: a program
    /// may be waiting for it. An investigation (with targets) does not count it. It waits only for
    /// the responses to its own HTTP requests, which are exchanges, and other traffic of the server
    /// is not part of its figures.
    fn fold_transfers(&mut self, common: &Common) {
        for transfer in &self.closed.transfers {
            if common.targets.is_empty() {
                self.services.take_transfer(transfer);
            }
        }
        for dead_peer in &self.closed.dead_peers {
            if common.targets.is_empty() {
                self.services.take_dead_peer(dead_peer);
            }
        }
        for &(server, trip) in &self.closed.fin_trips {
            if common.targets.is_empty() {
                self.services.take_fin_trip(server, trip);
            }
        }
    }

    fn fold_setups(&mut self, common: &Common) {
        let (_, taken) = self.services.taken();
        for setup in self.closed.setups.iter().skip(taken) {
            let place = match common.server_made(setup) {
                Some(server) => {
                    self.hosts.add_setup(setup, server);
                    self.services.place(server)
                }
                None => None,
            };
            self.services.take_setup(place);
        }
    }
}
