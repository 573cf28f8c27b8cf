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
use lagtrace_core::route::{RouteTally, TargetProbes};
use lagtrace_sources::trace::{Rounds, TraceError, TracePlan, trace};

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
const LOST_AFTER: Duration = Duration::from_secs(3);
impl Investigation<'_> {
    /// Traces the route to the subject before the load starts.
    pub(super) fn trace(&mut self) -> Result<()> {
        let site = self.subject();
        let is_local = site.route.as_ref().is_some_and(|route| route.is_local);
        // Without raw sockets the time to live of answers is not known.
        let has_gateway = (site.route.as_ref()).is_some_and(|route| route.gateway.is_some());
        let is_asked_for = || {
            let probes = self.probes();
            probes.pass_routers(has_gateway) && probes.ask_for_route()
        };
        let is_wanted = self.options.network.route || !is_local && is_asked_for();
        if !is_wanted {
            return Ok(());
        }
        let target = site.target.address;
        let bar = self.console.spinner(STEP);
        let (mut events, mut outcome) = self.ask(target, ROUNDS);
        let mut echoes = Vec::new();
        if self.probes().lose_answers(&tally(&events)) && !self.interrupt.is_requested() {
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
                timeout: LOST_AFTER,
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

    /// Returns the probes of the subject so far.
    fn probes(&self) -> TargetProbes<'_> {
        let waiting = self.feed.waiting().iter();
        TargetProbes::new(waiting.filter_map(|event| match &event.body {
            EventBody::Probe(sample) if sample.target == TargetId::Subject => Some(sample),
            _ => None,
        }))
    }
}

/// Sends echo requests to the target. Its kernel answers them even if no program listens. Returns
/// no events if echo requests are not permitted.
fn echo(target: SocketAddr, stop: &AtomicBool) -> Vec<Event> {
    let mut events = Vec::new();
    for is_raw in [true, false] {
        let plan = TracePlan {
            is_raw,
            first_ttl: FAR,
            max_ttl: FAR,
            timeout: LOST_AFTER,
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
