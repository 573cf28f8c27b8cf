//! Load by HTTP/2 on a real nginx, in clear text and over TLS.

#[path = "servers/nginx.rs"]
mod nginx;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lagtrace_core::event::{Event, EventBody, Phase, RequestFailure, TargetId};
use lagtrace_sources::load::{Ending, Lane, Method, Pace, Plan, Summary, Target, run};
use lagtrace_sources::tls::{Carried, TlsClient, Trust};
use nginx::Nginx;

/// A server of HTTP/2 without TLS, which takes `{lines}` besides.
fn clear(lines: &str) -> String {
    server("http2", lines)
}

/// The same over TLS.
fn secured(lines: &str) -> String {
    server("ssl http2", &format!("{{certificate}} {lines}"))
}

/// With sendfile, nginx of this age lets a frame's header and its data wait for
/// each other's acknowledgement in clear text (Nagle): true, and slow here.
fn server(listen: &str, lines: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:{{other_port}} {listen}; root {{folder}}; index page.html;
            sendfile off;
            client_max_body_size 8m; location /taken {{ return 204; }} {lines} }}"
    )
}

fn plan(nginx: &Nginx, scheme: &str, path: &str, connections: u32, at_once: u32) -> Plan {
    let port = nginx.other_port;
    let lane = Lane {
        target: Target {
            id: TargetId::Subject,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            url: format!("{scheme}://localhost:{port}{path}")
                .parse()
                .expect("a URL"),
            method: Method::Get,
            fields: vec!["X-Twice: 1".to_owned()],
            body: Vec::new(),
        },
        phase: Phase::Baseline,
        experiment: None,
        connections,
    };
    let tls = TlsClient::new(&Trust::Anyone, Carried::Http2);
    Plan {
        duration: Duration::from_secs(30),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(10),
        requests: Some(300),
        http2: true,
        at_once,
        tls: (scheme == "https").then(|| tls.expect("a client")),
        ..Plan::new(vec![lane])
    }
}

fn measure(plan: &Plan) -> (Summary, Vec<Event>) {
    let mut events = Vec::new();
    let stop = AtomicBool::new(false);
    let summary = run(plan, &|_| {}, &stop, |event| events.push(event)).expect("the plan is valid");
    (summary, events)
}

#[test]
fn streams_are_answered_each_with_its_own_time() {
    for (scheme, lines) in [("http", clear("")), ("https", secured(""))] {
        let Some(nginx) = Nginx::start(&lines) else {
            return;
        };
        for (connections, at_once) in [(1, 1), (3, 1), (2, 10), (1, 200)] {
            let (summary, events) = measure(&plan(&nginx, scheme, "/", connections, at_once));
            let lane = &summary.lanes[0];
            assert_eq!((lane.responses(), lane.failed()), (300, 0), "{lane:?}");
            assert_eq!(lane.statuses, [(200, 300)]);
            assert_eq!(lane.connects, u64::from(connections));
            assert!(lane.received_bytes > 300 * 615);
            assert_eq!(lane.transport.protocol, "HTTP/2");
            for event in &events {
                if let EventBody::Request(sample) = &event.body {
                    let first = sample.first_byte.expect("it was answered");
                    assert!(sample.sent < first && first <= sample.ended);
                    assert!(sample.received_bytes > 615, "{sample:?}");
                }
            }
        }
    }
}

#[test]
fn a_rate_is_kept_over_streams() {
    let Some(nginx) = Nginx::start(&clear("")) else {
        return;
    };
    let mut plan = plan(&nginx, "http", "/", 2, 4);
    (plan.requests, plan.pace) = (None, Pace::Rate(200.0));
    plan.duration = Duration::from_secs(1);
    let (summary, _) = measure(&plan);
    let lane = &summary.lanes[0];
    assert_eq!((lane.responses(), lane.failed()), (200, 0), "{lane:?}");
}

#[test]
fn what_a_goaway_leaves_is_asked_on_another_connection() {
    let Some(nginx) = Nginx::start(&clear("keepalive_requests 20;")) else {
        return;
    };
    let (summary, _) = measure(&plan(&nginx, "http", "/", 2, 5));
    let lane = &summary.lanes[0];
    assert_eq!((lane.responses(), lane.failed()), (300, 0), "{lane:?}");
    assert!(lane.connects >= 300 / 21, "{lane:?}");
}

#[test]
fn the_servers_limit_of_streams_is_kept() {
    let Some(nginx) = Nginx::start(&clear("http2_max_concurrent_streams 3;")) else {
        return;
    };
    let (summary, _) = measure(&plan(&nginx, "http", "/", 1, 50));
    let lane = &summary.lanes[0];
    assert_eq!((lane.responses(), lane.failed()), (300, 0), "{lane:?}");
}

#[test]
fn long_bodies_go_both_ways_within_the_windows() {
    for (scheme, lines) in [("http", clear("")), ("https", secured(""))] {
        let Some(nginx) = Nginx::start(&lines) else {
            return;
        };
        std::fs::write(nginx.file("page.html"), vec![b'x'; 1_000_000]).expect("a long page");
        let mut get = plan(&nginx, scheme, "/", 2, 3);
        get.requests = Some(20);
        let (summary, _) = measure(&get);
        let lane = &summary.lanes[0];
        assert_eq!((lane.responses(), lane.failed()), (20, 0), "{lane:?}");
        assert!(lane.received_bytes > 20_000_000);
        let mut post = plan(&nginx, scheme, "/taken", 2, 3);
        post.requests = Some(20);
        post.lanes[0].target.method = Method::Post;
        post.lanes[0].target.body = vec![b'y'; 500_000];
        let (summary, _) = measure(&post);
        let lane = &summary.lanes[0];
        assert_eq!(lane.statuses, [(204, 20)], "{lane:?}");
    }
}

#[test]
fn servers_without_http2_are_told() {
    let Some(nginx) = Nginx::start(&server("ssl", "{certificate}")) else {
        return;
    };
    let mut over_tls = plan(&nginx, "https", "/", 2, 1);
    over_tls.requests = None;
    let (summary, _) = measure(&over_tls);
    assert_eq!(
        summary.ending,
        Ending::NothingConnected(RequestFailure::Tls)
    );
    let text = summary.tls_fault.expect("no HTTP/2").text;
    assert!(text.contains("ALPN"), "{text}");
    let mut plain = plan(&nginx, "http", "/", 2, 1);
    plain.lanes[0].target.address.set_port(nginx.port);
    plain.requests = Some(4);
    let (summary, _) = measure(&plain);
    assert_eq!(summary.lanes[0].failures, [(RequestFailure::NotHttp, 4)]);
}
