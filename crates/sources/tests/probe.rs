//! Probes of real servers over the loopback interface, and through real filters.

#[path = "servers/fake.rs"]
mod fake;
#[path = "servers/nginx.rs"]
mod nginx;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fake::{ClosedPort, FullBacklog, Server};
use lagtrace_core::observed::event::{
    Event, EventBody, ProbeAnswer, ProbeMethod, ProbeSample, Stamp, TargetId,
};
use lagtrace_core::observed::time::Timestamp;
use lagtrace_sources::probe::{
    Ask, Asked, ProbeError, ProbePlan, RequestPlan, connect, http, request, syn,
};
use lagtrace_sources::request::Request;
use lagtrace_sources::tls::{Carried, TlsClient, TlsPeer, Trust};
use lagtrace_sources::url::Url;
use nginx::{Nginx, skip};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn plan(address: SocketAddr) -> ProbePlan {
    ProbePlan {
        count: 4,
        interval: ms(5),
        timeout: ms(1500),
        ..ProbePlan::new(TargetId::Subject, address)
    }
}

type Prober = fn(&ProbePlan) -> Result<(Vec<ProbeSample>, Vec<Event>), ProbeError>;

fn by_connect(plan: &ProbePlan) -> Result<(Vec<ProbeSample>, Vec<Event>), ProbeError> {
    let mut events = Vec::new();
    let samples = connect(plan, &AtomicBool::new(false), |event| events.push(event))?;
    Ok((samples, events))
}

fn by_syn(plan: &ProbePlan) -> Result<(Vec<ProbeSample>, Vec<Event>), ProbeError> {
    let mut events = Vec::new();
    let samples = syn(plan, &AtomicBool::new(false), |event| events.push(event))?;
    Ok((samples, events))
}

/// Returns what a plain request of a URL asks for.
fn get(url: Url, peer: Option<TlsPeer>) -> Asked {
    Asked {
        url,
        request: Request::default(),
        peer,
        is_http2: false,
        unix: None,
    }
}

/// Probes by HTTP. Returns the samples and the IDs of the notes.
fn by_http(address: SocketAddr) -> (Vec<ProbeSample>, Vec<String>) {
    let url = Url::at(address.ip(), address.port(), "/");
    let mut notes = Vec::new();
    let answers = http(
        &plan(address),
        &get(url, None),
        &AtomicBool::new(false),
        |event| {
            if let EventBody::Note(note) = event.body {
                notes.push(note.id);
            }
        },
    );
    (answers.expect("sockets").samples, notes)
}

/// Returns the two ways of probing, or only `connect` if the other one is not permitted.
fn probers() -> Vec<(ProbeMethod, Prober)> {
    let mut all: Vec<(ProbeMethod, Prober)> = vec![(ProbeMethod::TcpConnect, by_connect)];
    match by_syn(&ProbePlan {
        count: 0,
        ..plan(([127, 0, 0, 1], 1).into())
    }) {
        Err(ProbeError::NotPermitted { needs, .. }) => skip(needs),
        other => {
            other.expect("a raw socket");
            all.push((ProbeMethod::TcpSyn, by_syn));
        }
    }
    all
}

#[test]
fn open_and_closed_ports_of_both_families_are_told_apart() {
    for ip in ["127.0.0.1", "::1"] {
        let ip: std::net::IpAddr = ip.parse().expect("an address");
        let Ok(listener) = TcpListener::bind((ip, 0)) else {
            skip("IPv6 on the loopback interface");
            continue;
        };
        let open = listener.local_addr().expect("an address");
        let closed = ClosedPort::of(ip);
        for (method, probe) in probers() {
            for (address, answer) in [
                (open, ProbeAnswer::Open),
                (closed.address, ProbeAnswer::Refused),
            ] {
                let (samples, events) = probe(&plan(address)).expect("sockets");
                assert_eq!(samples.len(), 4);
                for sample in &samples {
                    assert_eq!(
                        (sample.method, sample.answer),
                        (method, answer),
                        "{address}"
                    );
                    assert_eq!(SocketAddr::from(sample.endpoint), address);
                    assert_eq!(sample.syn_retransmissions, 0);
                    let rtt = sample.rtt.expect("answered");
                    assert!(!rtt.is_zero() && rtt < Duration::from_secs(1));
                }
                let is_syn = method == ProbeMethod::TcpSyn;
                if is_syn || answer == ProbeAnswer::Open {
                    assert!(
                        samples.iter().all(|s| s.stamp == Stamp::Kernel),
                        "{samples:?}"
                    );
                }
                assert!(samples.iter().all(|s| s.ttl.is_some() == is_syn));
                let mut notes = events.iter().map(|e| &e.body);
                assert!(!notes.any(|body| matches!(body, EventBody::Note(_))));
            }
        }
    }
}

#[test]
fn a_hosts_own_address_is_probed_over_the_loopback_interface() {
    // Connecting a UDP socket sends no packet, but determines the source address.
    let own = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Ok(own) = own else {
        return skip("an address besides loopback");
    };
    let listener = TcpListener::bind((own.ip(), 0)).expect("a listener");
    let address = listener.local_addr().expect("an address");
    for (_, probe) in probers() {
        let (samples, _) = probe(&plan(address)).expect("sockets");
        assert!(
            samples.iter().all(|s| s.answer == ProbeAnswer::Open),
            "{samples:?}"
        );
    }
}

#[test]
fn a_silent_target_is_given_up_in_time() {
    let target = FullBacklog::start();
    for (method, probe) in probers() {
        let begun = Instant::now();
        let (samples, _) = probe(&plan(target.address)).expect("sockets");
        let [sample] = &samples[..] else {
            panic!("given up after one: {samples:?}");
        };
        assert_eq!((sample.answer, sample.rtt), (ProbeAnswer::Silence, None));
        let repeated = u8::from(method == ProbeMethod::TcpConnect);
        assert_eq!(sample.syn_retransmissions, repeated);
        assert!(begun.elapsed() >= ms(1500));
    }
}

#[test]
fn requests_are_sent_on_a_fresh_connection_and_then_on_the_same() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let (samples, notes) = by_http(([127, 0, 0, 1], nginx.port).into());
    let methods: Vec<_> = samples.iter().map(|s| (s.method, s.answer)).collect();
    let kept = (ProbeMethod::HttpKeptAlive, ProbeAnswer::Status(200));
    let fresh = (ProbeMethod::HttpFresh, ProbeAnswer::Status(200));
    assert_eq!(methods, [fresh, kept, kept, kept]);
    assert!(samples.iter().all(|s| s.rtt.is_some()));
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn strange_http_servers_are_told_apart() {
    let says = |bytes: &'static [u8]| {
        Server::start(move |mut stream| {
            fake::read_request(&mut stream);
            let _ = stream.write_all(bytes);
        })
    };
    let closes = Server::start(drop);
    let tls_alert = says(b"\x15\x03\x03\x00\x02\x02\x16");
    let tls_400 = says(
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 44\r\n\r\nThe plain HTTP request was sent to HTTPS port",
    );
    let mail = says(b"220 mail.example ESMTP\r\n");
    let cut = says(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    let until_close = says(b"HTTP/1.0 404 Not Found\r\n\r\nnothing here");
    for (server, answer, note) in [
        (closes, ProbeAnswer::Closed, None),
        (tls_alert, ProbeAnswer::NotHttp, Some("tls-on-plain-port")),
        (tls_400, ProbeAnswer::Status(400), Some("tls-on-plain-port")),
        (mail, ProbeAnswer::NotHttp, Some("not-http-answer")),
        (cut, ProbeAnswer::Closed, None),
        (until_close, ProbeAnswer::Status(404), None),
    ] {
        let (samples, notes) = by_http(server.address);
        assert_eq!(samples.len(), 4);
        for sample in samples {
            assert_eq!(sample.answer, answer);
            assert_eq!(sample.method, ProbeMethod::HttpFresh);
        }
        assert_eq!(notes, note.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn who_drips_or_holds_back_a_handshake_is_given_up_in_time() {
    // Sends a TLS record of 16 KiB byte by byte, which takes five minutes.
    let drips = Server::start(|mut stream| {
        let _ = stream.write_all(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(ms(20));
        }
    });
    let silent = Server::start(|mut stream| while fake::read_request(&mut stream).is_some() {});
    let client = TlsClient::new(&Trust::Anyone, Carried::Http1).expect("a client");
    for server in [drips, silent] {
        let url = format!("https://{}/", server.address).parse::<Url>();
        let url = url.expect("a URL");
        let peer = client.to(url.host()).expect("a peer");
        let plan = ProbePlan {
            timeout: ms(300),
            ..plan(server.address)
        };
        let stop = AtomicBool::new(false);
        let answers = http(&plan, &get(url, Some(peer)), &stop, |_| {}).expect("sockets");
        let answers: Vec<_> = answers.samples.iter().map(|sample| sample.answer).collect();
        assert_eq!(answers, [ProbeAnswer::TlsTimeout], "given up after one");
    }
}

#[test]
fn a_server_that_never_answers_is_silent_and_nobody_refuses() {
    let server = Server::start(|mut stream| while fake::read_request(&mut stream).is_some() {});
    let (samples, _) = by_http(server.address);
    assert_eq!(samples.len(), 1);
    assert_eq!(samples[0].answer, ProbeAnswer::Silence);
    let (samples, _) = by_http(ClosedPort::of([127, 0, 0, 1].into()).address);
    assert!(samples.iter().all(|s| s.answer == ProbeAnswer::Refused));
}

#[test]
fn a_response_that_does_not_end_in_time_is_unfinished() {
    let drips = Server::start(|mut stream| {
        fake::read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(ms(20));
        }
    });
    let (samples, _) = by_http(drips.address);
    let answers: Vec<_> = samples.iter().map(|s| (s.answer, s.rtt)).collect();
    let unfinished = (ProbeAnswer::Unfinished, None);
    assert_eq!(answers, [unfinished], "given up after one");
}

/// Runs `test` in a thread with its own network namespace, in which `lo` is up.
fn in_own_namespace(test: impl FnOnce() + Send) {
    if !rustix::process::geteuid().is_root() {
        return skip("root, for a network namespace");
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            use rustix::thread::{UnshareFlags, unshare_unsafe};
            // SAFETY: only this thread's network namespace changes, and the thread ends with this
            // scope.
            #[allow(unsafe_code)]
            let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
            if unshared.is_err() {
                return skip("CAP_SYS_ADMIN, for a network namespace");
            }
            if !run("ip", "link set lo up") {
                return skip("ip");
            }
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs a command with `arguments`, separated by spaces. Returns true if it succeeds.
fn run(program: &str, arguments: &str) -> bool {
    let arguments = arguments.split_whitespace();
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_route_or_a_filter_that_says_no_is_heard_at_once() {
    in_own_namespace(|| {
        assert!(run("ip", "route add unreachable 198.51.100.0/24"));
        assert!(run("ip", "-6 route add unreachable 2001:db8::/32"));
        let mut cases = vec![
            ("198.51.100.1:80", ProbeAnswer::Unreachable(3, 1)),
            ("203.0.113.1:80", ProbeAnswer::Unreachable(3, 0)),
            ("[2001:db8::1]:80", ProbeAnswer::Unreachable(1, 3)),
            ("[2001:db9::1]:80", ProbeAnswer::Unreachable(1, 0)),
        ];
        let rules = "add table inet t; add chain inet t in { type filter hook input priority 0 ; }; \
                     add rule inet t in tcp dport 81 reject with icmpx type admin-prohibited; \
                     add rule inet t in tcp dport 82 reject with icmpx type port-unreachable";
        if run("nft", rules) {
            cases.push(("127.0.0.1:81", ProbeAnswer::Unreachable(3, 13)));
            cases.push(("127.0.0.1:82", ProbeAnswer::Unreachable(3, 3)));
            cases.push(("[::1]:81", ProbeAnswer::Unreachable(1, 1)));
            cases.push(("[::1]:82", ProbeAnswer::Unreachable(1, 4)));
        } else {
            skip("nft");
        }
        for (address, answer) in cases {
            for (method, probe) in probers() {
                let address: SocketAddr = address.parse().expect("an address");
                let begun = Instant::now();
                let patient = ProbePlan {
                    timeout: ms(30_000),
                    ..plan(address)
                };
                let (samples, _) = probe(&patient).expect("a fact, not an error");
                let answers: Vec<_> = samples.iter().map(|s| s.answer).collect();
                assert_eq!(answers, [answer], "{address} {method:?}");
                assert!(begun.elapsed() < patient.timeout, "{address} {method:?}");
            }
        }
    });
}

#[test]
fn a_lost_syn_is_counted() {
    in_own_namespace(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let rules = format!(
            "add table inet t; add chain inet t in {{ type filter hook input priority 0 ; }}; \
             add rule inet t in tcp dport {} drop",
            address.port()
        );
        if !run("nft", &rules) {
            return skip("nft");
        }
        std::thread::scope(|scope| {
            // The new thread is in the same namespace as its parent.
            scope.spawn(|| {
                std::thread::sleep(ms(400));
                assert!(run("nft", "delete table inet t"));
            });
            let once = ProbePlan {
                count: 1,
                timeout: ms(5000),
                ..plan(address)
            };
            let (samples, _) = by_connect(&once).expect("sockets");
            assert_eq!(samples[0].answer, ProbeAnswer::Open);
            assert!(
                (1..=2).contains(&samples[0].syn_retransmissions),
                "{samples:?}"
            );
        });
    });
}

/// Returns the samples of handshakes or requests, each on its own connection.
fn ask(url: &str, ask: Ask, trust: &Trust) -> Vec<ProbeSample> {
    let url: Url = url.parse().expect("a URL");
    let tls = TlsClient::new(trust, Carried::Http1).expect("a client");
    let peer = tls.to(url.host()).expect("a name");
    let plan = RequestPlan {
        probe: plan(([127, 0, 0, 1], url.port()).into()),
        asked: get(url.clone(), Some(peer).filter(|_| url.is_tls())),
        ask,
        resolved: Some(ms(3)),
    };
    let mut samples = Vec::new();
    request(&plan, &AtomicBool::new(false), |event| {
        if let EventBody::Probe(sample) = event.body {
            samples.push(sample);
        }
    })
    .expect("sockets");
    assert_eq!(samples.len(), 4);
    samples
}

const SECURE: &str = "server { listen 127.0.0.1:{other_port} ssl; root {folder};
    index page.html; {certificate} TLS }";

#[test]
fn handshakes_tell_their_phases_and_every_other_one_resumes() {
    // A session ticket that a server without a processor sends late is missed.
    let test = "handshakes_tell_their_phases_and_every_other_one_resumes";
    let live = lagtrace_trial::live(test).standstill(Duration::from_millis(20));
    live.share(0.05).run(resume_every_other_one);
}

fn resume_every_other_one() {
    use ProbeMethod::{TlsFull, TlsResumed};
    let both = [TlsFull, TlsResumed, TlsFull, TlsResumed];
    for (lines, methods, version) in [
        ("ssl_protocols TLSv1.3;", both, 0x0304),
        ("ssl_protocols TLSv1.2;", both, 0x0303),
        // The server keeps no sessions, so every handshake is a full one.
        (
            "ssl_protocols TLSv1.3; ssl_session_tickets off;",
            [TlsFull; 4],
            0x0304,
        ),
        (
            "ssl_protocols TLSv1.2; ssl_session_tickets off;",
            [TlsFull; 4],
            0x0303,
        ),
    ] {
        let Some(nginx) = Nginx::start(&SECURE.replace("TLS", lines)) else {
            return;
        };
        let url = format!("https://localhost:{}/", nginx.other_port);
        let trust = Trust::Authorities(nginx.certificate());
        let samples = ask(&url, Ask::Handshake, &trust);
        let got: Vec<ProbeMethod> = samples.iter().map(|sample| sample.method).collect();
        assert_eq!(got, methods, "{lines}");
        for sample in samples {
            assert_eq!(sample.answer, ProbeAnswer::Secured);
            let phases = sample.phases.expect("phases");
            assert_eq!(sample.rtt, phases.handshake);
            assert!(phases.hello > Some(Duration::ZERO) && phases.hello <= phases.handshake);
            assert!(phases.connect.is_some() && phases.first_byte.is_none());
            assert_eq!(phases.resolve, (sample.number == 0).then_some(ms(3)));
            let tls = phases.tls.expect("what was agreed on");
            assert_eq!(tls.version, version, "{lines}");
            assert_eq!(tls.is_resumed, sample.method == TlsResumed);
            assert!(tls.cipher.starts_with("TLS"), "{}", tls.cipher);
        }
    }
}

#[test]
fn a_certificates_end_is_read() {
    let Some(nginx) = Nginx::start(&SECURE.replace("TLS", "")) else {
        return;
    };
    let url = format!("https://localhost:{}/", nginx.other_port);
    let samples = ask(&url, Ask::Handshake, &Trust::Anyone);
    let phases = samples[0].phases.as_ref().expect("phases");
    let end = phases.tls.as_ref().and_then(|tls| tls.certificate_ends);
    let file = nginx.certificate();
    let output = |command: &mut Command| {
        let output = command.output().expect("the tool runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let mut openssl = Command::new("openssl");
    let told = output(
        openssl
            .args(["x509", "-noout", "-enddate", "-in"])
            .arg(&file),
    );
    let told = told.trim().trim_start_matches("notAfter=");
    let seconds = output(Command::new("date").args(["-u", "+%s", "-d", told]));
    let seconds: i64 = seconds.trim().parse().expect("seconds");
    assert_eq!(end, Some(Timestamp::from_parts(seconds, 0)));
}

#[test]
fn requests_tell_what_each_part_of_them_took() {
    let Some(nginx) = Nginx::start(&SECURE.replace("TLS", "")) else {
        return;
    };
    let plain = format!("http://127.0.0.1:{}/", nginx.port);
    let secure = format!("https://localhost:{}/", nginx.other_port);
    for url in [&plain, &secure] {
        for sample in ask(url, Ask::Request, &Trust::Anyone) {
            let told = (sample.method, sample.answer);
            assert_eq!(told, (ProbeMethod::HttpFresh, ProbeAnswer::Status(200)));
            let phases = sample.phases.expect("phases");
            let parts = phases.first_byte.zip(phases.transfer);
            assert_eq!(sample.rtt, parts.map(|(first, rest)| first + rest));
            assert_eq!(phases.handshake.is_some(), *url == secure);
            let tls = phases.tls;
            assert_eq!(
                tls.map(|tls| tls.is_resumed),
                (*url == secure).then_some(false)
            );
        }
    }
}

#[test]
fn kept_alive_requests_tell_their_handshakes_apart() {
    let Some(nginx) = Nginx::start(&SECURE.replace("TLS", "ssl_protocols TLSv1.3;")) else {
        return;
    };
    let address = SocketAddr::from(([127, 0, 0, 1], nginx.other_port));
    let url: Url = format!("https://localhost:{}/", nginx.other_port)
        .parse()
        .expect("a URL");
    let tls = TlsClient::new(&Trust::Anyone, Carried::Http1).expect("a client");
    let peer = tls.to(url.host()).expect("a name");
    let stop = AtomicBool::new(false);
    let answers = http(&plan(address), &get(url, Some(peer)), &stop, |_| {}).expect("sockets");
    let mut methods: Vec<ProbeMethod> =
        answers.samples.iter().map(|sample| sample.method).collect();
    methods.sort();
    let expected = [
        ProbeMethod::HttpFresh,
        ProbeMethod::HttpFresh,
        ProbeMethod::HttpKeptAlive,
        ProbeMethod::HttpKeptAlive,
        ProbeMethod::TlsFull,
        ProbeMethod::TlsResumed,
    ];
    assert_eq!(methods, expected);
}

#[test]
fn handshakes_that_fail_say_how() {
    let Some(nginx) = Nginx::start(&SECURE.replace("TLS", "")) else {
        return;
    };
    let closed = ClosedPort::of([127, 0, 0, 1].into());
    for (port, answer) in [
        (nginx.other_port, ProbeAnswer::NotTrusted),
        (nginx.port, ProbeAnswer::NotTls),
        (closed.address.port(), ProbeAnswer::Refused),
    ] {
        let url = format!("https://localhost:{port}/");
        let own = Nginx::start(&SECURE.replace("TLS", "")).expect("another");
        for sample in ask(&url, Ask::Handshake, &Trust::Authorities(own.certificate())) {
            assert_eq!((sample.answer, sample.rtt), (answer, None));
        }
    }
}
