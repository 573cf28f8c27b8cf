//! The route, traced hop by hop if its time is a material part of a request's time, or if packets
//! were lost on it.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lagtrace_core::observed::event::{
    Coming, Event, EventBody, Note, ProbeAnswer, ProbeMethod, ProbeSample, TargetId,
};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::route::{HopAnswer, RouteMethod};
use lagtrace_core::route::RouteTally;
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::trace::{Rounds, TraceError, TracePlan, hops_of, trace};

use super::Investigation;
use crate::failure::{Failure, Result};
use crate::words;

/// The step's name.
const STEP: &str = "path";
/// The rounds and their interval: two seconds in total, plus the wait for the last answers.
const ROUNDS: Rounds = Rounds {
    count: Some(8),
    interval: Duration::from_millis(250),
};
/// The rounds used if packets are lost. There are more because a single loss may occur anywhere,
/// and measuring the loss needs more probes.
const MORE_ROUNDS: Rounds = Rounds {
    count: Some(24),
    interval: Duration::from_millis(120),
};
/// Minimum time between two probes to one hop.
const CATCH_UP: Duration = Duration::from_millis(40);
/// A time to live that is large enough for any target.
const FAR: u8 = 64;
/// The timeout after which an answer counts as lost; an earlier one counts as late.
const PATIENCE: Duration = Duration::from_secs(3);
/// Minimum round trip, and minimum share of a request's time, for which the route is traced.
const NOTABLE: Duration = Duration::from_millis(1);
const SHARE: f64 = 0.1;

impl Investigation<'_> {
    /// Traces the route to the subject before the load starts.
    pub(super) fn trace(&mut self) -> Result<()> {
        let site = self.subject();
        let is_local = site.route.as_ref().is_some_and(|route| route.is_local);
        let is_asked_after = || self.has_routers() && (self.is_far() || self.is_lossy());
        let is_wanted = self.options.network.route || !is_local && is_asked_after();
        if !is_wanted {
            return Ok(());
        }
        let target = site.target.address;
        let bar = self.console.spinner(STEP);
        let (mut events, mut outcome) = self.ask(target, ROUNDS);
        let mut echoes = Vec::new();
        if self.loses(&tally(&events)) && !self.interrupt.is_requested() {
            std::thread::scope(|scope| {
                let beside = scope.spawn(|| echo(target, self.interrupt.flag()));
                (events, outcome) = self.ask(target, MORE_ROUNDS);
                echoes = beside.join().unwrap_or_default();
            });
        }
        bar.finish_and_clear();
        let has_measured = events
            .iter()
            .any(|event| matches!(event.body, EventBody::Hop(_)));
        if let Err(error) = outcome.or_else(|error| has_measured.then_some(()).ok_or(error)) {
            let text = format!(
                "Not measured: the route hop by hop: {}.",
                Failure::from(error)
            );
            let id = "not-measured-path".to_owned();
            self.not_measured(STEP, Note { id, text });
            return Ok(());
        }
        self.say(STEP, TargetId::Subject, &describe(&tally(&events)));
        self.feed.observe_idle(events);
        self.feed.observe_idle(echoes);
        Ok(())
    }

    /// Traces with the best method that is permitted.
    fn ask(
        &self,
        target: SocketAddr,
        rounds: Rounds,
    ) -> (Vec<Event>, std::result::Result<(), TraceError>) {
        let (mut events, mut outcome) = (Vec::new(), Ok(()));
        for method in [RouteMethod::TcpSyn, RouteMethod::TcpConnect] {
            let plan = TracePlan {
                timeout: PATIENCE,
                // Probes that a round left out are made up for at this interval.
                interval: CATCH_UP,
                rounds: Some(rounds),
                ..TracePlan::new(target, method)
            };
            outcome = trace(&plan, self.interrupt.flag(), |event| events.push(event));
            if !matches!(outcome, Err(TraceError::NotPermitted { .. })) {
                break;
            }
        }
        (events, outcome)
    }

    /// Returns the results of probes of the subject so far.
    fn probes(&self) -> impl Iterator<Item = &ProbeSample> {
        let waiting = self.feed.waiting().iter();
        waiting.filter_map(|event| match &event.body {
            EventBody::Probe(sample) if sample.target == TargetId::Subject => Some(sample),
            _ => None,
        })
    }

    /// Returns true if the path takes a material part of a request's time.
    fn is_far(&self) -> bool {
        let median = |methods: &[ProbeMethod]| {
            let mut times = Distribution::default();
            let of = self.probes().filter(|s| methods.contains(&s.method));
            of.filter_map(|s| s.rtt).for_each(|rtt| times.record(rtt));
            times.quantile(0.5)
        };
        let trip = median(&[ProbeMethod::TcpSyn, ProbeMethod::TcpConnect]);
        let request = median(&[ProbeMethod::HttpKeptAlive])
            .or_else(|| median(&[ProbeMethod::HttpFresh]))
            .unwrap_or_default();
        trip.is_some_and(|trip| {
            trip >= NOTABLE && trip.as_secs_f64() >= request.as_secs_f64() * SHARE
        })
    }

    /// Returns true if one of several handshakes was not answered.
    fn is_lossy(&self) -> bool {
        let is_handshake =
            |s: &&ProbeSample| matches!(s.method, ProbeMethod::TcpSyn | ProbeMethod::TcpConnect);
        let mut handshakes = self.probes().filter(is_handshake);
        handshakes.any(|s| s.answer == ProbeAnswer::Silence)
    }

    /// Returns true if the target answers some probes but not all.
    fn loses(&self, tally: &RouteTally) -> bool {
        let distance = tally.route().and_then(|route| route.distance);
        let hops = tally.hops();
        match hops.last().filter(|hop| distance == Some(hop.ttl)) {
            Some(last) => last.received < last.sent,
            None => self.probes().any(|s| s.answer == ProbeAnswer::Open),
        }
    }

    /// Returns true if there are routers on the path.
    fn has_routers(&self) -> bool {
        let answered = self.probes().filter(|s| s.answer == ProbeAnswer::Open);
        let hops = answered.filter_map(|s| s.ttl).map(hops_of).max();
        let route = self.subject().route.as_ref();
        // Without raw sockets the time to live of answers is not known.
        let has_gateway = route.is_some_and(|route| route.gateway.is_some());
        hops.map_or(has_gateway, |hops| hops > 1)
    }
}

/// Sends echo requests to the target, which its kernel answers regardless of listeners. Returns no
/// events if echo requests are not permitted.
fn echo(target: SocketAddr, stop: &AtomicBool) -> Vec<Event> {
    let mut events = Vec::new();
    for is_raw in [true, false] {
        let plan = TracePlan {
            is_raw,
            first_ttl: FAR,
            max_ttl: FAR,
            timeout: PATIENCE,
            interval: CATCH_UP,
            rounds: Some(MORE_ROUNDS),
            ..TracePlan::new(target, RouteMethod::Icmp)
        };
        let outcome = trace(&plan, stop, |event| events.extend(echoed(&event, target)));
        if !matches!(outcome, Err(TraceError::NotPermitted { .. })) {
            break;
        }
    }
    events
}

/// Converts a hop's sample to a probe's sample.
fn echoed(event: &Event, target: SocketAddr) -> Option<Event> {
    let EventBody::Hop(hop) = &event.body else {
        return None;
    };
    let answer = match hop.answer {
        HopAnswer::Open => ProbeAnswer::Open,
        HopAnswer::Silence => ProbeAnswer::Silence,
        HopAnswer::Unreachable(kind, code) => ProbeAnswer::Unreachable(kind, code),
        HopAnswer::Expired | HopAnswer::Closed => return None,
    };
    let sample = ProbeSample {
        target: TargetId::Subject,
        endpoint: Endpoint::from(target),
        method: ProbeMethod::Icmp,
        answer,
        rtt: hop.rtt,
        stamp: hop.stamp,
        ttl: hop.reply_ttl,
        syn_retransmissions: 0,
        number: hop.number,
        coming: Coming::InTime,
        noticed: None,
        queued: None,
        step: None,
        headers: 0,
        reply: None,
        phases: None,
    };
    Some(Event {
        body: EventBody::Probe(sample),
        ..event.clone()
    })
}

fn tally(events: &[Event]) -> RouteTally {
    let mut tally = RouteTally::default();
    for event in events {
        match &event.body {
            EventBody::Trace(start) => tally.begin(start.clone()),
            EventBody::Hop(sample) => tally.observe(sample),
            _ => {}
        }
    }
    tally
}

/// Describes a trace in one line.
fn describe(tally: &RouteTally) -> String {
    let hops = tally.hops();
    let answering = hops.iter().filter(|hop| hop.received > 0);
    let trips = answering.map(|hop| {
        let time = Duration::from_nanos(hop.kept_ns);
        format!("{} at hop {}", words::time(time), hop.ttl)
    });
    let trips: Vec<String> = trips.collect();
    if trips.is_empty() {
        "no hop answers".to_owned()
    } else {
        trips.join(", ")
    }
}
