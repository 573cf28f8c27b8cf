//! Tests of what is said of several pauses within a response.

use super::starved::{Step, opened, segments};
use super::*;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";

/// Returns the summary of the pauses in five responses that consist of these parts, each with the
/// millisecond at which it leaves.
fn told(parts: &[(i64, &'static [u8])]) -> String {
    let sent = parts
        .iter()
        .flat_map(|&(ms, part)| [(ms, false, ACK, part), (ms, true, ACK, b"".as_slice())]);
    let request: Step = (10, true, ACK, REQUEST);
    let steps: Vec<Step> = [request].into_iter().chain(sent).collect();
    let all = (0..5).flat_map(|port| segments(port, opened(steps.clone())));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(segment, _)| segment.at);
    let mut analyzer = Analyzer::new(Options::default());
    for (number, (mut segment, payload)) in (1..).zip(all) {
        segment.number = number;
        analyzer.segment(&segment, payload);
    }
    let mut findings = analyzer.finish().findings.into_iter();
    let pause = findings.find(|finding| finding.cause == Id::ServerPause);
    pause.expect("a finding").summary
}

#[test]
fn pauses_that_are_added_up_are_told_with_the_longest_one() {
    let summary = told(&[(11, HEAD), (41, b"a"), (101, b"b"), (131, b"c")]);
    assert!(
        summary.contains("120 ms (median) in all, 60.0 ms at most at a time"),
        "{summary}"
    );
}

#[test]
fn a_single_pause_is_told_as_one() {
    let summary = told(&[(11, HEAD), (71, b"abc")]);
    assert!(
        summary.contains("60.0 ms (median) before it continues"),
        "{summary}"
    );
}
