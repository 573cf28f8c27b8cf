//! Reports made by hand, with the figures of a real case.

use lagtrace_core::experiment::Experiment;
use lagtrace_core::histogram::Distribution;
use lagtrace_core::report::{
    Affected, Capture, CapturePoint, Cluster, Counter, Details, Evidence, EvidenceKind, Exchanges,
    Exemplar, ExperimentOutcome, Figures, Finding, Fix, Hop, HopState, HostStage, LatencyMode,
    Layer, LayerState, PhaseSpan, PredictedLatency, Prediction, Probe, ProbeFigures, Remark,
    Report, RuledOut, SCHEMA, Setting, SetupOutcome, Setups, SocketGroup, StatusCount, Tally,
    Verdict, WaitShare, WaitSpan,
};
use lagtrace_core::wait::{Owner, WaitKind};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_763_764_000 * SECOND;

/// Nagle on the server against our delayed ACK; its twin is healthy.
pub(super) fn faulty() -> Report {
    Report {
        exchanges: slow_exchanges(),
        twin: Some(fast_exchanges()),
        setups: setups(100, "established", 100),
        capture: Some(capture()),
        phases: phases(),
        probes: vec![probe(
            "tcp-syn",
            10,
            "open",
            [162_000, 171_000, 188_000, 7_000],
        )],
        hops: hops(),
        sockets: sockets(0),
        counters: counters(),
        configuration: vec![setting("subject", "off", "/etc/nginx/nginx.conf:12")],
        experiments: vec![quickack()],
        layers: layers(LayerState::Accused),
        findings: vec![nagle()],
        notes: vec![remark(
            "capture-disturbs",
            "Capturing lowered the rate by 8 %; the latency figures are from the window without it",
        )],
        details: Some(details(44_000_000)),
        ..blank("http://10.77.0.2:8080/")
    }
}

/// The same service after the fix.
pub(super) fn healthy() -> Report {
    Report {
        exchanges: fast_exchanges(),
        setups: setups(100, "established", 100),
        capture: Some(capture()),
        probes: vec![probe(
            "tcp-syn",
            10,
            "open",
            [162_000, 171_000, 188_000, 7_000],
        )],
        sockets: sockets(98),
        configuration: vec![setting("subject", "on", "/etc/nginx/nginx.conf:12")],
        layers: layers(LayerState::Cleared),
        details: Some(details(950_000)),
        ..blank("http://10.77.0.2:8080/")
    }
}

/// Nobody listens.
pub(super) fn unreachable() -> Report {
    Report {
        setups: setups(3, "refused", 3),
        probes: vec![probe(
            "tcp-syn",
            3,
            "refused",
            [164_000, 170_000, 181_000, 7_000],
        )],
        layers: vec![
            layer(
                "name",
                LayerState::Cleared,
                "10.77.0.2, an address as given",
                "",
            ),
            layer(
                "route",
                LayerState::Cleared,
                "through veth0 from 10.77.0.1",
                "",
            ),
            layer(
                "connection",
                LayerState::Accused,
                "3 of 3 refused by RST",
                "RST after 170 µs",
            ),
        ],
        findings: vec![refused()],
        ..blank("http://10.77.0.2:81/")
    }
}

/// A losing path above, Nagle below, seen in a capture alone.
pub(super) fn two_findings() -> Report {
    let mut nagle = nagle();
    nagle.verdict = Verdict::Strong;
    nagle.evidence.truncate(1);
    nagle.share = 0.14;
    nagle.cost_ns = 155_000_000_000;
    nagle.cost_low_ns = 101_000_000_000;
    nagle.cost_high_ns = 160_000_000_000;
    nagle.affected = Affected {
        exchanges: 3_580,
        of: 3_566 + 31,
    };
    nagle.predicted = None;
    let mut exchanges = slow_exchanges();
    exchanges.count = 3_597;
    exchanges.timeouts = 31;
    exchanges.rate = 356.6;
    exchanges.measured_by = "packets".to_owned();
    exchanges.latency_ns = figures(
        [9.1, 311.29, 57.17, 280.0, 921.0, 1690.0, 1850.0, 1990.0],
        3_597,
    );
    Report {
        command: "analyze".to_owned(),
        exchanges,
        capture: Some(Capture {
            dropped: None,
            truncated: 12,
            ..capture()
        }),
        findings: vec![loss(), nagle],
        layers: vec![layer(
            "server",
            LayerState::NotMeasured,
            "its sockets and configuration",
            "Run lagtrace diagnose on the server's host as root",
        )],
        ..blank("nginx.pcap")
    }
}

/// Everything a peer or a file can say, said with ill will.
pub(super) fn hostile() -> Report {
    const ILL: &str = "\u{1b}]0;owned\u{7}\u{9b}2J\r\n\u{202e}evil\u{200b} x";
    let ill = || ILL.to_owned();
    let mut report = faulty();
    report.subject = ill();
    report.command = ill();
    report.started = ill();
    report.exchanges.statuses = vec![StatusCount {
        status: ill(),
        count: 1,
    }];
    report.exchanges.measured_by = ill();
    for exemplar in report.findings.iter_mut().flat_map(|f| &mut f.exemplars) {
        (exemplar.request, exemplar.outcome) = (ill(), ill());
        (exemplar.client, exemplar.server) = (ill(), ill());
    }
    report
        .exchanges
        .slowest
        .clone_from(&report.findings[0].exemplars);
    for finding in &mut report.findings {
        (finding.title, finding.service, finding.summary) = (ill(), ill(), ill());
        (finding.cause, finding.overturned_by) = (ill(), ill());
        finding.fix = vec![Fix {
            r#where: ill(),
            change: ill(),
        }];
        finding.ruled_out = vec![RuledOut {
            cause: ill(),
            because: ill(),
        }];
        for piece in &mut finding.evidence {
            piece.text = ill();
            (piece.display_filter, piece.location) = (Some(ill()), Some(ill()));
        }
    }
    for setting in &mut report.configuration {
        (setting.program, setting.directive, setting.value) = (ill(), ill(), ill());
        (setting.set_at, setting.scope, setting.doubt) = (Some(ill()), ill(), Some(ill()));
    }
    report.sockets[0].owner = ill();
    report.counters = vec![Counter {
        name: ill(),
        change: 1,
        side: ill(),
    }];
    report.layers = vec![layer(ILL, LayerState::Accused, ILL, ILL)];
    report.notes = vec![remark(ILL, ILL)];
    report.probes[0].target = ill();
    report.hops[0].address = Some(ill());
    report.setups.outcomes[0].outcome = ill();
    for point in report
        .capture
        .iter_mut()
        .flat_map(|capture| &mut capture.points)
    {
        (point.name, point.vantage, point.damage) = (ill(), ill(), Some(ill()));
    }
    for phase in &mut report.phases {
        (phase.phase, phase.target) = (ill(), ill());
    }
    report.experiments[0].meaning = ill();
    report
}

fn blank(subject: &str) -> Report {
    Report {
        schema: SCHEMA,
        command: "diagnose".to_owned(),
        subject: subject.to_owned(),
        started: "2025-11-21T22:26:40Z".to_owned(),
        ..Report::default()
    }
}

fn remark(id: &str, text: &str) -> Remark {
    Remark {
        id: id.to_owned(),
        text: text.to_owned(),
    }
}

/// Figures from milliseconds: min, mean, p50, p75, p90, p99, p99.9, max.
fn figures(ms: [f64; 8], count: u64) -> Figures {
    let [min, mean, p50, p75, p90, p99, p999, max] = ms.map(|ms| (ms * 1e6) as u64);
    Figures {
        count,
        min,
        mean,
        p50,
        p75,
        p90,
        p99,
        p999,
        max,
    }
}

fn share(kind: WaitKind, owner: Owner, total_ns: u64, share: f64) -> WaitShare {
    WaitShare {
        kind,
        owner,
        total_ns,
        share,
    }
}

fn slow_exchanges() -> Exchanges {
    Exchanges {
        count: 22_738,
        rate: 2_273.4,
        measured_by: "own stamps".to_owned(),
        latency_ns: figures([0.31, 43.62, 43.87, 44.1, 44.6, 47.97, 49.3, 51.2], 22_738),
        waits: vec![
            share(
                WaitKind::ResponseHeld,
                Owner::Server,
                978_000_000_000,
                0.986,
            ),
            share(WaitKind::RoundTrip, Owner::Path, 8_100_000_000, 0.008_2),
            share(WaitKind::ServerThink, Owner::Server, 5_400_000_000, 0.005_4),
            share(WaitKind::Unknown, Owner::Unknown, 400_000_000, 0.000_4),
        ],
        waits_of: 22_738,
        slowest: vec![exemplar()],
        statuses: vec![StatusCount {
            status: "200".to_owned(),
            count: 22_738,
        }],
        modes: modes(),
        ..Exchanges::default()
    }
}

fn modes() -> Vec<LatencyMode> {
    let mode = |count: u64, [low, peak, high]: [u64; 3], cause: Option<&str>| LatencyMode {
        count,
        share: count as f64 / 22_738.0,
        low_ns: low * 1_000,
        peak_ns: peak * 1_000,
        high_ns: high * 1_000,
        waits: vec![share(WaitKind::RoundTrip, Owner::Path, 12_000_000, 0.6)],
        causes: cause.map(str::to_owned).into_iter().collect(),
        exemplars: vec![exemplar()],
    };
    vec![
        mode(1_137, [290, 310, 420], None),
        mode(21_601, [43_100, 43_600, 44_900], Some("nagle-delayed-ack")),
    ]
}

fn fast_exchanges() -> Exchanges {
    Exchanges {
        count: 809_770,
        rate: 80_977.0,
        measured_by: "own stamps".to_owned(),
        latency_ns: figures([0.12, 1.48, 0.95, 1.62, 2.9, 8.4, 14.1, 22.7], 809_770),
        waits: vec![
            share(
                WaitKind::ServerThink,
                Owner::Server,
                1_000_000_000_000,
                0.834,
            ),
            share(WaitKind::RoundTrip, Owner::Path, 198_000_000_000, 0.165),
        ],
        statuses: vec![StatusCount {
            status: "200".to_owned(),
            count: 809_770,
        }],
        ..Exchanges::default()
    }
}

fn span(kind: WaitKind, owner: Owner, us: u64, packet: u64, error_us: u64) -> WaitSpan {
    WaitSpan {
        kind,
        owner,
        duration_ns: us * 1_000,
        error_ns: (error_us > 0).then_some(error_us * 1_000),
        released_by_packet: Some(packet),
    }
}

fn exemplar() -> Exemplar {
    Exemplar {
        client: "10.77.0.1:40212".to_owned(),
        server: "10.77.0.2:8080".to_owned(),
        request: "GET /".to_owned(),
        outcome: "200".to_owned(),
        start_ns: START,
        latency_ns: 43_620_000,
        first_packet: Some(1_201),
        last_packet: Some(1_207),
        waits: vec![
            span(WaitKind::RoundTrip, Owner::Path, 85, 1_201, 5),
            span(WaitKind::ServerThink, Owner::Server, 235, 1_202, 5),
            span(WaitKind::RoundTrip, Owner::Path, 85, 1_203, 5),
            span(WaitKind::ResponseHeld, Owner::Server, 43_130, 1_206, 0),
            span(WaitKind::ResponseTransfer, Owner::Path, 85, 1_207, 0),
        ],
        at_host: [
            ("unread", 20_000),
            ("program", 440_000),
            ("held", 43_130_000),
        ]
        .map(|(stage, duration_ns)| HostStage {
            stage: stage.to_owned(),
            duration_ns,
        })
        .into(),
    }
}

fn nagle() -> Finding {
    Finding {
        cause: "nagle-delayed-ack".to_owned(),
        title: "Nagle's algorithm on the server waits for the client's delayed ACK".to_owned(),
        verdict: Verdict::Proven,
        culprit: Owner::Server,
        waits: vec![WaitKind::ResponseHeld],
        service: "10.77.0.2:8080".to_owned(),
        cost_ns: 979_000_000_000,
        cost_low_ns: 972_000_000_000,
        cost_high_ns: 981_000_000_000,
        wall_ns: 10_000_000_000,
        share: 0.987,
        affected: Affected {
            exchanges: 22_706,
            of: 22_738,
        },
        summary:
            "The server writes each response in two small pieces. Nagle's algorithm holds the \
                  second until the first is acknowledged, and the client's kernel delays that \
                  acknowledgement by up to 40 ms in case it could ride on data. Each waits for the \
                  other until the client's timer fires."
                .to_owned(),
        evidence: vec![
            Evidence {
                count: Some(22_706),
                median_ns: Some(43_100_000),
                packets: (0..12).map(|n| 1_203 + 7 * n).collect(),
                display_filter: Some(
                    "tcp.port == 8080 && tcp.len > 0 && tcp.time_delta > 0.03".to_owned(),
                ),
                ..evidence(
                    EvidenceKind::Wire,
                    "The rest of the response left right after the bare ACK of its first part",
                )
            },
            evidence(
                EvidenceKind::Intervention,
                "With TCP_QUICKACK armed after every read the mean fell from 43.6 ms to 1.52 ms",
            ),
            evidence(
                EvidenceKind::ForeignSocket,
                "TCP_NODELAY is set on 0 of 98 accepted sockets",
            ),
            Evidence {
                location: Some("/etc/nginx/nginx.conf:12".to_owned()),
                shows_mechanism: false,
                ..evidence(EvidenceKind::Configuration, "tcp_nodelay off")
            },
        ],
        display_filter: Some(
            "ip.addr == 10.77.0.1 && tcp.port == 40212 && tcp.port == 8080 && frame.number in \
             {1201..1207}"
                .to_owned(),
        ),
        ruled_out: vec![
            ruled_out(
                "server-think",
                "the held data left 0.1 ms after the ACK, every time",
            ),
            ruled_out("packet-loss", "nothing was retransmitted"),
        ],
        candidates: Vec::new(),
        overturned_by: "A small segment that leaves while an earlier small one is unacknowledged"
            .to_owned(),
        fix: vec![
            Fix {
                r#where: "/etc/nginx/nginx.conf:12".to_owned(),
                change: "tcp_nodelay on;".to_owned(),
            },
            Fix {
                r#where: "the client's route, if the server cannot be changed".to_owned(),
                change: "ip route change … quickack 1".to_owned(),
            },
        ],
        predicted: Some(Prediction {
            at_rate: 2_273.4,
            latency_ns: PredictedLatency {
                p50: 310_000,
                p99: 1_900_000,
            },
            closed_loop_rate: Some((52_000.0, 88_000.0)),
        }),
        exemplars: vec![exemplar()],
    }
}

fn loss() -> Finding {
    Finding {
        cause: "packet-loss".to_owned(),
        title: "The path loses packets".to_owned(),
        verdict: Verdict::Strong,
        culprit: Owner::Path,
        waits: vec![WaitKind::Recovery],
        cost_ns: 800_000_000_000,
        cost_low_ns: 790_000_000_000,
        cost_high_ns: 805_000_000_000,
        share: 0.71,
        affected: Affected {
            exchanges: 1_204,
            of: 3_597,
        },
        summary: String::new(),
        evidence: vec![Evidence {
            count: Some(2_310),
            packets: vec![88],
            ..evidence(
                EvidenceKind::Wire,
                "Segments were sent again after timeouts",
            )
        }],
        display_filter: None,
        ruled_out: Vec::new(),
        candidates: Vec::new(),
        overturned_by: "A capture at the server that shows the repeated segments arriving twice"
            .to_owned(),
        fix: vec![Fix {
            r#where: "the path".to_owned(),
            change: "shape below the policed rate, 5 Mbit/s".to_owned(),
        }],
        predicted: None,
        exemplars: Vec::new(),
        ..nagle()
    }
}

fn refused() -> Finding {
    Finding {
        cause: "connection-refused".to_owned(),
        title: "Nothing listens on 10.77.0.2:81".to_owned(),
        waits: Vec::new(),
        service: "10.77.0.2:81".to_owned(),
        cost_ns: 0,
        cost_low_ns: 0,
        cost_high_ns: 0,
        share: 0.0,
        affected: Affected::default(),
        summary: String::new(),
        evidence: vec![evidence(
            EvidenceKind::OwnSocket,
            "3 of 3 connections were refused by RST",
        )],
        display_filter: None,
        ruled_out: vec![ruled_out(
            "firewall-drop",
            "the RST came from the server itself, TTL 64",
        )],
        candidates: Vec::new(),
        overturned_by: "A listener on that port in ss -ltn on the server".to_owned(),
        fix: vec![Fix {
            r#where: "the server".to_owned(),
            change: "start the service, or correct the URL's port".to_owned(),
        }],
        predicted: None,
        exemplars: Vec::new(),
        ..nagle()
    }
}

fn evidence(kind: EvidenceKind, text: &str) -> Evidence {
    Evidence {
        kind,
        shows_mechanism: true,
        text: text.to_owned(),
        count: None,
        median_ns: None,
        packets: Vec::new(),
        display_filter: None,
        location: None,
    }
}

fn ruled_out(cause: &str, because: &str) -> RuledOut {
    RuledOut {
        cause: cause.to_owned(),
        because: because.to_owned(),
    }
}

fn setups(count: u64, outcome: &str, of_it: u64) -> Setups {
    let is_open = outcome == "established";
    let took = figures([0.16, 0.2, 0.19, 0.2, 0.24, 0.3, 0.4, 0.4], count);
    Setups {
        count,
        outcomes: vec![SetupOutcome {
            outcome: outcome.to_owned(),
            count: of_it,
        }],
        latency_ns: if is_open { took } else { Figures::default() },
        waits: Vec::new(),
    }
}

fn capture() -> Capture {
    Capture {
        packets: 91_204,
        bytes: 12_340_000,
        start_ns: START,
        end_ns: START + 10 * SECOND,
        dropped: Some(0),
        truncated: 0,
        points: vec![CapturePoint {
            name: "veth0".to_owned(),
            packets: 91_204,
            undecoded: 4,
            connections: 100,
            vantage: "client".to_owned(),
            damage: None,
        }],
    }
}

fn phases() -> Vec<PhaseSpan> {
    let phase = |name: &str, second, experiment| PhaseSpan {
        phase: name.to_owned(),
        target: "subject".to_owned(),
        start_ns: START + second * SECOND,
        end_ns: START + (second + 10) * SECOND,
        experiment,
        offered_rate: None,
        is_observed: experiment.is_some(),
    };
    vec![
        phase("baseline", 0, None),
        phase("experiment 1", 10, Some(Experiment::QuickAck)),
    ]
}

fn probe(method: &str, sent: u64, answer: &str, [min, mean, max, mdev]: [u64; 4]) -> Probe {
    Probe {
        method: method.to_owned(),
        target: "10.77.0.2:8080".to_owned(),
        during: "idle".to_owned(),
        sent,
        received: sent,
        late: 0,
        lost: 0,
        duplicates: 0,
        reordered: 0,
        ttl: None,
        jitter_ns: (max - min) / 3,
        noticed_ns: None,
        queued_ns: None,
        own_ns: None,
        steps: Vec::new(),
        phases: Vec::new(),
        tls: None,
        answers: vec![StatusCount {
            status: answer.to_owned(),
            count: sent,
        }],
        stamp: "kernel".to_owned(),
        rtt_ns: ProbeFigures {
            min,
            mean,
            p50: mean,
            p90: max,
            p99: max,
            max,
            mdev,
        },
    }
}

fn hops() -> Vec<Hop> {
    let rtt = ProbeFigures {
        min: 160_000,
        mean: 170_000,
        max: 190_000,
        ..Default::default()
    };
    vec![
        Hop {
            ttl: 1,
            address: None,
            sent: 3,
            state: HopState::Silent,
            ..Hop::default()
        },
        Hop {
            ttl: 2,
            address: Some("10.77.0.2".to_owned()),
            sent: 3,
            received: 3,
            rtt_ns: rtt,
            kept_ns: 160_000,
            history_ns: [160_000, 190_000, 160_000].map(Some).to_vec(),
            ..Hop::default()
        },
    ]
}

fn sockets(with_nodelay: u64) -> Vec<SocketGroup> {
    vec![
        SocketGroup {
            target: "subject".to_owned(),
            owner: "nginx[1234]".to_owned(),
            sockets: 98,
            samples: 98,
            nodelay: Some(Tally {
                count: with_nodelay,
                of: 98,
            }),
            cork: Some(Tally { count: 0, of: 98 }),
            quickack: None,
            holding: Some(Tally {
                count: 92 - with_nodelay.min(92),
                of: 98,
            }),
        },
        SocketGroup {
            target: "subject".to_owned(),
            owner: "own".to_owned(),
            sockets: 100,
            samples: 1_000,
            nodelay: Some(Tally {
                count: 1_000,
                of: 1_000,
            }),
            cork: None,
            quickack: Some(Tally {
                count: 3,
                of: 1_000,
            }),
            holding: None,
        },
    ]
}

fn counters() -> Vec<Counter> {
    let counter = |name: &str, change| Counter {
        name: name.to_owned(),
        change,
        side: "client".to_owned(),
    };
    vec![
        counter("TcpExt:DelayedACKs", 22_711),
        counter("TcpExt:TCPHPHits", 12),
        counter("TcpExt:ListenOverflows", 0),
    ]
}

fn setting(target: &str, value: &str, place: &str) -> Setting {
    Setting {
        target: target.to_owned(),
        program: "nginx".to_owned(),
        directive: "tcp_nodelay".to_owned(),
        value: value.to_owned(),
        set_at: Some(place.to_owned()),
        scope: "http > server :8080 > location /".to_owned(),
        is_newer_than_process: Some(false),
        doubt: None,
    }
}

fn quickack() -> ExperimentOutcome {
    ExperimentOutcome {
        experiment: Experiment::QuickAck,
        target: "subject".to_owned(),
        control: figures([0.3, 43.6, 43.8, 44.0, 44.5, 47.9, 49.0, 49.9], 4_500),
        treated: figures([0.1, 1.52, 1.0, 1.7, 3.0, 8.8, 14.0, 21.0], 130_000),
        difference_ns: -42_080_000,
        difference_low_ns: -42_300_000,
        difference_high_ns: -41_800_000,
        alternations: 8,
        meaning: "The wait is for our acknowledgement: without its delay it is gone".to_owned(),
    }
}

fn layer(name: &str, state: LayerState, line: &str, because: &str) -> Layer {
    Layer {
        layer: name.to_owned(),
        state,
        line: line.to_owned(),
        because: because.to_owned(),
    }
}

fn layers(server: LayerState) -> Vec<Layer> {
    use LayerState::{Cleared, NotMeasured};
    vec![
        layer("name", Cleared, "10.77.0.2, an address as given", ""),
        layer(
            "route",
            Cleared,
            "through veth0 from 10.77.0.1, on the link",
            "",
        ),
        layer(
            "round-trip",
            Cleared,
            "171 µs, steady under load",
            "10 SYN probes, kernel stamps",
        ),
        layer(
            "firewall",
            NotMeasured,
            "the rules could not be read",
            "Would show rules that drop. To allow it: run as root",
        ),
        layer("backlog", Cleared, "0 of 511 waiting, no SYN waiting", ""),
        layer(
            "server",
            server,
            if server == Cleared {
                "answers within 1 ms"
            } else {
                "holds its responses back"
            },
            "22,706 of 22,738 responses",
        ),
    ]
}

/// Clusters around a latency, wide enough to resample.
fn details(around_ns: u64) -> Details {
    let cluster = |n: u32| Cluster {
        second: n / 4,
        group: (n % 4) as u16,
        latency: Distribution::from_buckets((0..20).map(|k| {
            (
                around_ns + around_ns / 200 * (u64::from(n * 7 + k * 3) % 17),
                5,
            )
        })),
        failures: 0,
    };
    let clusters: Vec<Cluster> = (0..40).map(cluster).collect();
    let mut latency = Distribution::default();
    clusters
        .iter()
        .for_each(|cluster| latency.merge(&cluster.latency));
    Details {
        clusters,
        latency,
        body: Distribution::default(),
    }
}
