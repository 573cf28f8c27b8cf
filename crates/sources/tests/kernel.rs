//! Observation of live connections in a real kernel. Needs root.
#![cfg(feature = "live")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::cell::Cell;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::kernel_span::{RequestSpan, Stage};
use lagtrace_core::observed::segment::{Segment, SentBy};
use lagtrace_trial::live;
use nix::sys::socket::{setsockopt, sockopt};

use lagtrace_sources::kernel::{KernelError, Sighting, Standing, Watch, WatchOptions};

const REQUESTS: usize = 20;
/// Maximum number of requests in one test that may be missing or incomplete. BPF programs do not
/// run in some of a virtual machine's own interrupts. If a timer sends a segment during such an
/// interrupt, the segment is not seen. This was measured for one of 4,000 requests, so two in one
/// test would have another cause.
const UNSEEN: usize = 1;
/// The name of the iterator of sockets in the list of missing hooks.
const ITERATOR: &str = "the iterator of sockets";
/// Maximum wait for the end of a connection.
const PATIENCE: Duration = Duration::from_secs(1);
const REQUEST: &[u8] = b"GET /a-page HTTP/1.1\r\nHost: here\r\n\r\n";

/// Everything that a watch reported.
#[derive(Default)]
struct Seen {
    turns: Vec<RequestSpan>,
    segments: Vec<(Segment, Vec<u8>)>,
    standing: Standing,
    missing: Vec<String>,
}

/// Runs a test that watches the kernel, if this process may do so. If it may not and
/// `LAGTRACE_REQUIRE_ALL` is set, the test fails. Only one such test runs at a time, because it
/// watches the whole host and loads its processors.
fn watching(name: &str, body: impl FnOnce()) {
    watching_unless(name, &|| None, body);
}

/// Like `watching`. If `reason` returns a text, the measurement is void.
fn watching_unless(name: &str, reason: &dyn Fn() -> Option<String>, body: impl FnOnce()) {
    if !rustix::process::geteuid().is_root() {
        assert!(
            std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none(),
            "needs root"
        );
        return eprintln!("skipped: {name} needs root");
    }
    live(name).alone().void_if(reason).run(body);
}

/// Returns the missing hooks other than the iterator of sockets, which some systems forbid even for
/// root.
fn besides_iterator(missing: &[String]) -> Vec<&String> {
    let others = missing.iter().filter(|missing| !missing.contains(ITERATOR));
    others.collect()
}

/// Returns the listener of a service, on a port below those that the kernel gives to clients. Its
/// connections are not paced. This host's default congestion control may pace them, and TCP's
/// timestamps are less exact then.
fn listen(host: &str) -> TcpListener {
    let mut ports = (20_000..20_500).map(|port| TcpListener::bind((host, port)));
    let listener = ports.find_map(Result::ok).unwrap();
    setsockopt(&listener, sockopt::TcpCongestion, &"reno".into()).unwrap();
    listener
}

/// Answers each request of one connection after another with `pieces`, which are written one by
/// one. A request ends with an empty line.
fn serve(listener: TcpListener, pieces: &'static [&'static [u8]], pause: Duration) {
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut buffer = [0; 256];
            let mut asked = Vec::new();
            while let Ok(1..) = connection
                .read(&mut buffer)
                .inspect(|&len| asked.extend(&buffer[..len]))
            {
                if !asked.ends_with(b"\r\n\r\n") {
                    continue;
                }
                asked.clear();
                thread::sleep(pause);
                for piece in pieces {
                    connection.write_all(piece).unwrap();
                }
            }
        }
    });
}

/// Watches a connection while a client sends requests on it and reads complete answers.
fn watched(
    options: impl FnOnce(u16) -> WatchOptions,
    pieces: &'static [&'static [u8]],
    pause: Duration,
) -> Seen {
    watched_at("127.0.0.1", options, pieces, pause, Duration::ZERO)
}

/// Like `watched`, with a given address.
fn watched_at(
    host: &str,
    options: impl FnOnce(u16) -> WatchOptions,
    pieces: &'static [&'static [u8]],
    pause: Duration,
    // The pause between the two halves of a request.
    halves: Duration,
) -> Seen {
    watched_on(listen(host), options, pieces, pause, halves)
}

/// Like `watched`, with a given listener.
fn watched_on(
    listener: TcpListener,
    options: impl FnOnce(u16) -> WatchOptions,
    pieces: &'static [&'static [u8]],
    pause: Duration,
    halves: Duration,
) -> Seen {
    let address = listener.local_addr().unwrap();
    serve(listener, pieces, pause);
    let mut watch = Watch::start(&options(address.port())).unwrap();
    let mut seen = Seen {
        missing: watch.missing().to_vec(),
        ..Seen::default()
    };
    let mut client = TcpStream::connect(address).unwrap();
    let mut answer = vec![0; pieces.concat().len()];
    for _ in 0..REQUESTS {
        if !halves.is_zero() {
            client.write_all(&REQUEST[..10]).unwrap();
            thread::sleep(halves);
        }
        let rest = if halves.is_zero() { 0 } else { 10 };
        client.write_all(&REQUEST[rest..]).unwrap();
        client.read_exact(&mut answer).unwrap();
    }
    drop(client);
    let (mut turns, mut segments) = (Vec::new(), Vec::new());
    let mut take = |sighting: Sighting<'_>| match sighting {
        Sighting::Turn(turn) => turns.push(turn.clone()),
        Sighting::Packet(Packet::Tcp(segment, payload)) => {
            segments.push((*segment, payload.to_vec()));
        }
        Sighting::Packet(other) => panic!("only segments: {other:?}"),
        Sighting::Passage(_) => panic!("only HTTP/2 has passages"),
    };
    // The last exchange is complete when its connection ends.
    let begun = Instant::now();
    while watch.standing().tally.latency.count() < REQUESTS as u64 && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
        watch.take(&mut take);
    }
    seen.standing = watch.finish(&mut take);
    (seen.turns, seen.segments) = (turns, segments);
    seen
}

fn of_port(port: u16) -> WatchOptions {
    WatchOptions {
        ports: vec![port],
        keeps_payload: true,
        ..WatchOptions::default()
    }
}

/// Checks that all requests were seen, except for at most [`UNSEEN`].
#[track_caller]
fn assert_all(seen: usize, what: &dyn Debug) {
    assert!(
        (REQUESTS - UNSEEN..=REQUESTS).contains(&seen),
        "{seen} of {REQUESTS}: {what:#?}"
    );
}

/// Checks that `is_so` is true for each exchange, except for at most [`UNSEEN`].
#[track_caller]
fn assert_each(turns: &[RequestSpan], is_so: impl Fn(&RequestSpan) -> bool) {
    let others: Vec<_> = turns.iter().filter(|turn| !is_so(turn)).collect();
    assert!(others.len() <= UNSEEN, "{others:#?}");
}

#[test]
fn every_turn_is_timed_and_its_stages_tile_it() {
    watching("every_turn_is_timed_and_its_stages_tile_it", || {
        let pause = Duration::from_millis(10);
        let seen = watched(
            of_port,
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"],
            pause,
        );
        assert_all(seen.turns.len(), &seen.standing);
        let counted = seen.standing.tally.latency.count();
        assert_eq!(counted, seen.turns.len() as u64);
        assert_eq!(seen.standing.tally.lost_records, 0);
        assert_eq!(besides_iterator(&seen.missing), Vec::<&String>::new());
        assert_each(&seen.turns, |turn| {
            let Some([_, _, _, _, _, program, waiting, held, _, _]) = turn.stages() else {
                return false;
            };
            let is_left = turn.departure.is_some_and(|departure| {
                // The answer is one segment, so the first and the last one are the same.
                departure.at >= turn.sent && departure.first_queued == departure.queued
            });
            // The program slept during the pause.
            let is_asleep = waiting >= pause && program < waiting;
            is_asleep && held.is_zero() && is_left && turn.writes == 1 && turn.refused.is_none()
        });
        let reader = |turn: &RequestSpan| turn.program.as_ref().map(|reader| reader.pid);
        assert_each(&seen.turns, |turn| reader(turn) == Some(std::process::id()));
        // A bucket of the histogram is at most an eighth wider than its values.
        let sending = |turn: &RequestSpan| turn.sent_last.since(turn.arrived);
        let longest = seen.turns.iter().map(sending).max().unwrap();
        let told = seen.standing.tally.latency.max().unwrap();
        assert!(told >= longest && told <= longest * 9 / 8 + Duration::from_micros(1));
    });
}

#[test]
fn what_nagle_holds_is_seen_with_what_released_it() {
    watching("what_nagle_holds_is_seen_with_what_released_it", || {
        assert_held(&watched(of_port, HELD, Duration::ZERO));
    });
}

/// A paced connection. TCP's timestamps can be in the future then.
#[test]
fn what_nagle_holds_of_a_paced_connection_is_seen_too() {
    watching("what_nagle_holds_of_a_paced_connection_is_seen_too", || {
        let listener = listen("127.0.0.1");
        pace(&listener);
        let seen = watched_on(listener, of_port, HELD, Duration::ZERO, Duration::ZERO);
        assert_held(&seen);
    });
}

/// The pieces of an answer. The second one waits until the first one is acknowledged.
const HELD: &[&[u8]] = &[b"head", b"body"];

fn assert_held(seen: &Seen) {
    let held: Vec<&RequestSpan> = seen
        .turns
        .iter()
        .filter(|turn| turn.held.times > 0)
        .collect();
    // The first segments of a new connection are acknowledged immediately.
    assert!(held.len() >= REQUESTS / 4, "{:#?}", seen.turns);
    let long = held
        .iter()
        .filter(|turn| turn.held.longest >= Duration::from_millis(20));
    assert!(long.count() >= REQUESTS / 4, "{held:#?}");
    assert_each(&seen.turns, |turn| {
        turn.held.after_arrival == turn.held.times
    });
}

#[test]
fn segments_have_their_headers_and_no_more_payload_than_said() {
    watching(
        "segments_have_their_headers_and_no_more_payload_than_said",
        || {
            let seen = watched(of_port, &[&[b'x'; 4000]], Duration::ZERO);
            let of = |is_own| {
                seen.segments
                    .iter()
                    .filter(move |(s, _)| s.ip.sent_by == SentBy::of_own(is_own))
            };
            let bytes = |is_own| {
                of(is_own)
                    .map(|(s, _)| u64::from(s.payload_len))
                    .sum::<u64>()
            };
            // No segment is seen twice, and only very few are not seen at all.
            let of_all = |len: usize| ((REQUESTS - UNSEEN) * len) as u64..=(REQUESTS * len) as u64;
            assert!(
                of_all(REQUEST.len()).contains(&bytes(false)),
                "{}",
                bytes(false)
            );
            assert!(of_all(4000).contains(&bytes(true)), "{}", bytes(true));
            assert!(of(false).any(|(_, payload)| payload.as_slice() == REQUEST));
            assert!(of(true).all(|(_, payload)| payload.len() <= 16));

            let without = |port| WatchOptions {
                keeps_payload: false,
                ..of_port(port)
            };
            let seen = watched(without, &[&[b'x'; 4000]], Duration::ZERO);
            assert!(seen.segments.len() >= (REQUESTS - UNSEEN) * 2);
            assert!(seen.segments.iter().all(|(_, payload)| payload.is_empty()));
        },
    );
}

#[test]
fn a_process_is_watched_without_its_ports() {
    watching("a_process_is_watched_without_its_ports", || {
        let of_process = |_| WatchOptions {
            pid: Some(std::process::id()),
            ..WatchOptions::default()
        };
        let seen = watched(of_process, &[b"answer"], Duration::ZERO);
        // The client's end of the connection has no exchanges.
        assert_all(seen.turns.len(), &seen.turns);
        let nobody = |port| WatchOptions {
            pid: Some(1),
            ..of_port(port)
        };
        let seen = watched(nobody, &[b"answer"], Duration::ZERO);
        assert_eq!(seen.turns, Vec::new(), "another process's");
    });
}

#[test]
fn what_a_kernel_lacks_is_said_and_the_rest_is_seen() {
    watching("what_a_kernel_lacks_is_said_and_the_rest_is_seen", || {
        for name in [
            "sock_recv_length",
            "sock_send_length",
            "inet_sock_set_state",
            "sched_switch",
            "sched_waking",
            "kfree_skb",
        ] {
            let lacks = |port| WatchOptions {
                without: vec![name.to_owned()],
                ..of_port(port)
            };
            let seen = watched(lacks, &[b"answer"], Duration::ZERO);
            let missing = besides_iterator(&seen.missing);
            assert!(
                missing.len() == 1 && missing[0].contains(name),
                "{missing:?}"
            );
            assert!(
                seen.turns.len() >= REQUESTS - 1 - UNSEEN,
                "{name}: {:#?}",
                seen.standing
            );
            let is_staged = seen.turns.iter().any(|turn| turn.stages().is_some());
            assert_eq!(is_staged, !name.contains("length"), "{name}");
        }
    });
}

/// Open connections to one service each. All of them are watched, and each carries one request at a
/// time.
struct Kept {
    watch: Watch,
    clients: Vec<TcpStream>,
}

impl Kept {
    fn new(connections: usize, without: &[&str]) -> Self {
        let listeners: Vec<_> = (0..connections).map(|_| listen("127.0.0.1")).collect();
        let addresses = listeners.iter().map(|one| one.local_addr().unwrap());
        let addresses: Vec<_> = addresses.collect();
        for listener in listeners {
            serve(listener, &[b"answer"], Duration::ZERO);
        }
        let watch = Watch::start(&WatchOptions {
            ports: addresses.iter().map(|address| address.port()).collect(),
            without: without.iter().map(|&name| name.to_owned()).collect(),
            ..WatchOptions::default()
        });
        let clients = addresses.iter().map(|to| TcpStream::connect(to).unwrap());
        Self {
            watch: watch.unwrap(),
            clients: clients.collect(),
        }
    }

    fn ask(&mut self) {
        for client in &mut self.clients {
            client.write_all(REQUEST).unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
        }
    }
}

/// Watches without the hooks for reads and writes. TCP's own timestamps show when the answer was
/// sent. Later segments that are no answer must not count.
#[test]
fn an_answer_is_over_before_a_keep_alive_is_answered() {
    watching("an_answer_is_over_before_a_keep_alive_is_answered", || {
        let mut kept = Kept::new(REQUESTS / 2, &["sock_recv_length", "sock_send_length"]);
        for client in &kept.clients {
            setsockopt(client, sockopt::KeepAlive, &true).unwrap();
            setsockopt(client, sockopt::TcpKeepIdle, &1).unwrap();
            setsockopt(client, sockopt::TcpKeepInterval, &1).unwrap();
        }
        kept.ask();
        thread::sleep(Duration::from_millis(1500));
        kept.ask();
        drop(kept.clients);
        let mut turns = Vec::new();
        kept.watch.finish(|sighting| {
            if let Sighting::Turn(turn) = sighting {
                turns.push(turn.clone());
            }
        });
        assert_all(turns.len(), &turns);
        assert_each(&turns, |turn| turn.duration() < Duration::from_secs(1));
    });
}

/// The last answer of a connection that stays open must be counted.
#[test]
fn the_last_request_of_a_connection_that_goes_on_counts() {
    watching(
        "the_last_request_of_a_connection_that_goes_on_counts",
        || {
            const CONNECTIONS: usize = 5;
            let turns_of = |without: &[&str]| {
                let mut kept = Kept::new(CONNECTIONS, without);
                let missing = kept.watch.missing().to_vec();
                (0..REQUESTS / CONNECTIONS).for_each(|_| kept.ask());
                let mut turns = 0;
                let standing = kept.watch.finish(|sighting| {
                    turns += usize::from(matches!(sighting, Sighting::Turn(_)));
                });
                assert_eq!(standing.tally.latency.count(), turns as u64);
                (turns, missing)
            };
            let (turns, missing) = turns_of(&[]);
            assert_eq!(besides_iterator(&missing), Vec::<&String>::new());
            if missing.is_empty() {
                assert_all(turns, &missing);
            }
            let (turns, missing) = turns_of(&["open_turns"]);
            assert!(turns <= REQUESTS - CONNECTIONS, "{turns}");
            assert!(turns >= REQUESTS - CONNECTIONS - UNSEEN, "{turns}");
            assert_eq!(missing.len(), 1);
            assert!(missing[0].contains("go on"), "{missing:?}");
        },
    );
}

#[test]
fn what_is_asked_for_wrongly_is_refused_with_a_hint() {
    watching("what_is_asked_for_wrongly_is_refused_with_a_hint", || {
        let refused = |options: WatchOptions| Watch::start(&options).unwrap_err();
        assert!(matches!(
            refused(WatchOptions::default()),
            KernelError::NothingAsked
        ));
        let gone = WatchOptions {
            pid: Some(u32::MAX),
            ..WatchOptions::default()
        };
        assert!(matches!(refused(gone), KernelError::NoProcess(u32::MAX)));
        let many = WatchOptions {
            ports: (1..=17).collect(),
            ..WatchOptions::default()
        };
        assert!(matches!(refused(many), KernelError::TooManyPorts(17)));
        let cgroup = Some("/no/such/group".into());
        let nowhere = refused(WatchOptions {
            cgroup,
            ..WatchOptions::default()
        });
        assert!(nowhere.to_string().contains("/no/such/group"), "{nowhere}");
        assert!(nowhere.hint().unwrap().contains("/proc/PID/cgroup"));
    });
}

#[test]
fn ipv6_is_watched_alike() {
    watching("ipv6_is_watched_alike", || {
        let seen = watched_at(
            "::1",
            of_port,
            &[b"head", b"body"],
            Duration::ZERO,
            Duration::ZERO,
        );
        assert_all(seen.turns.len(), &seen.standing);
        let turn = &seen.turns[0];
        assert!(
            turn.local.addr.is_ipv6() && turn.remote.addr.is_loopback(),
            "{turn:#?}"
        );
        assert_each(&seen.turns, |turn| turn.stages().is_some());
        let bytes = |is_own| {
            let of = seen
                .segments
                .iter()
                .filter(move |(segment, _)| segment.ip.sent_by == SentBy::of_own(is_own));
            of.map(|(segment, _)| segment.payload_len as usize)
                .sum::<usize>()
        };
        for (is_own, len) in [(false, REQUEST.len()), (true, 8)] {
            let of_all = (REQUESTS - UNSEEN) * len..=REQUESTS * len;
            assert!(of_all.contains(&bytes(is_own)), "{}", bytes(is_own));
        }
    });
}

#[test]
fn a_control_group_is_watched_and_no_other() {
    watching("a_control_group_is_watched_and_no_other", || {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::")) else {
            return eprintln!("skipped: no control groups of version 2 here");
        };
        let group = |path: &str| {
            let cgroup = Some(path.into());
            move |port| WatchOptions {
                cgroup,
                ..of_port(port)
            }
        };
        match Watch::start(&group(own)(1)) {
            Err(KernelError::NoCgroup { .. }) => return eprintln!("skipped: none are mounted"),
            other => drop(other.unwrap()),
        }
        let seen = watched(group(own), &[b"answer"], Duration::ZERO);
        assert_all(seen.turns.len(), &seen.standing);
        let Some(mount) = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .iter()
            .map(Path::new)
            .find(|mount| mount.join("cgroup.controllers").exists())
        else {
            return;
        };
        let name = format!("lagtrace-test-{}", std::process::id());
        std::fs::create_dir(mount.join(&name)).unwrap();
        let seen = watched(group(&format!("/{name}")), &[b"answer"], Duration::ZERO);
        std::fs::remove_dir(mount.join(&name)).unwrap();
        assert_eq!(seen.turns.len(), 0, "nothing runs in that group");
    });
}

/// Makes the kernel report connections only when their request has arrived.
fn defer_accept(listener: &TcpListener) {
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 5);
}

/// Makes TCP pace the service's connections, at a rate that causes no delay.
fn pace(listener: &TcpListener) {
    let bytes_per_second = 1_000_000_000;
    set_option(
        listener,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        bytes_per_second,
    );
}

#[allow(unsafe_code)]
fn set_option(listener: &TcpListener, level: libc::c_int, option: libc::c_int, value: libc::c_int) {
    // SAFETY: the descriptor belongs to the borrowed listener. The kernel reads as many bytes of
    // `value` as the given size.
    let set = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
}

/// Watches several connections, each with one request. If `is_deferred`, the server accepts a
/// connection only when its request has arrived.
fn watched_closing(options: impl FnOnce(u16) -> WatchOptions, is_deferred: bool) -> Seen {
    let listener = listen("127.0.0.1");
    let address = listener.local_addr().unwrap();
    if is_deferred {
        defer_accept(&listener);
    }
    let pause = Duration::from_millis(5);
    thread::spawn(move || {
        for connection in listener.incoming().take(REQUESTS) {
            let mut connection = connection.unwrap();
            let mut request = [0; REQUEST.len()];
            connection.read_exact(&mut request).unwrap();
            thread::sleep(pause);
            connection.write_all(b"answer").unwrap();
        }
    });
    let mut watch = Watch::start(&options(address.port())).unwrap();
    for _ in 0..REQUESTS {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(REQUEST).unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
    }
    let mut seen = Seen::default();
    let (mut turns, mut segments) = (Vec::new(), Vec::new());
    let mut take = |sighting: Sighting<'_>| match sighting {
        Sighting::Turn(turn) => turns.push(turn.clone()),
        Sighting::Packet(Packet::Tcp(segment, payload)) => {
            segments.push((*segment, payload.to_vec()));
        }
        Sighting::Packet(other) => panic!("only segments: {other:?}"),
        Sighting::Passage(_) => panic!("only HTTP/2 has passages"),
    };
    watch.take(&mut take);
    seen.standing = watch.finish(&mut take);
    (seen.turns, seen.segments) = (turns, segments);
    seen
}

/// A connection's first request must be counted like any later one, even if it arrives with the
/// handshake's last segment, or before any process has read from the connection.
#[test]
fn the_first_request_of_a_connection_counts() {
    watching("the_first_request_of_a_connection_counts", || {
        let of_process = |pid| {
            move |_| WatchOptions {
                pid: Some(pid),
                keeps_payload: true,
                ..WatchOptions::default()
            }
        };
        let own = std::process::id();
        for (seen, has_segments) in [
            (watched_closing(of_port, false), true),
            (watched_closing(of_port, true), true),
            (watched_closing(of_process(own), false), true),
            // Without a port or a socket, the segment could belong to any process, so it is not
            // kept.
            (watched_closing(of_process(own), true), false),
        ] {
            let counted = seen.standing.tally.latency.count();
            assert_eq!(counted, seen.turns.len() as u64);
            assert_all(seen.turns.len(), &seen.standing);
            assert_each(&seen.turns, |turn| {
                turn.duration() >= Duration::from_millis(5) && turn.stages().is_some()
            });
            let asking = seen.segments.iter().filter(|(_, bytes)| bytes == REQUEST);
            if has_segments {
                assert_all(asking.count(), &seen.segments);
            } else {
                assert_eq!(asking.count(), 0);
            }
        }
        let unseen = ["sock_recv_length", "sock_send_length"];
        let without = |port| WatchOptions {
            without: unseen.map(str::to_owned).to_vec(),
            ..of_port(port)
        };
        // Only TCP's own timestamps are available here.
        let seen = watched_closing(without, true);
        let counted = usize::try_from(seen.standing.tally.latency.count()).unwrap();
        assert_all(counted, &seen.standing);
        let seen = watched_closing(of_process(1), false);
        assert_eq!(seen.turns, Vec::new(), "another process's");
        assert!(seen.segments.is_empty(), "{:#?}", seen.segments);
        assert_eq!(seen.standing.tally.connections, 0);
    });
}

/// The server's kernel acknowledges the first half of the request. This ACK is not an answer.
#[test]
fn an_acknowledgement_within_a_request_ends_no_turn() {
    watching("an_acknowledgement_within_a_request_ends_no_turn", || {
        let halves = Duration::from_millis(60);
        let seen = watched_at("127.0.0.1", of_port, &[b"answer"], Duration::ZERO, halves);
        assert_all(seen.turns.len(), &seen.turns);
        assert_each(&seen.turns, |turn| turn.duration() >= halves);
    });
}

/// The work that a server does between a request and its answer.
type Work = Box<dyn FnMut() + Send>;

/// Watches a server that does `work` for each request, and returns its exchanges.
fn working(mut work: Work) -> Vec<RequestSpan> {
    let listener = listen("127.0.0.1");
    let address = listener.local_addr().unwrap();
    let watch = Watch::start(&of_port(address.port())).unwrap();
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut buffer = [0; 256];
        while let Ok(1..) = connection.read(&mut buffer) {
            work();
            connection.write_all(b"answer").unwrap();
        }
    });
    let mut client = TcpStream::connect(address).unwrap();
    for _ in 0..REQUESTS {
        client.write_all(REQUEST).unwrap();
        client.read_exact(&mut [0; 6]).unwrap();
    }
    drop(client);
    server.join().unwrap();
    turns_of(watch, REQUESTS)
}

/// Ends the watch when it has seen `number` exchanges end, and returns those that it reported.
fn turns_of(mut watch: Watch, number: usize) -> Vec<RequestSpan> {
    let mut turns = Vec::new();
    let mut take = |sighting: Sighting<'_>| {
        if let Sighting::Turn(turn) = sighting {
            turns.push(turn.clone());
        }
    };
    let begun = Instant::now();
    while watch.standing().tally.latency.count() < number as u64 && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
        watch.take(&mut take);
    }
    watch.finish(&mut take);
    turns
}

#[test]
fn whom_the_server_asks_is_seen_and_for_how_long() {
    watching("whom_the_server_asks_is_seen_and_for_how_long", || {
        const LATE: Duration = Duration::from_millis(5);
        let behind = listen("127.0.0.1");
        let whom = behind.local_addr().unwrap();
        serve(behind, &[b"known"], LATE);
        let mut asking = TcpStream::connect(whom).unwrap();
        let turns = working(Box::new(move || {
            asking.write_all(REQUEST).unwrap();
            asking.read_exact(&mut [0; 5]).unwrap();
        }));
        assert_all(turns.len(), &turns);
        assert_each(&turns, |turn| {
            let possible = LATE..=turn.duration();
            turn.asked.as_ref().is_some_and(|asked| {
                let port = asked.whom.map(|end| end.port);
                port == Some(whom.port()) && possible.contains(&asked.time)
            })
        });
    });
}

/// Serves three clients in rounds, with one thread that has several requests at a time. It calls
/// `slow` for the first client's request, over a new connection, and `quick` for the second's. The
/// third client gets its answer when the second's call is answered. Another thread answers the
/// first.
fn interleave(clients: [TcpStream; 3], slow: SocketAddr, quick: SocketAddr) {
    let [mut first, mut second, mut third] = clients;
    let mut quick = TcpStream::connect(quick).unwrap();
    let mut answering = first.try_clone().unwrap();
    let (call, called) = std::sync::mpsc::channel::<TcpStream>();
    thread::spawn(move || {
        for mut slow in called {
            slow.read_exact(&mut [0; 5]).unwrap();
            answering.write_all(b"answer").unwrap();
        }
    });
    let mut buffer = [0; 256];
    while let Ok(1..) = first.read(&mut buffer) {
        let mut slow = TcpStream::connect(slow).unwrap();
        assert!(third.read(&mut buffer).unwrap() > 0);
        slow.write_all(REQUEST).unwrap();
        assert!(second.read(&mut buffer).unwrap() > 0);
        quick.write_all(REQUEST).unwrap();
        call.send(slow).unwrap();
        quick.read_exact(&mut [0; 5]).unwrap();
        third.write_all(b"answer").unwrap();
        second.write_all(b"answer").unwrap();
    }
}

#[test]
fn the_calls_of_a_thread_with_several_requests_are_told_apart() {
    watching(
        "the_calls_of_a_thread_with_several_requests_are_told_apart",
        || {
            const QUICK: Duration = Duration::from_millis(3);
            const SLOW: Duration = Duration::from_millis(9);
            let [quick, slow] = [QUICK, SLOW].map(|pause| {
                let behind = listen("127.0.0.1");
                let address = behind.local_addr().unwrap();
                serve(behind, &[b"known"], pause);
                address
            });
            let listener = listen("127.0.0.1");
            let address = listener.local_addr().unwrap();
            let watch = Watch::start(&of_port(address.port())).unwrap();
            let mut clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
            let accepted = [(); 3].map(|()| listener.accept().unwrap().0);
            let server = thread::spawn(move || interleave(accepted, slow, quick));
            for _ in 0..REQUESTS {
                for client in &mut clients {
                    client.write_all(REQUEST).unwrap();
                }
                for client in &mut clients {
                    client.read_exact(&mut [0; 6]).unwrap();
                }
            }
            let ports = clients
                .each_ref()
                .map(|client| client.local_addr().unwrap().port());
            drop(clients);
            server.join().unwrap();
            let turns = turns_of(watch, 3 * REQUESTS);
            let expected = [Some((slow, SLOW)), Some((quick, QUICK)), None];
            for (port, expected) in ports.into_iter().zip(expected) {
                let of_client: Vec<_> = turns
                    .iter()
                    .filter(|turn| turn.remote.port == port)
                    .cloned()
                    .collect();
                assert_all(of_client.len(), &of_client);
                assert_each(&of_client, |turn| match (&turn.asked, expected) {
                    (None, None) => true,
                    (Some(asked), Some((whom, pause))) => {
                        asked.whom.is_some_and(|end| end.port == whom.port())
                            && (pause..=turn.duration()).contains(&asked.time)
                    }
                    _ => false,
                });
            }
        },
    );
}

/// Restricts the calling thread to one processor.
fn run_on(processor: usize) {
    let mut one = rustix::thread::CpuSet::new();
    one.set(processor);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

/// Two threads that compute until this value is dropped.
struct Computing {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Computing {
    /// Starts the threads on the same processors as the calling thread.
    fn beside_this() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let compute = |()| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = [(); 2].map(compute).into();
        Self { is_over, threads }
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread cannot fail, because it only computes.
            let _ = thread.join();
        }
    }
}

#[test]
fn a_thread_without_a_processor_is_told_from_one_at_work() {
    watching(
        "a_thread_without_a_processor_is_told_from_one_at_work",
        || {
            // The first request starts the threads, and they end with the server. Before and after
            // that, other tests can use the processors.
            let mut others = None;
            let turns = working(Box::new(move || {
                if others.is_none() {
                    run_on(0);
                    others = Some(Computing::beside_this());
                }
                let mut sum = 0u64;
                for n in 0..20_000_000u64 {
                    sum = std::hint::black_box(sum ^ n);
                }
            }));
            let sum = |stage: Stage| -> Duration {
                let of = |turn: &RequestSpan| turn.stages().unwrap()[stage as usize];
                turns.iter().skip(1).map(of).sum()
            };
            let (queued, program) = (sum(Stage::RunQueue), sum(Stage::Program));
            // The server gets a third of the processor.
            assert!(queued > program / 2, "{queued:?} and {program:?}");
            assert!(program > queued / 16, "{queued:?} and {program:?}");
            assert!(sum(Stage::Waiting) < queued, "{turns:#?}");
            // The processor was never idle.
            assert!(sum(Stage::WakeUp) < queued / 8, "{turns:#?}");
        },
    );
}

/// Returns the idle time of the first processor since boot (proc_stat(5)).
fn idle() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("cpu0 "));
    let ticks = line.unwrap().split_whitespace().nth(3).unwrap();
    Duration::from_millis(10) * ticks.parse().unwrap()
}

#[test]
fn a_processor_that_has_to_wake_is_told_from_a_busy_one() {
    const TEST: &str = "a_processor_that_has_to_wake_is_told_from_a_busy_one";
    if thread::available_parallelism().unwrap().get() < 2 {
        return eprintln!("skipped: one processor is never idle while another wakes it");
    }
    // If other programs keep the processor busy, it never has to wake up.
    let rested = Cell::new(0.0);
    let was_busy = || {
        let text = format!("processor 0 was idle for {:.0} %", rested.get() * 100.0);
        (rested.get() < 0.2).then_some(text)
    };
    watching_unless(TEST, &was_busy, || {
        // The server waits for an answer of another thread, which comes a moment later and from
        // another processor. On the server's own processor, that thread would run directly before
        // the server, so the processor would not be idle.
        let (ask, asked) = std::sync::mpsc::channel();
        let (answer, answered) = std::sync::mpsc::channel();
        let other = thread::spawn(move || {
            run_on(1);
            while asked.recv().is_ok() {
                thread::sleep(Duration::from_millis(5));
                answer.send(()).unwrap();
            }
        });
        let (begun, idle_before) = (Instant::now(), idle());
        let turns = working(Box::new(move || {
            run_on(0);
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }));
        let idle = idle().saturating_sub(idle_before);
        rested.set(idle.as_secs_f64() / begun.elapsed().as_secs_f64());
        other.join().unwrap();
        let sum = |stage: Stage| -> Duration {
            let of = |turn: &RequestSpan| turn.stages().unwrap()[stage as usize];
            turns.iter().map(of).sum()
        };
        let (waking, asleep) = (sum(Stage::WakeUp), sum(Stage::Waiting));
        assert!(waking > Duration::ZERO, "{turns:#?}");
        assert!(waking < asleep / 2, "{waking:?} and {asleep:?}");
    });
}

#[test]
fn the_way_through_the_stack_is_seen() {
    watching("the_way_through_the_stack_is_seen", || {
        let turns = working(Box::new(|| {}));
        assert_all(turns.len(), &turns);
        assert_each(&turns, |turn| {
            let is_in_order = |entered| turn.arrived <= entered && entered <= turn.delivered;
            turn.entered.is_some_and(is_in_order) && Some(turn.delivered) <= turn.read
        });
    });
}

#[test]
fn what_the_host_drops_is_counted_with_the_kernels_reason() {
    watching(
        "what_the_host_drops_is_counted_with_the_kernels_reason",
        || {
            // A free port on which no process listens.
            let address = listen("127.0.0.1").local_addr().unwrap();
            let watch = Watch::start(&of_port(address.port())).unwrap();
            for _ in 0..REQUESTS {
                TcpStream::connect(address).unwrap_err();
            }
            let drops = watch.finish(|_| {}).tally.drops;
            let refused = drops.iter().find(|(reason, _)| reason == "NO_SOCKET");
            let refused = refused.map_or(0, |&(_, count)| count);
            assert_all(usize::try_from(refused).unwrap(), &drops);
        },
    );
}

/// Returns the segments of a client that connects while the accept queue is full, and answers once
/// there is room again: a second later, when the client repeats its SYN.
fn connecting_late() -> Seen {
    let listener = listen("127.0.0.1");
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let fill = |_| TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let filling: Vec<_> = (0..3).map(fill).collect();
    let mut watch = Watch::start(&of_port(address.port())).unwrap();
    let client = thread::spawn(move || TcpStream::connect(address).unwrap());
    thread::sleep(Duration::from_millis(300));
    let accepted = filling.iter().flatten().count();
    let mut served: Vec<_> = listener.incoming().take(accepted).collect();
    served.extend(listener.incoming().take(1));
    let client = client.join().unwrap().local_addr().unwrap();
    let mut seen = Seen::default();
    let mut take = |sighting: Sighting<'_>| {
        if let Sighting::Packet(Packet::Tcp(segment, payload)) = sighting
            && <[_; 2]>::from(segment.flow.ends())
                .map(|end| end.port)
                .contains(&client.port())
        {
            seen.segments.push((*segment, payload.to_vec()));
        }
    };
    watch.take(&mut take);
    seen.standing = watch.finish(&mut take);
    seen
}

#[test]
fn a_syn_that_the_host_ignored_is_seen_with_the_one_that_it_answered() {
    const TEST: &str = "a_syn_that_the_host_ignored_is_seen_with_the_one_that_it_answered";
    watching(TEST, || {
        let seen = connecting_late();
        let segments: Vec<&Segment> = seen.segments.iter().map(|(segment, _)| segment).collect();
        let [ignored, syn, answer, ack, ..] = segments[..] else {
            panic!("{segments:#?}");
        };
        let flags = [ignored, syn, answer, ack].map(|segment| segment.flags.0);
        assert_eq!(flags, [0x02, 0x02, 0x12, 0x10], "{segments:#?}");
        let waited = syn.at.since(ignored.at);
        assert!(waited >= Duration::from_millis(900), "{waited:?}");
        assert_ne!(ignored.ip.sent_by, SentBy::ThisHost);
        assert_eq!(answer.ip.sent_by, SentBy::ThisHost);
        assert!(seen.standing.tally.sees_handshakes);
    });
}

#[test]
fn how_a_connection_was_made_is_told_from_its_socket() {
    watching("how_a_connection_was_made_is_told_from_its_socket", || {
        let seen = watched(of_port, &[b"answer"], Duration::ZERO);
        let segments: Vec<&Segment> = seen.segments.iter().map(|(segment, _)| segment).collect();
        let [syn, answer, ack, ..] = segments[..] else {
            panic!("{segments:#?}");
        };
        let flags = [syn, answer, ack].map(|segment| segment.flags.0);
        assert_eq!(flags, [0x02, 0x12, 0x10], "SYN, SYN and ACK, ACK");
        assert_eq!((answer.ack, ack.ack), (syn.seq + 1, answer.seq + 1));
        assert!(syn.at <= answer.at && answer.at <= ack.at);
        let first = |is_own| {
            let of = segments.iter().skip(3);
            of.filter(|segment| {
                segment.ip.sent_by == SentBy::of_own(is_own) && segment.payload_len > 0
            })
            .min_by_key(|segment| segment.at)
            .unwrap()
        };
        assert_eq!(first(false).seq, syn.seq + 1, "the request follows the SYN");
        assert_eq!(
            first(true).seq,
            answer.seq + 1,
            "and the answer that of the server"
        );
        // Both ends use the same kernel, and each segment is reported with the options of its
        // sender's SYN.
        assert!(syn.options.window_scale.is_some());
        assert_eq!(first(false).options.window_scale, syn.options.window_scale);
        assert_eq!(
            first(true).options.window_scale,
            answer.options.window_scale
        );
        assert!(syn.options.timestamps.is_some() && syn.options.sack_permitted);
    });
}
