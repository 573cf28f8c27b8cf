//! The analysis: turns observations into a report.
//!
//! All packets first pass the [`Ingress`], which sees them in order. Each flow then belongs to one
//! of a few shards, which share no state: [`Analyzer::split`] lets several threads work on them.
//! The number of shards and the assignment of flows to shards depend neither on the threads nor on
//! the hash's seed.

mod clock;
mod closed;
mod counter;
mod hosts;
mod ingress;
mod local;
mod peers;
mod points;
mod ruler;
mod services;
mod shard;
mod stride;
#[cfg(test)]
mod tests;

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use hashbrown::HashMap;

pub use closed::ClosedBatch;
pub use ingress::{Ingress, Routed};
pub use shard::Worker;

use crate::cause::calls::CallTraces;
use crate::cause::evidence::human;
pub use crate::cause::far_side::FarSide;
use crate::cause::service::Service;
use crate::conclude::{self, Observations};
use crate::connection::Jumps;
use crate::connection::table::{MAX_CONNECTIONS, Tallied};
use crate::decode::Packet;
use crate::exchange::Exchange;
use crate::facts::Facts;
use crate::observed::datagram::{Datagram, Neighbour};
use crate::observed::event::{CaptureSummary, Event, EventBody, Note, Phase, PointId, TargetId};
use crate::observed::experiment::Experiment;
use crate::observed::flow::{self, Endpoint, FlowKey, Transport};
use crate::observed::icmp::{Echo, IcmpError};
use crate::observed::kernel_span::RequestSpan;
use crate::observed::passage::BytePassage;
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;
use crate::registry::Id;
use crate::report::{Picture, Report, counted};
use crate::service::far_names::FarNames;
use crate::stats::histogram::Distribution;
use crate::views::connections::{Collected, ConnectionSink, Wanted};
use crate::views::picture::{About, Collector, Keeps, SegmentStore};
use ingress::Seen;
use shard::{Common, Shard, Sum};

/// Number of shards among which the flows are distributed. With this many, two threads can share
/// the work evenly while one of them also reads the input. Merging so few shards at the end takes
/// little time.
const SHARDS: usize = 4;
/// Minimum capacity of each shard, in connections, if there is more than one shard.
const LEAST_SHARE: usize = 1024;

/// Settings of an analyzer.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seed of the flow tables' hashes. It is random, because the keys come from the network. The
    /// report does not depend on it.
    pub hash_seed: u64,
    /// The servers under investigation. Empty for captures, in which every server counts.
    pub targets: Vec<(TargetId, Endpoint)>,
    /// Ports that are known to belong to services. If a connection was already open when the
    /// capture began, the end with such a port is the server.
    pub service_ports: Vec<u16>,
    /// Maximum number of connections followed at one time, shared evenly among the shards. Beyond
    /// that, the connections that have been idle longest are dropped and counted. `None`: 49,152,
    /// about 100 MB.
    pub max_connections: Option<usize>,
    /// The connections whose figures are collected.
    pub connections: Wanted,
}

impl Options {
    fn max_connections(&self) -> usize {
        self.max_connections.unwrap_or(MAX_CONNECTIONS).max(1)
    }
}

/// Receives each exchange when it closes.
pub type Sink = Box<dyn FnMut(&Exchange) + Send>;

/// Processes segments and events, and makes one report at the end.
pub struct Analyzer {
    options: Options,
    common: Common,
    ingress: Ingress,
    shards: Vec<Shard>,
    far_side: Option<FarSide>,
}

impl Analyzer {
    /// Creates an analyzer without observations.
    pub fn new(options: Options) -> Self {
        let hasher = flow::hasher(options.hash_seed);
        let max = options.max_connections();
        let count = (max / LEAST_SHARE).clamp(1, SHARDS);
        let collected = Collected::new(options.connections, hasher.clone());
        let is_collecting = collected.is_wanted();
        let shard = |_| Shard::new(hasher.clone(), max / count, is_collecting);
        Self {
            common: Common::new(
                options.targets.clone(),
                options.service_ports.clone(),
                HashMap::with_hasher(hasher.clone()),
            ),
            shards: (0..count).map(shard).collect(),
            ingress: Ingress::new(count, collected, hasher.clone()),
            far_side: None,
            options,
        }
    }

    /// Passes every exchange to `sink` when it closes, in the order of closing.
    pub fn with_sink(mut self, sink: Sink) -> Self {
        self.ingress.set_sink(sink);
        for shard in &mut self.shards {
            shard.tells_exchanges = true;
        }
        self
    }

    /// Passes every connection's figures to `sink` when it ends or is no longer followed.
    pub fn with_connection_sink(mut self, sink: ConnectionSink) -> Self {
        self.ingress.set_connection_sink(sink);
        for shard in &mut self.shards {
            shard.is_collecting = true;
        }
        self
    }

    /// Collects what a picture needs, which [`Analyzer::finish_with_picture`] and
    /// [`SoFar::conclude`] return.
    pub fn with_picture(mut self) -> Self {
        for (shard, number) in self.shards.iter_mut().zip(1..) {
            let hasher = flow::hasher(self.options.hash_seed.wrapping_add(number));
            shard.picture = Some(Box::new(Collector::new(hasher)));
        }
        self
    }

    /// Keeps segments for the packets of examples in the picture, where the input cannot be read a
    /// second time.
    pub fn with_packets(mut self, keeps: Keeps) -> Self {
        let store = SegmentStore::new(keeps, self.options.hash_seed);
        self.ingress.kept = Some(Box::new(store));
        self
    }

    /// Adds what a second capture of the same connections, nearer to the servers, shows.
    pub fn with_far_side(mut self, far_side: FarSide) -> Self {
        self.far_side = Some(far_side);
        self
    }

    /// Returns the parts for separate threads: the ingress, which sees all packets in order, and
    /// the workers, each of which sees the packets of its own flows in order. The workers' results
    /// must be [gathered](Ingress::gather) and [delivered](Ingress::deliver).
    pub fn split(&mut self) -> (&mut Ingress, Vec<Worker<'_>>) {
        let common = &self.common;
        let shards = self.shards.iter_mut();
        let workers = shards.map(|shard| Worker::new(shard, common)).collect();
        (&mut self.ingress, workers)
    }

    /// Processes one decoded packet. The packets of an observation point must be passed in the
    /// order in which it saw them.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        match packet {
            Packet::Tcp(segment, payload) => self.segment(segment, payload),
            Packet::Icmp(error) => self.icmp(error),
            Packet::Udp(datagram, payload) => self.datagram(datagram, payload),
            Packet::Echo(echo) => self.echo(echo),
            Packet::Neighbour(step) => self.neighbour(step),
            Packet::Other => {}
        }
    }

    /// Processes an ICMP error from a router or host about a packet of a flow.
    pub fn icmp(&mut self, error: &IcmpError) {
        let index = self.ingress.icmp(error);
        if let Some(shard) = self.shards.get_mut(index) {
            shard.icmp(error);
        }
    }

    /// Processes a ping, a ping reply, or an ICMP error about a ping.
    pub fn echo(&mut self, echo: &Echo) {
        self.ingress.echo(echo);
    }

    /// Processes one UDP datagram and the captured part of its payload.
    pub fn datagram(&mut self, datagram: &Datagram, payload: &[u8]) {
        self.ingress.datagram(datagram, payload);
        self.ingress.deliver(u64::MAX);
    }

    /// Processes a step of the resolution of a hardware address (ARP, NDP).
    pub fn neighbour(&mut self, step: &Neighbour) {
        self.ingress.neighbour(step);
    }

    /// Processes one TCP segment and the captured part of its payload. The segments of an
    /// observation point must be passed in the order in which it saw them.
    pub fn segment(&mut self, segment: &Segment, payload: &[u8]) {
        let routed = self.ingress.segment(segment, payload);
        if let Some(shard) = self.shards.get_mut(routed.shard()) {
            shard.segment(&self.common, segment, payload, routed);
            if shard.has_undelivered() {
                self.ingress.queue(shard.undelivered.drain(..));
                self.ingress.deliver(u64::MAX);
            }
            for stream in shard.streams.drain(..) {
                self.common.facts.turns.add_stream(&stream);
            }
        }
    }

    /// Processes any other observation.
    pub fn observe(&mut self, event: Event) {
        match event.body {
            EventBody::FlowPhase(flow) => self.common.begin_phase(flow, event.at, event.phase),
            EventBody::Turn(turn) => self.turn(&turn),
            EventBody::Passage(passage) => self.passage(*passage),
            EventBody::Upstream(upstream) => self.common.add_upstream(upstream),
            _ => self.common.facts.observe(event),
        }
    }

    /// Counts a turn, and keeps it until its exchange closes. Turns arrive before the packets that
    /// close their exchanges.
    fn turn(&mut self, turn: &RequestSpan) {
        if !self.common.counts(turn) {
            return;
        }
        self.common.facts.turns.add_turn(turn);
        let (flow, _) = FlowKey::new(Transport::Tcp, turn.remote, turn.local);
        let share = flow.share(self.shards.len());
        let is_endless = self.options.targets.is_empty();
        match self.shards.get_mut(share) {
            Some(shard) if is_endless => shard.waiting.put_watched(turn.clone()),
            Some(shard) => shard.waiting.put(turn.clone()),
            None => {}
        }
    }

    /// Keeps a passage for the exchanges of its connection.
    fn passage(&mut self, passage: BytePassage) {
        self.common.facts.turns.has_passages = true;
        let (flow, _) = FlowKey::new(Transport::Tcp, passage.remote, passage.local);
        let share = flow.share(self.shards.len());
        if let Some(shard) = self.shards.get_mut(share) {
            shard.waiting.put_passage(passage);
        }
    }

    /// Returns the durations of the requests so far on watched connections on which requests
    /// overtake each other. The kernel's counts do not contain them.
    pub fn watched_streams(&self) -> &Distribution {
        &self.common.facts.turns.streams
    }

    /// Returns the experiments that would distinguish the remaining causes, the most conclusive one
    /// first. The list is empty if nothing is slow.
    pub fn next_experiments(&mut self) -> Vec<Experiment> {
        self.shards.iter_mut().for_each(Shard::count_closed);
        let mut targets = self.options.targets.iter();
        let subject = targets.find(|(target, _)| *target == TargetId::Subject);
        let Some((_, endpoint)) = subject else {
            return Vec::new();
        };
        let shards = self.shards.iter();
        let services = shards.filter_map(|shard| shard.services.get(endpoint));
        conclude::next_experiments(&self.common.facts, services.map(|service| &service.ledger))
    }

    /// Returns a copy of the current state, from which a report can be made while more packets
    /// arrive. It contains all exchanges and connections that have closed. Copying takes about as
    /// long as making the report.
    pub fn so_far(&mut self) -> SoFar {
        let mut sum = Sum::default();
        for shard in &mut self.shards {
            shard.count_closed();
            shard.add_to(&mut sum);
        }
        let vantages = core::mem::take(&mut sum.vantages);
        SoFar {
            seen: self.ingress.so_far(vantages),
            facts: self.common.facts.clone(),
            options: self.options.clone(),
            far_side: None,
            kept: None,
            sum,
        }
    }

    /// Returns a copy of the current state, as [`Analyzer::so_far`] does, with the data for a picture
    /// if one was [requested](Analyzer::with_picture). They are bounded, and only copied here:
    /// merging and drawing them is left to [`SoFar::conclude`]. Most of the kept segments are shared
    /// with the copy.
    pub fn so_far_with_picture(&mut self) -> SoFar {
        let mut so_far = self.so_far();
        let collected = self
            .shards
            .iter()
            .filter_map(|shard| shard.picture.as_deref());
        so_far.sum.pictures.extend(collected.cloned());
        so_far.kept.clone_from(&self.ingress.kept);
        so_far
    }

    /// Makes and returns the report. The caller must fill in `command`, `subject` and `started`.
    pub fn finish(self) -> Report {
        self.finish_with_picture().0
    }

    /// Makes and returns the report, as [`Analyzer::finish`] does, and the picture if one was
    /// [requested](Analyzer::with_picture).
    pub fn finish_with_picture(self) -> (Report, Option<Picture>) {
        self.into_all().conclude()
    }

    /// Returns what the capture shows of the connections that another one contains as well, and of
    /// what their servers called. `near` translates it into the names and times of the other one.
    pub fn finish_far_side(self, near: &FarNames) -> FarSide {
        let all = self.into_all();
        let Seen { asked, local, .. } = &all.seen;
        let traces = CallTraces::of(&all.sum.services, &asked.waits, local);
        FarSide::new(&all.sum.services, &traces, near)
    }

    fn into_all(mut self) -> SoFar {
        self.close();
        let mut sum = Sum::default();
        for shard in self.shards {
            shard.end_in(&mut sum);
        }
        let vantages = core::mem::take(&mut sum.vantages);
        SoFar {
            kept: self.ingress.kept.take(),
            seen: self.ingress.finish(vantages),
            facts: self.common.facts,
            far_side: self.far_side,
            options: self.options,
            sum,
        }
    }

    /// Closes all connections at the end of the input, and passes what is left to the sinks. This is
    /// enough if no report is wanted.
    pub fn close(&mut self) {
        for shard in &mut self.shards {
            shard.close(&self.common);
            for stream in shard.streams.drain(..) {
                self.common.facts.turns.add_stream(&stream);
            }
            self.ingress.queue(shard.undelivered.drain(..));
        }
        self.ingress.deliver(u64::MAX);
    }
}

/// A copy of the state of an analyzer, from which a report can be made.
pub struct SoFar {
    options: Options,
    sum: Sum,
    seen: Seen,
    facts: Facts,
    far_side: Option<FarSide>,
    /// The segments from which the picture's packets are drawn.
    kept: Option<Box<SegmentStore>>,
}

impl SoFar {
    /// Makes and returns the report and the picture, as [`Analyzer::finish_with_picture`] does.
    pub fn conclude(mut self) -> (Report, Option<Picture>) {
        let mut picture = self.sum.take_picture();
        let (kept, hash_seed) = (self.kept.take(), self.options.hash_seed);
        let mut evidence = self.observations();
        let from_packets = conclude::complete_targets(&mut evidence, |target, exchange| {
            if let Some(picture) = picture.as_mut().filter(|_| target == TargetId::Subject) {
                picture.add_exchange(exchange);
            }
        });
        let sketch = picture.map(|picture| picture.sketch(About::of(&evidence, &from_packets)));
        let (mut report, passed_on) = conclude::conclude(evidence, &from_packets);
        let mut picture = sketch.map(|sketch| Picture {
            passed_on,
            ..sketch.finish(&report)
        });
        // Only the picture has the curves: a report must equal the one that is read from its JSON.
        let predictions = report
            .findings
            .iter_mut()
            .map(|finding| &mut finding.predicted);
        predictions
            .flatten()
            .for_each(|prediction| prediction.curve.clear());
        if let (Some(kept), Some(picture)) = (kept, &mut picture) {
            kept.show(&mut report, picture, hash_seed);
        }
        (report, picture)
    }

    fn observations(self) -> Observations {
        let Self {
            options,
            sum,
            seen,
            mut facts,
            far_side,
            ..
        } = self;
        facts.hosts.merge(sum.hosts);
        let max = options.max_connections();
        let told = remarks(&sum.tallied, seen.points.segments(), max);
        for (id, text) in told.into_iter().chain(secrets(&facts.captures)) {
            let id = id.to_owned();
            let body = EventBody::Note(Note { id, text });
            facts.observe(Event::here(Timestamp::MAX, Phase::Baseline, body));
        }
        facts.hosts.resolvers = seen.resolvers;
        facts.loads.foreign = sum.foreign;
        let (services, upstreams) = split(sum.services, &options.targets);
        Observations {
            targets: options.targets,
            services,
            upstreams,
            capture: seen.points.describe(&facts.captures),
            facts,
            silent: seen.silent,
            asked: seen.asked,
            local: seen.local,
            far_side,
            icmp: seen.icmp,
            waiting: sum.waiting,
            tallied: sum.tallied,
            connections: seen.connections,
            is_drawn: seen.is_drawn,
            is_at_one_pace: seen.is_at_one_pace,
        }
    }
}

/// Splits the services of an investigation into its targets and their upstreams. Every service of a
/// capture, which has no targets, counts as a target.
fn split(
    services: BTreeMap<Endpoint, Service>,
    targets: &[(TargetId, Endpoint)],
) -> (BTreeMap<Endpoint, Service>, BTreeMap<Endpoint, Service>) {
    let is_meant = |at: &Endpoint| targets.is_empty() || targets.iter().any(|(_, one)| one == at);
    services.into_iter().partition(|(at, _)| is_meant(at))
}

impl fmt::Debug for SoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoFar").finish_non_exhaustive()
    }
}

/// Returns a remark if the captures contain decryption keys. It warns whoever passes the files on.
fn secrets(captures: &[(PointId, CaptureSummary)]) -> Option<(&'static str, String)> {
    let holding = captures.iter().filter(|(_, summary)| summary.secrets > 0);
    let names: Vec<&str> = holding.map(|(_, each)| each.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        (
            "decryption-secrets",
            format!(
                "{names}: contains decryption secrets (such as keys of TLS sessions). Anybody who \
                 has the file can decrypt the traffic with them. lagtrace does not use them: it \
                 reads encrypted traffic only by the sizes and times of its records. A copy made \
                 with --annotate contains them too; `editcap --discard-all-secrets` removes them."
            ),
        )
    })
}

/// Returns the remark on jumps of the clock, forward and back.
fn set_clock(jumps: [Jumps; 2]) -> Option<String> {
    let [forward, back] = jumps.map(Jumps::told);
    let tell = |jump: Option<(u64, Duration, u64)>, way| {
        let (connections, most, first) = jump?;
        let number = counted(connections, "connection", "connections");
        Some(format!(
            "{way} by {} (on {number}, first at packet {first})",
            human(most)
        ))
    };
    let ways = [tell(forward, "forward"), tell(back, "back")];
    let ways: Vec<String> = ways.into_iter().flatten().collect();
    (!ways.is_empty()).then(|| {
        format!(
            "The clock of the capture was set while it ran, or its host stood still: the times jump \
             {}. Requests under way at that moment were left out. Times before and after it cannot \
             be compared, so rates and the capture's duration are wrong.",
            ways.join(" and ")
        )
    })
}

/// Returns the remarks on unusual properties of a capture, each with its id.
fn remarks(tallied: &Tallied, segments: u64, max: usize) -> Vec<(&'static str, String)> {
    let Tallied {
        connections,
        evicted,
        one_sided,
        copies,
        congested,
        marked,
        echoed,
        jumps,
        ..
    } = *tallied;
    let mut list = Vec::new();
    if evicted > 0 {
        list.push(("connections-given-up", format!(
            "{evicted} of {connections} connections were dropped early, those idle longest first, \
             because more than {max} were open at the same time, or their unanswered requests took \
             too much memory. Later packets on them count as new connections."
        )));
    }
    if copies > 0 {
        list.push((
            Id::DuplicatePackets.as_str(),
            format!(
                "{copies} of {segments} TCP packets are copies of others: the capture saw them on \
             several devices (`any`, a bridge, a mirror port), or captures of both ends were \
             merged into one file. Only the first copy of each counts. Merged captures are better \
             analysed as two files."
            ),
        ));
    }
    list.extend(set_clock(jumps).map(|text| ("capture-clock-set", text)));
    if congested > 0 {
        list.push(("congestion-marks", format!(
            "{congested} of {connections} connections had packets that the path marked (ECN CE: \
             {marked}) or that echo such marks (ECE: {echoed}): queues on the path grew, and the \
             marks slowed senders down before any packet was dropped."
        )));
    }
    if one_sided > 0 {
        list.push((
            "one-direction",
            format!(
                "{one_sided} of {connections} connections were seen in one direction only, so the \
             capture does not show how their time was spent. Capture at a point that both \
             directions pass."
            ),
        ));
    }
    list
}

impl fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analyzer")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
