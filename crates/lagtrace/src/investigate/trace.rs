//! The route hop by hop, where its time is a material part of what requests take.

use std::time::Duration;

use lagtrace_core::event::{EventBody, Note, ProbeAnswer, ProbeMethod, ProbeSample, TargetId};
use lagtrace_core::histogram::Distribution;
use lagtrace_core::route::{RouteMethod, RouteTally};
use lagtrace_sources::trace::{Rounds, TraceError, TracePlan, hops_of, trace};

use super::Investigation;
use crate::failure::{Failure, Result};
use crate::words;

/// The step's name.
const STEP: &str = "path";
/// Rounds, and how long each takes: two seconds in all, and the last answers.
const ROUNDS: Rounds = Rounds {
    count: Some(8),
    interval: Duration::from_millis(250),
};
/// After which time an answer is lost: what comes before that was late.
const PATIENCE: Duration = Duration::from_secs(3);
/// Shorter round trips, and smaller parts of a request's time, are not asked after.
const NOTABLE: Duration = Duration::from_millis(1);
const SHARE: f64 = 0.1;

impl Investigation<'_> {
    /// Traces the route to the subject, before there is any load.
    pub(super) fn trace(&mut self) -> Result<()> {
        let site = self.subject();
        let is_local = site.route.as_ref().is_some_and(|route| route.is_local);
        let is_wanted = self.options.network.route || !is_local && self.is_far();
        if !is_wanted {
            return Ok(());
        }
        let target = site.target.address;
        let bar = self.console.spinner(STEP);
        let (mut events, mut outcome) = (Vec::new(), Ok(()));
        for method in [RouteMethod::TcpSyn, RouteMethod::TcpConnect] {
            let plan = TracePlan {
                timeout: PATIENCE,
                rounds: Some(ROUNDS),
                ..TracePlan::new(target, method)
            };
            outcome = trace(&plan, self.interrupt.flag(), |event| events.push(event));
            if !matches!(outcome, Err(TraceError::NotPermitted { .. })) {
                break;
            }
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
        let mut tally = RouteTally::default();
        for event in &events {
            match &event.body {
                EventBody::Trace(start) => tally.begin(start.clone()),
                EventBody::Hop(sample) => tally.observe(sample),
                _ => {}
            }
        }
        self.say(STEP, TargetId::Subject, &describe(&tally));
        self.feed.observe_idle(events);
        Ok(())
    }

    /// Whether there are routers on the way, and the way takes a material part of
    /// a request's time.
    fn is_far(&self) -> bool {
        let samples: Vec<&ProbeSample> = self
            .feed
            .waiting()
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::Probe(sample) if sample.target == TargetId::Subject => Some(sample),
                _ => None,
            })
            .collect();
        let median = |methods: &[ProbeMethod]| {
            let mut times = Distribution::default();
            let of = samples.iter().filter(|s| methods.contains(&s.method));
            of.filter_map(|s| s.rtt).for_each(|rtt| times.record(rtt));
            times.quantile(0.5)
        };
        let trip = median(&[ProbeMethod::TcpSyn, ProbeMethod::TcpConnect]);
        let request = median(&[ProbeMethod::HttpKeptAlive])
            .or_else(|| median(&[ProbeMethod::HttpFresh]))
            .unwrap_or_default();
        let is_material = trip.is_some_and(|trip| {
            trip >= NOTABLE && trip.as_secs_f64() >= request.as_secs_f64() * SHARE
        });
        let answered = samples.iter().filter(|s| s.answer == ProbeAnswer::Open);
        let hops = answered.filter_map(|s| s.ttl).map(hops_of).max();
        let route = self.subject().route.as_ref();
        // Without raw sockets nobody says how far an answer came.
        let has_gateway = route.is_some_and(|route| route.gateway.is_some());
        is_material && hops.map_or(has_gateway, |hops| hops > 1)
    }
}

/// A trace in a line.
fn describe(tally: &RouteTally) -> String {
    let hops = tally.hops();
    let answering = hops.iter().filter(|hop| hop.received > 0);
    let trips = answering.map(|hop| {
        let time = Duration::from_nanos(hop.kept_ns);
        format!("{} at hop {}", words::time(time), hop.ttl)
    });
    let trips: Vec<String> = trips.collect();
    match trips.is_empty() {
        true => "no hop answers".to_owned(),
        false => trips.join(", "),
    }
}
