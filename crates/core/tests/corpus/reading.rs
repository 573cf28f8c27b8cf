//! Reads recordings into segments, and analyzes them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::decode::{self, Container, Found, Packet};
use lagtrace_core::exchange::Exchange;
use lagtrace_core::observed::event::{CaptureSummary, Event, EventBody, Phase, PointId};
use lagtrace_core::observed::segment::Segment;
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::report::Report;
use lagtrace_core::views::connections::Wanted;

/// A segment with the captured bytes of its payload.
pub(crate) type Captured = (Segment, Vec<u8>);

/// The result of the analysis.
#[derive(Debug)]
pub(crate) struct Outcome {
    #[allow(dead_code, reason = "not every test file needs all of it")]
    pub(crate) report: Report,
    /// The exchanges, in the order in which they closed.
    pub(crate) exchanges: Vec<Exchange>,
}

/// Returns the bytes of a recording.
pub(crate) fn recording(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus/recordings")
        .join(format!("{name}.pcap"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the segments of a capture file, up to the first byte that cannot be read.
pub(crate) fn segments(file: &[u8]) -> Vec<Captured> {
    let mut container = Container::new();
    let mut rest = file;
    let mut list = Vec::new();
    loop {
        let step = container.next(rest);
        rest = &rest[step.consumed..];
        let Found::Record(record) = step.found else {
            return list;
        };
        if let Packet::Tcp(segment, payload) = decode::packet(&record, PointId(0)) {
            list.push((segment, payload.to_vec()));
        }
    }
}

/// Analyzes segments in the given order.
#[allow(dead_code, reason = "not every test file needs all of it")]
pub(crate) fn analyse(segments: &[Captured]) -> Outcome {
    analyse_seeded(segments, 0)
}

/// Analyzes segments of a capture that lost so many others.
#[allow(dead_code, reason = "not every test file needs all of it")]
pub(crate) fn analyse_lacking(segments: &[Captured], lost: u64) -> Outcome {
    let summary = CaptureSummary {
        packets: segments.len() as u64,
        dropped: Some(lost),
        ..CaptureSummary::default()
    };
    let at = segments.last().map(|(segment, _)| segment.at);
    let event = Event::here(
        at.unwrap_or_default(),
        Phase::Baseline,
        EventBody::Capture(summary),
    );
    analyse_all(segments, vec![event], 0)
}

/// Analyzes segments with another hash seed of the connection tables.
pub(crate) fn analyse_seeded(segments: &[Captured], hash_seed: u64) -> Outcome {
    analyse_all(segments, Vec::new(), hash_seed)
}

fn analyse_all(segments: &[Captured], events: Vec<Event>, hash_seed: u64) -> Outcome {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    let options = Options {
        hash_seed,
        connections: Wanted {
            limit: 8,
            ..Wanted::default()
        },
        ..Options::default()
    };
    let mut analyzer = Analyzer::new(options).with_sink(Box::new(move |exchange| {
        into.lock()
            .expect("no holder panicked")
            .push(exchange.clone());
    }));
    for (segment, payload) in segments {
        analyzer.segment(segment, payload);
    }
    for event in events {
        analyzer.observe(event);
    }
    let report = analyzer.finish();
    let exchanges = std::mem::take(&mut *seen.lock().expect("no holder panicked"));
    Outcome { report, exchanges }
}

/// Returns the reason why the waits of an exchange do not tile it; `None` if they do.
#[allow(dead_code, reason = "not every test file needs all of it")]
pub(crate) fn tiling_fault(exchange: &Exchange) -> Option<String> {
    if let Some(handshake) = &exchange.connecting.handshake {
        let sum: core::time::Duration = handshake.waits.iter().map(|wait| wait.duration()).sum();
        if sum != handshake.latency() {
            return Some(format!(
                "the handshake's {sum:?} is not {:?}",
                handshake.latency()
            ));
        }
    }
    if exchange.waits.is_empty() {
        let may_be = exchange.latency().is_zero()
            || exchange.outcome == lagtrace_core::exchange::Outcome::Cut;
        return (!may_be).then(|| "no waits".to_owned());
    }
    let mut cursor: Timestamp = exchange.begin;
    for wait in &exchange.waits {
        if wait.start != cursor || wait.end <= wait.start {
            return Some(format!("{wait:?} does not follow {cursor}"));
        }
        cursor = wait.end;
    }
    if cursor != exchange.end {
        return Some(format!(
            "the waits end at {cursor}, it ends at {}",
            exchange.end
        ));
    }
    let sum: core::time::Duration = exchange.waits.iter().map(|wait| wait.duration()).sum();
    (sum != exchange.latency()).then(|| format!("{sum:?} is not {:?}", exchange.latency()))
}
