//! Memory for a hundred thousand requests, and for traffic that tries to exhaust it.
//!
//! The test is alone in its process, because it reads the peak memory of the process.
#![allow(
    clippy::disallowed_methods,
    reason = "the process's own memory is read from /proc"
)]

use core::net::IpAddr;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::exchange::{Exchange, Outcome};
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::{Direction, Endpoint, FlowKey, Transport};
use lagtrace_core::observed::segment::{IpFacts, Segment, SentBy, TcpFlags, TcpOptions};
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::registry::Id;
use lagtrace_core::report::Report;
use lagtrace_core::views::connections::Wanted;

const ACK: TcpFlags = TcpFlags::ACK;
const PUSH: TcpFlags = TcpFlags::ACK.with(TcpFlags::PSH);
const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: example\r\n\r\n";
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n";
const BODY: &[u8] = &[b'x'; 600];

/// Plays both ends of connections to one server, captured at the client.
struct Script {
    analyzer: Analyzer,
    number: u64,
}

/// A connection that is played.
#[derive(Clone, Copy)]
struct Talk {
    client: Endpoint,
    /// The next sequence numbers of the client and of the server.
    next: [u32; 2],
    ids: [u16; 2],
}

impl Script {
    fn send(&mut self, talk: &mut Talk, by: usize, at_us: i64, flags: TcpFlags, payload: &[u8]) {
        let server = Endpoint::new(IpAddr::from([10, 0, 0, 2]), 80);
        let ends = [talk.client, server];
        let (flow, direction): (FlowKey, Direction) =
            FlowKey::new(Transport::Tcp, ends[by], ends[1 - by]);
        self.number += 1;
        let is_syn = flags.contains(TcpFlags::SYN);
        let segment = Segment {
            at: Timestamp::from_nanos(1_700_000_000_000_000_000 + at_us * 1000),
            number: self.number,
            point: PointId(0),
            flow,
            direction,
            seq: talk.next[by],
            ack: talk.next[1 - by],
            flags,
            window: 60_000,
            payload_len: payload.len() as u32,
            options: TcpOptions {
                mss: is_syn.then_some(1460),
                ..TcpOptions::default()
            },
            ip: IpFacts {
                ttl: 64,
                id: Some(talk.ids[by]),
                congestion_marked: false,
                dont_fragment: true,
                sent_by: SentBy::Unknown,
            },
        };
        talk.next[by] = talk.next[by].wrapping_add(segment.sequence_len());
        talk.ids[by] = talk.ids[by].wrapping_add(1);
        self.analyzer.segment(&segment, payload);
    }

    fn open(&mut self, number: u32, at_us: i64) -> Talk {
        let [_, a, b, c] = (number >> 14).to_be_bytes();
        let port = 1024 + (number & 0x3fff) as u16;
        let mut talk = Talk {
            client: Endpoint::new(IpAddr::from([10, 1 + a, b, c]), port),
            next: [number.wrapping_mul(7919), u32::MAX - number],
            ids: [0, 0],
        };
        self.send(&mut talk, 0, at_us, TcpFlags::SYN, b"");
        self.send(&mut talk, 1, at_us + 8_000, TcpFlags::SYN.with(ACK), b"");
        talk.ids = [100, 9000];
        self.send(&mut talk, 0, at_us + 8_010, ACK, b"");
        talk
    }
}

/// Plays a request with a stall: the body leaves only after the delayed ACK of the head.
fn stalled(script: &mut Script, talk: &mut Talk, at_us: i64) {
    let jitter = at_us % 97;
    script.send(talk, 0, at_us, PUSH, REQUEST);
    script.send(talk, 1, at_us + 8_100 + jitter, PUSH, HEAD);
    script.send(talk, 0, at_us + 48_500, ACK, b"");
    script.send(talk, 1, at_us + 56_560 + jitter, PUSH, BODY);
    script.send(talk, 0, at_us + 56_700, ACK, b"");
}

#[derive(Default)]
struct Seen {
    whole: u64,
    faults: Vec<String>,
}

fn watch(exchange: &Exchange, seen: &mut Seen) {
    let sum: Duration = exchange.waits.iter().map(|wait| wait.duration()).sum();
    let is_contiguous = exchange
        .waits
        .windows(2)
        .all(|two| two[0].end == two[1].start);
    let is_whole = matches!(exchange.outcome, Outcome::Complete(Some(200)));
    if is_whole && (sum != exchange.latency() || !is_contiguous) && seen.faults.len() < 10 {
        seen.faults.push(format!("{exchange:?}"));
    }
    seen.whole += u64::from(is_whole);
}

fn run(play: impl FnOnce(&mut Script)) -> (Report, Seen) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let into = Arc::clone(&seen);
    let sink = Box::new(move |exchange: &Exchange| {
        watch(exchange, &mut into.lock().expect("no holder panicked"));
    });
    let options = Options {
        connections: Wanted {
            limit: 4,
            ..Wanted::default()
        },
        ..Options::default()
    };
    let analyzer = Analyzer::new(options).with_sink(sink);
    let mut script = Script {
        analyzer,
        number: 0,
    };
    play(&mut script);
    let report = script.analyzer.finish();
    let seen = std::mem::take(&mut *seen.lock().expect("no holder panicked"));
    (report, seen)
}

/// Returns the peak memory of the process, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

fn a_hundred_thousand_requests() {
    const CONNECTIONS: u32 = 100;
    const REQUESTS: i64 = 1000;
    let (report, seen) = run(|script| {
        let mut talks: Vec<Talk> = (0..CONNECTIONS)
            .map(|n| script.open(n, i64::from(n) * 500))
            .collect();
        for round in 0..REQUESTS {
            for (talk, n) in talks.iter_mut().zip(0..) {
                stalled(script, talk, 60_000 + round * 60_000 + n * 550);
            }
        }
    });
    assert_eq!((seen.whole, seen.faults.as_slice()), (100_000, &[][..]));
    assert_eq!(report.exchanges.count, 100_000);
    let unknown: f64 = report
        .exchanges
        .waits
        .iter()
        .filter(|wait| wait.owner == Owner::Unknown)
        .map(|wait| wait.share)
        .sum();
    assert!(unknown < 0.01, "{unknown}");
    let sum: u64 = report
        .exchanges
        .waits
        .iter()
        .map(|wait| wait.total_ns)
        .sum();
    let mean = report.exchanges.latency_ns.mean;
    assert!(
        (sum as f64 / 1e5 / mean as f64 - 1.0).abs() < 0.002,
        "{sum} and {mean}"
    );
    let first = report.findings.first().map(|finding| finding.cause);
    assert_eq!(first, Some(Id::NagleDelayedAck));
}

/// Plays four endless messages: requests that are never answered, a response, gaps that are never
/// filled, and a request's head.
fn endless_messages() {
    run(|script| {
        let mut talk = script.open(0, 0);
        for at in 0..60_000 {
            script.send(&mut talk, 0, 20_000 + at, PUSH, REQUEST);
        }
        let mut talk = script.open(1, 0);
        script.send(&mut talk, 0, 20_000, PUSH, REQUEST);
        script.send(&mut talk, 1, 20_000, PUSH, b"HTTP/1.1 200 OK\r\n\r\n");
        for at in 0..60_000 {
            script.send(&mut talk, 1, 30_000 + at, PUSH, BODY);
        }
        let mut talk = script.open(2, 0);
        for at in 0..60_000 {
            talk.next[0] = talk.next[0].wrapping_add(2);
            script.send(&mut talk, 0, 20_000 + at, PUSH, b"GET /");
        }
        let mut talk = script.open(3, 0);
        script.send(&mut talk, 0, 20_000, PUSH, b"GET / HTTP/1.1\r\nX: ");
        for at in 0..20_000 {
            script.send(&mut talk, 0, 20_000 + at, PUSH, BODY);
        }
    });
}

/// Plays 300,000 SYNs from different clients.
fn a_flood() {
    let (report, _) = run(|script| {
        for number in 0..300_000 {
            let mut talk = Talk {
                client: Endpoint::new(
                    IpAddr::from((number as u32 | 0x0b00_0000).to_be_bytes()),
                    99,
                ),
                next: [1, 1],
                ids: [1, 1],
            };
            script.send(&mut talk, 0, number, TcpFlags::SYN, b"");
        }
    });
    assert_eq!(report.setups.count, 300_000);
}

#[test]
fn volume_costs_no_memory() {
    a_hundred_thousand_requests();
    let after_requests = peak_mib();
    assert!(
        after_requests < 100,
        "{after_requests} MiB after 100,000 requests"
    );
    endless_messages();
    let after_messages = peak_mib();
    assert!(
        after_messages < 150,
        "{after_messages} MiB after endless messages"
    );
    a_flood();
    let after_flood = peak_mib();
    assert!(after_flood < 500, "{after_flood} MiB after a flood");
}
