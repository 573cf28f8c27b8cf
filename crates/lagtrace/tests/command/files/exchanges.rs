//! Exchanges one by one, conditions on them, and filters that show findings.

use std::collections::BTreeSet;

use serde_json::Value;

use super::corpus::{recording, tshark};
use crate::command::program::{has_tool, lagtrace};

/// Returns the lines of one type of a run's output.
fn lines<'a>(text: &'a str, kind: &'a str) -> impl Iterator<Item = Value> + 'a {
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(move |line| line["type"] == kind)
}

fn analyze(file: &std::path::Path, more: &[&str]) -> String {
    let mut arguments = vec!["analyze", file.to_str().unwrap()];
    arguments.extend(more);
    let run = lagtrace(arguments);
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    run.stdout
}

#[test]
fn every_exchange_is_a_line_that_its_schema_describes() {
    let schema = include_str!("../../../../../schema/exchange-1.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let file = recording("nagle-delayed-ack-8ms", "client");
    let text = analyze(&file, &["--format", "ndjson"]);
    let exchanges: Vec<Value> = lines(&text, "exchange").collect();
    let reports: Vec<Value> = lines(&text, "report").collect();
    assert_eq!(reports.len(), 1);
    assert!(lines(&text, "finding").count() >= 1);
    assert!(exchanges.len() > 5);
    for exchange in &exchanges {
        assert!(validator.is_valid(exchange), "{exchange:#}");
        let waits = exchange["waits"].as_array().unwrap();
        let sum: u64 = waits
            .iter()
            .map(|w| w["duration_ns"].as_u64().unwrap())
            .sum();
        assert_eq!(Some(sum), exchange["latency_ns"].as_u64(), "waits tile it");
        assert!(exchange["stream"].is_u64() && exchange["first_packet"].is_u64());
    }
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("\"type\":\"exchange\""),
        "as they close: {first}"
    );
}

#[test]
fn a_condition_chooses_lines_and_rows() {
    let file = recording("nagle-delayed-ack-8ms", "client");
    let all = lines(&analyze(&file, &["--format", "ndjson"]), "exchange").count();
    let slow = ["--format", "ndjson", "--where", "response-held > 20ms"];
    let slow: Vec<Value> = lines(&analyze(&file, &slow), "exchange").collect();
    let rest = ["--format", "ndjson", "--where", "not response-held > 20ms"];
    let rest = lines(&analyze(&file, &rest), "exchange").count();
    assert!(!slow.is_empty());
    assert_eq!(slow.len() + rest, all);
    let table = analyze(
        &file,
        &["--where", "response-held > 20ms", "--exchanges", "3"],
    );
    assert_eq!(
        table.lines().filter(|line| line.contains(" ms ")).count(),
        3,
        "{table}"
    );
    let json = ["--format", "json", "--exchanges", "5", "--sort", "latency"];
    let json: Value = serde_json::from_str(&analyze(&file, &json)).unwrap();
    let latencies: Vec<u64> = json["exchanges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|exchange| exchange["latency_ns"].as_u64().unwrap())
        .collect();
    assert_eq!(latencies.len(), 5);
    assert!(latencies.is_sorted_by(|a, b| a >= b));
    assert_eq!(json["seen"].as_u64(), Some(all as u64));
}

#[test]
fn the_exchanges_that_are_listed_are_the_most_costly_of_all() {
    let file = recording("nagle-delayed-ack-8ms", "client");
    let latency = |exchange: &Value| exchange["latency_ns"].as_u64().unwrap();
    let all = analyze(&file, &["--format", "ndjson"]);
    let mut all: Vec<u64> = lines(&all, "exchange").map(|each| latency(&each)).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    for count in [1, 4, all.len() + 1] {
        let count_text = count.to_string();
        let options = [
            "--format",
            "json",
            "--sort",
            "latency",
            "--exchanges",
            &count_text,
        ];
        let listed: Value = serde_json::from_str(&analyze(&file, &options)).unwrap();
        let listed = listed["exchanges"].as_array().unwrap().iter();
        let most = all.iter().copied().take(count);
        assert!(listed.map(latency).eq(most), "{count} of {all:?}");
    }
}

#[test]
fn a_condition_that_cannot_be_read_says_where() {
    let file = recording("nagle-delayed-ack-8ms", "client");
    let run = lagtrace(["analyze", file.to_str().unwrap(), "--where", "latency>50"]).expect(2);
    assert!(run.stderr.contains("at character 9"), "{run:#?}");
    assert!(run.stderr.contains("not a duration"), "{run:#?}");
}

#[test]
fn streams_are_numbered_as_wireshark_does() {
    if !has_tool("streams_are_numbered_as_wireshark_does", "tshark") {
        return;
    }
    for name in [
        "connection-not-reused-20ms",
        "syn-loss-20ms",
        "nagle-delayed-ack-any-0ms",
    ] {
        let file = recording(name, "client");
        let text = tshark(
            &file,
            &[
                "-Y",
                "tcp",
                "-T",
                "fields",
                "-e",
                "frame.number",
                "-e",
                "tcp.stream",
            ],
        );
        let streams: std::collections::BTreeMap<u64, u64> = text
            .lines()
            .map(|line| line.split_once('\t').unwrap())
            .map(|(number, stream)| (number.parse().unwrap(), stream.parse().unwrap()))
            .collect();
        let lines_of = analyze(&file, &["--format", "ndjson"]);
        for exchange in lines(&lines_of, "exchange") {
            let first = exchange["first_packet"].as_u64().unwrap();
            assert_eq!(
                exchange["stream"].as_u64(),
                streams.get(&first).copied(),
                "{exchange:#}"
            );
        }
    }
}

/// tshark accepts the display filter of each finding and of each piece of evidence, and the filter
/// shows the packets that the evidence names.
#[test]
fn wireshark_takes_the_filters_and_they_show_the_evidence() {
    if !has_tool(
        "wireshark_takes_the_filters_and_they_show_the_evidence",
        "tshark",
    ) {
        return;
    }
    let numbers = |text: &str| -> BTreeSet<u64> {
        text.split_whitespace()
            .map(|number| number.parse().unwrap())
            .collect()
    };
    let mut filters = 0;
    for name in [
        "nagle-delayed-ack-8ms",
        "packet-loss-20ms-segments",
        "nagle-delayed-ack-ipv6-20ms-ipv6",
    ] {
        let file = recording(name, "client");
        let report: Value = serde_json::from_str(&analyze(&file, &["--format", "json"])).unwrap();
        for finding in report["findings"].as_array().unwrap() {
            let wire = finding["evidence"].as_array().unwrap().iter();
            let mut named = BTreeSet::new();
            for piece in wire.filter(|piece| piece["kind"] == "wire") {
                let packets = piece["packets"].as_array().unwrap();
                let packets: BTreeSet<u64> = packets.iter().filter_map(Value::as_u64).collect();
                if let Some(filter) = piece["display_filter"].as_str() {
                    let shown =
                        tshark(&file, &["-Y", filter, "-T", "fields", "-e", "frame.number"]);
                    assert!(packets.is_subset(&numbers(&shown)), "{filter}: {shown}");
                    filters += 1;
                }
                named.extend(packets);
            }
            if let Some(filter) = finding["display_filter"].as_str() {
                let shown = numbers(&tshark(
                    &file,
                    &["-Y", filter, "-T", "fields", "-e", "frame.number"],
                ));
                assert!(
                    !shown.is_empty() && named.is_subset(&shown),
                    "{filter}: {shown:?}"
                );
                filters += 1;
            }
        }
    }
    assert!(filters >= 4, "{filters}");
}

#[test]
fn peaks_of_the_latency_name_what_makes_them() {
    let file = recording("nagle-delayed-ack-8ms", "client");
    let report: Value = serde_json::from_str(&analyze(&file, &["--format", "json"])).unwrap();
    let modes = report["exchanges"]["modes"].as_array().unwrap();
    let slow = modes.last().unwrap();
    assert_eq!(slow["causes"][0], "nagle-delayed-ack", "{modes:#?}");
    assert!(
        slow["exemplars"]
            .as_array()
            .unwrap()
            .iter()
            .all(|e| e["first_packet"].is_u64())
    );
    let share: f64 = modes.iter().filter_map(|mode| mode["share"].as_f64()).sum();
    assert!(share > 0.9 && share < 1.000_1, "{share}");
    if modes.len() > 1 {
        let text = analyze(&file, &["--full"]);
        assert!(text.contains("Peaks of the latency"), "{text}");
    }
}
