//! The trace itself: its events, name lookups in parallel, the display during the trace, and the
//! report.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::route::RouteMethod;
use lagtrace_core::route::RouteTally;
use lagtrace_sources::origin;
use lagtrace_sources::trace::{Names, TraceError, trace};
use lagtrace_sources::url::Host;

use super::Options;
use super::live::Live;
use super::owners::Owners;
use crate::clock;
use crate::conclusion::{self, About};
use crate::console::Console;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::lookup::{self, Family};

/// Maximum time that the report waits for names.
const NAMES: Duration = Duration::from_secs(1);
/// Maximum number of addresses whose owners are looked up.
const MAX_ADDRESSES: usize = 4_096;

/// Traces the route and prints the report.
pub(super) fn run(
    options: &Options,
    (host, port): (&Host, Option<u16>),
    console: &Console,
) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let started = clock::now();
    let mut trip = Trip::new(options, console);
    let mut resolved = Vec::new();
    let family = Family {
        ipv4: options.ipv4,
        ipv6: options.ipv6,
    };
    let address = lookup::address(host, family, &mut resolved)?;
    resolved
        .into_iter()
        .for_each(|event| trip.analyzer.observe(event));
    trip.go(options, address, port, &interrupt)?;
    if let Some(path) = &options.look.asn {
        trip.find_owners(path);
    }
    if interrupt.is_requested() && !trip.has_measured {
        let about = About {
            command: "route",
            subject: &options.target,
            started,
        };
        return conclusion::interrupted(about, console);
    }
    let mut report = trip.finish();
    "route".clone_into(&mut report.command);
    report.subject.clone_from(&options.target);
    report.started = clock::started(Some(started.as_nanos()));
    report.details = None;
    conclusion::conclude(&report, None, console)
}

/// The receivers of a trace's events.
struct Trip<'a> {
    analyzer: Analyzer,
    tally: RouteTally,
    names: Option<Names>,
    owners: Option<Owners>,
    /// The addresses that answered.
    addresses: BTreeSet<IpAddr>,
    live: Live<'a>,
    has_measured: bool,
}

impl<'a> Trip<'a> {
    fn new(options: &Options, console: &'a Console) -> Self {
        let is_in_rounds = options.look.continuous || options.look.count.is_some();
        Self {
            analyzer: Analyzer::new(conclusion::options(Vec::new())),
            tally: RouteTally::default(),
            names: (!options.no_names).then(Names::begin),
            // Owners are needed during the trace only if a table is displayed.
            owners: options
                .look
                .asn
                .clone()
                .filter(|_| is_in_rounds)
                .map(Owners::new),
            addresses: BTreeSet::new(),
            live: Live::new(console, is_in_rounds),
            has_measured: false,
        }
    }

    /// Traces with the best method that is permitted.
    fn go(
        &mut self,
        options: &Options,
        address: IpAddr,
        port: Option<u16>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let mut ways = options.ways(port.is_some()).into_iter().peekable();
        while let Some(way) = ways.next() {
            let plan = options.plan(address, port, way);
            match trace(&plan, interrupt.flag(), |event| self.take(event)) {
                Ok(()) => {
                    self.explain(options, port, way);
                    return Ok(());
                }
                Err(TraceError::NotPermitted { .. }) if ways.peek().is_some() => {}
                // The measurements made so far are reported.
                Err(error) if self.has_measured => {
                    let text = format!("The measurement is incomplete: {}.", Failure::from(error));
                    self.analyzer
                        .observe(conclusion::note("route-incomplete", text));
                    self.explain(options, port, way);
                    return Ok(());
                }
                Err(error) => return Err(refused(error)),
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event) {
        match &event.body {
            EventBody::Trace(start) => self.tally.begin(start.clone()),
            EventBody::Hop(sample) => {
                self.has_measured = true;
                self.tally.observe(sample);
                if let Some(from) = sample.from {
                    let is_new =
                        self.addresses.len() < MAX_ADDRESSES && self.addresses.insert(from);
                    if let Some(owners) = self.owners.as_mut().filter(|_| is_new) {
                        owners.ask(from);
                    }
                    if let Some(names) = &mut self.names {
                        names.ask(from);
                    }
                }
                self.name(Duration::ZERO);
                let owners = self.owners.as_mut().map(Owners::collect);
                for (address, owner) in owners.unwrap_or_default() {
                    self.tally.origin(address, owner);
                }
                self.live.show(&self.tally, sample);
            }
            _ => {}
        }
        self.analyzer.observe(event);
    }

    /// Processes the names that have arrived or arrive within `patience`.
    fn name(&mut self, patience: Duration) {
        let names = self.names.as_mut();
        for (address, name) in names.map_or_else(Vec::new, |names| names.collect(patience)) {
            self.tally.name(address, name.clone());
            let body = EventBody::HopName(address, name);
            self.analyzer
                .observe(Event::here(clock::now(), Phase::Baseline, body));
        }
    }

    /// Looks up the owners of the hops.
    fn find_owners(&mut self, path: &Path) {
        match origin::find(path, &self.addresses) {
            Ok(owners) => {
                for (address, owner) in owners {
                    let body = EventBody::HopOrigin(address, owner);
                    let event = Event::here(clock::now(), Phase::Baseline, body);
                    self.analyzer.observe(event);
                }
            }
            Err(error) => {
                let text = format!(
                    "The owners of the hops are not known: {}.",
                    Failure::from(error)
                );
                self.analyzer.observe(conclusion::note("no-asn", text));
            }
        }
    }

    /// Adds remarks on questions that the method cannot answer.
    fn explain(
        &mut self,
        options: &Options,
        port: Option<u16>,
        (method, is_raw): (RouteMethod, bool),
    ) {
        let was_better = options.ways(port.is_some());
        let is_second = was_better.first() != Some(&(method, is_raw));
        let allow =
            "Raw sockets need CAP_NET_RAW: `sudo setcap cap_net_raw+ep $(command -v lagtrace)`.";
        let (id, text) = match (method, is_raw) {
            (RouteMethod::TcpConnect, _) => (
                "route-by-connect",
                format!(
                    "Each probe by connect(2) is a separate flow: if routers balance by flow, hops \
                     of several paths mix. This program takes the send timestamps, not the kernel. \
                     {allow}"
                ),
            ),
            (RouteMethod::Paris, false) if is_second => (
                "route-without-raw",
                format!(
                    "Probes are recognised by their payload: a router that quotes less than 10 \
                     bytes of it appears as silent. {allow}"
                ),
            ),
            (RouteMethod::Dublin, _) => (
                "route-translation",
                "NAT is visible only if routers quote packets as they received them. A NAT device \
                 that restores the original addresses in quotes, as Linux does, is not visible."
                    .to_owned(),
            ),
            (RouteMethod::Udp, _) => (
                "route-by-ports",
                "Each probe uses a different port, so it is a separate flow: if routers balance by \
                 flow, hops of several paths mix. `--method paris` keeps one flow."
                    .to_owned(),
            ),
            _ => return,
        };
        self.analyzer.observe(conclusion::note(id, text));
    }

    fn finish(mut self) -> lagtrace_core::report::Report {
        self.name(NAMES);
        self.live.end();
        self.analyzer.finish()
    }
}

fn refused(error: TraceError) -> Failure {
    let hint = match &error {
        TraceError::NotPermitted { .. } => Some(
            "`sudo setcap cap_net_raw+ep $(command -v lagtrace)` allows it; --method tcp-connect \
             and udp need nothing",
        ),
        TraceError::NotConnected { .. } => {
            Some("--method in-connection needs an open port; --method tcp traces to any port")
        }
        TraceError::Socket { .. } | TraceError::NotSent { .. } => None,
    };
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
