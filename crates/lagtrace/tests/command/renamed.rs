//! Waits that packets alone name wrongly, and that the server's kernel renames.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use serde_json::Value;

use super::lab::verdict;
use super::program::{findings, has_root, lagtrace};
use super::server::{Manner, Server};
use super::streamed::Streamed;

/// The two parts of a response.
const PARTS: [&[u8]; 2] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n",
    b"abcdefghijklmnopqrstuvwxyz",
];
/// The range of the pause between the parts, in milliseconds. The client's delayed ACK comes at
/// least 40 ms (`TCP_DELACK_MIN`) after the first part. Nagle's algorithm holds the second part
/// from the end of the pause until then.
const PAUSES_MS: [u64; 2] = [10, 28];

/// Draws a random pause.
fn drawn() -> Duration {
    let [least, most] = PAUSES_MS.map(|millis| millis * 1000);
    let chance = RandomState::new().hash_one(());
    Duration::from_micros(least + chance % (most - least))
}

/// A program that writes the second part of its response late, and Nagle's algorithm, which then
/// holds it. Packets show a single stop that ends with an ACK, so they count all of it as held. The
/// server's kernel sees the time of the write. `diagnose` joins it with a capture, and `watch` with
/// its own segments.
#[test]
fn a_late_write_behind_a_hold_is_the_programs() {
    const TEST: &str = "renamed::a_late_write_behind_a_hold_is_the_programs";
    if !has_root(TEST) {
        return;
    }
    verdict(TEST).run(|| {
        let pause = drawn();
        let server = Server::start(Manner::AnswersApart(pause, PARTS));
        let port = server.port().to_string();
        let watch = ["watch", "-p", &port, "-d", "60s", "--format", "json"];
        let watching = Streamed::start(watch);
        let load = ["-c", "4", "-d", "1s", "--rate", "80", "--format", "json"];
        let diagnosed = lagtrace(["diagnose", &server.url()].iter().chain(&load));
        watching.interrupt();
        let watched = watching.end();
        is_renamed(&diagnosed.json(), pause);
        is_renamed(&watched.json(), pause);
    });
}

/// Asserts that exchanges were joined with the kernel's data. Some exchanges that are only held
/// according to the packets must now have a pause and then a hold.
#[track_caller]
fn is_renamed(report: &Value, pause: Duration) {
    let joined = &report["watch"]["services"][0]["joined"]["exchanges"];
    let [count, of] = ["count", "of"].map(|part| joined[part].as_u64().unwrap_or_default());
    assert!(count >= 10 && count * 10 >= of * 9, "{joined}: {report:#}");
    let causes = findings(report);
    for cause in ["server-pause", "nagle-delayed-ack"] {
        assert!(causes.contains(&cause), "{pause:?}: {causes:?} {report:#}");
    }
    let all = report["findings"].as_array().unwrap().iter();
    let evidence = all.flat_map(|finding| finding["evidence"].as_array().unwrap());
    let mut texts = evidence.filter_map(|piece| piece["text"].as_str());
    // Between the two, it says how many exchanges were joined if some were not.
    let said = ["by its kernel alone", ") that the server was pausing"];
    let is_said = texts.any(|text| said.iter().all(|part| text.contains(part)));
    assert!(is_said, "{pause:?}: {report:#}");
    let slowest = report["exchanges"]["slowest"].as_array().unwrap().iter();
    let lengths = slowest.filter_map(in_two);
    let is_right = |length: Duration| length.abs_diff(pause) < Duration::from_millis(3);
    assert!(
        lengths.filter(|&it| is_right(it)).count() > 0,
        "{pause:?}: {report:#}"
    );
}

/// Returns the pause of an exchange, if a hold follows it directly.
fn in_two(exchange: &Value) -> Option<Duration> {
    let waits = exchange["waits"].as_array()?;
    let mut pairs = waits.windows(2);
    let pair = pairs
        .find(|pair| pair[0]["kind"] == "server-pause" && pair[1]["kind"] == "response-held")?;
    pair[0]["duration_ns"].as_u64().map(Duration::from_nanos)
}
