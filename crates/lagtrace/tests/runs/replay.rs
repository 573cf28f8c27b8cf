//! Runs of `lagtrace diagnose`, analysed again from their files.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::decode::Packet;
use lagtrace_core::observed::event::{Event, EventBody, PointId, TargetId};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::report::Report;
use lagtrace_sources::capture::{FileCapture, Packets};
use serde::Deserialize;
use serde_json::Value;

/// The observations and packets of a run.
pub(crate) struct Run {
    /// The lines of `--observations`: first a [`Head`], then the events.
    pub(crate) observations: Vec<Value>,
    /// The packets of `--write`.
    pub(crate) packets: Packets,
}

/// The first line of the observations.
#[derive(Deserialize)]
struct Head {
    subject: String,
    started: String,
    targets: Vec<(TargetId, Endpoint)>,
}

impl Run {
    /// Reads a run from these files, which may be compressed. A run without a capture has no
    /// packets.
    pub(crate) fn read(observations: &Path, packets: &Path) -> Self {
        Self {
            observations: lines(observations),
            packets: captured(packets),
        }
    }

    /// Analyses the run again, and returns its report.
    pub(crate) fn report(self) -> Report {
        let mut lines = self.observations.into_iter();
        let head: Head = of_this_version(lines.next().expect("a first line"));
        let mut events: Vec<Event> = lines.map(of_this_version).collect();
        events.sort_by_key(due);
        let mut analyzer = Analyzer::new(Options {
            targets: head.targets,
            ..Options::default()
        });
        let mut packets = self.packets.whole().peekable();
        for event in events {
            let is_before = |packet: &Packet<'_>| packet.at().is_none_or(|at| at < due(&event));
            while let Some(packet) = packets.next_if(is_before) {
                analyzer.packet(&packet);
            }
            analyzer.observe(event);
        }
        packets.for_each(|packet| analyzer.packet(&packet));
        Report {
            command: "diagnose".to_owned(),
            subject: head.subject,
            started: head.started,
            ..analyzer.finish()
        }
    }
}

/// Returns the time at which an event is passed to the analyzer. An event that assigns a flow to a
/// phase comes before all packets.
fn due(event: &Event) -> Timestamp {
    match event.body {
        EventBody::FlowPhase(_) => Timestamp::MIN,
        _ => event.at,
    }
}

fn of_this_version<T: for<'de> Deserialize<'de>>(line: Value) -> T {
    serde_json::from_value(line).expect("an observation as this version writes it")
}

fn lines(path: &Path) -> Vec<Value> {
    let file = File::open(path).expect("a run's observations");
    let text: Box<dyn BufRead> = if path.extension().is_some_and(|extension| extension == "gz") {
        Box::new(BufReader::new(MultiGzDecoder::new(file)))
    } else {
        Box::new(BufReader::new(file))
    };
    text.lines()
        .map(|line| serde_json::from_str(&line.expect("text")).expect("JSON"))
        .collect()
}

fn captured(path: &Path) -> Packets {
    let mut packets = Packets::default();
    if path.exists() {
        let mut capture = FileCapture::open(path, PointId(0)).expect("a run's packets");
        while let Some(packet) = capture.next_packet() {
            packets.push(&packet, packet.payload());
        }
    }
    packets
}
