//! Captures of other formats: the packets that are read, and the messages about those that cannot
//! be read.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::program::{lagtrace, notes};

/// Returns a pcapng section with an interface for each link type, and with these packets. Each
/// packet is an index of an interface and bytes.
fn pcapng(links: &[u16], packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let total = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &total, &body, &total].concat()
    };
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    let mut file = block(0x0a0d_0d0a, &section);
    for link in links {
        file.extend(block(1, &[&link.to_le_bytes()[..], &[0; 6]].concat()));
    }
    for (second, (interface, bytes)) in (1_700_000_000_u64..).zip(packets) {
        let (ticks, len) = (second * 1_000_000, bytes.len() as u32);
        let words = [*interface, (ticks >> 32) as u32, ticks as u32, len, len];
        let head = words.map(u32::to_le_bytes).concat();
        file.extend(block(6, &[&head[..], bytes].concat()));
    }
    file
}

/// Returns a TCP segment from one port to port 80, in IPv4.
fn segment(port: u16, seq: u32, flags: u8) -> Vec<u8> {
    let mut packet = vec![
        0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    packet.extend(port.to_be_bytes());
    packet.extend([0, 80]);
    packet.extend(seq.to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    packet
}

/// Returns a router's ICMP time exceeded message that quotes this packet.
fn expired(quoted: &[u8]) -> Vec<u8> {
    let len = 28 + quoted.len() as u8;
    let mut packet = vec![
        0x45, 0, 0, len, 0, 1, 0, 0, 64, 1, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1,
    ];
    packet.extend([11, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(quoted);
    packet
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn a_link_type_that_is_not_decoded_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let usb = (0, vec![7; 64]);
    let alone = written(
        folder.path(),
        "usb",
        &pcapng(&[189], &[usb.clone(), usb.clone()]),
    );
    let run = lagtrace(["analyze", &alone]).expect(2);
    assert!(
        run.stderr
            .contains("all 2 packets are of LINKTYPE_USB_LINUX (189)"),
        "{run:#?}"
    );
    assert!(run.stdout.is_empty(), "{run:#?}");

    let mixed = pcapng(&[189, 101], &[usb, (1, segment(4_000, 1, 0x02))]);
    let mixed = written(folder.path(), "mixed", &mixed);
    let report = lagtrace(["analyze", &mixed, "--format", "json"]).json();
    let point = &report["capture"]["points"][0];
    assert_eq!(point["unread_links"][0]["link_type"], 189);
    assert_eq!(point["unread_links"][0]["packets"], 1);
    assert!(
        notes(&report).contains(&"link-type-not-decoded"),
        "{report:#}"
    );
    let text = lagtrace(["analyze", &mixed, "--full"]).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("1 packet of LINKTYPE_USB_LINUX (189), which cannot be decoded"),
        "{text}"
    );

    let read = written(
        folder.path(),
        "read",
        &pcapng(&[101], &[(0, segment(4_000, 1, 0x02))]),
    );
    let report = lagtrace(["analyze", &read, "--format", "json"]).json();
    assert!(
        report["capture"]["points"][0].get("unread_links").is_none(),
        "{report:#}"
    );
    assert!(!notes(&report).contains(&"link-type-not-decoded"));
}

#[test]
fn a_capture_without_a_time_is_given_none() {
    let folder = tempfile::tempdir().unwrap();
    let arp = [
        &[0xff; 12][..],
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &[2; 10],
        &[9; 10],
    ]
    .concat();
    for (name, packets, start) in [
        ("empty", vec![], Value::Null),
        ("arp", vec![(0, arp)], 1_700_000_000_000_000_000_i64.into()),
        (
            "noise",
            vec![(0, vec![9; 60])],
            1_700_000_000_000_000_000_i64.into(),
        ),
    ] {
        let file = written(folder.path(), name, &pcapng(&[1], &packets));
        let text = lagtrace(["analyze", &file, "-v"]).expect(0).stdout;
        assert!(!text.contains("1970") && !text.contains(" 0 ns"), "{text}");
        let report = lagtrace(["analyze", &file, "--format", "json"]).json();
        assert_eq!(report["capture"]["start_ns"], start, "{report:#}");
        assert!(!report.to_string().contains("1970"), "{report:#}");
        assert_eq!(notes(&report).contains(&"nothing-decoded"), name == "noise");
        assert!(!text.contains("Healthy"), "{text}");
    }
}

#[test]
fn streams_are_numbered_past_what_icmp_errors_quote() {
    let folder = tempfile::tempdir().unwrap();
    let packets = [
        segment(4_000, 1, 0x02),
        expired(&segment(4_001, 1, 0x02)),
        // This quotation is too short for Wireshark, which therefore counts no stream for it.
        expired(&segment(4_002, 1, 0x02)[..28]),
        segment(4_003, 1, 0x02),
    ];
    let packets: Vec<_> = packets.into_iter().map(|packet| (0, packet)).collect();
    let file = written(folder.path(), "expired", &pcapng(&[101], &packets));
    let report = lagtrace(["analyze", &file, "--connections", "9", "--format", "json"]).json();
    let list = report["connections"]["list"].as_array().unwrap();
    let mut streams: Vec<_> = list.iter().map(|c| c["stream"].as_u64()).collect();
    streams.sort_unstable();
    assert_eq!(streams, [Some(0), Some(2)], "{report:#}");
    for (stream, code) in [("2", 0), ("1", 2), ("3", 2)] {
        lagtrace(["analyze", &file, "--stream", stream]).expect(code);
    }
}

#[test]
fn a_capture_of_another_program_is_refused_with_what_converts_it() {
    let folder = tempfile::tempdir().unwrap();
    for (magic, named) in [
        (&b"GMBU\0\x02\x01\0"[..], "NetMon"),
        (b"TRSNIFF data    \x1a\0", "Sniffer"),
    ] {
        let file = written(folder.path(), "other", magic);
        let run = lagtrace(["analyze", &file]).expect(2);
        assert!(
            run.stderr.contains(named) && run.stderr.contains("editcap"),
            "{run:#?}"
        );
    }
}

/// A snoop file and a pcapng file of the same packet lead to the same report.
#[test]
fn snoop_is_read_as_pcapng_is() {
    let folder = tempfile::tempdir().unwrap();
    let frame = [&[2; 12][..], &[8, 0], &segment(4_000, 1, 0x02)].concat();
    let mut snoop = b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec();
    let len = frame.len() as u32;
    let padded = len.next_multiple_of(4);
    for word in [len, len, 24 + padded, 0, 1_700_000_000, 0] {
        snoop.extend(word.to_be_bytes());
    }
    snoop.extend(&frame);
    snoop.resize(snoop.len() + (padded - len) as usize, 0);
    let snoop = written(folder.path(), "a.snoop", &snoop);
    let next = written(folder.path(), "a.pcapng", &pcapng(&[1], &[(0, frame)]));
    let [one, other] = [snoop, next].map(|file| {
        let mut report = lagtrace(["analyze", &file, "--format", "json"]).json();
        report["subject"].take();
        report["capture"]["points"][0]["name"].take();
        // Unlike this pcapng file, snoop states the number of lost packets.
        report["capture"]["dropped"].take();
        report
    });
    assert_eq!(one, other);
}
