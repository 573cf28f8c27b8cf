//! The emulated path as real connections see it. The bounds on times are generous; a benchmark
//! measures the emulator's precision.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lagtrace_lab::{Family, Lab, PathCounters, RecordingOptions, Scenario};
use lagtrace_trial::live;

use crate::client::{address, connect, exchange, median};
use crate::{skip, up, up_as};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_connection_takes_the_round_trip_that_was_asked_for() {
    let name = "a_connection_takes_the_round_trip_that_was_asked_for";
    live(name).share(0.2).run(|| {
        for (round_trip_ms, family) in [
            (0, Family::V4),
            (8, Family::V4),
            (8, Family::V6),
            (50, Family::V4),
        ] {
            let Some(lab) = up("nagle-delayed-ack", round_trip_ms) else {
                return;
            };
            let to = address(&lab, "good", family);
            let times = (0..20).map(|_| {
                connect(lab.client(), to, Duration::from_secs(5))
                    .expect("connects")
                    .1
            });
            // The shortest of several times counts, because a busy machine does not delay all of
            // them.
            let shortest = times.min().expect("twenty of them");
            let asked = MS * u32::try_from(round_trip_ms).expect("small");
            assert!(
                shortest >= asked && shortest <= asked + 5 * MS,
                "{shortest:?} for {asked:?}"
            );
        }
    });
}

/// Sends requests on many connections until `is_enough`, and counts the responses.
fn load(lab: &Lab, service: &str, is_enough: impl Fn() -> bool + Sync) -> usize {
    let to = address(lab, service, Family::V4);
    let ask = || {
        let Ok((mut stream, _)) = connect(lab.client(), to, Duration::from_secs(5)) else {
            return 0;
        };
        let mut responses = 0;
        while !is_enough() && exchange(&mut stream, "lab").is_ok() {
            responses += 1;
        }
        responses
    };
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        askers
            .into_iter()
            .map(|asker| asker.join().expect("no panic"))
            .sum()
    })
}

/// Returns a function that returns true when the path's counters satisfy `is_there`, or after 20 s.
fn until(lab: &Lab, is_there: impl Fn(&PathCounters) -> bool + Sync) -> impl Fn() -> bool + Sync {
    let begun = Instant::now();
    move || {
        let counters = lab.path_counters().expect("reads");
        let is_late = begun.elapsed() > Duration::from_secs(20);
        is_late || is_there(&counters.expect("the path is emulated"))
    }
}

/// Waits until the counters satisfy `is_there`, and returns them. The counters are written only at
/// intervals. After 20 s, returns their current values.
fn counters_once(lab: &Lab, is_there: impl Fn(&PathCounters) -> bool) -> PathCounters {
    let begun = Instant::now();
    loop {
        let counters = lab.path_counters().expect("reads");
        let counters = counters.expect("the path is emulated");
        if is_there(&counters) || begun.elapsed() > Duration::from_secs(20) {
            return counters;
        }
        std::thread::sleep(10 * MS);
    }
}

/// Waits until the path carries no packets, and returns its counters. They are final when they have
/// not changed for longer than the interval at which they are written.
fn counters(lab: &Lab) -> PathCounters {
    let mut last = counters_once(lab, |_| true);
    loop {
        std::thread::sleep(400 * MS);
        let now = counters_once(lab, |_| true);
        if now == last {
            return now;
        }
        last = now;
    }
}

#[test]
fn a_policer_drops_what_exceeds_it_and_lets_its_rate_pass() {
    let Some(lab) = up("case-on-lossy-path", 8) else {
        return;
    };
    let begun = Instant::now();
    let enough = until(&lab, |path| {
        let way = path.to_client;
        way.delivered_bytes > 600_000 && way.dropped_policer > 100
    });
    let responses = load(&lab, "good", enough);
    let counters = counters(&lab);
    // 5 Mbit/s since the beginning, plus the burst of 16 kB.
    let most = begun.elapsed().as_secs_f64() * 625_000.0 + 16_000.0;
    let way = counters.to_client;
    assert!(responses > 100, "{responses}");
    assert!(way.dropped_policer > 100, "{counters:?}");
    assert!(
        (way.delivered_bytes as f64) <= most,
        "{way:?}, at most {most}"
    );
    assert!(way.delivered_bytes > 600_000, "{way:?}");
    assert_eq!(
        (way.dropped_overflow, way.dropped_queue, way.dropped_loss),
        (0, 0, 0)
    );
    assert_eq!(counters.to_server.dropped(), 0);
    assert_eq!(way.offered, way.delivered + way.dropped());
}

#[test]
fn a_queue_before_a_bottleneck_makes_the_round_trip_grow_with_the_load() {
    let name = "a_queue_before_a_bottleneck_makes_the_round_trip_grow_with_the_load";
    live(name).share(0.2).run(|| {
        let Some(lab) = up("path-queueing", 8) else {
            return;
        };
        let to = address(&lab, "good", Family::V4);
        let probe = || {
            connect(lab.client(), to, Duration::from_secs(5))
                .expect("connects")
                .1
        };
        let idle = (0..5).map(|_| probe()).min().expect("five");
        let is_over = AtomicBool::new(false);
        let loaded = std::thread::scope(|scope| {
            scope.spawn(|| load(&lab, "good", || is_over.load(Ordering::Relaxed)));
            // The queue has formed once part of the load has passed through it.
            let carried = |path: &PathCounters| path.to_client.delivered_bytes > 200_000;
            counters_once(&lab, carried);
            let loaded = median((0..9).map(|_| probe()));
            is_over.store(true, Ordering::Relaxed);
            loaded
        });
        assert!(
            loaded > idle + 15 * MS,
            "{idle:?} idle, {loaded:?} under load"
        );
    });
}

#[test]
fn chance_loses_about_the_share_that_was_asked_for() {
    let Some(lab) = up("packet-loss", 8) else {
        return;
    };
    // The expected loss is 2 % of 3,000 packets: 60, with a standard deviation of 8.
    load(
        &lab,
        "good",
        until(&lab, |path| path.to_client.offered > 3_000),
    );
    let way = counters(&lab).to_client;
    let share = way.dropped_loss as f64 / way.offered as f64;
    assert!(
        way.offered > 3_000 && (0.008..0.035).contains(&share),
        "{way:?}"
    );
}

/// Brings up a lab with this path and an nginx that serves two files; `None` if this machine cannot
/// run it.
fn up_with_path(path: &str) -> Option<Lab> {
    let text = format!(
        "name = 'path-of-a-test'\ntitle = 'a path'\ntarget = 'good'\n[path]\n{path}\n\
         [[service]]\nname = 'good'\nport = 80\n\
         server = {{ kind = 'nginx', answer = {{ bytes = ['20kB', '2MB'] }} }}\n"
    );
    up_as(&Scenario::parse("test", &text).expect("a scenario"))
}

const HOPS: &str = "round_trip = '20ms'\nhops = [\n\
    { delay = '1ms' }, { delay = '2ms', answers = 'never' }, { delay = '3ms' },\n\
    { delay = '1ms', answers = 'limited' }]";

/// Returns the output of a program on the client; `None` if the program is not installed.
fn said(lab: &Lab, program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = lab.client().command(program).expect("the lab is up");
    match command.args(arguments).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => {
            skip(program);
            None
        }
    }
}

/// Returns the lines of a traceroute as (hop, address, milliseconds). A silent hop has the address
/// `*`.
fn hops(said: &str) -> Vec<(u32, String, f64)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let hop = words.next()?.parse().ok()?;
        let address = words.next()?.to_owned();
        let time = words.next().and_then(|word| word.parse().ok());
        Some((hop, address, time.unwrap_or(0.0)))
    };
    said.lines().filter_map(line).collect()
}

#[test]
fn routers_answer_every_kind_of_probe_from_their_own_address_after_their_distance() {
    let name = "routers_answer_every_kind_of_probe_from_their_own_address_after_their_distance";
    live(name).standstill(500 * MS).share(0.2).run(|| {
        std::thread::scope(|scope| {
            for (family, network, server) in [
                ("-4", "10.77.1.", "10.77.0.2"),
                ("-6", "fd77:0:0:1::", "fd77::2"),
            ] {
                scope.spawn(move || trace_by_every_kind(family, network, server));
            }
        });
    });
}

fn trace_by_every_kind(family: &str, network: &str, server: &str) {
    let Some(lab) = up_with_path(HOPS) else {
        return;
    };
    let expected = [
        (Some("1"), 2.0),
        (None, 0.0),
        (Some("3"), 12.0),
        (Some("4"), 14.0),
    ];
    // The shortest time for each hop counts, because a busy machine does not delay all of them.
    let mut least = [f64::MAX; 4];
    for kind in ["-T", "-U", "-I"] {
        // Each hop gets one probe, and no probe is sent ahead. After the pause, the limited router
        // can answer again.
        std::thread::sleep(1100 * MS);
        let arguments = [
            family, kind, "-n", "-q", "1", "-N", "1", "-w", "1", "-m", "8", server,
        ];
        let Some(text) = said(&lab, "traceroute", &arguments) else {
            return;
        };
        let found = hops(&text);
        assert_eq!(found.len(), 5, "{kind}: {text}");
        let hops = found.iter().zip(expected).zip(&mut least);
        for (((_, address, time), (number, distance)), least) in hops {
            *least = least.min(*time);
            match number {
                Some(number) => {
                    assert_eq!(*address, format!("{network}{number}"), "{kind}: {text}");
                    assert!(*time >= distance, "{text}");
                }
                None => assert_eq!(address, "*", "{kind}: {text}"),
            }
        }
        assert_eq!(found[4].1, server, "{text}");
    }
    for (least, (_, distance)) in least.iter().zip(expected) {
        assert!(*least < distance + 10.0, "{least} ms for {distance} ms");
    }
    let counters = counters_once(&lab, |counters| {
        counters.to_client.answers >= 9 && counters.to_server.dropped_hop >= 12
    });
    assert!(counters.to_client.answers >= 9, "{counters:?}");
    assert_eq!(counters.to_server.dropped_hop, 12, "{counters:?}");
}

#[test]
fn a_limited_router_answers_once_a_second_and_routers_answer_pings() {
    let Some(lab) = up_with_path(HOPS) else {
        return;
    };
    let to_the_limited = [
        "-n",
        "-U",
        "-q",
        "5",
        "-N",
        "5",
        "-w",
        "0.2",
        "-f",
        "4",
        "-m",
        "4",
        "10.77.0.2",
    ];
    let Some(text) = said(&lab, "traceroute", &to_the_limited) else {
        return;
    };
    assert_eq!(text.matches('*').count(), 4, "{text}");
    for address in ["10.77.1.3", "fd77:0:0:1::3"] {
        let Some(text) = said(
            &lab,
            "ping",
            &["-n", "-c", "2", "-i", "0.2", "-W", "1", address],
        ) else {
            return;
        };
        assert!(text.contains("2 received"), "{text}");
    }
}

#[test]
fn a_router_before_a_narrow_link_tells_the_sender() {
    let narrow = "round_trip = '8ms'\nto_client.mtu = 1400\nto_server.mtu = 1400";
    let Some(lab) = up_with_path(narrow) else {
        return;
    };
    for family in [Family::V4, Family::V6] {
        let to = address(&lab, "good", family);
        let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
        let fetched = exchange(&mut stream, "lab").expect("a response");
        assert_eq!(fetched.length, 20_000);
    }
    let before = counters_once(&lab, |counters| counters.to_server.answers >= 2);
    assert!(before.to_client.dropped_mtu >= 2, "{before:?}");
    assert!(before.to_server.answers >= 2, "{before:?}");
    for server in ["10.77.0.2", "fd77::2"] {
        let Some(text) = said(&lab, "tracepath", &["-n", "-m", "3", server]) else {
            return;
        };
        assert!(text.contains("pmtu 1400"), "{text}");
    }
}

#[test]
fn a_silent_narrow_link_swallows_what_is_large_and_cuts_what_may_be_cut() {
    let hole = "round_trip = '8ms'\nto_client = { mtu = 1400, icmp = false }\nto_server.mtu = 1400";
    let Some(lab) = up_with_path(hole) else {
        return;
    };
    let to = address(&lab, "good", Family::V4);
    let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
    stream
        .set_read_timeout(Some(Duration::from_secs(1)))
        .expect("a time");
    assert!(exchange(&mut stream, "lab").is_err(), "the body is stuck");
    let counters = counters_once(&lab, |counters| counters.to_client.dropped_mtu >= 2);
    assert!(counters.to_client.dropped_mtu >= 2, "{counters:?}");
    // A datagram without DF arrives as two fragments, which the server's kernel reassembles.
    let receiver = lab.server().within(|| UdpSocket::bind(("10.77.0.2", 9)));
    let receiver = receiver.expect("binds");
    receiver
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a time");
    let sender = lab.client().within(|| UdpSocket::bind(("10.77.0.1", 0)));
    let sender = sender.expect("binds");
    let never = rustix::net::sockopt::Ipv4PathMtuDiscovery::DONT;
    rustix::net::sockopt::set_ip_mtu_discover(&sender, never).expect("may be cut");
    let sent: Vec<u8> = (0..1472).map(|n| (n % 251) as u8).collect();
    sender.send_to(&sent, ("10.77.0.2", 9)).expect("sends");
    let mut received = [0; 2000];
    let length = receiver.recv(&mut received).expect("arrives");
    assert_eq!(received[..length], sent);
    let counters = counters_once(&lab, |counters| counters.to_server.fragments > 0);
    assert_eq!(counters.to_server.fragments, 1);
}

/// Returns the original size of the largest frame that either end recorded during a download of 2
/// MB.
fn largest_frame(lab: &Lab) -> u32 {
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["client", "server"].map(|end| folder.path().join(end));
    let options = RecordingOptions {
        snapshot_length: Some(96),
        ..RecordingOptions::default()
    };
    let recording = lab.record(&files[0], &files[1], &options);
    let recording = recording.expect("records");
    let url = format!("{}2MB", lab.url(lab.scenario().target(), Family::V4));
    let text = said(
        lab,
        "curl",
        &["-s", "-o", "/dev/null", "-w", "%{size_download}", &url],
    );
    assert!(text.is_none_or(|text| text == "2000000"));
    recording.stop().expect("stops");
    let largest = files.map(|file| {
        let bytes = std::fs::read(file).expect("reads");
        let mut rest = bytes.get(24..).unwrap_or_default();
        let mut largest = 0;
        while let Some((head, after)) = rest.split_at_checked(16) {
            let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("four"));
            largest = largest.max(word(12));
            rest = after.get(word(8) as usize..).unwrap_or_default();
        }
        largest
    });
    largest[0].max(largest[1])
}

#[test]
fn super_segments_cross_only_where_the_scenario_says_so() {
    for (path, crosses) in [
        ("", true),
        ("offload = false", false),
        ("round_trip = '4ms'", false),
        ("round_trip = '4ms'\noffload = true", true),
    ] {
        let Some(lab) = up_with_path(path) else {
            return;
        };
        let largest = largest_frame(&lab);
        if crosses {
            assert!(largest > 10_000, "{path}: {largest}")
        } else {
            assert!((1500..=1514).contains(&largest), "{path}: {largest}")
        }
        if lab.scenario().path.is_emulated() {
            assert_eq!(counters(&lab).to_client.dropped(), 0, "{path}");
        }
    }
}

#[test]
fn a_super_segment_is_lost_as_a_whole_and_small_ones_pass_a_narrow_link() {
    let path = "round_trip = '4ms'\noffload = true\nto_client = { mtu = 1400, loss = 0.02 }";
    let Some(lab) = up_with_path(path) else {
        return;
    };
    // The first segments are too large. The router's ICMP error then tells the server the MTU.
    assert!(largest_frame(&lab) > 10_000);
    let way = counters(&lab).to_client;
    assert!(way.dropped_mtu > 0 && way.dropped_mtu < 50, "{way:?}");
    assert_eq!(way.dropped_overflow, 0);
}

/// A program that sends 20,000 malformed packets into the device. Their headers look valid, but
/// contain wrong values.
const NONSENSE: &str = "
import random, socket, struct
random.seed(7)
for kind, first in ((0x0800, 0x45), (0x86dd, 0x60)):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(kind))
    s.bind(('path0', kind))
    for n in range(10000):
        packet = bytearray(random.randbytes(random.randrange(1, 1500)))
        packet[0] = random.choice((first, first, first | 15, 0x4f, 0x40, 0))
        if len(packet) > 24:
            packet[random.choice((6, 9))] = random.choice((1, 6, 17, 44, 58))
            packet[random.choice((7, 8))] = random.randrange(8)
        try:
            s.send(packet)
        except OSError:
            pass
print('sent')
";

#[test]
fn whatever_is_sent_into_it_the_path_goes_on() {
    for offload in ["", "\noffload = true"] {
        let path = format!(
            "{HOPS}\nmembers = [{{}}, {{}}]{offload}\n\
             to_server = {{ mtu = 1300, thin_acks = {{ of = 2, wait = '1ms' }}, drop = [{{ flags = 'rst', per_flow = true }}] }}"
        );
        let Some(lab) = up_with_path(&path) else {
            return;
        };
        let Some(text) = said(&lab, "python3", &["-c", NONSENSE]) else {
            return;
        };
        assert_eq!(text.trim(), "sent");
        let to = address(&lab, "good", Family::V4);
        let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
        assert_eq!(
            exchange(&mut stream, "lab").expect("a response").length,
            20_000
        );
        let counters = counters_once(&lab, |counters| counters.to_server.offered > 10_000);
        assert!(counters.to_server.offered > 10_000, "{counters:?}");
    }
}
