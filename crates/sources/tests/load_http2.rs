//! Load over HTTP/2 on a real nginx, in plain text and with TLS.

#[path = "servers/fake.rs"]
mod fake;
#[path = "servers/frames.rs"]
mod frames;
#[path = "servers/nginx.rs"]
mod nginx;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fake::Server;

use lagtrace_core::observed::event::{
    Event, EventBody, Phase, ProbeAnswer, ProbeMethod, RequestFailure, TargetId,
};
use lagtrace_sources::load::{
    Ending, Lane, LoadError, Pace, Plan, Summary, Target, WeightedUrl, run,
};
use lagtrace_sources::probe::{Asked, ProbePlan, http};
use lagtrace_sources::request::{Method, Request};
use lagtrace_sources::tls::{Carried, TlsClient, Trust};
use lagtrace_sources::url::Url;
use nginx::Nginx;

/// Returns an HTTP/2 server without TLS. `lines` are added to it.
fn clear(lines: &str) -> String {
    server("http2", lines)
}

/// Returns an HTTP/2 server with TLS. `lines` are added to it.
fn secured(lines: &str) -> String {
    server("ssl http2", &format!("{{certificate}} {lines}"))
}

/// Returns a server block without sendfile. With sendfile, this version of nginx sends a frame's
/// header and its data separately, so that in plain text Nagle's algorithm makes the data wait for
/// an ACK. The responses would be correct but slow.
fn server(listen: &str, lines: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:{{other_port}} {listen}; root {{folder}}; index page.html;
            sendfile off;
            client_max_body_size 8m; location /taken {{ return 204; }} {lines} }}"
    )
}

fn plan(nginx: &Nginx, scheme: &str, path: &str, connections: u32, at_once: u32) -> Plan {
    plan_at(nginx.other_port, scheme, path, connections, at_once)
}

fn plan_at(port: u16, scheme: &str, path: &str, connections: u32, at_once: u32) -> Plan {
    let lane = Lane {
        target: Target {
            id: TargetId::Subject,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            url: format!("{scheme}://localhost:{port}{path}")
                .parse()
                .expect("a URL"),
            request: Request {
                fields: vec!["X-Twice: 1".to_owned()],
                ..Request::default()
            },
        },
        phase: Phase::Baseline,
        experiment: None,
        connections,
    };
    let tls = TlsClient::new(&Trust::Anyone, Carried::Http2);
    let mut plan = Plan {
        duration: Duration::from_secs(30),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(10),
        requests: Some(300),
        ..Plan::new(vec![lane])
    };
    plan.protocol.http2 = true;
    plan.protocol.at_once = at_once;
    plan.protocol.tls = (scheme == "https").then(|| tls.expect("a client"));
    plan
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
fn streams_ask_for_several_urls_by_weight() {
    let Some(nginx) = Nginx::start(&clear("")) else {
        return;
    };
    let mut plan = plan(&nginx, "http", "/", 1, 10);
    let at = |path: &str, weight| WeightedUrl {
        url: format!("http://localhost:{}{path}", nginx.other_port)
            .parse()
            .expect("a URL"),
        weight,
    };
    plan.urls = vec![at("/", 2), at("/taken", 1)];
    let (summary, events) = measure(&plan);
    assert_eq!(summary.lanes[0].statuses, [(200, 200), (204, 100)]);
    let urls = events.iter().filter_map(|event| match &event.body {
        EventBody::LoadUrl(url) => Some((url.weight, url.statuses.clone())),
        _ => None,
    });
    let urls: Vec<_> = urls.collect();
    assert_eq!(urls, [(2, vec![(200, 200)]), (1, vec![(204, 100)])]);
    plan.urls.push(at("/", 0));
    let error = run(&plan, &|_| {}, &AtomicBool::new(false), |_| {});
    assert!(matches!(error, Err(LoadError::Weight { .. })));
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
fn at_a_rate_too_no_stream_is_lost_to_a_goaway() {
    let Some(nginx) = Nginx::start(&clear("keepalive_requests 20; limit_rate 100k;")) else {
        return;
    };
    // Each response takes more than 100 ms. When a connection reaches its limit of 20 requests,
    // some are therefore still in flight.
    std::fs::write(nginx.file("page.html"), vec![b'x'; 20_000]).expect("a page");
    let mut plan = plan(&nginx, "http", "/", 2, 40);
    (plan.requests, plan.pace) = (None, Pace::Rate(150.0));
    plan.duration = Duration::from_secs(1);
    let (summary, _) = measure(&plan);
    let lane = &summary.lanes[0];
    assert_eq!((lane.responses(), lane.failed()), (150, 0), "{lane:?}");
}

#[test]
fn long_bodies_arrive_whole_where_the_windows_have_no_end() {
    const LEN: usize = 3_000_000;
    let bodies: Arc<AtomicU64> = Arc::default();
    let counted = Arc::clone(&bodies);
    let server = Server::start(move |stream| {
        // The server opens its windows only when it has received all eight requests.
        let (mut heads, mut greeting) = (0, Some(frames::generous()));
        let answer = |kind, flags, id| {
            heads += u32::from(kind == frames::HEADERS);
            let opened = greeting.take_if(|_| heads == 8).unwrap_or_default();
            let is_end = kind == frames::DATA && flags & frames::END_STREAM != 0;
            Some(if is_end { frames::ok(id) } else { opened })
        };
        let first = frames::frame(frames::SETTINGS, 0, 0, &[]);
        frames::serve(stream, &first, &counted, answer);
    });
    let mut post = plan_at(server.address.port(), "http", "/", 1, 8);
    post.requests = Some(16);
    post.lanes[0].target.request.method = Method::POST;
    post.lanes[0].target.request.body = Some(vec![b'y'; LEN]);
    let (summary, _) = measure(&post);
    let lane = &summary.lanes[0];
    assert_eq!(lane.statuses, [(200, 16)], "{lane:?}");
    assert_eq!(bodies.load(Ordering::SeqCst), 16 * LEN as u64);
}

#[test]
fn who_asks_without_end_and_reads_nothing_is_not_listened_to() {
    let server = Server::start(|mut stream| {
        let settings = frames::frame(frames::SETTINGS, 0, 0, &[]);
        let setting = frames::frame(frames::SETTINGS, 0, 0, &[0, 0x77, 0, 0, 0, 1]);
        let flood = setting.repeat(1_000);
        let mut written = stream.write_all(&settings);
        // The replies to all of these frames would have 180 MB.
        for _ in 0..20_000 {
            written = written.and_then(|()| stream.write_all(&flood));
        }
        // If the client has read all frames, it now waits for its response.
        let _ = written.map(|()| std::thread::sleep(Duration::from_secs(20)));
    });
    let mut plan = plan_at(server.address.port(), "http", "/", 1, 1);
    plan.requests = Some(1);
    let (summary, _) = measure(&plan);
    let failures = &summary.lanes[0].failures;
    assert_eq!(*failures, [(RequestFailure::NotHttp, 1)]);
}

#[test]
fn who_turns_everything_away_is_asked_slowly_and_named() {
    let refusal = |id| frames::frame(frames::RST_STREAM, 0, id, &7_u32.to_be_bytes());
    let goodbye = |_| frames::frame(frames::GOAWAY, 0, 0, &[0; 8]);
    let ways: [fn(u32) -> Vec<u8>; 2] = [refusal, goodbye];
    for away in ways {
        let heard: Arc<AtomicU64> = Arc::default();
        let counted = Arc::clone(&heard);
        let server = Server::start(move |stream| {
            let answer = |kind, _, id| {
                let is_head = kind == frames::HEADERS;
                counted.fetch_add(u64::from(is_head), Ordering::SeqCst);
                Some(if is_head { away(id) } else { Vec::new() })
            };
            let first = frames::frame(frames::SETTINGS, 0, 0, &[]);
            frames::serve(stream, &first, &AtomicU64::new(0), answer);
        });
        for pace in [Pace::ClosedLoop, Pace::Rate(50.0)] {
            heard.store(0, Ordering::SeqCst);
            let mut plan = plan_at(server.address.port(), "http", "/", 2, 4);
            (plan.requests, plan.pace) = (None, pace);
            (plan.duration, plan.timeout) =
                (Duration::from_millis(1_200), Duration::from_millis(1_000));
            let (summary, _) = measure(&plan);
            let lane = &summary.lanes[0];
            assert_eq!(lane.responses(), 0);
            let kinds: Vec<_> = lane.failures.iter().map(|&(kind, _)| kind).collect();
            assert!(kinds.contains(&RequestFailure::TurnedAway), "{lane:?}");
            assert!(heard.load(Ordering::SeqCst) < 1_000, "{heard:?}");
        }
    }
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
        post.lanes[0].target.request.method = Method::POST;
        post.lanes[0].target.request.body = Some(vec![b'y'; 500_000]);
        let (summary, _) = measure(&post);
        let lane = &summary.lanes[0];
        assert_eq!(lane.statuses, [(204, 20)], "{lane:?}");
    }
}

/// Returns a server of gRPC: streams end with these statuses in turn, as trailers after a message,
/// or without a message in the head itself.
fn calls(outcomes: &'static [&'static str], has_message: bool) -> Server {
    let number = AtomicU64::new(0);
    const END_HEADERS: u8 = 4;
    Server::start(move |stream| {
        let answer = |kind, flags: u8, id| {
            let is_part = matches!(kind, frames::DATA | frames::HEADERS);
            let is_end = is_part && flags & frames::END_STREAM != 0;
            if !is_end {
                return Some(Vec::new());
            }
            let at = number.fetch_add(1, Ordering::SeqCst) as usize % outcomes.len();
            let mut trailers = b"\x00\x0bgrpc-status".to_vec();
            trailers.push(outcomes[at].len() as u8);
            trailers.extend(outcomes[at].bytes());
            let head = [b"\x88", trailers.as_slice()].concat();
            let last = frames::END_STREAM | END_HEADERS;
            Some(match has_message {
                false => frames::frame(frames::HEADERS, last, id, &head),
                true => [
                    frames::frame(frames::HEADERS, END_HEADERS, id, b"\x88"),
                    frames::frame(frames::DATA, 0, id, b"\0\0\0\0\x02ok"),
                    frames::frame(frames::HEADERS, last, id, &trailers),
                ]
                .concat(),
            })
        };
        frames::serve(stream, &frames::generous(), &AtomicU64::new(0), answer);
    })
}

#[test]
fn calls_of_grpc_end_with_their_status() {
    for has_message in [true, false] {
        let server = calls(&["0", "14", "0", "5"], has_message);
        let mut plan = plan_at(server.address.port(), "http", "/a.B/C", 1, 1);
        plan.requests = Some(40);
        let request = &mut plan.lanes[0].target.request;
        (request.method, request.is_grpc) = (Method::POST, true);
        request.body = Some(b"\0\0\0\0\x03abc".to_vec());
        let (summary, _) = measure(&plan);
        let lane = &summary.lanes[0];
        assert_eq!(lane.statuses, [(200, 20)], "{lane:?}");
        let mut failures = lane.failures.clone();
        failures.sort();
        let want = [5, 14].map(|code| (RequestFailure::Grpc(code), 10));
        assert_eq!(failures, want, "{lane:?}");
        assert_eq!(RequestFailure::Grpc(14).name(), "gRPC UNAVAILABLE");
    }
}

#[test]
fn single_requests_are_made_over_http2_too() {
    let server = calls(&["0", "3"], true);
    let url: Url = format!("http://{}/a.B/C", server.address)
        .parse()
        .expect("a URL");
    let mut asked = Asked {
        url,
        request: Request {
            method: Method::POST,
            body: Some(vec![0; 100_000]),
            is_grpc: true,
            ..Request::default()
        },
        peer: None,
        is_http2: true,
        unix: None,
    };
    let plan = ProbePlan {
        count: 4,
        interval: Duration::ZERO,
        timeout: Duration::from_secs(10),
        ..ProbePlan::new(TargetId::Subject, server.address)
    };
    let stop = AtomicBool::new(false);
    let told = |asked: &Asked| {
        let answers = http(&plan, asked, &stop, |_| {}).expect("it ran");
        let told = answers.samples.into_iter();
        told.map(|sample| (sample.method, sample.answer))
            .collect::<Vec<_>>()
    };
    let good = ProbeAnswer::Status(200);
    let bad = ProbeAnswer::Grpc(3);
    let kept = ProbeMethod::HttpKeptAlive;
    let want = [
        (ProbeMethod::HttpFresh, good),
        (kept, bad),
        (kept, good),
        (kept, bad),
    ];
    assert_eq!(told(&asked), want);
    asked.request.is_grpc = false;
    assert!(told(&asked).iter().all(|(_, answer)| *answer == good));
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
