//! Two captures of the same connections.

use std::fs;
use std::path::{Path, PathBuf};

use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use lagtrace_core::observed::segment::Segment;
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::report::{ClockRelation, Joined};
use lagtrace_core::views::two_point::{Joining, Recognised};
use lagtrace_sources::capture::FileCapture;
use serde_json::Value;

use super::corpus::recording;
use crate::command::program::{has_tool, lagtrace, run};

fn segments(file: &Path) -> Vec<Segment> {
    let capture = FileCapture::open(file, PointId(0)).unwrap();
    let mut list = Vec::new();
    capture.for_each(|segment, _| list.push(*segment));
    list
}

fn join(first: &[Segment], second: &[Segment]) -> Option<Recognised> {
    let mut joining = Joining::new(7);
    for (at, segments) in [first, second].into_iter().enumerate() {
        assert!(
            segments
                .iter()
                .all(|segment| joining.observe_segment(at, segment))
        );
    }
    joining.recognise()
}

fn joined(first: &[Segment], second: &[Segment]) -> Option<Joined> {
    Some(join(first, second)?.conclude(["first", "second"], &[]))
}

/// Returns both captures of each recording that has two. A recording on loopback has a single one.
fn corpus() -> Vec<(String, PathBuf, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("truth.json").is_file())
        .filter(|entry| !entry.path().join("loopback.pcap.gz").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let (client, server) = (recording(&name, "client"), recording(&name, "server"));
            (name, client, server)
        })
        .collect()
}

/// Returns the segments with the times of a clock that is ahead by `offset` nanoseconds and gains
/// `drift_ppb` nanoseconds per second.
fn shifted(segments: &[Segment], offset: i64, drift_ppb: i64) -> Vec<Segment> {
    let first = segments.iter().map(|s| s.at).min().unwrap_or_default();
    let shift = |segment: &Segment| {
        let since = segment.at.signed_since(first);
        let gained = i128::from(since) * i128::from(drift_ppb) / 1_000_000_000;
        let at = segment.at.as_nanos() + offset + gained as i64;
        Segment {
            at: Timestamp::from_nanos(at),
            ..*segment
        }
    };
    segments.iter().map(shift).collect()
}

/// In each recording, both ends share one clock, so the measured offset must be zero within its
/// stated error. If an offset or a drift is added to one capture, it must be measured.
#[test]
fn the_clocks_of_every_recording_are_found_again() {
    const SECOND: i64 = 1_000_000_000;
    let (mut recognised, mut close, mut drifts) = (0, 0, 0);
    for (name, client, server) in corpus() {
        let (client, server) = (segments(&client), segments(&server));
        let Some(plain) = joined(&client, &server) else {
            continue;
        };
        recognised += 1;
        let ClockRelation {
            offset_ns,
            offset_error_ns,
            ..
        } = plain.clock;
        let off = offset_ns.unsigned_abs();
        assert!(
            off <= offset_error_ns + 100_000,
            "{name}: {:?}",
            plain.clock
        );
        close += u32::from(off <= 300_000 || off * 20 <= offset_error_ns);
        assert_eq!(plain.client_capture, "first", "{name}");
        let moved = joined(&client, &shifted(&server, -3_600 * SECOND, 0)).unwrap();
        let error = moved.clock.offset_ns + 3_600 * SECOND - offset_ns;
        assert!(error.abs() <= 1_000, "{name}: {:?}", moved.clock);
        assert_eq!(
            moved.ways, plain.ways,
            "{name}: delays do not depend on the clocks"
        );
        let drifting = joined(&client, &shifted(&server, 5 * SECOND, 80_000))
            .unwrap()
            .clock;
        if let (Some(error), true) = (drifting.drift_error_ppb, drifting.drift_ppb != 0) {
            let known = plain.clock.drift_ppb;
            let off = (drifting.drift_ppb - 80_000 - known).unsigned_abs();
            assert!(off <= error + 2_000, "{name}: {drifting:?}");
            drifts += 1;
        }
    }
    assert!(recognised >= 250, "{recognised}");
    assert!(close * 100 >= recognised * 90, "{close} of {recognised}");
    assert!(drifts >= 20, "{drifts}");
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let name = "packet-loss-20ms-segments";
    let client = segments(&recording(name, "client"));
    let server = segments(&recording(name, "server"));
    let one = joined(&client, &server).unwrap();
    let other = joined(&server, &client).unwrap();
    assert_eq!((one.clock, &one.ways), (other.clock, &other.ways));
    assert_eq!(other.client_capture, "second");
    assert!(one.ways.iter().all(|way| way.lost > 0), "{:#?}", one.ways);
}

#[test]
fn translated_addresses_are_recognised() {
    let name = "packet-loss-20ms-segments";
    let client = segments(&recording(name, "client"));
    let server = segments(&recording(name, "server"));
    let plain = joined(&client, &server).unwrap();
    let translated: Vec<Segment> = server
        .iter()
        .map(|segment| {
            let translate = |end: Endpoint| match end.port {
                8080 => end,
                port => Endpoint::new("192.0.2.9".parse().unwrap(), port ^ 0x5555),
            };
            let source = translate(segment.flow.source(segment.direction));
            let destination = translate(segment.flow.destination(segment.direction));
            let (flow, direction) = FlowKey::new(Transport::Tcp, source, destination);
            Segment {
                flow,
                direction,
                ..*segment
            }
        })
        .collect();
    let through = joined(&client, &translated).unwrap();
    assert_eq!(through.translated, through.connections);
    assert_eq!((through.clock, through.ways), (plain.clock, plain.ways));
}

#[test]
fn different_traffic_is_not_joined() {
    let one = segments(&recording("packet-loss-20ms-segments", "client"));
    let other = segments(&recording("nagle-delayed-ack-8ms", "server"));
    assert!(joined(&one, &other).is_none());
}

#[test]
fn the_report_says_where_the_time_went_whatever_the_clocks() {
    const TEST: &str = "the_report_says_where_the_time_went_whatever_the_clocks";
    let name = "server-think-200ms-40ms";
    let client = recording(name, "client");
    let mut server = recording(name, "server");
    let folder = tempfile::tempdir().unwrap();
    if has_tool(TEST, "editcap") {
        let moved = folder.path().join("moved.pcap");
        let mut editcap = std::process::Command::new("editcap");
        run(editcap.args(["-t", "-86400.25"]).arg(&server).arg(&moved)).expect(0);
        server = moved;
    }
    let files = [client.to_str().unwrap(), server.to_str().unwrap()];
    let json = lagtrace(
        ["analyze"]
            .iter()
            .chain(&files)
            .chain(&["--format", "json"]),
    );
    // The joined captures show the owner of the time but not its cause, so there is no accusation.
    let report: Value = json.expect(0).json();
    let alone = lagtrace(["analyze", files[0], "--format", "json"])
        .expect(0)
        .json();
    assert_eq!(
        report["exchanges"], alone["exchanges"],
        "nothing counts twice"
    );
    let places = report["joined"]["places"].as_array().unwrap();
    let share = |name: &str| {
        let place = places.iter().find(|place| place["place"] == name);
        place.map_or(0.0, |place| place["share"].as_f64().unwrap())
    };
    assert!(share("server-host") > 0.75, "{places:#?}");
    let sum: f64 = places
        .iter()
        .map(|place| place["share"].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    let text = lagtrace(["analyze"].iter().chain(&files)).expect(0).stdout;
    assert!(text.contains("Between the two captures"), "{text}");
}

/// The number of packets that did not arrive is the number that the emulated path counted as
/// dropped.
#[test]
fn losses_are_those_that_the_path_counted() {
    for name in [
        "packet-loss-20ms-segments",
        "packet-loss-20ms-offload",
        "packet-loss-burst-20ms",
        "fast-retransmit-20ms",
        "ack-thinning-20ms-segments",
        "ack-thinning-60ms-offload",
    ] {
        let client = recording(name, "client");
        let truth = fs::read_to_string(client.with_file_name("truth.json")).unwrap();
        let truth: Value = serde_json::from_str(&truth).unwrap();
        let both = joined(&segments(&client), &segments(&recording(name, "server"))).unwrap();
        let mut counted = 0;
        for proof in truth["proof"].as_array().unwrap() {
            let text = proof.to_string();
            let Some((_, drops)) = text.split_once("the emulated path's to_") else {
                continue;
            };
            let way = &both.ways[usize::from(drops.starts_with("client"))];
            let dropped = proof["with"].as_u64().unwrap();
            assert_eq!(way.lost + way.acks_lost, dropped, "{name}: {way:#?}");
            counted += 1;
        }
        assert_eq!(counted, 1, "{name}");
    }
}
