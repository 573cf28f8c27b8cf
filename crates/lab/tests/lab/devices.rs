//! The hosts' devices: one loopback for both hosts, other MTUs, with and without offload.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use lagtrace_lab::{Error, Family, Host, Lab, RecordingOptions, Scenario};

use crate::client::{address, connect, exchange, fetch};
use crate::{helper, remains, skip, up, up_as};

/// Brings up a lab whose server sends 300 kB, with additional lines in its scenario.
fn up_with(lines: &str) -> Option<Lab> {
    let text = format!(
        "name = \"devices\"\ntitle = \"t\"\ntarget = \"large\"\n{lines}\n[[service]]\n\
         name = \"large\"\nport = 8080\nserver = {{ kind = \"nginx\", answer = {{ bytes = \"300kB\" }} }}\n"
    );
    up_as(&Scenario::parse("test", &text).expect("a scenario"))
}

/// Reads a file of the kernel on a host.
fn read(host: &Host, file: &str) -> String {
    host.within(|| fs::read_to_string(file))
        .unwrap_or_else(|error| panic!("{file}: {}", error.chain()))
}

/// Returns the length of the longest IP packet in a capture.
fn longest_packet(capture: &Path) -> u32 {
    const FILE_HEADER: usize = 24;
    const RECORD_HEADER: usize = 16;
    let bytes = fs::read(capture).expect("a capture");
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    // A veth pair and a loopback have Ethernet headers (link type 1). A TUN device has no
    // link-layer header.
    let header = if word(20) == 1 { 14 } else { 0 };
    let (mut at, mut longest) = (FILE_HEADER, 0);
    while at < bytes.len() {
        longest = longest.max(word(at + 12));
        at += RECORD_HEADER + word(at + 8) as usize;
    }
    longest - header
}

/// Returns the length of the longest packet of a large response, captured at the server.
fn longest_sent(lab: &Lab) -> Option<u32> {
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["client.pcap", "server.pcap"].map(|name| folder.path().join(name));
    let options = RecordingOptions {
        snapshot_length: Some(128),
        ..RecordingOptions::default()
    };
    let recording = match lab.record(&files[0], &files[1], &options) {
        Ok(recording) => recording,
        Err(error) => {
            skip(&error.chain());
            return None;
        }
    };
    assert_eq!(fetch(lab, "large", 3)[2].length, 300_000);
    recording.stop().expect("ends well");
    Some(longest_packet(&files[1]))
}

#[test]
fn one_host_asks_itself_and_is_known_by_two_names() {
    let Some(lab) = up("nagle-delayed-ack-loopback", 0) else {
        return;
    };
    let run = lab.run().clone();
    let names = [lab.client().namespace(), lab.server().namespace()];
    let inode = |name: &str| {
        fs::metadata(Path::new("/run/netns").join(name))
            .expect("a name")
            .ino()
    };
    assert_ne!(names[0], names[1]);
    assert_eq!(inode(names[0]), inode(names[1]));
    let mut streams = Vec::new();
    for (family, wanted) in [(Family::V4, "127.0.0.1"), (Family::V6, "::1")] {
        for host in [lab.client(), lab.server()] {
            assert_eq!(
                host.address(family),
                wanted.parse::<IpAddr>().expect("an address")
            );
            assert_eq!(host.interface(), "lo");
        }
        let to = address(&lab, "good", family);
        let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
        assert_eq!(
            exchange(&mut stream, "lab").expect("a response").status,
            200
        );
        streams.push(stream);
    }
    let devices = read(lab.client(), "/proc/thread-self/net/dev");
    assert!(!devices.contains("path0"), "{devices}");
    let ss = lab
        .client()
        .command("ss")
        .expect("a host")
        .args(["-tinH"])
        .output();
    let Ok(output) = ss else { return skip("ss") };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("bbr") && text.contains("cubic"), "{text}");
    lab.take_down().expect("comes down");
    assert_eq!(remains(&run), Vec::<String>::new());
}

#[test]
fn packets_are_as_large_as_the_devices_allow_and_larger_with_offload() {
    for (path, is_right) in [
        ("mtu = 9000", (|longest| longest > 9000) as fn(u32) -> bool),
        ("mtu = 9000\noffload = false", |longest| longest == 9000),
        ("mtu = 576\noffload = false", |longest| longest == 576),
        ("mtu = 4000\nround_trip = \"2ms\"", |longest| {
            longest == 4000
        }),
        ("loopback = true", |longest| longest > 20_000),
        ("loopback = true\nmtu = 1500\noffload = false", |longest| {
            longest == 1500
        }),
    ] {
        let Some(lab) = up_with(&format!("[path]\n{path}")) else {
            return;
        };
        let Some(longest) = longest_sent(&lab) else {
            return;
        };
        assert!(is_right(longest), "{path}: {longest} B");
    }
}

#[test]
fn a_device_too_small_for_ipv6_has_none() {
    let Some(lab) = up_with("[path]\nmtu = 1279") else {
        return;
    };
    let addresses = read(lab.client(), "/proc/thread-self/net/if_inet6");
    assert!(!addresses.contains("path0"), "{addresses}");
    assert_eq!(fetch(&lab, "large", 1)[0].status, 200);
}

#[test]
fn the_settings_of_both_hosts_are_the_one_hosts_on_loopback() {
    let lines = "[path]\nloopback = true\n[client]\nsysctl = { \"net.ipv4.tcp_rmem\" = \"4096 16384 16384\" }\n\
                 [server]\nsysctl = { \"net.ipv4.tcp_wmem\" = \"4096 32768 32768\" }\n\
                 shaper = { rate = \"8Mbit\", burst = \"70kB\", queue = \"1MB\" }";
    let Some(lab) = up_with(lines) else { return };
    for host in [lab.client(), lab.server()] {
        assert_eq!(
            read(host, "/proc/sys/net/ipv4/tcp_rmem"),
            "4096\t16384\t16384\n"
        );
        assert_eq!(
            read(host, "/proc/sys/net/ipv4/tcp_wmem"),
            "4096\t32768\t32768\n"
        );
    }
    // The bucket's 70 kB pass at once, and the other 230 kB at 1 MB/s.
    let fetched = fetch(&lab, "large", 1);
    assert!(
        fetched[0].total() > Duration::from_millis(200),
        "{fetched:?}"
    );
}

#[test]
fn a_name_resolves_to_the_one_host() {
    let text = r#"
name = "names"
title = "names on one host"
target = "names"
path.loopback = true
client.files."/etc/resolv.conf" = "nameserver {server}\n"
client.files."/etc/nsswitch.conf" = "hosts: dns\n"
[[service]]
name = "names"
port = 53
server = { kind = "slow-dns", time = "1ms" }
"#;
    let Some(lab) = up_as(&Scenario::parse("test", text).expect("a scenario")) else {
        return;
    };
    // `getent ahosts` would not ask for IPv6 addresses if the host has none except ::1, so `hosts`
    // is used.
    let mut getent = lab.client().command("getent").expect("a host");
    let output = getent.args(["hosts", "www.lab.test"]).output();
    let text = String::from_utf8_lossy(&output.expect("getent runs").stdout).into_owned();
    assert!(text.starts_with("::1 "), "{text}");
}

#[test]
fn there_is_no_distance_to_oneself() {
    let scenario = Scenario::by_name("nagle-delayed-ack-loopback").expect("shipped");
    let far = scenario.with_round_trip(Duration::from_millis(8));
    match Lab::bring_up(&far, &helper()) {
        Err(error @ Error::ScenarioSense { .. }) => {
            assert!(error.chain().contains("no round trip"), "{}", error.chain());
        }
        other => panic!("{other:?}"),
    }
}
