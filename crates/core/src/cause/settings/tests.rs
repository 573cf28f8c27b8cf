use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::cause::evidence::Measures;
use crate::cause::rhythm::Rhythm;
use crate::cause::wording::Wording;
use crate::cause::{Case, Gathered};
use crate::claim::{Basis, Claim, Statement};
use crate::conclude::word;
use crate::observed::event::{ListenerSample, SourceLocation};
use crate::report::{Finding, Verdict};
use crate::service::{Ledger, Stretches, Uploads};

const NONE: Measured = Measured {
    requests: None,
    idle: None,
    record: None,
    byte_rate: None,
    request_rate: None,
    served: None,
    status: None,
    lowered: 0,
    full: 0,
    retried: 0,
    connections: 0,
};

fn closed_after(requests: u64) -> Measured {
    Measured {
        requests: Some(requests),
        ..NONE
    }
}

fn idle(seconds: u64) -> Measured {
    Measured {
        idle: Some(Duration::from_secs(seconds)),
        ..NONE
    }
}

fn answered(status: u16) -> Measured {
    Measured {
        status: Some(status),
        connections: 20,
        ..NONE
    }
}

fn record(bytes: u64) -> Measured {
    Measured {
        record: Some(bytes),
        ..NONE
    }
}

fn served(count: f64) -> Measured {
    Measured {
        served: Some(count),
        ..NONE
    }
}

fn let_through(rate: f64) -> Measured {
    Measured {
        request_rate: Some(rate),
        ..NONE
    }
}

fn sent_at(rate: f64) -> Measured {
    Measured {
        byte_rate: Some(rate),
        ..NONE
    }
}

fn open(connections: u64) -> Measured {
    Measured {
        connections,
        ..NONE
    }
}

/// Returns the figures of TLS handshakes: full ones, those with a lower version than offered, and
/// those with another key share.
fn handshakes(full: u64, lowered: u64, retried: u64) -> Measured {
    Measured {
        lowered,
        full,
        retried,
        ..NONE
    }
}

fn line(directive: &str, value: &str) -> ConfigurationLine {
    let at = SourceLocation {
        file: "/etc/nginx/conf.d/x.conf".to_owned(),
        line: 12,
    };
    ConfigurationLine {
        target: TargetId::Subject,
        program: "nginx".to_owned(),
        directive: directive.to_owned(),
        value: value.to_owned(),
        set_at: (value != "not set").then_some(at),
        scope: "http > server :80".to_owned(),
        is_newer_than_process: Some(false),
        doubt: None,
    }
}

fn facts(lines: &[(&str, &str)]) -> Facts {
    Facts {
        configuration: lines
            .iter()
            .map(|(name, value)| line(name, value))
            .collect(),
        ..Facts::default()
    }
}

pub(in crate::cause) fn subject() -> Endpoint {
    Endpoint::new(core::net::IpAddr::from([10, 0, 0, 2]), 80)
}

/// Empty figures for a case.
#[derive(Default)]
pub(in crate::cause) struct Empty {
    ledger: Ledger,
    gathered: Gathered,
    fetches: Stretches,
    rhythm: Rhythm,
    rhythms: BTreeMap<Endpoint, Rhythm>,
    uploads: Uploads,
    calls: crate::cause::calls::HostCalls,
}

impl Empty {
    pub(in crate::cause) fn case<'a>(
        &'a self,
        facts: &'a Facts,
        target: Option<TargetId>,
    ) -> Case<'a> {
        Case {
            endpoint: subject(),
            target,
            ledger: &self.ledger,
            latency: Measures::default(),
            gathered: &self.gathered,
            fetches: &self.fetches,
            uploads: &self.uploads,
            facts,
            rhythm: &self.rhythm,
            rhythms: &self.rhythms,
            upstream: None,
            behind: None,
            calls: &self.calls,
            has_packets: true,
            weight: 1.0,
        }
    }
}

/// Returns the directives that support a cause, for the given settings and traffic.
fn supported(
    facts: &Facts,
    cause: Id,
    culprit: Owner,
    measured: &Measured,
    target: Option<TargetId>,
) -> Vec<String> {
    let empty = Empty::default();
    let statements = on(&empty.case(facts, target), cause, culprit, measured);
    let supports = statements.iter().filter(|said| said.says == Says::Supports);
    supports.map(|said| said.line.directive.clone()).collect()
}

/// An example for a directive: settings and traffic that match, then settings and traffic that only
/// look alike.
type Example = (
    Id,
    &'static [(&'static str, &'static str)],
    Measured,
    &'static [(&'static str, &'static str)],
    Measured,
);

/// Returns one example for each row. Its first setting is the one that is tested.
fn examples() -> Vec<Example> {
    use Id::*;
    let lines = |lines| -> &'static [(&'static str, &'static str)] { lines };
    let same = |cause, own: &'static [(&'static str, &'static str)], is, is_not| {
        (cause, own, is, own, is_not)
    };
    let other = |cause, own, near, traffic| -> Example { (cause, own, traffic, near, traffic) };
    vec![
        other(
            NagleDelayedAck,
            lines(&[("tcp_nodelay", "off")]),
            &[("tcp_nodelay", "on")],
            NONE,
        ),
        same(
            ConnectionNotReused,
            &[("keepalive_requests", "10")],
            closed_after(10),
            closed_after(25),
        ),
        same(
            ConnectionNotReused,
            &[("keepalive_timeout", "0")],
            closed_after(1),
            closed_after(10),
        ),
        other(
            ConnectionNotReused,
            &[("keepalive_timeout", "0")],
            &[("keepalive_timeout", "75s")],
            closed_after(1),
        ),
        same(
            ConnectionNotReused,
            &[("MaxKeepAliveRequests", "7")],
            closed_after(7),
            closed_after(1),
        ),
        same(
            ConnectionNotReused,
            &[("KeepAlive", "Off")],
            closed_after(1),
            closed_after(7),
        ),
        same(
            StaleKeepAlive,
            &[("KeepAliveTimeout", "5")],
            idle(6),
            idle(2),
        ),
        same(
            StaleKeepAlive,
            &[("timeout http-keep-alive", "900ms")],
            idle(6),
            idle(0),
        ),
        other(
            ConnectionNotReused,
            &[("option httpclose", "on")],
            &[("option httpclose", "off")],
            closed_after(1),
        ),
        same(
            StaleKeepAlive,
            &[("keepalive_timeout", "5s 4s")],
            idle(6),
            idle(2),
        ),
        same(
            RateLimit,
            &[
                ("limit_req", "zone=a burst=9"),
                ("limit_req_zone", "$x zone=a:1m rate=20r/s"),
            ],
            let_through(20.3),
            let_through(55.0),
        ),
        other(
            RateLimit,
            &[("limit_req", "zone=a")],
            &[("limit_req", "zone=a nodelay")],
            let_through(20.0),
        ),
        other(
            RateLimit,
            &[
                ("limit_req_zone", "$x zone=a:1m rate=20r/s"),
                ("limit_req", "zone=a burst=9"),
            ],
            &[
                ("limit_req_zone", "$x zone=b:1m rate=20r/s"),
                ("limit_req", "zone=a burst=9 nodelay"),
            ],
            let_through(20.3),
        ),
        same(
            HttpError,
            &[("limit_req", "zone=a")],
            answered(503),
            answered(404),
        ),
        other(
            HttpError,
            &[("limit_conn", "a 10")],
            &[("limit_conn", "a 100")],
            answered(503),
        ),
        same(
            RateLimit,
            &[("limit_rate", "50k")],
            sent_at(52_000.0),
            sent_at(400_000.0),
        ),
        same(
            WorkerSaturation,
            &[("--workers", "2"), ("--threads", "1")],
            served(2.0),
            served(6.0),
        ),
        other(
            WorkerSaturation,
            &[("--workers", "2"), ("--worker-class", "sync")],
            &[("--workers", "2"), ("--worker-class", "gevent")],
            served(2.0),
        ),
        other(
            WorkerSaturation,
            &[("--threads", "4")],
            &[("--threads", "4"), ("--workers", "3")],
            served(4.2),
        ),
        same(
            SocketQueueDwell,
            &[("--threads", "2"), ("--workers", "1")],
            served(2.0),
            served(8.0),
        ),
        same(
            WorkerSaturation,
            &[("server maxconn", "3")],
            served(3.15),
            served(8.0),
        ),
        same(
            WorkerSaturation,
            &[("UV_THREADPOOL_SIZE", "4")],
            served(4.3),
            served(1.0),
        ),
        same(
            WorkerSaturation,
            &[("GOMAXPROCS", "1")],
            served(1.0),
            served(2.0),
        ),
        other(StopTheWorld, &[("GOGC", "20")], &[("GOGC", "off")], NONE),
        other(
            StopTheWorld,
            &[("-XX:+UseSerialGC", "on")],
            &[("-XX:+UseSerialGC", "not set")],
            NONE,
        ),
        same(
            ConnectionNotReused,
            &[("--worker-class", "sync")],
            closed_after(1),
            closed_after(100),
        ),
        same(StaleKeepAlive, &[("--keep-alive", "2")], idle(3), idle(1)),
        same(
            HttpError,
            &[("--limit-concurrency", "20")],
            answered(503),
            answered(500),
        ),
        same(
            HttpError,
            &[("--max-http-header-size", "8192")],
            answered(431),
            answered(400),
        ),
        other(CompressionCost, &[("gzip", "on")], &[("gzip", "off")], NONE),
        other(
            CompressionCost,
            &[("gzip_comp_level", "9"), ("gzip", "on")],
            &[("gzip_comp_level", "9"), ("gzip", "off")],
            NONE,
        ),
        same(
            TlsRecordBuffering,
            &[("ssl_buffer_size", "16k")],
            record(16_408),
            record(4_000),
        ),
        same(
            TlsRoundTrips,
            &[("ssl_protocols", "TLSv1.2")],
            handshakes(9, 9, 0),
            handshakes(9, 0, 0),
        ),
        other(
            TlsRoundTrips,
            &[
                ("ssl_session_tickets", "off"),
                ("ssl_session_cache", "none"),
            ],
            &[
                ("ssl_session_tickets", "off"),
                ("ssl_session_cache", "shared:SSL:1m"),
            ],
            handshakes(9, 0, 0),
        ),
        other(
            TlsRoundTrips,
            &[("ssl_session_cache", "off"), ("ssl_session_tickets", "off")],
            &[("ssl_session_cache", "off"), ("ssl_session_tickets", "on")],
            handshakes(9, 0, 0),
        ),
        same(
            TlsRoundTrips,
            &[("ssl_ecdh_curve", "secp521r1")],
            handshakes(0, 0, 9),
            handshakes(9, 0, 0),
        ),
        other(
            TlsRevocationFetch,
            &[("ssl_stapling", "off")],
            &[("ssl_stapling", "on")],
            NONE,
        ),
        other(
            DownstreamWait,
            &[("proxy_pass", "http://behind")],
            &[("proxy_pass", "not set")],
            NONE,
        ),
        same(
            HttpError,
            &[("proxy_pass", "http://behind")],
            answered(502),
            answered(500),
        ),
        same(
            HttpError,
            &[("proxy_read_timeout", "1s")],
            answered(504),
            answered(502),
        ),
        same(
            HttpError,
            &[("client_max_body_size", "1m")],
            answered(413),
            answered(400),
        ),
        same(
            HttpError,
            &[("return", "410")],
            answered(410),
            answered(503),
        ),
        other(
            ConnectionClosed,
            &[("return", "444")],
            &[("return", "404")],
            NONE,
        ),
        other(
            RedirectChain,
            &[("return", "301 /a")],
            &[("return", "200 ok")],
            NONE,
        ),
        other(
            CorkHold,
            &[("tcp_nopush", "on"), ("sendfile", "on")],
            &[("tcp_nopush", "on"), ("sendfile", "off")],
            NONE,
        ),
        other(
            TinyWrites,
            &[("postpone_output", "0")],
            &[("postpone_output", "1460")],
            NONE,
        ),
        other(
            AcceptQueueOverflow,
            &[("listen backlog", "16")],
            // The kernel's limit, 128 in these tests, is lower than the configured one.
            &[("listen backlog", "4096"), ("listener", "128")],
            NONE,
        ),
        other(
            AcceptQueueOverflow,
            &[
                ("listen reuseport", "on"),
                ("listener", "128"),
                ("full", "128"),
            ],
            &[("listen reuseport", "on"), ("full", "128")],
            NONE,
        ),
        other(
            DeferAccept,
            &[("listen deferred", "on")],
            &[("listen deferred", "off")],
            NONE,
        ),
        other(
            FastOpenBlackHole,
            &[("listen fastopen", "5")],
            &[("listen fastopen", "off")],
            NONE,
        ),
        other(
            SendBuffer,
            &[("listen sndbuf", "16k")],
            &[("listen sndbuf", "the system's")],
            NONE,
        ),
        other(
            ZeroWindow,
            &[("listen rcvbuf", "16k")],
            &[("listen rcvbuf", "the system's")],
            NONE,
        ),
        same(
            WorkerSaturation,
            &[("worker_processes", "2")],
            served(2.1),
            served(7.0),
        ),
        other(
            WorkerSaturation,
            &[("worker_processes", "1")],
            &[("worker_processes", "1"), ("proxy_pass", "http://behind")],
            served(1.0),
        ),
        same(
            ConnectionClosed,
            &[("worker_connections", "64"), ("worker_processes", "1")],
            open(100),
            open(10),
        ),
    ]
}

/// Returns facts with these settings. `listener` and `full` stand for listeners with an empty or a
/// full accept queue of this length.
fn facts_of(lines: &[(&str, &str)]) -> Facts {
    let mut facts = facts(lines);
    let limits = lines
        .iter()
        .filter(|(name, _)| ["listener", "full"].contains(name));
    let listener = |(name, limit): &(&str, &str)| {
        let limit = limit.parse().expect("a number");
        ListenerSample {
            local: subject(),
            queued: if *name == "full" { limit } else { 0 },
            limit,
            embryonic: 0,
            syn_backlog: None,
            somaxconn: None,
        }
    };
    facts.kernel.listeners = limits.map(listener).collect();
    facts
}

#[test]
fn a_setting_explains_only_traffic_that_shows_its_effect() {
    for (cause, lines, traffic, near, other) in examples() {
        let directive = lines[0].0.to_owned();
        let of = |lines, measured: &Measured| {
            supported(
                &facts_of(lines),
                cause,
                Owner::Server,
                measured,
                Some(TargetId::Subject),
            )
        };
        let found = of(lines, &traffic);
        assert!(found.contains(&directive), "{cause}: {lines:?} {found:?}");
        let found = of(near, &other);
        assert!(!found.contains(&directive), "{cause}: {near:?} {found:?}");
    }
}

#[test]
fn each_row_has_an_example() {
    let examples = examples();
    let tested: BTreeSet<(&str, Id)> = examples
        .iter()
        .map(|(cause, lines, ..)| (lines[0].0, *cause))
        .collect();
    for row in TABLE {
        let mut pairs = row.causes.iter().flat_map(|&cause| {
            row.directives
                .iter()
                .map(move |&directive| (directive, cause))
        });
        let is_tested = pairs.any(|pair| tested.contains(&pair));
        assert!(is_tested, "{:?} {:?}", row.directives, row.causes);
    }
}

#[test]
fn settings_of_another_server_explain_nothing() {
    let facts = facts(&[("keepalive_requests", "10")]);
    let measured = closed_after(10);
    let of = |target| {
        supported(
            &facts,
            Id::ConnectionNotReused,
            Owner::Server,
            &measured,
            target,
        )
    };
    assert_eq!(of(Some(TargetId::Subject)), ["keepalive_requests"]);
    assert!(of(Some(TargetId::Twin)).is_empty());
    assert!(of(None).is_empty());
}

/// General advice, as a wording has it.
pub(in crate::cause) type General = &'static [(&'static str, &'static str)];

/// Returns a strong claim with general advice.
pub(in crate::cause) fn claim(cause: Id, general: General) -> Claim {
    let mut claim = Claim::blank(cause, Owner::Server, subject());
    claim.evidence = vec![Statement::shows(EvidenceKind::Wire, "packets")];
    claim.basis = Basis::new(100, false);
    let wording = Wording {
        fix: general,
        ..Wording::NONE
    };
    wording.tell(&mut claim, &[]);
    claim
}

pub(in crate::cause) fn worded(claim: &Claim) -> Finding {
    word::finding(claim.clone())
}

/// Returns the place and the change of each advice.
pub(in crate::cause) fn advised(claim: &Claim) -> Vec<[String; 2]> {
    let changes = worded(claim).fix.into_iter();
    changes.map(|fix| [fix.r#where, fix.change]).collect()
}

fn told(claim: Claim, facts: &Facts, measured: Measured) -> Claim {
    let empty = Empty::default();
    let case = empty.case(facts, Some(TargetId::Subject));
    match explained(Conclusion::Claim(Box::new(claim)), &case, || measured) {
        Conclusion::Claim(claim) => *claim,
        other => panic!("the finding stays: {other:?}"),
    }
}

#[test]
fn the_line_to_change_takes_the_place_of_the_general_advice() {
    let facts = facts(&[("keepalive_requests", "10")]);
    let general = &[
        ("server", "pool connections, whatever keepalive_requests is"),
        ("server", "{keepalive_requests} above 0 (nginx)"),
    ];
    let claim = told(
        claim(Id::ConnectionNotReused, general),
        &facts,
        closed_after(10),
    );
    let raise = [
        "/etc/nginx/conf.d/x.conf:12",
        "raise `keepalive_requests 10;` to 1000 or more",
    ];
    assert_eq!(advised(&claim), [["server", general[0].1], raise]);
    let [_, piece] = claim.evidence.as_slice() else {
        panic!("one more piece: {:?}", claim.evidence);
    };
    let expected = Statement::fits(
        EvidenceKind::Configuration,
        "nginx has `keepalive_requests 10;` (http > server :80): each connection was closed after \
         that number of requests",
    );
    let place = Some("/etc/nginx/conf.d/x.conf:12".to_owned());
    assert_eq!(*piece, expected.at(place));
    assert_eq!(claim.verdict(), Verdict::Strong);
    let accused = accused(&facts, &[claim]);
    assert_eq!(
        accused,
        [(&facts.configuration[0], Id::ConnectionNotReused)]
    );
}

#[test]
fn each_line_to_change_is_told_and_accused() {
    let zones = ("limit_req_zone", "$ip zone=one:1m rate=10r/s");
    let facts = facts(&[("limit_req", "zone=one"), ("limit_req", "zone=two"), zones]);
    let general = &[("server", "`{limit_req} … burst=N nodelay` (nginx)")];
    let measured = Measured {
        request_rate: Some(10.0),
        ..NONE
    };
    let claim = told(claim(Id::RateLimit, general), &facts, measured);
    let changes = advised(&claim);
    assert_eq!(changes.len(), 3, "{changes:?}");
    assert!(changes[2][1].contains("zone=two"), "{changes:?}");
    assert_eq!(accused(&facts, &[claim]).len(), 3);
}

#[test]
fn a_directive_and_the_option_that_it_sets_are_one() {
    let cases: [(Id, &str, &str, General); 3] = [
        (
            Id::NagleRoundTrip,
            "tcp_nodelay",
            "off",
            &[("server", "set {TCP_NODELAY}")],
        ),
        (
            Id::ReceiveWindow,
            "listen rcvbuf",
            "8k",
            &[("server", "do not set {SO_RCVBUF}")],
        ),
        (
            Id::AcceptQueueOverflow,
            "--backlog",
            "5",
            &[("server", "a longer queue: listen({backlog})")],
        ),
    ];
    for (cause, directive, value, general) in cases {
        let claim = told(claim(cause, general), &facts(&[(directive, value)]), NONE);
        assert_eq!(claim.advice.len(), 1, "{directive}: {:?}", advised(&claim));
        assert!(claim.advice[0].is_on_line(&line(directive, value)));
    }
}

#[test]
fn advice_that_names_no_directive_stays_behind_the_line_to_change() {
    let facts = facts(&[("ssl_stapling", "not set"), ("ssl_stapling", "off")]);
    let claim = told(
        claim(Id::TlsRevocationFetch, &[("server", "send the chain")]),
        &facts,
        NONE,
    );
    let changes = advised(&claim).into_iter().map(|[_, change]| change);
    assert_eq!(
        changes.collect::<Vec<_>>(),
        ["ssl_stapling on; ssl_stapling_verify on;", "send the chain"]
    );
}

#[test]
fn a_setting_speaks_against_a_finding_only_if_it_is_in_force() {
    let mut facts = facts(&[("listen deferred", "off")]);
    let against = told(claim(Id::DeferAccept, &[]), &facts, NONE);
    assert_eq!(against.verdict(), Verdict::Possible);
    assert!(against.evidence[1].is_against());
    let against = worded(&against);
    assert_eq!(against.evidence.len(), 1);
    assert!(against.overturned_by.contains("no `deferred`"));
    facts.configuration[0].is_newer_than_process = Some(true);
    let silent = told(claim(Id::DeferAccept, &[]), &facts, NONE);
    assert_eq!(
        (silent.verdict(), silent.evidence.len()),
        (Verdict::Strong, 1)
    );
}

#[test]
fn settings_of_a_started_program_are_written_as_they_were_given() {
    let of = |directive: &str, value: &str, at: Option<(&str, u32)>| {
        let set_at = at.map(|(file, line)| SourceLocation {
            file: file.to_owned(),
            line,
        });
        let line = ConfigurationLine {
            program: "gunicorn".to_owned(),
            scope: String::new(),
            set_at,
            ..line(directive, value)
        };
        (written(&line), place(&line))
    };
    let told = |written: &str, place: &str| (written.to_owned(), place.to_owned());
    let command = Some(("command line of pid 123", 0));
    assert_eq!(
        of("--threads", "2", command),
        told("`--threads 2`", "command line of pid 123")
    );
    assert_eq!(
        of("--worker-class", "sync", Some(("/srv/gunicorn.conf.py", 3))),
        told("`worker_class = sync`", "/srv/gunicorn.conf.py:3")
    );
    let file = Some(("/srv/gunicorn.conf.py", 4));
    assert_eq!(of("--keep-alive", "9", file).0, "`keepalive = 9`");
    assert_eq!(
        of("UV_THREADPOOL_SIZE", "4", None),
        told("`UV_THREADPOOL_SIZE=4`", "gunicorn")
    );
    assert_eq!(
        of("-XX:+UseSerialGC", "on", command).0,
        "`-XX:+UseSerialGC`"
    );
    assert_eq!(
        of("-XX:ActiveProcessorCount", "2", command).0,
        "`-XX:ActiveProcessorCount=2`"
    );
}

#[test]
fn doubt_and_defaults_are_told() {
    let mut doubtful = line("gzip", "on");
    doubtful.doubt = Some("two servers may answer".to_owned());
    let facts = Facts {
        configuration: vec![doubtful],
        ..Facts::default()
    };
    let claim = told(claim(Id::CompressionCost, &[]), &facts, NONE);
    let text = &worded(&claim).evidence[1].text;
    assert!(text.contains("not certain: two servers"), "{text}");
    let mut default = line("proxy_http_version", "1.0");
    default.set_at = None;
    assert_eq!(place(&default), "nginx, http > server :80");
}
