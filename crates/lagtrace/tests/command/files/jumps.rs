//! Captures whose clock is set while they are made: nobody is accused of the time by which it jumps.

use std::fs;

use lagtrace_trial::seed;
use serde_json::Value;

use super::super::draw::Draw;
use super::super::program::{findings, lagtrace, notes};
use super::ends::{CLIENT, Ends, REQUEST, RESPONSE, SERVER};
use super::frames::Capture;

/// The id of the note on jumps.
const NOTE: &str = "capture-clock-set";
/// Number of requests on each connection.
const ROUNDS: i64 = 16;
/// Less than each jump.
const SHORT_NS: f64 = 1e9;

/// The parameters of a capture.
struct Drawn {
    connections: i64,
    /// The jumps: the round, the connection that is answered next, and the microseconds.
    jumps: Vec<(i64, i64, i64)>,
    has_senders_clocks: bool,
    seed: u64,
}

impl Drawn {
    /// Draws jumps of these signs, each after some rounds, in which the clocks show how they tick. Without the senders' clocks, a jump forward is only seen if it is
    /// long and several requests are under way.
    fn new(draw: &mut Draw, ways: &[i64], has_senders_clocks: bool) -> Self {
        let connections = draw.from(3, 8);
        let least = if has_senders_clocks { 4 } else { 130 };
        let jump_s = draw.one_of(&[least, 700, 3_600, 90_000]);
        let jump = |(at, &way): (usize, &i64)| {
            let round = 7 + 6 * at as i64 + draw.from(0, 2);
            let jitter = draw.from(0, 999_999);
            (
                round,
                draw.from(0, connections - 3),
                way * (jump_s * 1_000_000 + jitter),
            )
        };
        Self {
            connections,
            jumps: ways.iter().enumerate().map(jump).collect(),
            has_senders_clocks,
            seed: draw.next(),
        }
    }

    /// Returns the report on the capture, with its jumps or without.
    fn report(&self, has_jumps: bool) -> Value {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), self.capture(has_jumps).bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        lagtrace(["analyze", path, "--format", "json"]).json()
    }

    fn capture(&self, has_jumps: bool) -> Capture {
        let mut capture = Capture::new();
        if self.has_senders_clocks {
            capture = capture.with_senders_clocks();
        }
        let mut draw = Draw::new(self.seed, "pauses");
        let port = |number| 40_000 + number as u16;
        let open = |number| Ends::open(&mut capture, CLIENT, port(number), SERVER);
        let mut all: Vec<Ends> = (0..self.connections).map(open).collect();
        for round in 0..ROUNDS {
            for ends in &mut all {
                ends.say(&mut capture, REQUEST);
                capture.pause(draw.from(100, 3_000).unsigned_abs());
            }
            for (number, ends) in (0..).zip(&mut all) {
                let here = self
                    .jumps
                    .iter()
                    .filter(|it| (it.0, it.1) == (round, number));
                for &(.., micros) in here.filter(|_| has_jumps) {
                    capture.set_clock(micros);
                }
                capture.pause(draw.from(1_000, 9_000).unsigned_abs());
                ends.answer(&mut capture, RESPONSE);
                ends.acknowledge(&mut capture);
            }
            capture.pause(draw.from(20_000, 90_000).unsigned_abs());
        }
        capture
    }
}

/// Returns the times in a part of a report. Points in time are none.
fn times(name: &str, value: &Value) -> Vec<f64> {
    let is_time = name.ends_with("_ns") && !["start_ns", "end_ns"].contains(&name);
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, it)| times(name, it))
            .collect(),
        Value::Array(values) => values.iter().flat_map(|it| times(name, it)).collect(),
        Value::Number(number) if is_time => number.as_f64().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the extremes of the times of a report's requests and findings.
fn extremes(report: &Value) -> [f64; 2] {
    let parts = ["exchanges", "findings"].map(|part| times(part, &report[part]));
    let all = || parts.iter().flatten().copied();
    [
        all().fold(f64::MAX, f64::min),
        all().fold(f64::MIN, f64::max),
    ]
}

#[test]
fn nobody_is_accused_of_a_jump_of_the_clock() {
    let mut draw = Draw::new(seed(), "jumps");
    for ways in [&[1][..], &[-1], &[1, -1], &[-1, 1]] {
        for has_senders_clocks in [false, true] {
            let drawn = Drawn::new(&mut draw, ways, has_senders_clocks);
            let about = format!("{:?} {has_senders_clocks}", drawn.jumps);
            let [plain, jumped] = [false, true].map(|has_jumps| drawn.report(has_jumps));
            assert!(!notes(&plain).contains(&NOTE), "{about}: {plain:#}");
            let ([_, longest], [least, most]) = (extremes(&plain), extremes(&jumped));
            assert!(
                least >= 0.0 && most < longest + SHORT_NS,
                "{about}: {most} {jumped:#}"
            );
            let known = findings(&plain);
            let all = findings(&jumped);
            assert!(
                all.iter().all(|cause| known.contains(cause)),
                "{about}: {all:?} {known:?}"
            );
            let [count, left] =
                [&plain, &jumped].map(|it| it["exchanges"]["count"].as_i64().unwrap());
            assert_eq!(count, drawn.connections * ROUNDS, "{about}");
            let most_lost = drawn.connections * 2 * ways.len() as i64;
            assert!(
                (count - most_lost..=count).contains(&left),
                "{about}: {left} of {count}"
            );
            tells(&jumped, ways, &about);
        }
    }
}

/// Asserts that the report tells of jumps of these signs, and of no others.
fn tells(report: &Value, ways: &[i64], about: &str) {
    let notes = report["notes"].as_array().unwrap().iter();
    let text = notes
        .filter(|note| note["id"] == NOTE)
        .map(|note| note["text"].to_string());
    let text: String = text.collect();
    assert_eq!(
        text.contains("forward by"),
        ways.contains(&1),
        "{about}: {text} {report:#}"
    );
    assert_eq!(
        text.contains("back by"),
        ways.contains(&-1),
        "{about}: {text} {report:#}"
    );
}

/// A long silence is what it seems to be if the senders' clocks say so, or if nothing was to be said.
#[test]
fn silence_is_no_jump_of_the_clock() {
    let mut draw = Draw::new(seed(), "silence");
    for has_senders_clocks in [false, true] {
        let mut capture = Capture::new();
        if has_senders_clocks {
            capture = capture.with_senders_clocks();
        }
        let open = |number: u16| Ends::open(&mut capture, CLIENT, 40_000 + number, SERVER);
        let mut all: Vec<Ends> = (0..4).map(open).collect();
        for round in 0..6 {
            for ends in &mut all {
                capture.pause(draw.from(1_000, 9_000).unsigned_abs());
                ends.say(&mut capture, REQUEST);
                capture.pause(draw.from(1_000, 9_000).unsigned_abs());
                ends.answer(&mut capture, RESPONSE);
                ends.acknowledge(&mut capture);
            }
            let seconds = if round == 3 { draw.from(130, 4_000) } else { 1 };
            capture.pause(seconds.unsigned_abs() * 1_000_000);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), capture.bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let report = lagtrace(["analyze", path, "--format", "json"]).json();
        assert!(!notes(&report).contains(&NOTE), "{report:#}");
        assert_eq!(report["exchanges"]["count"], 24, "{report:#}");
    }
}
