//! Load on real servers, over the loopback interface.

#[path = "servers/fake.rs"]
mod fake;
#[path = "servers/nginx.rs"]
mod nginx;

use std::collections::BTreeSet;
use std::io::{Read as _, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fake::{ClosedPort, FullBacklog, Server};
use lagtrace_core::observed::event::{Event, EventBody, Phase, RequestFailure, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::load::{
    Arrangement, Ending, Lane, LaneSummary, LoadError, Pace, Plan, Summary, Target, run,
};
use lagtrace_sources::request::{Method, Request};
use lagtrace_sources::url::Url;
use lagtrace_trial::live;
use nginx::Nginx;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn lane(address: SocketAddr, connections: u32) -> Lane {
    Lane {
        target: Target {
            id: TargetId::Subject,
            address,
            url: Url::at(address.ip(), address.port(), "/"),
            request: Request::default(),
        },
        phase: Phase::Baseline,
        experiment: None,
        connections,
    }
}

fn plan(lanes: Vec<Lane>, millis: u64) -> Plan {
    Plan {
        duration: ms(millis),
        warm_up: ms(100),
        ..Plan::new(lanes)
    }
}

fn measure(plan: &Plan) -> (Summary, Vec<Event>) {
    let mut events = Vec::new();
    let stop = AtomicBool::new(false);
    let summary = run(plan, &|_| {}, &stop, |event| events.push(event)).expect("the plan is valid");
    (summary, events)
}

fn count(lane: &LaneSummary, failure: RequestFailure) -> u64 {
    let of_kind = lane.failures.iter().filter(|(kind, _)| *kind == failure);
    of_kind.map(|(_, count)| count).sum()
}

/// Returns the totals of the clusters in one phase.
fn clusters(events: &[Event], phase: Phase) -> (Distribution, u64, BTreeSet<u16>) {
    let (mut latency, mut responses, mut groups) = (Distribution::default(), 0, BTreeSet::new());
    for event in events.iter().filter(|event| event.phase == phase) {
        if let EventBody::Load(cluster) = &event.body {
            latency.merge(&cluster.latency);
            responses += cluster.statuses.iter().map(|(_, n)| n).sum::<u64>();
            groups.insert(cluster.group);
            assert!(cluster.first_byte.count() == cluster.body.count());
        }
    }
    (latency, responses, groups)
}

#[test]
fn events_and_summary_agree_on_a_real_server() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let plan = plan(vec![lane(([127, 0, 0, 1], nginx.port).into(), 20)], 1300);
    let (summary, events) = measure(&plan);
    assert_eq!(summary.ending, Ending::Completed);
    let lane = &summary.lanes[0];
    assert_eq!((lane.failed(), lane.statuses.len()), (0, 1));
    assert!(lane.responses() > 100);

    let (latency, responses, groups) = clusters(&events, Phase::Baseline);
    assert_eq!((&latency, responses), (&lane.latency, lane.responses()));
    assert_eq!(groups.len(), 16);

    let flows: BTreeSet<_> = events
        .iter()
        .filter_map(|event| match event.body {
            EventBody::FlowPhase(flow) => Some(flow),
            _ => None,
        })
        .collect();
    assert_eq!(flows.len(), 20);
    let mut samples = 0;
    for event in &events {
        if let EventBody::Request(sample) = &event.body {
            samples += 1;
            assert!(flows.contains(&sample.flow.expect("it was connected")));
            let first = sample.first_byte.expect("it was answered");
            assert!(sample.sent < first && first <= sample.ended);
            assert!(sample.received_bytes > 615);
            assert_eq!(sample.setup.is_some(), sample.ordinal == 0);
            let is_early = sample.sent < summary.counted_from;
            assert_eq!(event.phase == Phase::WarmUp, is_early);
        }
    }
    assert!((100..=3 * 2016).contains(&samples), "{samples}");
    // No event is later than the end of the run.
    let end = summary.counted_from + plan.duration;
    let is_load = |event: &&Event| matches!(event.body, EventBody::Load(_));
    let told = events.iter().filter(is_load).map(|event| event.at);
    assert_eq!(told.max(), Some(end));
    let phases = events.iter().filter_map(|event| match &event.body {
        EventBody::PhaseStarted(phase) => Some((event.phase, phase.end.since(event.at))),
        _ => None,
    });
    let phases: Vec<_> = phases.collect();
    assert_eq!(
        phases,
        [(Phase::WarmUp, ms(100)), (Phase::Baseline, ms(1300))]
    );
}

#[test]
fn experiments_run_in_turn_with_their_control() {
    let Some(nginx) = Nginx::start("tcp_nodelay off;") else {
        return;
    };
    let address = ([127, 0, 0, 1], nginx.port).into();
    for (number, experiment) in [
        (1, Experiment::QuickAck),
        (2, Experiment::ConnectionClose),
        (3, Experiment::FreshConnection),
    ] {
        let control = Lane {
            phase: Phase::Control(number),
            ..lane(address, 5)
        };
        let experiment = Lane {
            phase: Phase::Experiment(number),
            experiment: Some(experiment),
            ..control.clone()
        };
        let mut plan = plan(vec![control, experiment], 1000);
        plan.arrangement = Arrangement::Interleaved { slice: ms(125) };
        plan.pace = Pace::Rate(100.0);
        let (summary, events) = measure(&plan);
        let [control, experiment] = &summary.lanes[..] else {
            panic!("two lanes");
        };
        assert_eq!(control.responses(), 50);
        assert_eq!(experiment.responses(), 50);
        let is_fresh = number > 1;
        // About one connection per response: a few are opened in the warm-up, and a few for the
        // next requests.
        let connects = if is_fresh { 45..=65 } else { 0..=5 };
        assert!(connects.contains(&experiment.connects), "{experiment:?}");
        let (latency, ..) = clusters(&events, Phase::Experiment(number));
        assert_eq!(latency, experiment.latency);
    }
}

#[test]
fn subject_and_twin_are_measured_at_once_over_both_families() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let subject = lane(([127, 0, 0, 1], nginx.port).into(), 4);
    let v6: SocketAddr = (std::net::Ipv6Addr::LOCALHOST, nginx.port).into();
    if std::net::TcpStream::connect(v6).is_err() {
        return nginx::skip("IPv6 on the loopback interface");
    }
    let mut twin = lane(v6, 4);
    twin.target.id = TargetId::Twin;
    twin.target.request.method = Method::HEAD;
    let (summary, _) = measure(&plan(vec![subject, twin], 500));
    for lane in &summary.lanes {
        assert!(lane.responses() > 100, "{lane:?}");
        assert_eq!(lane.failed(), 0);
    }
    let per_response = |lane: &LaneSummary| lane.received_bytes / lane.responses();
    assert!(per_response(&summary.lanes[0]) > 615);
    assert!(per_response(&summary.lanes[1]) < 615);
}

#[test]
fn a_frozen_server_shows_in_the_tail_of_an_open_loop() {
    live("a_frozen_server_shows_in_the_tail_of_an_open_loop")
        .standstill(ms(100))
        .share(0.2)
        .run(|| {
            let server = Server::start(fake::freeze_for(ms(200), ms(1000)));
            let mut plan = plan(vec![lane(server.address, 8)], 2000);
            plan.pace = Pace::Rate(200.0);
            let (summary, _) = measure(&plan);
            let lane = &summary.lanes[0];
            assert_eq!(lane.latency.count(), 400);
            let p99 = lane.latency.quantile(0.99).expect("requests");
            assert!(p99 >= ms(170), "{p99:?}");
            // Requests that waited in the client until the freeze was over were then answered
            // quickly.
            let stuck = lane.service.share_above(ms(100)) * 400.0;
            let delayed = lane.latency.share_above(ms(100)) * 400.0;
            assert!(stuck + 10.0 < delayed, "{stuck} {delayed}");
        });
}

#[test]
fn a_slow_server_is_as_slow_as_it_is() {
    let server = Server::start(fake::answer_after(ms(10)));
    let plan = plan(vec![lane(server.address, 10)], 500);
    let (summary, _) = measure(&plan);
    let lane = &summary.lanes[0];
    assert!(lane.latency.min() >= Some(ms(10)));
    assert_eq!(lane.failed(), 0);
    assert_eq!(lane.latency, lane.service);
}

#[test]
fn connections_that_wait_from_the_warm_up_to_the_end_count() {
    let worker = Mutex::new(());
    let answer = fake::answer_after(ms(5));
    let server = Server::start(move |stream| {
        let _one_connection_at_a_time = worker.lock();
        answer(stream);
    });
    let plan = plan(vec![lane(server.address, 4)], 600);
    let (summary, events) = measure(&plan);
    let lane = &summary.lanes[0];
    let waiting = lane.latency.share_above(plan.duration) * lane.latency.count() as f64;
    assert_eq!(waiting.round(), 3.0, "{lane:?}");
    assert_eq!(clusters(&events, Phase::Baseline).0, lane.latency);
    let is_waiting = |event: &&Event| match &event.body {
        EventBody::Request(sample) => sample.ended.since(sample.sent) > plan.duration,
        _ => false,
    };
    let samples: Vec<_> = events.iter().filter(is_waiting).collect();
    assert_eq!(samples.len(), 3);
    assert!(samples.iter().all(|event| event.phase == Phase::Baseline));
}

#[test]
fn a_long_body_arrives_whole_and_a_long_response_is_read_to_its_end() {
    const LEN: usize = 3_000_000;
    let server = Server::start(|mut stream| {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
            head.push(byte[0]);
        }
        let mut body = vec![0; LEN];
        if stream.read_exact(&mut body).is_ok() && body.iter().all(|&byte| byte == b'b') {
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&body);
        }
    });
    let mut lane = lane(server.address, 2);
    lane.target.request.method = Method::POST;
    lane.target.request.body = Some(vec![b'b'; LEN]);
    let mut plan = plan(vec![lane], 20_000);
    (plan.warm_up, plan.requests) = (ms(0), Some(6));
    let (summary, _) = measure(&plan);
    let lane = &summary.lanes[0];
    assert_eq!(lane.responses(), 6, "{lane:?}");
    assert!(
        lane.received_bytes > lane.responses() * LEN as u64,
        "{lane:?}"
    );
}

#[test]
fn a_server_that_never_answers_gives_timeouts_with_their_age() {
    let server = Server::start(|mut stream| while fake::read_request(&mut stream).is_some() {});
    let mut plan = plan(vec![lane(server.address, 5)], 600);
    plan.timeout = ms(200);
    let (summary, _) = measure(&plan);
    let lane = &summary.lanes[0];
    assert_eq!(summary.ending, Ending::Completed);
    assert!(count(lane, RequestFailure::Timeout) >= 5, "{lane:?}");
    assert_eq!(lane.responses(), 0);
    assert_eq!(lane.latency.count(), lane.failed());
    assert!(lane.latency.min() >= Some(ms(200)));
}

#[test]
fn servers_that_misbehave_are_told_apart_and_not_stormed() {
    let closes = Server::start(drop);
    let garbles = Server::start(|mut stream| {
        fake::read_request(&mut stream);
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n");
        std::thread::sleep(ms(2000));
    });
    let cuts = Server::start(|mut stream| {
        fake::read_request(&mut stream);
        let _ = stream.write_all(&fake::RESPONSE[..fake::RESPONSE.len() - 1]);
    });
    for (server, failures) in [
        (
            &closes,
            &[RequestFailure::Closed, RequestFailure::Reset][..],
        ),
        (&garbles, &[RequestFailure::NotHttp]),
        (&cuts, &[RequestFailure::Closed]),
    ] {
        let (summary, _) = measure(&plan(vec![lane(server.address, 4)], 600));
        let lane = &summary.lanes[0];
        assert_eq!(lane.responses(), 0);
        assert!(lane.failed() > 0);
        let of_kind: u64 = failures.iter().map(|&kind| count(lane, kind)).sum();
        assert_eq!(of_kind, lane.failed(), "{:?}", lane.failures);
        assert!(server.accepted() <= 4 * 10, "{}", server.accepted());
    }
}

#[test]
fn responses_that_close_the_connection_are_followed_by_another_connection() {
    let server = Server::start(|mut stream| {
        fake::read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
    });
    let (summary, _) = measure(&plan(vec![lane(server.address, 4)], 400));
    let lane = &summary.lanes[0];
    assert!(lane.responses() > 4, "{lane:?}");
    assert_eq!(lane.failed(), 0);
    assert!(lane.connects.abs_diff(lane.responses()) <= 8);
}

#[test]
fn nobody_listening_ends_the_run_early() {
    let closed = ClosedPort::of([127, 0, 0, 1].into());
    for pace in [Pace::ClosedLoop, Pace::Rate(1000.0)] {
        let mut plan = plan(vec![lane(closed.address, 10)], 60_000);
        plan.pace = pace;
        let (summary, _) = measure(&plan);
        assert_eq!(
            summary.ending,
            Ending::NothingConnected(RequestFailure::Refused)
        );
        assert!(summary.ended.since(summary.started) < plan.duration);
    }
}

#[test]
fn a_silent_target_ends_the_run_early() {
    let target = FullBacklog::start();
    let mut plan = plan(vec![lane(target.address, 10)], 60_000);
    plan.timeout = ms(300);
    let (summary, _) = measure(&plan);
    assert_eq!(
        summary.ending,
        Ending::NothingConnected(RequestFailure::ConnectTimeout)
    );
    assert!(summary.ended.since(summary.started) < plan.duration);
}

#[test]
fn the_stop_flag_ends_it_with_what_was_measured() {
    let server = Server::start(fake::answer_after(ms(5)));
    let mut plan = plan(vec![lane(server.address, 4)], 60_000);
    plan.reporting.samples_per_second = 10;
    let stop = AtomicBool::new(false);
    let stop_after = |progress: lagtrace_sources::load::Progress| {
        assert!(progress.elapsed <= progress.of);
        if progress.elapsed > ms(500) && progress.requests > 10 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let mut events = Vec::new();
    let summary = run(&plan, &stop_after, &stop, |event| events.push(event)).expect("valid");
    assert_eq!(summary.ending, Ending::Stopped);
    assert!(summary.ended.since(summary.started) < plan.duration);
    assert!(summary.lanes[0].responses() > 10);
    let last = events.iter().rev().find_map(|event| match &event.body {
        EventBody::PhaseStarted(phase) => Some(phase.end),
        _ => None,
    });
    assert_eq!(last, Some(summary.ended));
    let samples = events.iter();
    let samples = samples.filter(|event| matches!(event.body, EventBody::Request(_)));
    let seconds = summary.ended.since(summary.started).as_secs() as usize + 2;
    assert!(samples.count() <= seconds * (10 + 16));
}

#[test]
fn plans_that_cannot_be_run_are_refused_with_a_reason() {
    let address = ([127, 0, 0, 1], 1).into();
    let good = plan(vec![lane(address, 1)], 1000);
    let refuse = |plan: Plan, words: &str| {
        let stop = AtomicBool::new(false);
        let error = run(&plan, &|_| {}, &stop, |_| {}).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
        error
    };
    refuse(plan(vec![], 1000), "no target");
    refuse(plan(vec![lane(address, 0)], 1000), "lane 0");
    refuse(plan(vec![lane(address, u32::MAX)], 1000), "4294967295");
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = refuse(
            Plan {
                pace: Pace::Rate(rate),
                ..good.clone()
            },
            "rate",
        );
        assert!(matches!(error, LoadError::Rate { .. }));
    }
    refuse(plan(good.lanes.clone(), 0), "duration");
    let slice = Duration::ZERO;
    let arrangement = Arrangement::Interleaved { slice };
    refuse(
        Plan {
            arrangement,
            ..good
        },
        "slice",
    );
}
