//! Construction of the report from all observations.

mod account;
mod blank;
mod book;
pub(crate) mod bootstrap;
mod capacity;
mod captured_part;
mod claims;
mod client_timings;
mod connection;
mod consequence;
mod dead_peers;
mod display_filter;
mod exchanges;
mod extent;
mod failures;
mod full_links;
pub(crate) mod generator;
mod icmp_errors;
mod judge;
pub(crate) mod kernel_join;
mod layer;
mod layers;
mod limits;
mod lookups;
mod order;
mod outside;
mod overall;
mod packet_numbers;
mod probes;
mod queueing;
mod quic;
mod relate;
mod route;
mod scene;
mod secured;
mod sockets;
pub(crate) mod steadiness;
mod streams;
mod sweep;
mod tables;
mod watch;
mod witnesses;
pub(crate) mod word;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use connection::connection_record;
pub(crate) use display_filter::packets_filter;
pub(crate) use quic::quic_record;

use crate::cause::far_side::FarSide;
use crate::cause::service::Service;
use crate::cause::settings;
use crate::connection::table::Tallied;
use crate::exchange::Exchange;
use crate::exchange::wait::WaitKind;
use crate::facts::Facts;
use crate::facts::icmp_errors::IcmpTotals;
use crate::observed::event::{PointId, TargetId};
use crate::observed::experiment::Experiment;
use crate::observed::flow::Endpoint;
use crate::preconnect::{SeenLookups, Silent};
use crate::report::{Exchanges, PassedOn, Remark, Report, SCHEMA};
use crate::service::Ledger;
use crate::service::kernel_join::Waiting;
use crate::stats::Merge;
use claims::Claims;
use scene::Scene;

/// The source of latency figures that come from our own timestamps.
const OWN_STAMPS: &str = "own stamps";
/// Minimum wait in a request that makes experiments worthwhile.
const WORTH_TRYING: Duration = Duration::from_millis(5);
/// The pause of the think-time experiment. It is longer than a delayed ACK (40 ms), so that the
/// kernel acknowledges the next data at once.
const LONGER_THAN_DELAYED_ACK: Duration = Duration::from_millis(60);
/// Minimum number of services behind a device that acknowledges in their name, from which it is
/// taken to acknowledge for all.
const RELAYED: usize = 3;
/// Maximum number of notes reported.
const MAX_NOTES: usize = 128;
/// Maximum number of findings reported.
const MAX_FINDINGS: usize = 32;

/// Everything that was observed: the input of a conclusion.
pub(crate) struct Observations {
    pub(crate) targets: Vec<(TargetId, Endpoint)>,
    pub(crate) services: BTreeMap<Endpoint, Service>,
    /// The upstreams of an investigation's targets. They have no findings of their own.
    pub(crate) upstreams: BTreeMap<Endpoint, Service>,
    pub(crate) facts: Facts,
    /// Hosts that never answered an ARP or neighbor solicitation.
    pub(crate) silent: Vec<Silent>,
    pub(crate) asked: SeenLookups,
    /// The addresses of the hosts whose kernels captured the packets, by observation point.
    pub(crate) local: BTreeSet<(PointId, IpAddr)>,
    pub(crate) icmp: IcmpTotals,
    /// Requests and calls in a second capture of the same connections, nearer to the servers.
    pub(crate) far_side: Option<FarSide>,
    /// Requests that the server's kernel timed, and that have not been joined to an exchange of the
    /// packets.
    pub(crate) waiting: Waiting,
    /// Figures of all connections, with or without exchanges.
    pub(crate) tallied: Tallied,
    pub(crate) capture: Option<crate::report::Capture>,
    pub(crate) connections: Option<crate::report::Connections>,
    /// True if the packets' timestamps are artificial, rather than read from a clock.
    pub(crate) is_drawn: bool,
    /// True if the data segments of both ends arrived at the same constant interval.
    pub(crate) is_at_one_pace: bool,
}

impl Observations {
    /// Iterates over the figures of a target or, for a capture without targets, of all services.
    pub(crate) fn ledgers(&self, target: TargetId) -> impl Iterator<Item = (Endpoint, &Ledger)> {
        let is_meant = move |endpoint: Endpoint| {
            self.targets.is_empty() || self.targets.contains(&(target, endpoint))
        };
        let services = self.services.iter();
        let meant = services.filter(move |(endpoint, _)| is_meant(**endpoint));
        meant.map(|(&endpoint, service)| (endpoint, &service.ledger))
    }

    /// Returns true if all packets come from a kernel that was watched. An investigation captures
    /// its own packets instead.
    pub(crate) fn is_only_watched(&self) -> bool {
        self.facts.turns.tally.is_some() && self.targets.is_empty()
    }
}

/// Counts services without a handshake as relayed, if most of the others are: a device near the
/// client then acknowledges for all of them.
fn doubt_nearness(services: &mut BTreeMap<Endpoint, Service>) {
    let ledgers = services.values().map(|service| &service.ledger);
    let told = ledgers.filter(|ledger| ledger.trips.handshake.is_some() && ledger.uncut() > 0);
    let (relayed, direct): (Vec<_>, Vec<_>) = told.partition(|ledger| ledger.is_relayed());
    if relayed.len() < RELAYED || relayed.len() <= direct.len() {
        return;
    }
    for ledger in services.values_mut().map(|service| &mut service.ledger) {
        if ledger.trips.handshake.is_none() {
            ledger.doubtful.relayed = ledger.uncut();
        }
    }
}

/// Makes the report from the observations, which have been [completed](complete_targets).
/// `from_packets` are the services known from packets. Returns it with the requests that proxies
/// passed on.
pub(crate) fn conclude(
    mut observations: Observations,
    from_packets: &[Endpoint],
) -> (Report, Vec<PassedOn>) {
    doubt_nearness(&mut observations.services);
    let scene = Scene::new(&observations, from_packets);
    let Claims {
        mut list,
        mut notes,
        passed_on,
    } = claims::claims(&scene);
    relate::relate(&scene, &mut list, &mut notes);
    let account = book::book(&scene, &mut list, &mut notes);
    list.truncate(MAX_FINDINGS);
    let accused = settings::accused(&observations.facts, &list);
    let findings = word::word(&scene, list);
    let is_watched = observations.is_only_watched();
    notes.extend(remarks(&observations));
    notes.sort();
    notes.dedup();
    notes.truncate(MAX_NOTES);
    let facts = &observations.facts;
    let subject = exchanges::ledger(&observations, TargetId::Subject);
    let modes = subject.latency.bands.modes(&subject.latency.all, &findings);
    let load = tables::load(&observations, &findings);
    let mut layers = layers::layers(
        &observations,
        &subject,
        &findings,
        &accused,
        &account,
        &notes,
    );
    captured_part::doubt(load.as_ref(), &mut layers);
    let mut report = Report {
        schema: SCHEMA,
        exchanges: Exchanges {
            modes,
            ..exchanges::exchanges(&subject, facts, TargetId::Subject)
        },
        setups: exchanges::setups(&subject),
        twin: exchanges::twin(&observations),
        load,
        capacity: capacity::capacity(facts),
        processors: capacity::processors(facts),
        sent: capacity::sent(facts),
        sweep: None,
        phases: tables::phases(facts),
        probes: probes::probes(facts),
        route: facts.route.route(),
        hops: facts.route.hops(),
        sockets: tables::sockets(facts),
        live: sockets::sockets(facts),
        watch: watch::watch(&facts.turns, &observations.services),
        limits: limits::limits(facts),
        counters: tables::counters(facts),
        configuration: tables::configuration(facts),
        experiments: tables::experiments(facts),
        layers,
        details: Some(exchanges::details(&subject, facts)),
        account,
        capture: observations.capture.clone(),
        connections: observations.connections.take(),
        findings,
        notes,
        ..Report::default()
    };
    let is_diagnosis =
        observations.capture.is_some() || !observations.targets.is_empty() || is_watched;
    sum_up(&mut report, is_diagnosis, &subject);
    if is_watched {
        packet_numbers::forget_packets(&mut report);
    }
    (report, passed_on)
}

/// Returns the remarks that need no claim.
fn remarks(observations: &Observations) -> Vec<Remark> {
    let facts = &observations.facts;
    let mut notes = facts.notes.clone();
    notes.extend(tables::capture_notes(observations));
    notes.extend(tables::generator_note(facts));
    notes.extend(capacity::remarks(facts));
    notes.extend(capacity::foreign(facts));
    notes.extend(streams::hidden(observations));
    notes.extend(sweep::remarks(facts));
    notes.extend(sockets::left_out(&facts.live));
    notes.extend(watch::remarks(facts));
    notes.extend(queueing::remarks(facts));
    notes.extend(probes::remarks(facts));
    notes
}

/// Adds the parts that need the rest of the report: the extent of each finding, and the overall
/// result.
fn sum_up(report: &mut Report, is_diagnosis: bool, subject: &Ledger) {
    for finding in &mut report.findings {
        finding.extent = extent::extent(finding, &report.exchanges);
    }
    report.overall = is_diagnosis.then(|| overall::overall(report, subject));
}

/// Returns the interventions worth trying on the subject; empty if its requests are as quick as the
/// path allows. `ledgers` contain the subject's figures.
pub(crate) fn next_experiments<'a>(
    facts: &Facts,
    ledgers: impl Iterator<Item = &'a Ledger>,
) -> Vec<Experiment> {
    let load = facts.loads.baseline(TargetId::Subject);
    let mut ledger = Ledger::default();
    for share in ledgers {
        ledger.merge(share.clone());
    }
    let stalls = load.is_some_and(|load| is_long(load.body.quantile(0.5)))
        || ledger.shares.exchanges.has(WaitKind::ResponseHeld);
    let latency = load.map_or(&ledger.latency.all, |load| &load.latency);
    let travel = facts.round_trip(TargetId::Subject).unwrap_or_default();
    let median = latency.quantile(0.5).unwrap_or_default();
    let mut list = Vec::new();
    if stalls {
        list.push(Experiment::QuickAck);
        list.push(Experiment::ConnectionClose);
    }
    if stalls || is_long(Some(median.saturating_sub(travel))) {
        list.push(Experiment::FreshConnection);
        list.push(Experiment::ThinkTime {
            pause: LONGER_THAN_DELAYED_ACK,
        });
    }
    list
}

fn is_long(duration: Option<Duration>) -> bool {
    duration.is_some_and(|duration| duration >= WORTH_TRYING)
}

/// Makes sure that every target has a service: from packets if possible, otherwise from the
/// timestamps of our own requests, which are also passed to `take`. Returns the services known from
/// packets.
pub(crate) fn complete_targets(
    observations: &mut Observations,
    mut take: impl FnMut(TargetId, &Exchange),
) -> Vec<Endpoint> {
    let from_packets: Vec<Endpoint> = observations
        .services
        .iter()
        .filter(|(_, service)| service.ledger.has_exchanges())
        .map(|(&endpoint, _)| endpoint)
        .collect();
    for &(target, endpoint) in &observations.targets {
        let service = observations.services.entry(endpoint).or_default();
        if !service.ledger.has_exchanges() {
            for mut exchange in client_timings::exchanges(&observations.facts, target, endpoint) {
                // The kernel times requests only while the load is observed.
                if observations.facts.loads.is_observed(exchange.begin) {
                    let turn = observations.waiting.take_span(&exchange);
                    service.served.add_exchange(&mut exchange, turn);
                }
                take(target, &exchange);
                service.add_exchanges(&[&exchange]);
            }
        }
    }
    from_packets
}
