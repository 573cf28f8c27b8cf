//! Variants of load: a fixed number of requests, pipelining, Unix sockets, socket options.

#[path = "servers/fake.rs"]
mod fake;
#[path = "servers/nginx.rs"]
mod nginx;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fake::{RESPONSE, Server};
use lagtrace_core::observed::event::{Event, EventBody, Phase, TargetId};
use lagtrace_sources::load::{Lane, LaneSummary, LoadError, Pace, Plan, Summary, Target, run};
use lagtrace_sources::request::Request;
use lagtrace_sources::url::Url;
use nginx::Nginx;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn plan(address: SocketAddr, connections: u32) -> Plan {
    let lane = Lane {
        target: Target {
            id: TargetId::Subject,
            address,
            url: Url::at(address.ip(), address.port(), "/"),
            request: Request::default(),
        },
        phase: Phase::Baseline,
        experiment: None,
        connections,
    };
    Plan {
        duration: ms(700),
        warm_up: ms(0),
        ..Plan::new(vec![lane])
    }
}

fn nginx_at(nginx: &Nginx) -> SocketAddr {
    ([127, 0, 0, 1], nginx.port).into()
}

fn measure(plan: &Plan) -> (Summary, Vec<Event>) {
    let mut events = Vec::new();
    let stop = AtomicBool::new(false);
    let summary = run(plan, &|_| {}, &stop, |event| events.push(event)).expect("the plan is valid");
    (summary, events)
}

fn ended(lane: &LaneSummary) -> u64 {
    lane.responses() + lane.failed()
}

/// Reads requests and answers each of them, even if several arrive together. If `answer` returns
/// `None`, the connection ends.
fn answer_each(mut stream: TcpStream, mut answer: impl FnMut(u64) -> Option<&'static [u8]>) {
    stream.set_nodelay(true).expect("an option");
    let (mut buffer, mut asked, mut number) = ([0; 4096], Vec::new(), 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(len) if len > 0 => asked.extend_from_slice(&buffer[..len]),
            _ => return,
        }
        while let Some(end) = asked.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            asked.drain(..end + 4);
            number += 1;
            match answer(number) {
                Some(bytes) if stream.write_all(bytes).is_ok() => {}
                _ => return,
            }
        }
    }
}

#[test]
fn a_number_of_requests_is_made_exactly() {
    let requests = AtomicU64::new(0);
    let heard: &'static AtomicU64 = Box::leak(Box::new(requests));
    let server = Server::start(|stream| {
        answer_each(stream, |_| {
            heard.fetch_add(1, Ordering::SeqCst);
            Some(RESPONSE)
        });
    });
    for (connections, threads, at_once, pace) in [
        (1, 1, 1, Pace::ClosedLoop),
        (7, 2, 1, Pace::ClosedLoop),
        (7, 2, 3, Pace::ClosedLoop),
        (64, 2, 1, Pace::ClosedLoop),
        (3, 2, 1, Pace::Rate(2000.0)),
    ] {
        heard.store(0, Ordering::SeqCst);
        let mut plan = plan(server.address, connections);
        plan.duration = Duration::from_secs(60);
        plan.requests = Some(100);
        (plan.threads, plan.protocol.at_once, plan.pace) = (threads, at_once, pace);
        let (summary, _) = measure(&plan);
        let lane = &summary.lanes[0];
        assert_eq!((lane.responses(), lane.failed()), (100, 0), "{connections}");
        assert_eq!(heard.load(Ordering::SeqCst), 100);
        assert!(summary.ended.since(summary.started) < plan.duration);
    }
}

#[test]
fn failed_requests_are_of_the_number_too() {
    // Answers on every second connection, and closes the others without an answer.
    let accepted = AtomicU64::new(0);
    let server = Server::start(move |mut stream| {
        let is_odd = accepted.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        while fake::read_request(&mut stream).is_some() {
            if is_odd || stream.write_all(RESPONSE).is_err() {
                return;
            }
        }
    });
    let mut plan = plan(server.address, 4);
    plan.duration = Duration::from_secs(20);
    plan.requests = Some(60);
    let (summary, _) = measure(&plan);
    let lane = &summary.lanes[0];
    assert_eq!(ended(lane), 60, "{lane:?}");
    assert!(lane.failed() > 0 && lane.responses() > 0, "{lane:?}");
}

#[test]
fn pipelined_responses_have_a_time_each() {
    // Answers one request every 10 ms.
    let server = Server::start(|stream| {
        answer_each(stream, |_| {
            std::thread::sleep(ms(10));
            Some(RESPONSE)
        });
    });
    let mut plan = plan(server.address, 1);
    plan.requests = Some(40);
    plan.duration = Duration::from_secs(20);
    plan.protocol.at_once = 4;
    let (summary, events) = measure(&plan);
    let lane = &summary.lanes[0];
    assert_eq!((lane.responses(), lane.failed()), (40, 0));
    // Except for the first ones, each request waits for the three before it.
    let median = lane.service.quantile(0.5).expect("answered");
    assert!(median >= ms(38), "{median:?}");
    // If four responses ended together each time, there would be only ten different end times.
    let ends = events.iter().filter_map(|event| match &event.body {
        EventBody::Request(sample) => Some(sample.ended),
        _ => None,
    });
    assert!(ends.collect::<BTreeSet<_>>().len() > 10);
    assert_eq!(lane.transport.at_once, 4);
}

#[test]
fn what_a_closing_connection_left_is_asked_again() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    // The fifth response announces the end of the connection. The server closes only when further
    // requests have arrived, because the kernel would otherwise send an RST.
    let server = Server::start(|stream| {
        answer_each(stream, |number| match number {
            1..=4 => Some(RESPONSE),
            5 => Some(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
            6 => None,
            _ => unreachable!("it ended"),
        });
    });
    for (address, closes) in [(server.address, true), (nginx_at(&nginx), false)] {
        let mut plan = plan(address, 2);
        plan.requests = Some(100);
        plan.duration = Duration::from_secs(20);
        plan.protocol.at_once = 3;
        let (summary, _) = measure(&plan);
        let lane = &summary.lanes[0];
        assert_eq!(lane.responses(), 100, "{lane:?}");
        assert_eq!(lane.connects > 2, closes);
        assert_eq!(lane.failed(), 0, "{lane:?}");
    }
}

#[test]
fn the_end_of_a_long_response_is_heard_however_much_waits_before_it() {
    // The response ends with the connection. It is longer than the client reads in one iteration.
    let server = Server::start(|mut stream| {
        while fake::read_request(&mut stream).is_none() {}
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        let _ = stream.write_all(&vec![b'x'; 3_000_000]);
    });
    let mut plan = plan(server.address, 8);
    (plan.requests, plan.threads) = (Some(16), 1);
    plan.sockets.receive_buffer = Some(4 << 20);
    plan.duration = Duration::from_secs(20);
    plan.timeout = Duration::from_secs(2);
    let (summary, _) = measure(&plan);
    let lane = &summary.lanes[0];
    assert_eq!((lane.responses(), lane.failed()), (16, 0), "{lane:?}");
}

#[test]
fn a_unix_socket_takes_the_place_of_the_address() {
    let lines = "server { listen unix:{folder}/load.sock; root {folder}; index page.html; }";
    let Some(nginx) = Nginx::start(lines) else {
        return;
    };
    // No server listens on this address.
    let mut plan = plan(([127, 0, 0, 1], 9).into(), 4);
    plan.sockets.unix = Some(nginx.file("load.sock"));
    let (summary, events) = measure(&plan);
    let lane = &summary.lanes[0];
    assert!(lane.responses() > 50 && lane.failed() == 0, "{lane:?}");
    let path = nginx.file("load.sock").display().to_string();
    assert_eq!(lane.transport.unix_socket, Some(path));
    let has_flow = |event: &Event| matches!(event.body, EventBody::FlowPhase(_));
    assert!(!events.iter().any(has_flow));
    plan.sockets.unix = Some(nginx.file("none.sock"));
    let error = run(&plan, &|_| {}, &AtomicBool::new(false), |_| {}).expect_err("no such file");
    assert!(error.to_string().contains("none.sock"), "{error}");
}

#[test]
fn sources_are_used_in_turn() {
    let peers: &'static Mutex<BTreeSet<IpAddr>> = Box::leak(Box::default());
    let server = Server::start(move |mut stream| {
        let peer = stream.peer_addr().expect("a peer").ip();
        peers.lock().expect("unpoisoned").insert(peer);
        while fake::read_request(&mut stream).is_some() && stream.write_all(RESPONSE).is_ok() {}
    });
    let sources: Vec<IpAddr> = [2, 3, 4].map(|n| IpAddr::from([127, 0, 0, n])).to_vec();
    let mut plan = plan(server.address, 6);
    plan.sockets.sources.clone_from(&sources);
    (plan.sockets.receive_buffer, plan.sockets.send_buffer) = (Some(8192), Some(8192));
    let (summary, _) = measure(&plan);
    assert!(summary.lanes[0].responses() > 50);
    let seen: Vec<IpAddr> = peers.lock().expect("unpoisoned").iter().copied().collect();
    assert_eq!(seen, sources);
    let options = &summary.lanes[0].transport.options;
    assert_eq!(
        options,
        &["TCP_NODELAY", "SO_RCVBUF 8192", "SO_SNDBUF 8192"]
    );
    // Two threads with two connections each. The second thread continues with the addresses after
    // those of the first one.
    peers.lock().expect("unpoisoned").clear();
    let four: Vec<IpAddr> = [5, 6, 7, 8].map(|n| IpAddr::from([127, 0, 0, n])).to_vec();
    plan.sockets.sources.clone_from(&four);
    (plan.lanes[0].connections, plan.threads) = (4, 2);
    measure(&plan);
    let seen: Vec<IpAddr> = peers.lock().expect("unpoisoned").iter().copied().collect();
    assert_eq!(seen, four);
    for wrong in ["192.0.2.1", "::1"] {
        plan.sockets.sources = vec![wrong.parse().expect("an address")];
        let error = run(&plan, &|_| {}, &AtomicBool::new(false), |_| {});
        assert!(matches!(error, Err(LoadError::Socket { .. })), "{wrong}");
    }
}
