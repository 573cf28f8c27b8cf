//! Construction of the report from all observations.

mod account;
mod blank;
pub(crate) mod bootstrap;
mod capacity;
mod captured_part;
mod client_timings;
mod connection;
mod consequence;
mod dead_peers;
mod display_filter;
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
mod route;
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
use std::collections::BTreeMap;

pub(crate) use connection::connection_record;
pub(crate) use display_filter::packets_filter;
pub(crate) use quic::quic_record;

use blank::Blank;

use crate::cause::evidence::Measures;
use crate::cause::rhythm::Rhythm;
use crate::cause::service::Service;
use crate::cause::upstream::Upstream;
use crate::cause::{self, Case, Conclusion, Statuses};
use crate::claim::{Ceiling, Claim};
use crate::connection::SetupOutcome;
use crate::connection::table::Tallied;
use crate::exchange::wait::WaitKind;
use crate::exchange::{Exchange, Outcome};
use crate::facts::Facts;
use crate::facts::icmp_errors::IcmpTotals;
use crate::observed::event::TargetId;
use crate::observed::experiment::Experiment;
use crate::observed::flow::Endpoint;
use crate::preconnect::{Asked, Silent};
use crate::registry::Id;
use crate::report::{
    Account, Details, Exchanges, Figures, PassedOn, Remark, Report, SCHEMA,
    SetupOutcome as SetupCount, Setups, StatusCount,
};
use crate::service::kernel_join::Waiting;
use crate::service::{Counts, Ledger, Stretches, Uploads};
use crate::stats::histogram::Distribution;
use account::Booked;
use judge::Watched;

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
/// Maximum number of findings reported.
const MAX_FINDINGS: usize = 32;
/// Maximum number of notes reported.
const MAX_NOTES: usize = 128;

/// Everything that was observed: the input of a conclusion.
pub(crate) struct Evidence {
    pub(crate) targets: Vec<(TargetId, Endpoint)>,
    pub(crate) services: BTreeMap<Endpoint, Service>,
    /// The upstreams of an investigation's targets. They have no findings of their own.
    pub(crate) upstreams: BTreeMap<Endpoint, Service>,
    pub(crate) facts: Facts,
    /// Hosts that never answered an ARP or neighbor solicitation.
    pub(crate) silent: Vec<Silent>,
    pub(crate) asked: Asked,
    pub(crate) icmp: IcmpTotals,
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

impl Evidence {
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

/// Lowers findings that cost time to *possible* and drops what they predict, because the timestamps
/// are artificial.
fn doubt_times(findings: &mut [Claim]) {
    for finding in findings
        .iter_mut()
        .filter(|finding| finding.time.cost.likely > 0)
    {
        finding.basis.cap(Ceiling::ArtificialTimes);
        finding.time.predicted = None;
    }
}

/// Lowers findings on pacing to *possible*. If the data of both ends arrives at the same intervals,
/// neither end's kernel set these intervals.
fn doubt_pacing(findings: &mut [Claim]) {
    for finding in findings.iter_mut().filter(|f| f.cause == Id::Pacing) {
        finding.basis.cap(Ceiling::OnePace);
        finding.text.overturned_by =
            "the pace of a replay or of a recorder: the other end's packets \
                                 have the same intervals"
                .to_owned();
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

/// Returns the remark that the timestamps are artificial.
fn drawn() -> Remark {
    Remark {
        id: "stamps-made-up".to_owned(),
        text:
            "Nearly all packets have the same interval, to the microsecond: these timestamps are \
               artificial, and do not show how long anything took."
                .to_owned(),
    }
}

/// Makes the report from the evidence, which has been [completed](complete_targets).
/// `from_packets` are the services known from packets. Returns it with the requests that proxies
/// passed on.
pub(crate) fn conclude(
    mut evidence: Evidence,
    from_packets: &[Endpoint],
) -> (Report, Vec<PassedOn>) {
    doubt_nearness(&mut evidence.services);
    let scene = Scene::new(&evidence, from_packets);
    let Weighed {
        mut findings,
        mut notes,
        passed_on,
    } = weigh_all(&scene);
    findings.extend(silent(&evidence));
    outside::add(&evidence, &mut findings);
    dead_peers::add(&evidence, &mut findings);
    icmp_errors::add(&evidence, &mut findings, &mut notes);
    lookups::add(&evidence, &mut findings, &mut notes);
    consequence::fold(&mut findings, &elsewhere(&evidence).into_keys().collect());
    failures::add(&evidence, &mut findings);
    full_links::doubt_repairs(&mut findings);
    if evidence.is_drawn {
        doubt_times(&mut findings);
        notes.push(drawn());
    }
    if evidence.is_at_one_pace {
        doubt_pacing(&mut findings);
    }
    order::rank(&mut findings, &evidence, |finding| finding.time.cost.likely);
    let account = keep_account(&scene, &mut findings, &mut notes);
    findings.truncate(MAX_FINDINGS);
    route::support(&mut findings, &evidence.facts);
    let mut findings = word::word(&scene, findings);
    let is_watched = evidence.is_only_watched();
    if evidence.capture.is_some() && !is_watched {
        for finding in &mut findings {
            finding.display_filter = display_filter::display_filter(finding);
        }
    }
    notes.extend(evidence.facts.notes.iter().cloned());
    notes.extend(tables::capture_notes(&evidence));
    notes.extend(tables::generator_note(&evidence.facts));
    notes.extend(capacity::remarks(&evidence.facts));
    notes.extend(capacity::foreign(&evidence.facts));
    notes.extend(streams::hidden(&evidence));
    notes.extend(sweep::remarks(&evidence.facts));
    notes.extend(sockets::left_out(&evidence.facts.live));
    notes.extend(watch::remarks(&evidence.facts.turns));
    notes.extend(queueing::remarks(&evidence.facts));
    notes.extend(probes::remarks(&evidence.facts));
    notes.sort();
    notes.dedup();
    notes.truncate(MAX_NOTES);
    let facts = &evidence.facts;
    let subject = ledger(&evidence, TargetId::Subject);
    let modes = subject.latency.bands.modes(&subject.latency.all, &findings);
    let load = tables::load(&evidence, &findings);
    let mut layers = layers::layers(&evidence, &subject, &findings, &account, &notes);
    captured_part::doubt(load.as_ref(), &mut layers);
    let mut report = Report {
        schema: SCHEMA,
        exchanges: Exchanges {
            modes,
            ..exchanges(&subject, facts, TargetId::Subject)
        },
        setups: setups(&subject),
        twin: twin(&evidence),
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
        watch: watch::watch(&facts.turns, &evidence.services),
        limits: limits::limits(facts),
        counters: tables::counters(facts),
        configuration: tables::configuration(facts),
        experiments: tables::experiments(facts),
        layers,
        details: Some(details(&subject, facts)),
        account,
        capture: evidence.capture.clone(),
        connections: evidence.connections.take(),
        findings,
        notes,
        ..Report::default()
    };
    let is_diagnosis = evidence.capture.is_some() || !evidence.targets.is_empty() || is_watched;
    sum_up(&mut report, is_diagnosis, &subject);
    if is_watched {
        packet_numbers::forget_packets(&mut report);
    }
    (report, passed_on)
}

/// Adds the parts that need the rest of the report: the extent of each finding, and the overall
/// result.
fn sum_up(report: &mut Report, is_diagnosis: bool, subject: &Ledger) {
    for finding in &mut report.findings {
        once(&mut finding.evidence);
        finding.extent = extent::extent(finding, &report.exchanges);
    }
    report.overall = is_diagnosis.then(|| overall::overall(report, subject));
}

/// Drops evidence that says the same as evidence before it: a cause and a merged consequence of it
/// can rest on the same packets.
fn once(evidence: &mut Vec<crate::report::Evidence>) {
    let mut said = std::collections::BTreeSet::new();
    evidence.retain(|one| said.insert(one.text.clone()));
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
    evidence: &mut Evidence,
    mut take: impl FnMut(TargetId, &Exchange),
) -> Vec<Endpoint> {
    let from_packets: Vec<Endpoint> = evidence
        .services
        .iter()
        .filter(|(_, service)| service.ledger.has_exchanges())
        .map(|(&endpoint, _)| endpoint)
        .collect();
    for &(target, endpoint) in &evidence.targets {
        let service = evidence.services.entry(endpoint).or_default();
        if !service.ledger.has_exchanges() {
            for mut exchange in client_timings::exchanges(&evidence.facts, target, endpoint) {
                // The kernel times requests only while the load is observed.
                if evidence.facts.loads.is_observed(exchange.begin) {
                    let turn = evidence.waiting.take_span(&exchange);
                    service.served.add_exchange(&mut exchange, turn);
                }
                take(target, &exchange);
                service.add_exchanges(&[&exchange]);
            }
        }
    }
    from_packets
}

/// All services of a conclusion. The case of one service refers to the others.
struct Scene<'a> {
    evidence: &'a Evidence,
    from_packets: &'a [Endpoint],
    fetches: Stretches,
    /// Uploads by the server's address. All ports of a server share the path, so they share one
    /// entry.
    uploads: BTreeMap<IpAddr, Uploads>,
    rhythms: BTreeMap<Endpoint, Rhythm>,
}

impl<'a> Scene<'a> {
    fn new(evidence: &'a Evidence, from_packets: &'a [Endpoint]) -> Self {
        let mut fetches = Stretches::default();
        let mut uploads: BTreeMap<IpAddr, Uploads> = BTreeMap::new();
        for (endpoint, service) in &evidence.services {
            fetches.merge(service.ledger.fetches.clone());
            let way = uploads.entry(endpoint.addr).or_default();
            way.merge(service.ledger.uploads.clone());
        }
        let services = evidence.services.iter().chain(&evidence.upstreams);
        // Between two loads of our own, the server has nothing to do, and the next one uses other
        // connections.
        let period = |endpoint: Endpoint| {
            let mut targets = evidence.targets.iter();
            let (target, _) = targets.find(|(_, at)| *at == endpoint)?;
            let is_own = !from_packets.contains(&endpoint);
            is_own.then(|| evidence.facts.loads.first_baseline(*target))?
        };
        let rhythm = |(&endpoint, service): (&Endpoint, &Service)| {
            let mut rhythm = Rhythm::of(service, period(endpoint));
            rhythm.is_called_here = evidence.upstreams.contains_key(&endpoint);
            (endpoint, rhythm)
        };
        Self {
            evidence,
            from_packets,
            fetches,
            uploads,
            rhythms: services.map(rhythm).collect(),
        }
    }

    /// Returns what can witness against or for a claim at this service.
    fn watched(&self, at: Endpoint) -> Watched<'_> {
        Watched {
            service: self.evidence.services.get(&at),
            facts: &self.evidence.facts,
            has_packets: self.from_packets.contains(&at),
            is_drawn: self.evidence.is_drawn,
        }
    }

    fn case(
        &'a self,
        endpoint: Endpoint,
        service: &'a Service,
        upstream: Option<&'a Upstream>,
    ) -> Option<Case<'a>> {
        let mut targets = self.evidence.targets.iter();
        let target = targets.find(|(_, at)| *at == endpoint).map(|&(id, _)| id);
        let has_packets = self.from_packets.contains(&endpoint);
        Some(Case {
            rhythm: self.rhythms.get(&endpoint)?,
            rhythms: &self.rhythms,
            upstream,
            endpoint,
            target,
            ledger: &service.ledger,
            latency: Measures::of(&service.ledger.latency.all),
            gathered: &service.rules.gathered,
            fetches: &self.fetches,
            uploads: self.uploads.get(&endpoint.addr)?,
            facts: &self.evidence.facts,
            has_packets,
            weight: weight(self.evidence, target, &service.ledger, has_packets),
        })
    }
}

/// Makes the account of each service except [`TargetId::Twin`]: books its time, lets the findings
/// claim their time, and appends a finding for each place with material unclaimed time. Where it is
/// not known whether anybody waited, a remark says so instead.
fn keep_account<'a>(
    scene: &'a Scene<'a>,
    findings: &mut Vec<Claim>,
    notes: &mut Vec<Remark>,
) -> Vec<Account> {
    let evidence = scene.evidence;
    let cases = evidence.services.iter().filter_map(|(&endpoint, service)| {
        let case = scene.case(endpoint, service, None)?;
        (case.target != Some(TargetId::Twin)).then_some((case, service))
    });
    let cases: Vec<_> = cases.collect();
    let elsewhere = elsewhere(evidence);
    let book = |(case, service): &(Case<'_>, &'a Service)| {
        let of_others = elsewhere.get(&case.endpoint).copied().unwrap_or_default();
        Booked::new(
            case.endpoint,
            service,
            case.weight,
            of_others,
            &evidence.facts.hosts,
        )
    };
    let mut booked: Vec<Booked<'_>> = cases.iter().map(book).collect();
    let certainty = |claim: &Claim| judge::certainty(claim, &scene.watched(claim.at));
    account::settle(&mut booked, findings, certainty);
    order::rank(findings, evidence, |finding| {
        account::weight(finding, &booked)
    });
    order::put_queue_behind(findings, |finding| account::claims_most(finding, &booked));
    let whole = account::whole(&booked);
    let mut places = Vec::new();
    for ((case, _), booked) in cases.iter().zip(&booked) {
        places.extend(account::locate(case, booked, whole, findings, certainty));
        notes.extend(account::owed_unknown(booked, whole));
    }
    if let Some((case, _)) = cases.iter().find(|(case, _)| case.target.is_some()) {
        let experiments = tables::experiments(&evidence.facts);
        let bare = || account::unknown(case);
        account::tried(&experiments, case.endpoint, findings, &mut places, bare);
    }
    let subject = |(case, _): &&(Case<'_>, &Service)| case.target == Some(TargetId::Subject);
    places.extend(
        cases
            .iter()
            .find(subject)
            .and_then(|(case, _)| account::resolution(case)),
    );
    places.sort_by_key(|place| core::cmp::Reverse(place.time.cost.likely));
    for place in places {
        let at = order::rank_of_place(findings, &place, |claim| account::weight(claim, &booked));
        findings.insert(at, place);
    }
    let with_time = booked.into_iter().filter(|booked| booked.total() > 0);
    with_time.map(|booked| booked.account).collect()
}

/// Returns, for each address, the time for which connections to other addresses waited for attempts
/// at it, in nanoseconds.
fn elsewhere(evidence: &Evidence) -> BTreeMap<Endpoint, u64> {
    let mut sums: BTreeMap<Endpoint, u64> = BTreeMap::new();
    for service in evidence.services.values() {
        for (address, time) in service.rules.ipv6_fallback.waited(&evidence.facts.hosts).1 {
            let sum = sums.entry(address).or_default();
            *sum = sum.saturating_add(time);
        }
    }
    sums
}

/// The conclusions of the rules.
#[derive(Default)]
struct Weighed {
    findings: Vec<Claim>,
    notes: Vec<Remark>,
    passed_on: Vec<PassedOn>,
}

fn weigh_all(scene: &Scene<'_>) -> Weighed {
    let evidence = scene.evidence;
    let Weighed {
        mut findings,
        mut notes,
        mut passed_on,
    } = Weighed::default();
    for (&endpoint, service) in &evidence.services {
        let upstream = Upstream::of(endpoint, &scene.rhythms);
        if let Some(upstream) = &upstream {
            let room = PassedOn::MAX.saturating_sub(passed_on.len());
            passed_on.extend(upstream.passed_on(endpoint).take(room));
        }
        let Some(case) = scene.case(endpoint, service, upstream.as_ref()) else {
            continue;
        };
        notes.extend(kernel_join::remarks(&case, &service.served));
        notes.extend(streams::remarks(endpoint, &service.ledger));
        for conclusion in service.rules.conclude(&case) {
            let finding = match conclusion {
                Conclusion::Nothing => None,
                Conclusion::Note(remark) => {
                    notes.push(remark);
                    None
                }
                Conclusion::Finding(finding) => {
                    let weighed = kernel_join::weigh(*finding, &service.served);
                    weighed.map_err(|remark| notes.push(remark)).ok()
                }
            };
            match case.target {
                Some(TargetId::Twin) => notes.extend(finding.as_ref().map(twin_remark)),
                _ => findings.extend(finding),
            }
        }
    }
    Weighed {
        findings,
        notes,
        passed_on,
    }
}

/// Returns the number of requests that each exchange of the ledger represents. It is more than 1 if
/// the exchanges are a sample.
fn weight(
    evidence: &Evidence,
    target: Option<TargetId>,
    ledger: &Ledger,
    has_packets: bool,
) -> f64 {
    let load = target.and_then(|target| evidence.facts.loads.baseline(target));
    match load {
        Some(load) if !has_packets && ledger.counts.count > 0 => {
            (load.whole() as f64 / ledger.counts.count as f64).max(1.0)
        }
        _ if target.is_none() => evidence.facts.turns.each_for(),
        _ => 1.0,
    }
}

fn twin_remark(finding: &Claim) -> Remark {
    Remark {
        id: "twin-finding".to_owned(),
        text: format!(
            "The control {} is not healthy: {} ({}).",
            finding.service(),
            finding.text.title,
            finding.cause
        ),
    }
}

/// Returns the findings on hosts whose hardware address the kernel could not find. Only hosts that
/// the capture is about get a finding: on any link, kernels still search for hosts that are long
/// gone.
fn silent(evidence: &Evidence) -> Vec<Claim> {
    let servers = || evidence.services.keys().map(|endpoint| endpoint.addr);
    // If there are connections, the capture is about their servers, and other silent hosts do not
    // matter.
    let is_missed = evidence.tallied.connections > 0 || !evidence.services.is_empty();
    let is_meant = |addr| !is_missed || servers().any(|server| server == addr);
    // The hardware address of a host that accepts connections is known.
    let is_alive = |addr| {
        let mut services = evidence.services.iter().filter(|(at, _)| at.addr == addr);
        services.any(|(_, service)| {
            let setups = &service.ledger.setups.outcomes;
            service.ledger.has_exchanges() || setups.of(SetupOutcome::Established) > 0
        })
    };
    let meant = evidence.silent.iter();
    let meant = meant.filter(|host| is_meant(host.target) && !is_alive(host.target));
    let blank = Blank::default();
    let finding = |host: &Silent| {
        let case = blank.case(Endpoint::new(host.target, 0), &evidence.facts);
        cause::neighbour_silent(&case, host, is_missed)
    };
    meant.map(finding).collect()
}

/// Returns the figures of a target or, for a capture without targets, of all services together.
fn ledger(evidence: &Evidence, target: TargetId) -> Ledger {
    let mut sum = Ledger::default();
    for (_, ledger) in evidence.ledgers(target) {
        sum.merge(ledger.clone());
    }
    sum
}

fn exchanges(ledger: &Ledger, facts: &Facts, target: TargetId) -> Exchanges {
    let given_up = ledger.given_up().min(ledger.counts.timeouts);
    let mut exchanges = Exchanges {
        count: ledger.counts.count,
        errors: ledger.counts.errors + Statuses::of(&ledger.counts.outcomes).refused(),
        timeouts: given_up,
        cut: ledger.counts.cut + (ledger.counts.timeouts - given_up),
        rate: ledger.rate() * facts.turns.each_for(),
        measured_by: "packets".to_owned(),
        latency_ns: Figures::from(&ledger.latency.all),
        waits: ledger.shares.exchanges.shares(),
        waits_of: ledger.latency.all.count(),
        slowest: ledger.latency.slowest.exemplars(),
        statuses: statuses(&ledger.counts.outcomes),
        modes: Vec::new(),
    };
    if let Some(load) = facts.loads.baseline(target) {
        let seconds = facts.loads.baseline_seconds(target);
        exchanges.count = load.whole();
        exchanges.errors = load.errors(&facts.loads.expected);
        exchanges.timeouts = load.timeouts();
        exchanges.rate = if seconds > 0.0 {
            load.whole() as f64 / seconds
        } else {
            0.0
        };
        exchanges.measured_by = OWN_STAMPS.to_owned();
        exchanges.latency_ns = Figures::from(&load.latency);
        exchanges.statuses = load.outcomes();
    }
    exchanges
}

fn twin(evidence: &Evidence) -> Option<Exchanges> {
    let has_twin = evidence
        .targets
        .iter()
        .any(|(target, _)| *target == TargetId::Twin);
    let ledger = has_twin.then(|| ledger(evidence, TargetId::Twin))?;
    Some(exchanges(&ledger, &evidence.facts, TargetId::Twin))
}

fn details(ledger: &Ledger, facts: &Facts) -> Details {
    let load = facts.loads.baseline(TargetId::Subject);
    let clusters = facts
        .loads
        .clusters
        .iter()
        .filter(|(target, _)| *target == TargetId::Subject);
    Details {
        clusters: clusters.map(|(_, cluster)| cluster.clone()).collect(),
        latency: load.map_or_else(|| ledger.latency.all.clone(), |load| load.latency.clone()),
        body: load.map_or_else(Distribution::default, |load| load.body.clone()),
    }
}

fn setups(ledger: &Ledger) -> Setups {
    let setups = &ledger.setups;
    let name = |outcome: SetupOutcome| match outcome {
        SetupOutcome::Established => "established",
        SetupOutcome::Refused => "refused",
        SetupOutcome::Unanswered => "unanswered",
        SetupOutcome::Cut => "cut",
    };
    Setups {
        count: setups.count,
        outcomes: setups
            .outcomes
            .iter()
            .map(|(outcome, count)| SetupCount {
                outcome: name(outcome).to_owned(),
                count,
            })
            .collect(),
        latency_ns: Figures::from(&setups.latency),
        waits: setups.waits.shares(),
    }
}

fn statuses(outcomes: &Counts<Outcome>) -> Vec<StatusCount> {
    let mut counts: Vec<StatusCount> = outcomes
        .iter()
        .map(|(outcome, count)| StatusCount {
            status: outcome.to_string(),
            count,
        })
        .collect();
    counts.sort_by(|a, b| a.status.cmp(&b.status));
    counts
}
