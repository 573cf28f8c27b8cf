//! Load with TLS on a real nginx.

#[path = "servers/fake.rs"]
mod fake;
#[path = "servers/nginx.rs"]
mod nginx;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase, RequestFailure, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_sources::load::{Ending, Lane, LaneSummary, Plan, Summary, Target, run};
use lagtrace_sources::request::{Method, Request};
use lagtrace_sources::tls::{Carried, TlsClient, Trust};
use nginx::Nginx;

/// A server with TLS in addition to plain HTTP. Its page takes several TLS records.
const TLS: &str = "{certificate} ssl_protocols TLSv1.2 TLSv1.3;
    server { listen 127.0.0.1:{other_port} ssl; root {folder}; index page.html;
        client_max_body_size 8m; location /taken { return 200 ok; } }";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn plan(port: u16, host: &str, trust: &Trust, connections: u32) -> Plan {
    let lane = Lane {
        target: Target {
            id: TargetId::Subject,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            url: format!("https://{host}:{port}/").parse().expect("a URL"),
            request: Request::default(),
        },
        phase: Phase::Baseline,
        experiment: None,
        connections,
    };
    let mut plan = Plan {
        duration: ms(800),
        warm_up: ms(100),
        ..Plan::new(vec![lane])
    };
    plan.protocol.tls = Some(TlsClient::new(trust, Carried::Http1).expect("a client"));
    plan
}

/// Returns the plan with a fixed number of requests and no time limit that matters.
fn requests(count: u64, plan: Plan) -> Plan {
    Plan {
        duration: ms(20_000),
        warm_up: ms(0),
        requests: Some(count),
        ..plan
    }
}

fn measure(plan: &Plan) -> (Summary, Vec<Event>) {
    let mut events = Vec::new();
    let stop = AtomicBool::new(false);
    let summary = run(plan, &|_| {}, &stop, |event| events.push(event)).expect("the plan is valid");
    (summary, events)
}

fn handshakes(lane: &LaneSummary) -> (u64, u64) {
    let tls = lane.transport.tls.as_ref().expect("TLS was used");
    assert!(
        tls.version >= 0x0303 && tls.cipher.starts_with("TLS"),
        "{tls:?}"
    );
    (tls.full.count(), tls.resumed.count())
}

#[test]
fn kept_connections_shake_hands_once_each() {
    let Some(nginx) = Nginx::start(TLS) else {
        return;
    };
    let trust = Trust::Authorities(nginx.certificate());
    let plan = plan(nginx.other_port, "localhost", &trust, 10);
    let (summary, events) = measure(&plan);
    assert_eq!(
        (summary.ending, &summary.tls_fault),
        (Ending::Completed, &None)
    );
    let lane = &summary.lanes[0];
    assert!(lane.responses() > 100 && lane.failed() == 0, "{lane:?}");
    let (full, resumed) = handshakes(lane);
    assert_eq!(full + resumed, 10);
    // The handshake's time is part of the setup of the connection's first request, and of nothing
    // else.
    for event in &events {
        if let EventBody::Request(sample) = &event.body {
            assert_eq!(sample.setup.is_some(), sample.ordinal == 0);
            assert!(sample.flow.is_some() && sample.received_bytes > 615);
        }
    }
    let told = events
        .iter()
        .filter(|event| matches!(event.body, EventBody::Transport(_)));
    assert_eq!(told.count(), 1);
}

#[test]
fn fresh_connections_resume_their_sessions() {
    for (protocols, cache) in [
        ("TLSv1.2", "ssl_session_cache shared:s:1m;"),
        ("TLSv1.3", ""),
    ] {
        let lines = format!("{}\n{cache}", TLS.replace("TLSv1.2 TLSv1.3", protocols));
        let Some(nginx) = Nginx::start(&lines) else {
            return;
        };
        let plan = plan(nginx.other_port, "127.0.0.1", &Trust::Anyone, 4);
        let mut plan = requests(40, plan);
        plan.lanes[0].experiment = Some(Experiment::FreshConnection);
        let (summary, _) = measure(&plan);
        let lane = &summary.lanes[0];
        assert_eq!((lane.responses(), lane.failed()), (40, 0), "{lane:?}");
        let (full, resumed) = handshakes(lane);
        assert!((1..=4).contains(&full), "{full} full, {resumed} resumed");
        assert!(resumed > lane.responses() / 2);
    }
}

#[test]
fn a_server_that_resumes_nothing_is_counted_so() {
    let lines = format!("{TLS}\nssl_session_tickets off; ssl_session_cache off;");
    let Some(nginx) = Nginx::start(&lines) else {
        return;
    };
    let plan = plan(nginx.other_port, "localhost", &Trust::Anyone, 2);
    let mut plan = requests(10, plan);
    plan.lanes[0].experiment = Some(Experiment::FreshConnection);
    let (summary, _) = measure(&plan);
    assert_eq!(handshakes(&summary.lanes[0]), (10, 0));
}

#[test]
fn bodies_of_many_records_go_both_ways() {
    let Some(nginx) = Nginx::start(TLS) else {
        return;
    };
    std::fs::write(nginx.file("page.html"), vec![b'x'; 3_000_000]).expect("a long page");
    let mut get = plan(nginx.other_port, "localhost", &Trust::Anyone, 2);
    get.timeout = Duration::from_secs(10);
    let (summary, _) = measure(&get);
    let lane = &summary.lanes[0];
    assert!(lane.responses() > 0, "{lane:?}");
    assert!(lane.received_bytes >= lane.responses() * 3_000_000);
    let mut post = get;
    post.lanes[0].target.request.method = Method::POST;
    post.lanes[0].target.request.body = Some(vec![b'y'; 2_000_000]);
    let url = format!("https://localhost:{}/taken", nginx.other_port);
    post.lanes[0].target.url = url.parse().expect("a URL");
    let (summary, _) = measure(&post);
    let lane = &summary.lanes[0];
    assert!(lane.responses() > 0, "{lane:?}");
    assert_eq!(lane.statuses.first().map(|(status, _)| *status), Some(200));
}

#[test]
fn certificates_that_are_not_accepted_are_named() {
    let Some(nginx) = Nginx::start(TLS) else {
        return;
    };
    let own = Trust::Authorities(nginx.certificate());
    for (host, trust, words) in [
        ("localhost", Trust::Platform, "self-signed"),
        (
            "other.example",
            own,
            "not for other.example but for localhost",
        ),
    ] {
        let (summary, _) = measure(&plan(nginx.other_port, host, &trust, 3));
        let fault = summary.tls_fault.expect("it cannot be accepted");
        assert!(fault.text.contains(words), "{fault:?}");
        assert_eq!(
            summary.ending,
            Ending::NothingConnected(RequestFailure::Certificate)
        );
        assert_eq!(summary.lanes[0].responses(), 0);
    }
}

#[test]
fn what_is_no_tls_is_told_from_what_fails_later() {
    let plain = fake::Server::start(|_| {});
    let deaf = fake::FullBacklog::start();
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let (summary, _) = measure(&plan(nginx.port, "localhost", &Trust::Anyone, 2));
    assert!(
        summary
            .tls_fault
            .expect("plain HTTP")
            .text
            .contains("plain HTTP")
    );
    // The server closes during the handshake. This is a failure of TLS, not of a request.
    let mut closed = plan(plain.address.port(), "localhost", &Trust::Anyone, 2);
    // The run ends by itself after enough failures.
    closed.duration = ms(20_000);
    let (summary, _) = measure(&closed);
    assert_eq!(
        summary.ending,
        Ending::NothingConnected(RequestFailure::Tls)
    );
    // The server does not accept connections. This is a failure of TCP, not of TLS.
    let mut plan = plan(deaf.address.port(), "localhost", &Trust::Anyone, 2);
    plan.timeout = ms(200);
    let (summary, _) = measure(&plan);
    assert_eq!(
        (summary.ending, summary.tls_fault),
        (
            Ending::NothingConnected(RequestFailure::ConnectTimeout),
            None
        )
    );
}
