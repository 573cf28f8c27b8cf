//! The option `--stream`: one connection in full.

use super::corpus::{recording, tshark};
use crate::command::program::{has_tool, lagtrace};

fn stream(name: &str, number: &str, more: &[&str]) -> String {
    let file = recording(name, "client");
    let mut arguments = vec!["analyze", file.to_str().unwrap(), "--stream", number];
    arguments.extend(more);
    lagtrace(arguments).expect(0).stdout
}

/// Returns the bytes of a hex dump; those of the indented lines are returned separately.
fn dumped(text: &str) -> [Vec<u8>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for line in text.lines() {
        let is_server = line.starts_with([' ', '\t']);
        let Some((offset, rest)) = line.trim_start().split_once("  ") else {
            continue;
        };
        if offset.len() != 8 || u32::from_str_radix(offset, 16).is_err() {
            continue;
        }
        let digits: String = rest.chars().take(48).collect();
        let bytes = digits
            .split_whitespace()
            .map(|b| u8::from_str_radix(b, 16).unwrap());
        sides[usize::from(is_server)].extend(bytes);
    }
    sides
}

#[test]
fn the_bytes_are_those_that_wireshark_follows() {
    if !has_tool("the_bytes_are_those_that_wireshark_follows", "tshark") {
        return;
    }
    // The second recording has lost and retransmitted segments.
    for name in ["nagle-delayed-ack-8ms", "packet-loss-20ms-segments"] {
        for number in ["0", "2"] {
            let theirs = format!("follow,tcp,hex,{number}");
            let theirs = tshark(&recording(name, "client"), &["-q", "-z", &theirs]);
            let ours = stream(name, number, &["--show", "hex"]);
            let [client, server] = dumped(&ours);
            assert!(client.len() > 50 && server.len() > 500, "{ours}");
            assert_eq!([client, server], dumped(&theirs), "{name} {number}");
        }
    }
}

#[test]
fn the_gap_at_fault_is_marked_and_named() {
    let text = stream("nagle-delayed-ack-8ms", "1", &[]);
    assert!(text.starts_with("tcp.stream 1: 10.77.0.1:"), "{text}");
    let marked: Vec<&str> = text.lines().filter(|line| line.contains('✗')).collect();
    let is_named = |line: &&&str| line.contains("server: response held for an ACK (Nagle)");
    assert!(marked.iter().filter(is_named).count() >= 3, "{text}");
    assert!(text.contains("▶│") && text.contains("│◀"), "{text}");
}

#[test]
fn figures_are_drawn_over_time() {
    let views = "round-trip,in-flight,window,text";
    let text = stream("packet-loss-20ms-segments", "0", &["--show", views]);
    for title in [
        "Round trips",
        "Bytes in flight",
        "Receive windows",
        "→ client",
        "GET /",
    ] {
        assert!(text.contains(title), "{title}: {text}");
    }
    assert!(text.matches('└').count() == 3 && !text.contains('\u{1b}'));
    let json: serde_json::Value = serde_json::from_str(&stream(
        "packet-loss-20ms-segments",
        "0",
        &["--format", "json"],
    ))
    .unwrap();
    let trips = json["samples"]["client"]["round_trips_ns"]
        .as_array()
        .unwrap();
    let least = trips
        .iter()
        .map(|trip| trip[1].as_u64().unwrap())
        .min()
        .unwrap();
    assert!((20_000_000..30_000_000).contains(&least), "{least}");
}

#[test]
fn a_stream_that_is_not_there_is_named() {
    let file = recording("nagle-delayed-ack-8ms", "client");
    let run = lagtrace(["analyze", file.to_str().unwrap(), "--stream", "900"]).expect(2);
    assert!(run.stderr.contains("no TCP stream 900"), "{run:#?}");
    assert!(
        run.stderr.contains("hint: its streams are 0 to 5"),
        "{run:#?}"
    );
}
