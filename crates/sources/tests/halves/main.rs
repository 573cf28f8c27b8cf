//! The half that reads what the kernel's programs record, without any privilege. Needs root for the
//! other half.
#![cfg(feature = "live")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod misfits;
#[path = "../servers/nginx.rs"]
mod nginx;
mod way;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::syscall::SocketCall;
use lagtrace_sources::kernel::{
    Answer, Ask, CallOptions, Calls, KernelError, Programs, Request, Sample, Sighting, Standing,
    Watch, WatchOptions,
};
use lagtrace_sources::socket::survey::Choice;
use lagtrace_trial::live;
use nginx::Nginx;
use nix::sys::socket::{setsockopt, sockopt};
use way::{Way, privileged, unprivileged};

const REQUESTS: usize = 20;
/// Maximum number of requests of which one of two watches may miss a part. BPF programs do not run
/// in some of a virtual machine's own interrupts.
const UNSEEN: usize = 1;
/// Maximum wait for the end of a connection.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum time in which a reader starts. One that uses a forbidden system call never does.
const START: Duration = Duration::from_secs(20);

/// Runs a test with both halves, if this process may be the privileged one. If it may not and
/// `LAGTRACE_REQUIRE_ALL` is set, the test fails.
fn halved(name: &str, body: impl FnOnce()) {
    if !rustix::process::geteuid().is_root() {
        assert!(
            std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none(),
            "needs root"
        );
        return eprintln!("skipped: {name} needs root");
    }
    live(name).alone().run(body);
}

fn of_port(port: u16) -> WatchOptions {
    WatchOptions {
        ports: vec![port],
        keeps_payload: true,
        ..WatchOptions::default()
    }
}

/// The reports of a watch, in a form that does not depend on when its programs ran.
#[derive(Debug, Default)]
struct Seen {
    /// For each connection, the number of its exchanges with their programs and numbers of writes.
    turns: BTreeMap<(Endpoint, Option<u32>, u32), usize>,
    /// For each segment, its sequence number, its flags, and its payload.
    segments: Vec<(u32, u8, Vec<u8>)>,
    standing: Standing,
}

impl Seen {
    fn take(&mut self, sighting: &Sighting<'_>) {
        match sighting {
            Sighting::Turn(turn) => {
                let program = turn.program.as_ref().map(|program| program.pid);
                let key = (turn.remote, program, turn.writes);
                *self.turns.entry(key).or_default() += 1;
            }
            Sighting::Packet(Packet::Tcp(segment, payload)) => {
                let segment = (segment.seq, segment.flags.0, payload.to_vec());
                self.segments.push(segment);
            }
            Sighting::Packet(other) => panic!("only segments: {other:?}"),
            Sighting::Passage(_) => panic!("only HTTP/2 has passages"),
        }
    }

    /// Reads a watch to its end: until it has counted all requests.
    fn of(mut watch: Watch) -> Self {
        let mut seen = Self::default();
        let begun = Instant::now();
        while watch.standing().tally.latency.count() < REQUESTS as u64 && begun.elapsed() < PATIENCE
        {
            thread::sleep(Duration::from_millis(10));
            watch.take(|sighting| seen.take(&sighting));
        }
        seen.standing = watch.finish(|sighting| seen.take(&sighting));
        seen.segments.sort();
        seen
    }

    fn count(&self) -> usize {
        self.turns.values().sum()
    }
}

/// Sends requests to a real server on one connection, one after another.
fn ask(port: u16) {
    const REQUEST: &[u8] = b"GET /page.html HTTP/1.1\r\nHost: here\r\n\r\n";
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    for _ in 0..REQUESTS {
        client.write_all(REQUEST).unwrap();
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while !answer.ends_with(b"xxx") {
            let len = client.read(&mut buffer).unwrap();
            assert!(len > 0, "nginx keeps the connection open");
            answer.extend(&buffer[..len]);
        }
    }
}

#[test]
fn a_reader_without_privileges_sees_what_one_with_all_of_them_sees() {
    const TEST: &str = "a_reader_without_privileges_sees_what_one_with_all_of_them_sees";
    halved(TEST, || {
        let Some(nginx) = Nginx::start("") else {
            return;
        };
        let port = nginx.port;
        let (way, half) = privileged(|_| false);
        let (begin, begun) = channel();
        let (end, ended) = channel::<()>();
        let reader = unprivileged(move || {
            let watch = Watch::start_by(Box::new(way), &of_port(port)).unwrap();
            begin.send(watch.missing().to_vec()).unwrap();
            ended.recv().unwrap();
            Seen::of(watch)
        });
        let missing = begun.recv_timeout(START).unwrap();
        let watch = Watch::start(&of_port(port)).unwrap();
        assert_eq!(watch.missing(), missing);
        ask(port);
        end.send(()).unwrap();
        let (own, other) = (Seen::of(watch), reader.join().unwrap());
        assert_alike(&own, &other);
        let served = half.join().unwrap();
        assert!(matches!(served.first(), Some(Request::StartWatch(_))));
        assert!(served.contains(&Request::DetachWatch), "{served:#?}");
        assert_eq!(served.last(), Some(&Request::EndWatch));
    });
}

/// Checks that two watches saw the same, except for at most [`UNSEEN`] requests.
#[track_caller]
fn assert_alike(own: &Seen, other: &Seen) {
    for seen in [own, other] {
        let range = REQUESTS - UNSEEN..=REQUESTS;
        assert!(range.contains(&seen.count()), "{seen:#?}");
        assert_eq!(seen.standing.tally.lost_records, 0);
        assert_eq!(
            seen.standing.tally.latency.count(),
            seen.count() as u64,
            "{seen:#?}"
        );
        assert!(seen.standing.tally.stolen.is_some());
    }
    if own.count() == other.count() {
        assert_eq!(own.turns, other.turns);
    }
    let throttling = |seen: &Seen| seen.standing.tally.throttling.is_some();
    assert_eq!(throttling(own), throttling(other));
    let is_other = |segment: &&(u32, u8, Vec<u8>)| !other.segments.contains(segment);
    let differing: Vec<_> = own.segments.iter().filter(is_other).collect();
    assert!(differing.len() <= 2 * UNSEEN, "{differing:#?}");
    assert!(own.segments.len() >= 2 * (REQUESTS - UNSEEN));
}

#[test]
fn system_calls_are_read_without_privileges() {
    halved("system_calls_are_read_without_privileges", || {
        let (way, half) = privileged(|_| false);
        let (begin, begun) = channel();
        let (end, ended) = channel::<()>();
        let reader = unprivileged(move || traced(way, &begin, &ended));
        begun.recv_timeout(START).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for is_on in [true, false] {
            setsockopt(&listener, sockopt::TcpNoDelay, &is_on).unwrap();
        }
        end.send(()).unwrap();
        let (calls, counted) = reader.join().unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_own = |call: &&SocketCall| {
            let local = call.socket.as_ref().and_then(|socket| socket.local);
            local.is_some_and(|local| local.port == port)
        };
        let calls: Vec<&SocketCall> = calls.iter().filter(is_own).collect();
        let last: Vec<String> = calls
            .iter()
            .rev()
            .take(2)
            .map(|call| call.syntax())
            .collect();
        assert!(last[0].contains("TCP_NODELAY, [0]"), "{last:?}");
        assert!(last[1].contains("TCP_NODELAY, [1]"), "{last:?}");
        assert!(counted >= calls.len() as u64);
        assert_eq!(half.join().unwrap().last(), Some(&Request::EndCalls));
    });
}

/// Traces the calls of this process. Returns them and the number that the kernel counted.
fn traced(way: Way, begin: &Sender<()>, ended: &Receiver<()>) -> (Vec<SocketCall>, u64) {
    let options = CallOptions {
        choice: Choice {
            pids: vec![std::process::id()],
            ..Choice::default()
        },
        is_any_kind: true,
        has_accepts: true,
    };
    let mut calls = Calls::start_by(Box::new(way), options).unwrap();
    begin.send(()).unwrap();
    ended.recv().unwrap();
    let mut seen = Vec::new();
    calls.take(|call| seen.push(call));
    let tally = calls.finish(|call| seen.push(call));
    (seen, tally.calls)
}

/// The privileged half keeps one watch at a time, and a watch that ends leaves room for the next.
#[test]
fn a_second_watch_is_refused_until_the_first_has_ended() {
    halved(
        "a_second_watch_is_refused_until_the_first_has_ended",
        || {
            let (way, half) = privileged(|_| false);
            let start = |way: &Way| Watch::start_by(Box::new(way.clone()), &of_port(1));
            let first = start(&way).unwrap();
            let second = start(&way).unwrap_err();
            assert!(matches!(second, KernelError::OutOfTurn), "{second}");
            assert_eq!(first.standing().tally.connections, 0, "it still runs");
            drop(first);
            drop(start(&way).unwrap());
            drop(way);
            half.join().unwrap();
        },
    );
}

/// A privileged half that ends in the middle takes its programs along. What it had recorded is read.
#[test]
fn a_privileged_half_that_ends_leaves_its_records() {
    halved("a_privileged_half_that_ends_leaves_its_records", || {
        let Some(nginx) = Nginx::start("") else {
            return;
        };
        let (way, half) = privileged(|request| *request == Request::DetachWatch);
        let watch = Watch::start_by(Box::new(way.clone()), &of_port(nginx.port)).unwrap();
        ask(nginx.port);
        let seen = Seen::of(watch);
        half.join().unwrap();
        assert!(seen.count() >= REQUESTS - UNSEEN, "{seen:#?}");
        assert_eq!(seen.standing.tally.latency.count(), seen.count() as u64);
        let refused = Watch::start_by(Box::new(way), &of_port(1)).unwrap_err();
        assert!(matches!(refused, KernelError::Unanswered(_)), "{refused}");
    });
}

/// The privileged half in this thread, in which no sampling period ever begins.
struct NeverLooking(Programs);

impl Ask for NeverLooking {
    fn ask(&mut self, request: Request) -> Answer {
        let request = match request {
            Request::Sample(sample) => Request::Sample(Sample { look: 0, ..sample }),
            other => other,
        };
        self.0.serve(request)
    }
}

#[test]
fn outside_of_sampling_periods_requests_are_only_counted() {
    halved(
        "outside_of_sampling_periods_requests_are_only_counted",
        || {
            let Some(nginx) = Nginx::start("") else {
                return;
            };
            let half = Box::new(NeverLooking(Programs::default()));
            let watch = Watch::start_by(half, &of_port(nginx.port)).unwrap();
            ask(nginx.port);
            let seen = Seen::of(watch);
            assert_eq!((seen.count(), seen.segments.len()), (0, 0), "{seen:#?}");
            let counted = seen.standing.tally.latency.count();
            assert!(counted >= (REQUESTS - UNSEEN) as u64, "{seen:#?}");
        },
    );
}
