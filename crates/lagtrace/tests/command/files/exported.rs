//! Exchanges in the forms of other programs: Perfetto traces and HTTP archives.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::corpus::recording;
use crate::command::program::{Run, lagtrace};

/// Recordings with keep-alive, with overlapping exchanges (HTTP/2), and without HTTP.
const RECORDINGS: [&str; 3] = [
    "nagle-delayed-ack-8ms",
    "http2-flow-control-20ms",
    "server-think-redis-2ms",
];

fn exported(file: &Path, form: &str) -> (Run, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let (file, to) = (file.to_str().unwrap(), output.to_str().unwrap());
    let run = lagtrace(["analyze", file, "--format", form, "-o", to]);
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    (run, fs::read(output).unwrap())
}

/// Returns the exchanges of a recording as `--format ndjson` prints them.
fn exchanges(file: &Path) -> Vec<Value> {
    let (_, lines) = exported(file, "ndjson");
    let lines = String::from_utf8(lines).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line["type"] == "exchange")
        .collect()
}

/// A field of a message in protocol buffers' wire format.
enum Field<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) | Self::Fixed(number) => panic!("{number} instead of bytes"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

/// Returns the fields of a message with their numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        list.push(match key & 7 {
            0 => (key >> 3, Field::Number(varint(&mut bytes))),
            1 => {
                let (value, rest) = bytes.split_first_chunk().unwrap();
                bytes = rest;
                (key >> 3, Field::Fixed(u64::from_le_bytes(*value)))
            }
            2 => {
                let length = varint(&mut bytes);
                let (content, rest) = bytes.split_at(length as usize);
                bytes = rest;
                (key >> 3, Field::Bytes(content))
            }
            other => panic!("wire type {other}"),
        });
    }
    list
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits");
}

fn number(message: &[(u64, Field<'_>)], field: u64) -> Option<u64> {
    let found = message.iter().find(|(number, _)| *number == field);
    found.map(|(_, value)| match value {
        Field::Number(number) | Field::Fixed(number) => *number,
        Field::Bytes(_) => panic!("bytes instead of a number"),
    })
}

fn text(message: &[(u64, Field<'_>)], field: u64) -> Option<String> {
    let found = message.iter().find(|(number, _)| *number == field);
    found.map(|(_, value)| value.text())
}

/// A slice of a trace: name, category, start, end, and depth on its track.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slice {
    start: u64,
    end: u64,
    depth: usize,
    name: String,
    category: String,
}

/// Returns the slices of a trace by track. Panics if they do not nest.
fn slices(trace: &[u8]) -> BTreeMap<u64, Vec<Slice>> {
    let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    let mut closed: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    for (_, packet) in fields(trace) {
        let packet = fields(packet.bytes());
        let Some((_, event)) = packet.iter().find(|(number, _)| *number == 11) else {
            continue;
        };
        let (at, event) = (number(&packet, 8).unwrap(), fields(event.bytes()));
        let track = number(&event, 11).unwrap();
        let stack = open.entry(track).or_default();
        if number(&event, 9) == Some(3) {
            continue;
        }
        if number(&event, 9) == Some(1) {
            assert!(stack.last().is_none_or(|parent| parent.start <= at));
            stack.push(Slice {
                start: at,
                end: at,
                depth: stack.len(),
                name: text(&event, 23).unwrap(),
                category: text(&event, 22).unwrap(),
            });
        } else {
            let slice = stack.pop().expect("begun");
            assert!(slice.start <= at);
            let done = closed.entry(track).or_default();
            done.push(Slice { end: at, ..slice });
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    closed
}

#[test]
fn a_perfetto_trace_has_every_exchange_and_its_waits() {
    for name in RECORDINGS {
        let file = recording(name, "client");
        let (run, trace) = exported(&file, "perfetto");
        assert_eq!(run.stdout, "");
        let slices = slices(&trace);
        let all = || slices.values().flatten();
        let mut drawn: Vec<(u64, u64)> = all()
            .filter(|slice| slice.category == "exchange")
            .map(|slice| (slice.start, slice.end))
            .collect();
        let exchanges = exchanges(&file);
        let number = |value: &Value| value.as_u64().unwrap();
        let mut wanted: Vec<(u64, u64)> = exchanges
            .iter()
            .map(|it| (number(&it["start_ns"]), number(&it["latency_ns"])))
            .map(|(start, latency)| (start, start + latency))
            .collect();
        drawn.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(drawn, wanted, "{name}");
        let waits = exchanges
            .iter()
            .flat_map(|it| it["waits"].as_array().unwrap());
        let waited: u64 = waits.map(|wait| number(&wait["duration_ns"])).sum();
        let inner = all().filter(|slice| slice.depth == 1);
        let shown: u64 = inner.map(|slice| slice.end - slice.start).sum();
        assert_eq!(shown, waited, "{name}");
        for track in slices.values() {
            let mut whole: Vec<_> = track.iter().filter(|slice| slice.depth == 0).collect();
            whole.sort();
            let overlap = whole.windows(2).find(|pair| pair[1].start < pair[0].end);
            assert!(overlap.is_none(), "{name}: {overlap:#?}");
        }
    }
}

/// Returns the ends of a trace's arrows by their numbers: the fields' number, the track, the time.
fn flows(trace: &[u8]) -> BTreeMap<u64, Vec<(u64, u64, u64)>> {
    let mut flows: BTreeMap<u64, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for (_, packet) in fields(trace) {
        let packet = fields(packet.bytes());
        let event = packet.iter().find(|(number, _)| *number == 11);
        let Some((_, event)) = event else { continue };
        let event = fields(event.bytes());
        for field in [47, 48] {
            if let Some(flow) = number(&event, field) {
                let track = number(&event, 11).unwrap();
                let at = number(&packet, 8).unwrap();
                flows.entry(flow).or_default().push((field, track, at));
            }
        }
    }
    flows
}

#[test]
fn arrows_lead_from_requests_to_a_proxy_to_those_that_it_passed_on() {
    let file = recording("downstream-wait-proxy-2ms", "server");
    let (_, trace) = exported(&file, "perfetto");
    let slices = slices(&trace);
    let within = |track: u64, at: u64| {
        let mut of_track = slices[&track].iter().filter(|slice| slice.depth == 0);
        of_track
            .find(|slice| slice.start <= at && at <= slice.end)
            .expect("an exchange")
    };
    let flows = flows(&trace);
    assert!(flows.len() > 5, "{flows:?}");
    for ends in flows.values() {
        let &[(47, from, left), (48, to, arrived)] = &**ends else {
            panic!("{ends:?}");
        };
        assert_eq!(left, arrived);
        let (asked, asks) = (within(from, left), within(to, arrived));
        assert_eq!(asks.start, arrived);
        assert!(from != to && asked.start <= asks.start && asks.end <= asked.end + 1_000_000);
    }
}

#[test]
fn a_trace_without_exchanges_has_a_process() {
    let file = recording("connection-refused-20ms", "client");
    assert_eq!(exchanges(&file).len(), 0);
    let (_, trace) = exported(&file, "perfetto");
    let packets = fields(&trace);
    let kinds = packets
        .iter()
        .map(|(_, packet)| fields(packet.bytes())[0].0);
    assert_eq!(kinds.collect::<Vec<_>>(), [8, 60], "clocks, and a process");
}

#[test]
fn an_http_archive_has_every_http_exchange_and_its_time() {
    for name in RECORDINGS {
        let file = recording(name, "client");
        let (run, archive) = exported(&file, "har");
        let archive: Value = serde_json::from_slice(&archive).unwrap();
        assert_eq!(archive["log"]["version"], "1.2");
        let entries = archive["log"]["entries"].as_array().unwrap();
        let exchanges = exchanges(&file);
        let is_http = |it: &&Value| it["request"].as_str().unwrap().contains(" /");
        let http: Vec<&Value> = exchanges.iter().filter(is_http).collect();
        assert_eq!(entries.len(), http.len(), "{name}");
        let is_told = run.stderr.contains("were left out");
        assert_eq!(is_told, http.len() < exchanges.len(), "{run:#?}");
        for (entry, it) in entries.iter().zip(http) {
            let ns = |field: &str| it[field].as_u64().unwrap_or_default() as f64;
            let took = ns("latency_ns") + ns("setup_ns");
            let time = entry["time"].as_f64().unwrap() * 1e6;
            assert!((time - took).abs() < 1.0, "{entry:#}");
            let url = entry["request"]["url"].as_str().unwrap();
            let path = it["request"].as_str().unwrap().split_once(' ').unwrap().1;
            assert!(url.ends_with(path), "{url}");
            let timings = entry["timings"].as_object().unwrap();
            let parts = timings.values().map(|value| value.as_f64().unwrap());
            let sum: f64 = parts.filter(|part| *part > 0.0).sum();
            assert!((sum * 1e6 - time).abs() < 1.0, "{entry:#}");
        }
    }
}

#[test]
fn a_command_without_exchanges_refuses_their_forms() {
    for form in ["har", "perfetto"] {
        let run = lagtrace(["route", "127.0.0.1", "--format", form]).expect(2);
        assert!(
            run.stderr
                .contains("possible values: text, json, ndjson, csv"),
            "{run:#?}"
        );
    }
}
