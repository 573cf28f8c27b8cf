//! Probes at a constant rate, with a real kernel, over the loopback interface.
#![allow(clippy::print_stderr)]

#[path = "servers/fake.rs"]
mod fake;

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use fake::{ClosedPort, FullBacklog};
use lagtrace_core::observed::event::{
    Coming, EventBody, ProbeAnswer, ProbeSample, Stamp, TargetId,
};
use lagtrace_core::observed::segment::TcpFlags;
use lagtrace_sources::probe::{
    PacketPlan, ProbeError, Sizes, SourcePorts, SteadyMethod, SteadyPlan, Turn, steady,
};
use socket2::{Domain, Socket, Type};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn plan(address: SocketAddr, method: SteadyMethod) -> SteadyPlan {
    SteadyPlan {
        target: TargetId::Subject,
        address,
        method,
        count: Some(4),
        turn: Turn::ByTheClock,
        interval: ms(5),
        timeout: ms(2000),
        ports: SourcePorts::Fresh,
        packet: PacketPlan::default(),
    }
}

/// Returns the samples of a plan; `None` if it is not permitted here.
fn probe(plan: &SteadyPlan) -> Option<Vec<ProbeSample>> {
    let mut samples = Vec::new();
    let outcome = steady(plan, &AtomicBool::new(false), |event| {
        if let EventBody::Probe(sample) = event.body {
            samples.push(sample);
        }
    });
    match outcome {
        Ok(()) => Some(samples),
        Err(ProbeError::NotPermitted { needs, .. }) => {
            eprintln!("skipped: needs {needs}");
            None
        }
        Err(error) => panic!("{error}: {error:?}"),
    }
}

/// Returns the first of two adjacent ports that nothing uses, not even a connection that was closed
/// a short time ago. They are above the ports of `lagtrace_trial::free_ports` and below those that
/// the kernel gives to clients.
fn two_source_ports() -> u16 {
    const FIRST: u16 = 31_000;
    const PAIRS: u16 = 800;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Unlike the listeners of the standard library, this socket does not ignore TIME-WAIT.
    let is_free = |port: u16| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any = SocketAddr::from(([0, 0, 0, 0], port));
        socket.bind(&any.into()).is_ok()
    };
    let start = (std::process::id() % u32::from(PAIRS)) as u16;
    let pairs = std::iter::repeat_with(|| {
        let pair = start + NEXT.fetch_add(1, Ordering::Relaxed) % PAIRS;
        FIRST + pair % PAIRS * 2
    });
    let mut pairs = pairs.take(usize::from(PAIRS));
    let free = pairs.find(|&first| is_free(first) && is_free(first + 1));
    free.expect("two free ports")
}

fn loopbacks() -> [IpAddr; 2] {
    ["127.0.0.1", "::1"].map(|ip| ip.parse().expect("an address"))
}

#[test]
fn open_and_closed_ports_answer_in_time_by_syn_and_by_connect() {
    for ip in loopbacks() {
        let listener = TcpListener::bind((ip, 0)).expect("a listener");
        let closed = ClosedPort::of(ip);
        for (address, answer) in [
            (
                listener.local_addr().expect("an address"),
                ProbeAnswer::Open,
            ),
            (closed.address, ProbeAnswer::Refused),
        ] {
            for method in [SteadyMethod::Syn, SteadyMethod::Connect] {
                let Some(samples) = probe(&plan(address, method)) else {
                    continue;
                };
                let numbers: Vec<u32> = samples.iter().map(|s| s.number).collect();
                assert_eq!(numbers, [0, 1, 2, 3], "{address} {method:?}");
                for sample in &samples {
                    assert_eq!(sample.answer, answer, "{address} {method:?}");
                    assert_eq!(sample.coming, Coming::InTime);
                    let rtt = sample.rtt.expect("answered");
                    assert!(!rtt.is_zero() && rtt < ms(1000));
                    if answer == ProbeAnswer::Open || method == SteadyMethod::Syn {
                        assert_eq!(sample.stamp, Stamp::Kernel);
                        assert!(sample.noticed.is_some_and(|noticed| noticed >= rtt));
                    }
                }
            }
        }
    }
}

#[test]
fn an_answer_to_a_syn_is_told_with_its_headers() {
    for ip in loopbacks() {
        let listener = TcpListener::bind((ip, 0)).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let Some(samples) = probe(&plan(address, SteadyMethod::Syn)) else {
            return;
        };
        for sample in samples {
            let reply = sample.reply.expect("a packet");
            let segment = reply.segment.expect("a segment");
            assert_eq!(reply.from, ip);
            assert_eq!(segment.flags, TcpFlags::SYN.with(TcpFlags::ACK));
            // Linux answers a client's usual options with the following ones.
            assert!(segment.options.mss.is_some_and(|mss| mss >= 1220));
            assert!(segment.options.sack_permitted);
            assert!(segment.options.timestamps.is_some());
            assert!(segment.options.window_scale.is_some());
            // The headers of IP and TCP, and 20 bytes of options.
            let whole = if ip.is_ipv4() { 60 } else { 80 };
            assert_eq!(reply.len, Some(whole));
            assert_eq!(sample.ttl, Some(64));
            assert_eq!(reply.dont_fragment, ip.is_ipv4().then_some(true));
        }
    }
}

#[test]
fn probes_come_from_the_ports_that_were_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    for method in [SteadyMethod::Syn, SteadyMethod::Connect] {
        let first = two_source_ports();
        let last = first + 1;
        let plan = SteadyPlan {
            ports: SourcePorts::Range { first, last },
            ..plan(address, method)
        };
        let Some(samples) = probe(&plan) else {
            continue;
        };
        let port = |sample: &ProbeSample| sample.reply.as_ref().expect("a packet").source_port;
        let ports: Vec<u16> = samples.iter().map(port).collect();
        assert_eq!(ports, [first, last, first, last], "{method:?}");
    }
}

#[test]
fn a_host_echoes() {
    for ip in loopbacks() {
        let plan = SteadyPlan {
            packet: PacketPlan {
                sizes: Sizes::one(56),
                ..PacketPlan::default()
            },
            ..plan(SocketAddr::new(ip, 0), SteadyMethod::Icmp)
        };
        let Some(samples) = probe(&plan) else {
            return;
        };
        assert_eq!(samples.len(), 4);
        for sample in samples {
            assert_eq!(sample.answer, ProbeAnswer::Echo);
            assert_eq!(sample.stamp, Stamp::Kernel);
            assert_eq!(sample.ttl, Some(64));
            let whole = if ip.is_ipv4() { 84 } else { 104 };
            assert_eq!(sample.reply.and_then(|reply| reply.len), Some(whole));
        }
    }
}

#[test]
fn nobody_listens_on_a_udp_port() {
    for ip in loopbacks() {
        let held = UdpSocket::bind((ip, 0)).expect("a port");
        let address = held.local_addr().expect("an address");
        drop(held);
        let samples = probe(&plan(address, SteadyMethod::Udp)).expect("no privilege is needed");
        let unreachable = match ip {
            IpAddr::V4(_) => ProbeAnswer::Unreachable(3, 3),
            IpAddr::V6(_) => ProbeAnswer::Unreachable(1, 4),
        };
        assert_eq!(samples.len(), 4);
        for sample in samples {
            assert_eq!((sample.answer, sample.stamp), (unreachable, Stamp::Kernel));
            assert_eq!(sample.reply.map(|reply| reply.from), Some(ip));
        }
    }
}

#[test]
fn late_answers_are_late_and_doubled_ones_are_told_apart() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let echo = thread::spawn(move || {
        let mut bytes = [0; 64];
        let mut receive = || server.recv_from(&mut bytes).expect("a probe").1;
        let (first, second) = (receive(), receive());
        server.send_to(b"twice", second).expect("sent");
        server.send_to(b"twice", second).expect("sent");
        thread::sleep(ms(1400));
        server.send_to(b"late", first).expect("sent");
    });
    // The third probe still waits when the late answer to the first one arrives.
    let plan = SteadyPlan {
        count: Some(3),
        interval: ms(1000),
        timeout: ms(700),
        ..plan(address, SteadyMethod::Udp)
    };
    let samples = probe(&plan).expect("no privilege is needed");
    echo.join().expect("the server ends");
    let mut told: Vec<_> = samples
        .iter()
        .map(|sample| (sample.number, sample.answer, sample.coming))
        .collect();
    told.sort();
    let expected = [
        (0, ProbeAnswer::Silence, Coming::InTime),
        (0, ProbeAnswer::Datagram, Coming::Late),
        (1, ProbeAnswer::Datagram, Coming::InTime),
        (1, ProbeAnswer::Datagram, Coming::Again),
        (2, ProbeAnswer::Silence, Coming::InTime),
    ];
    assert_eq!(told, expected);
    let late = samples.iter().find(|sample| sample.coming == Coming::Late);
    assert!(late.and_then(|sample| sample.rtt) >= Some(ms(1400)));
}

#[test]
fn probes_go_on_while_nothing_answers() {
    let full = FullBacklog::start();
    for method in [SteadyMethod::Syn, SteadyMethod::Connect] {
        let plan = SteadyPlan {
            interval: ms(20),
            timeout: ms(200),
            ..plan(full.address, method)
        };
        let Some(samples) = probe(&plan) else {
            continue;
        };
        let answers: Vec<_> = samples.iter().map(|s| (s.number, s.answer)).collect();
        let expected = [0, 1, 2, 3].map(|number| (number, ProbeAnswer::Silence));
        assert_eq!(answers, expected, "{method:?}");
    }
}

/// Starts a server that echoes each datagram, except for those whose numbers are in `lost`.
fn echo_but(lost: &'static [usize], count: usize) -> (SocketAddr, thread::JoinHandle<()>) {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let echo = thread::spawn(move || {
        let mut bytes = [0; 64];
        for number in 0..count {
            let (len, from) = server.recv_from(&mut bytes).expect("a probe");
            if !lost.contains(&number) {
                server.send_to(&bytes[..len], from).expect("sent");
            }
        }
    });
    (address, echo)
}

#[test]
fn a_lost_datagram_does_not_shift_the_answers_to_later_ones() {
    // First with space for the probe's number in the payload. Then without it, but with enough time
    // for each answer to arrive before the next probe, even on a busy machine.
    for (size, interval) in [(8, ms(30)), (0, ms(250))] {
        let (address, echo) = echo_but(&[1, 3], 6);
        let port = two_source_ports();
        let plan = SteadyPlan {
            count: Some(6),
            interval,
            timeout: ms(500),
            ports: SourcePorts::Range {
                first: port,
                last: port,
            },
            packet: PacketPlan {
                sizes: Sizes::one(size),
                ..PacketPlan::default()
            },
            ..plan(address, SteadyMethod::Udp)
        };
        let mut told: Vec<_> = probe(&plan)
            .expect("no privilege is needed")
            .iter()
            .map(|sample| (sample.number, sample.answer))
            .collect();
        told.sort();
        echo.join().expect("the server ends");
        let answer = |number| match number {
            1 | 3 => ProbeAnswer::Silence,
            _ => ProbeAnswer::Datagram,
        };
        let expected: Vec<_> = (0..6).map(|number| (number, answer(number))).collect();
        assert_eq!(told, expected, "{size} bytes");
    }
}

#[test]
fn a_port_is_used_again_after_a_probe_from_it_stayed_silent() {
    let full = FullBacklog::start();
    let port = two_source_ports();
    let plan = SteadyPlan {
        interval: ms(20),
        timeout: ms(200),
        ports: SourcePorts::Range {
            first: port,
            last: port,
        },
        ..plan(full.address, SteadyMethod::Connect)
    };
    let samples = probe(&plan).expect("no privilege is needed");
    let answers: Vec<_> = samples.iter().map(|s| (s.number, s.answer)).collect();
    let expected = [0, 1, 2, 3].map(|number| (number, ProbeAnswer::Silence));
    assert_eq!(answers, expected);
}

#[test]
fn what_a_port_in_use_kept_from_being_sent_is_no_loss() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let port = two_source_ports();
    let _held = TcpListener::bind(("0.0.0.0", port)).expect("a port");
    let plan_from = |first, last| SteadyPlan {
        ports: SourcePorts::Range { first, last },
        ..plan(address, SteadyMethod::Connect)
    };
    let mut notes = Vec::new();
    let mut numbers = Vec::new();
    let outcome = steady(
        &plan_from(port, port + 1),
        &AtomicBool::new(false),
        |event| match event.body {
            EventBody::Probe(sample) => numbers.push((sample.number, sample.answer)),
            EventBody::Note(note) => notes.push(note.id),
            _ => {}
        },
    );
    assert!(outcome.is_ok(), "{outcome:?}");
    let expected = [1, 3].map(|number| (number, ProbeAnswer::Open));
    assert_eq!(numbers, expected);
    assert_eq!(notes, ["probe-port-in-use"]);
    // No probe could be sent.
    let stop = AtomicBool::new(false);
    let outcome = steady(&plan_from(port, port), &stop, |_| {});
    assert!(matches!(outcome, Err(ProbeError::Socket { .. })));
}

#[test]
fn a_closed_port_refuses_segments_whose_fin_counts_as_well() {
    let closed = ClosedPort::of(loopbacks()[0]);
    let flags = TcpFlags::SYN.with(TcpFlags::FIN);
    let plan = SteadyPlan {
        timeout: ms(300),
        packet: PacketPlan {
            flags: vec![flags, flags.with(TcpFlags::PSH).with(TcpFlags::URG)],
            ..PacketPlan::default()
        },
        ..plan(closed.address, SteadyMethod::Syn)
    };
    let Some(samples) = probe(&plan) else {
        return;
    };
    let answers: Vec<_> = samples.iter().map(|s| (s.number, s.answer)).collect();
    let expected = [0, 1, 2, 3].map(|number| (number, ProbeAnswer::Refused));
    assert_eq!(answers, expected);
}
