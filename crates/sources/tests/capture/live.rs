//! Live captures on the loopback interface, with a real kernel and file system.

use std::collections::HashSet;
use std::error::Error as _;
use std::fs;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::event::{CaptureSummary, PointId};
use lagtrace_core::observed::segment::{Segment, TcpFlags};
use lagtrace_sources::capture::{
    Arrival, CaptureError, FileCapture, LiveCapture, LiveOptions, LiveOutcome,
};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, UnshareFlags};

use crate::requirement::{is_missing_root, is_missing_tool};
use crate::traffic::Peer;

const POINT: PointId = PointId(5);

fn options(interface: &str, peer: &Peer) -> LiveOptions {
    LiveOptions {
        filter: Some(peer.filter()),
        ..LiveOptions::new(interface, POINT)
    }
}

fn start(options: &LiveOptions) -> Result<LiveCapture, CaptureError> {
    LiveCapture::start(options, Arc::new(AtomicBool::new(false)))
}

/// Collects all packets until the capture ends.
fn collect(mut capture: LiveCapture) -> (Vec<(Segment, Vec<u8>)>, LiveOutcome) {
    let mut all = Vec::new();
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < patience, "the capture does not end");
        match capture.next_batch(Duration::from_millis(100)) {
            Arrival::Batch(batch) => {
                all.extend(batch.segments().map(|(s, payload)| (*s, payload.to_vec())));
            }
            Arrival::Quiet => {}
            Arrival::Ended => return (all, capture.finish()),
        }
    }
}

/// Captures while `act` runs, and then stops immediately.
fn capture(options: &LiveOptions, act: impl FnOnce()) -> (Vec<(Segment, Vec<u8>)>, LiveOutcome) {
    let capture = start(options).expect("root may capture");
    act();
    capture.stop();
    collect(capture)
}

fn summary(outcome: &LiveOutcome) -> &CaptureSummary {
    assert_eq!(outcome.summaries.len(), 1);
    assert_eq!(outcome.summaries[0].0, POINT);
    &outcome.summaries[0].1
}

/// Checks that there is one connection with `count` messages, and that each packet was seen once,
/// in order.
#[track_caller]
fn check(segments: &[(Segment, Vec<u8>)], count: usize, len: usize) {
    let of = |flag: TcpFlags| {
        let has_flag = |(s, _): &&(Segment, Vec<u8>)| s.flags.contains(flag);
        segments.iter().filter(has_flag).count()
    };
    assert_eq!((of(TcpFlags::SYN), of(TcpFlags::FIN)), (2, 2));
    let data: Vec<_> = segments.iter().filter(|(s, _)| s.payload_len > 0).collect();
    assert_eq!(data.len(), 2 * count);
    let distinct: HashSet<_> = data.iter().map(|(s, _)| (s.direction, s.seq)).collect();
    assert_eq!(distinct.len(), data.len());
    let bytes: usize = data.iter().map(|(_, payload)| payload.len()).sum();
    assert_eq!(bytes, count * (len + 1));
    assert!(
        segments
            .windows(2)
            .all(|pair| pair[0].0.number < pair[1].0.number)
    );
    assert!(segments.windows(2).all(|pair| pair[0].0.at <= pair[1].0.at));
    let is_finer_than_micros = |(s, _): &(Segment, Vec<u8>)| s.at.as_nanos() % 1_000 != 0;
    assert!(segments.iter().any(is_finer_than_micros));
}

#[test]
fn loopback_shows_each_packet_once() {
    if is_missing_root() {
        return;
    }
    for address in [None, Some(Ipv6Addr::LOCALHOST.into())] {
        let peer = address.map_or_else(Peer::new, Peer::at);
        for interface in ["lo", "any"] {
            let (segments, outcome) = capture(&options(interface, &peer), || peer.talk(20, 300));
            if interface == "lo" {
                check(&segments, 20, 300);
            }
            let summary = summary(&outcome);
            assert_eq!(summary.packets as usize, segments.len());
            assert_eq!((summary.dropped, summary.undecoded), (Some(0), 0));
            assert_eq!((&*summary.name, &summary.damage), (interface, &None));
        }
    }
}

#[test]
fn datagrams_and_errors_about_them_arrive_too() {
    if is_missing_root() {
        return;
    }
    let socket = || UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
    let (sender, closed) = (socket(), socket());
    let [from, to]: [SocketAddr; 2] =
        [&sender, &closed].map(|socket| socket.local_addr().expect("it is bound"));
    drop(closed);
    let options = LiveOptions {
        filter: Some(format!("udp port {} or icmp", to.port())),
        ..LiveOptions::new("lo", POINT)
    };
    let mut capture = start(&options).expect("root may capture");
    sender.send_to(b"hello", to).expect("loopback takes it");
    capture.stop();
    let (mut datagrams, mut errors) = (0, 0);
    loop {
        match capture.next_batch(Duration::from_secs(10)) {
            Arrival::Batch(batch) => {
                for packet in batch.whole() {
                    match packet {
                        Packet::Udp(header, payload) => {
                            let (way, flow) = (header.direction, header.flow);
                            let ends = [flow.source(way), flow.destination(way)];
                            datagrams +=
                                usize::from(ends.map(|end| end.port) == [from.port(), to.port()]);
                            assert_eq!(payload, b"hello");
                        }
                        Packet::Icmp(error) => {
                            let (one, other) = error.flow.ends();
                            errors += usize::from([one.port, other.port].contains(&to.port()));
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            Arrival::Quiet => panic!("the capture does not end"),
            Arrival::Ended => break,
        }
    }
    assert_eq!((datagrams, errors), (1, 1));
    assert_eq!(summary(&capture.finish()).undecoded, 0);
}

#[test]
fn a_stop_right_after_a_burst_loses_nothing() {
    if is_missing_root() {
        return;
    }
    let peer = Peer::new();
    for _ in 0..20 {
        let (segments, outcome) = capture(&options("lo", &peer), || peer.talk(3, 100));
        check(&segments, 3, 100);
        assert_eq!(summary(&outcome).dropped, Some(0));
    }
}

#[test]
fn the_file_holds_what_was_seen() {
    if is_missing_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("out.pcap");
    let peer = Peer::new();
    let mut options = options("lo", &peer);
    options.write = Some(path.clone());
    options.snap_len = 80;
    let (mut segments, outcome) = capture(&options, || peer.talk(10, 1_000));
    let written = outcome.written.as_ref().expect("a file was asked for");
    assert!(written.fault.is_none());
    assert_eq!(written.packets, summary(&outcome).packets);
    assert!(summary(&outcome).cut_records >= 10);
    let summary = FileCapture::open(&path, POINT)
        .expect("a capture")
        .for_each(|s, payload| {
            assert_eq!((*s, payload.to_vec()), segments.remove(0));
        });
    assert!(segments.is_empty());
    assert_eq!((summary.packets, summary.damage), (written.packets, None));
}

#[test]
fn limits_end_a_capture() {
    if is_missing_root() {
        return;
    }
    let peer = Peer::new();
    let mut by_count = options("lo", &peer);
    by_count.packets = Some(7);
    let capture = start(&by_count).expect("root may capture");
    peer.talk(20, 10);
    let (segments, outcome) = collect(capture);
    assert_eq!((segments.len(), summary(&outcome).packets), (7, 7));

    let mut by_time = options("lo", &peer);
    by_time.duration = Some(Duration::from_millis(300));
    let (segments, _) = collect(start(&by_time).expect("root may capture"));
    assert!(segments.is_empty());
}

#[test]
fn a_consumer_that_sleeps_costs_segments_but_no_packets() {
    if is_missing_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("out.pcap");
    let peer = Peer::new();
    let mut options = options("lo", &peer);
    options.write = Some(path.clone());
    let (segments, outcome) = capture(&options, || {
        for _ in 0..6 {
            peer.talk(170, 60_000);
            thread::sleep(Duration::from_millis(100));
        }
    });
    let summary = summary(&outcome);
    let undelivered = summary.packets - segments.len() as u64;
    assert!(undelivered > 0, "60 MB fit into the channel");
    assert!(summary.dropped.expect("known") >= undelivered);
    let mut in_file = 0;
    FileCapture::open(&path, POINT)
        .expect("a capture")
        .for_each(|_, _| in_file += 1);
    assert_eq!(in_file, summary.packets);
}

/// Runs `act` with a disk of 64 KiB, in a thread that has its own mounts.
fn on_small_disk<T: Send>(act: impl FnOnce(&Path) -> T + Send) -> T {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mount = || {
        // SAFETY: only the thread's mounts and working directory change, and no other thread uses
        // them.
        #[allow(unsafe_code)]
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.expect("own mounts");
        let private = rustix::mount::MountPropagationFlags::PRIVATE
            | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).expect("mounts nobody else sees");
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", folder.path(), "tmpfs", flags, Some(c"size=64k"))
            .expect("a small disk");
        act(folder.path())
    };
    thread::scope(|scope| scope.spawn(mount).join().expect("no assertion fails"))
}

#[test]
fn a_full_disk_keeps_what_fits_and_the_capture_goes_on() {
    if is_missing_root() {
        return;
    }
    on_small_disk(|disk| {
        let path = disk.join("out.pcap");
        let peer = Peer::new();
        let mut options = options("lo", &peer);
        options.write = Some(path.clone());
        let (segments, outcome) = capture(&options, || peer.talk(200, 1_000));
        check(&segments, 200, 1_000);
        let written = outcome.written.expect("a file was asked for");
        let Some(CaptureError::Write {
            name,
            packets,
            source,
        }) = written.fault
        else {
            panic!("the disk is full");
        };
        assert_eq!(
            (name, packets),
            (path.display().to_string(), written.packets)
        );
        assert_eq!(Errno::from_io_error(&source), Some(Errno::NOSPC));
        let in_file = FileCapture::open(&path, POINT)
            .expect("a capture")
            .for_each(|_, _| {});
        assert_eq!((in_file.packets, in_file.damage), (packets, None));
        assert!((40..200).contains(&packets), "{packets}");
    });
}

#[test]
fn a_file_that_takes_nothing_is_an_error_at_once() {
    if is_missing_root() {
        return;
    }
    let peer = Peer::new();
    let mut options = options("lo", &peer);
    options.write = Some("/dev/full".into());
    let error = start(&options).err().expect("no space");
    assert!(matches!(error, CaptureError::Write { packets: 0, .. }));
    options.write = Some("/nonexistent/out.pcap".into());
    let error = start(&options).err().expect("no such folder");
    assert!(matches!(error, CaptureError::Create { .. }));
}

#[test]
fn a_pipe_that_nobody_reads_ends_the_capture() {
    if is_missing_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    let peer = Peer::new();
    let mut options = options("lo", &peer);
    options.write = Some(path.clone());
    let reader = thread::spawn(move || {
        let mut header = [0; 24];
        let mut file = fs::File::open(path).expect("the pipe");
        std::io::Read::read_exact(&mut file, &mut header).expect("a file header");
    });
    let capture = start(&options).expect("root may capture");
    reader.join().expect("the reader reads");
    peer.talk(3, 10);
    let (_, outcome) = collect(capture);
    assert!(outcome.written.expect("asked for").fault.is_none());
}

#[test]
fn what_cannot_be_captured_is_said() {
    if is_missing_root() {
        return;
    }
    let peer = Peer::new();
    let error = start(&options("nothere0", &peer))
        .err()
        .expect("no such interface");
    assert!(matches!(&error, CaptureError::NoSuchInterface { known, .. }
        if known.contains(&"lo".to_owned())));
    let mut wrong = options("lo", &peer);
    wrong.filter = Some("tcp portt 80".into());
    let error = start(&wrong).err().expect("no such word");
    let CaptureError::Filter { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(source.to_string().contains("syntax error"), "{source}");
}

#[test]
fn without_rights_that_is_the_error() {
    if is_missing_root() {
        return;
    }
    let peer = Peer::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sets = rustix::thread::capabilities(None).expect("own capabilities");
            sets.effective.remove(CapabilitySet::NET_RAW);
            rustix::thread::set_capabilities(None, sets).expect("fewer capabilities");
            let error = start(&options("lo", &peer)).err().expect("no rights");
            assert!(
                matches!(error, CaptureError::NotPermitted { .. }),
                "{error:?}"
            );
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| hint.contains("cap_net_raw"))
            );
            let error = start(&options("nothere0", &peer))
                .err()
                .expect("nor interface");
            assert!(
                matches!(error, CaptureError::NoSuchInterface { .. }),
                "{error:?}"
            );
        });
    });
}

/// Runs `act` in a thread with its own network namespace, in which loopback is down.
fn in_own_network(act: impl FnOnce() + Send) {
    let unshare = || {
        // SAFETY: only this thread's network namespace changes, and the thread ends afterwards.
        #[allow(unsafe_code)]
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.expect("own network");
        act();
    };
    thread::scope(|scope| scope.spawn(unshare).join().expect("no assertion fails"));
}

fn ip(arguments: &str) {
    let mut ip = Command::new("ip");
    let status = ip.args(arguments.split(' ')).status();
    assert!(status.expect("ip runs").success(), "ip {arguments}");
}

#[test]
fn an_interface_that_is_down_or_goes_away() {
    if is_missing_root() || is_missing_tool("ip") {
        return;
    }
    in_own_network(|| {
        let error = start(&LiveOptions::new("lo", POINT))
            .err()
            .expect("it is down");
        assert!(matches!(error, CaptureError::Interface { .. }), "{error:?}");
        assert!(
            error
                .source()
                .is_some_and(|source| source.to_string().contains("not up"))
        );

        ip("link add here type veth peer name there");
        ip("link set here up");
        let capture = start(&LiveOptions::new("here", POINT)).expect("it is up");
        ip("link del here");
        let (_, outcome) = collect(capture);
        let damage = summary(&outcome).damage.as_deref();
        assert!(
            damage.is_some_and(|words| words.contains("ended early")),
            "{outcome:?}"
        );
    });
}
