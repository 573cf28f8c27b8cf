//! Tests of periods in which none of our own requests was answered, before packets were captured.

use core::time::Duration;

use super::starved::{answered, at, ends, segments};
use super::*;
use crate::observed::event::{
    Event, EventBody, GeneratorSample, ListenerSample, LoadCluster, Phase, PhaseStart, Silence,
    TargetId,
};
use crate::observed::load_level::ProcessorUse;
use crate::registry::Id;
use crate::report::{Caveat, Layer, LayerState, OverallResult, Verdict};
use crate::stats::histogram::Distribution;

/// Begin and end of the baseline without packet capture, and of the one with it, in milliseconds.
const UNOBSERVED: (i64, i64) = (-4_000, -1_000);
const OBSERVED: (i64, i64) = (0, 1_900);

/// The load before packets were captured, as our own requests measured it.
#[derive(Clone, Copy)]
struct Shown {
    /// The periods in which no request was answered, and the number of connections.
    silent: Duration,
    times: u32,
    connections: u32,
    /// The lateness of the generator's own thread.
    own: Duration,
    /// The duration of most requests.
    usual: Duration,
    is_near: bool,
    /// The round trip of the handshake, in milliseconds.
    trip: i64,
}

const STOOD: Shown = Shown {
    silent: Duration::from_millis(400),
    times: 1,
    connections: 5,
    own: Duration::from_millis(3),
    usual: Duration::from_micros(500),
    is_near: true,
    trip: 0,
};

fn start((from, to): (i64, i64), is_observed: bool) -> Event {
    let start = PhaseStart {
        target: TargetId::Subject,
        end: at(to),
        experiment: None,
        connections: 5,
        offered_rate: None,
        turns: 1,
        active: Duration::from_millis((to - from) as u64),
        is_observed,
    };
    Event::here(at(from), Phase::Baseline, EventBody::PhaseStarted(start))
}

fn events(shown: Shown) -> Vec<Event> {
    let mut latency = Distribution::default();
    latency.record_many(shown.usual, 1_000);
    latency.record_many(shown.silent, u64::from(shown.connections * shown.times));
    let load = LoadCluster {
        service: latency.clone(),
        statuses: vec![(200, latency.count())],
        latency,
        ..LoadCluster::default()
    };
    let silence = |number| {
        let begin = at(UNOBSERVED.0) + shown.silent * number + Duration::from_millis(9) * number;
        EventBody::Silence(Silence {
            target: TargetId::Subject,
            begin,
            end: begin + shown.silent,
            connections: shown.connections,
        })
    };
    let generator = GeneratorSample {
        busiest_share: 0.1,
        cpu: Duration::from_millis(10),
        start_lag_p99: Duration::ZERO,
        turn_p99: Duration::ZERO,
        wall: Some(shown.silent),
        has_responses: true,
        standstill: Some(shown.own),
    };
    let listener = ListenerSample {
        local: ends(0)[1],
        queued: 0,
        limit: 511,
        embryonic: 0,
        syn_backlog: None,
        somaxconn: None,
    };
    let said = |body| Event::here(at(UNOBSERVED.1), Phase::Baseline, body);
    let mut all = vec![
        start(UNOBSERVED, false),
        said(EventBody::Load(load)),
        said(EventBody::Generator(generator)),
        start(OBSERVED, true),
    ];
    all.extend((0..shown.times).map(|number| said(silence(number))));
    if shown.is_near {
        all.push(said(EventBody::Listener(listener)));
    }
    all
}

/// Returns the report with packets from a time in which the server did not stall.
fn report(events: Vec<Event>, trip: i64) -> Report {
    let [_, server] = ends(0);
    let mut analyzer = Analyzer::new(Options {
        targets: vec![(TargetId::Subject, server)],
        ..Options::default()
    });
    events.into_iter().for_each(|event| analyzer.observe(event));
    let mut steps = answered(trip + 1);
    for step in steps.iter_mut().take(3).skip(1) {
        step.0 = trip;
    }
    for (number, (mut segment, payload)) in (1..).zip(segments(0, steps)) {
        segment.number = number;
        analyzer.segment(&segment, payload);
    }
    analyzer.finish()
}

/// Returns the verdict that the server stalled.
fn found(shown: Shown) -> Option<Verdict> {
    let report = report(events(shown), shown.trip);
    let stops = report
        .findings
        .iter()
        .find(|finding| finding.cause == Id::StopTheWorld);
    stops.map(|finding| finding.verdict)
}

#[test]
fn a_silence_on_all_connections_is_a_stand_still_that_may_not_come_again() {
    assert_eq!(found(STOOD), Some(Verdict::Possible));
}

#[test]
fn silences_that_take_most_of_the_time_are_rare_if_most_requests_are_quick() {
    let times = 7;
    assert_eq!(found(Shown { times, ..STOOD }), Some(Verdict::Possible));
}

#[test]
fn what_else_may_have_stood_still_is_not_the_server() {
    let own = Duration::from_millis(150);
    assert_eq!(found(Shown { own, ..STOOD }), None, "our own host");
    let is_near = false;
    assert_eq!(found(Shown { is_near, ..STOOD }), None, "the path");
    let trip = 5;
    assert_eq!(found(Shown { trip, ..STOOD }), None, "an emulated path");
    let connections = 2;
    assert_eq!(
        found(Shown {
            connections,
            ..STOOD
        }),
        None,
        "chance"
    );
    let usual = Duration::from_millis(150);
    assert_eq!(found(Shown { usual, ..STOOD }), None, "as it always is");
    let silent = Duration::from_millis(150);
    assert_eq!(found(Shown { silent, ..STOOD }), None, "any host's moment");
}

/// Returns whether the captured part of a load differs from the rest, of which `late` in a thousand
/// requests took 100 ms, and the others as long as the captured ones. Others use this `share` of the
/// processors.
fn differs_beside(late: u64, own: Duration, share: f64) -> Option<bool> {
    let cluster = |late| {
        let mut latency = Distribution::default();
        latency.record_many(STOOD.usual, 1_000 - late);
        latency.record_many(Duration::from_millis(100), late);
        EventBody::Load(LoadCluster {
            service: latency.clone(),
            statuses: vec![(200, 1_000)],
            latency,
            ..LoadCluster::default()
        })
    };
    let kept = |event: &Event| !matches!(event.body, EventBody::Load(_) | EventBody::Silence(_));
    let mut events = events(Shown { own, ..STOOD });
    events.retain(kept);
    events.insert(
        1,
        Event::here(at(UNOBSERVED.1), Phase::Baseline, cluster(late)),
    );
    events.push(Event::here(at(OBSERVED.1), Phase::Baseline, cluster(0)));
    let wall = Duration::from_secs(1);
    let used = ProcessorUse {
        processors: 1,
        wall,
        busy: wall,
        by_others: wall.mul_f64(share),
        ..ProcessorUse::default()
    };
    let body = EventBody::Processors(used);
    events.push(Event::here(at(OBSERVED.1), Phase::Baseline, body));
    let report = report(events, 0);
    let part = report.load.and_then(|load| load.captured_part)?;
    let is_unexplained = report.overall.is_some_and(|overall| {
        overall.result == OverallResult::Unexplained
            && overall.caveats.contains(&Caveat::CapturedPartDiffers)
    });
    assert_eq!(part.differs, is_unexplained);
    let is_clear = |layer: &Layer| layer.layer == "server" && layer.state == LayerState::Cleared;
    assert_eq!(part.differs, !report.layers.iter().any(is_clear));
    Some(part.differs)
}

fn differs(late: u64, own: Duration) -> Option<bool> {
    differs_beside(late, own, 0.0)
}

#[test]
fn how_long_requests_wait_for_processors_that_others_use_is_chance() {
    let own = Duration::from_millis(3);
    assert_eq!(differs_beside(4, own, 0.1), Some(true));
    assert_eq!(differs_beside(4, own, 0.7), Some(false));
    assert_eq!(differs_beside(40, own, 0.7), Some(true), "most of the time");
}

#[test]
fn packets_do_not_explain_requests_that_took_longer_while_none_were_captured() {
    let own = Duration::from_millis(3);
    assert_eq!(differs(10, own), Some(true));
    assert_eq!(differs(0, own), Some(false));
    assert_eq!(differs(1, own), Some(false), "a tenth of the time");
    let own = Duration::from_millis(60);
    assert_eq!(differs(10, own), Some(false), "this host stood still");
}
