//! Capture files.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::corpus::recording;
use crate::command::program::{has_tool, lagtrace, notes, program};

/// Returns a capture of the file source's own tests.
fn fixture(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("../sources/tests/captures").join(name)
}

#[test]
fn a_truncated_capture_is_analysed_as_far_as_it_goes() {
    let whole = fs::read(fixture("ethernet.pcap")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.pcap");
    fs::write(&cut, &whole[..whole.len() * 2 / 3 + 5]).unwrap();
    let arguments = ["analyze", cut.to_str().unwrap(), "--format", "json"];
    let run = lagtrace(arguments);
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    let report = run.json();
    let points = report["capture"]["points"].as_array().unwrap();
    assert!(points[0]["damage"].is_string(), "{points:#?}");
    assert!(report["capture"]["packets"].as_u64().unwrap() > 0);
}

#[test]
fn an_empty_file_and_a_text_are_no_captures() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [("empty", ""), ("text", "hello, this is a text\n")] {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let run = lagtrace(["analyze", path.to_str().unwrap()]).expect(2);
        assert!(
            run.stderr.starts_with("error: ") && run.stdout.is_empty(),
            "{run:#?}"
        );
    }
}

#[test]
fn standard_input_gives_the_same_report_as_the_file() {
    let path = fixture("ethernet.pcap");
    let from_file = lagtrace(["analyze", path.to_str().unwrap(), "--format", "json"]);
    let mut command = Command::new(program());
    command.args(["analyze", "-", "--format", "json"]);
    let input = fs::File::open(&path).unwrap();
    let output = command.stdin(Stdio::from(input)).output().unwrap();
    let mut one = from_file.json();
    let mut other: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for report in [&mut one, &mut other] {
        report["subject"].take();
        report["capture"]["points"][0]["name"].take();
    }
    assert_eq!(one, other);
    assert_eq!(from_file.code, output.status.code());
}

#[test]
fn compressed_captures_are_read_as_they_are_even_from_a_pipe() {
    const TEST: &str = "compressed_captures_are_read_as_they_are_even_from_a_pipe";
    let path = fixture("ethernet.pcap");
    let plain = lagtrace(["analyze", path.to_str().unwrap(), "--format", "json"]).json();
    for tool in ["gzip", "zstd", "lz4"] {
        if !has_tool(TEST, tool) {
            continue;
        }
        let mut packing = Command::new(tool)
            .arg("-c")
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut command = Command::new(program());
        command.args(["analyze", "-", "--format", "json"]);
        let pipe = packing.stdout.take().unwrap();
        let output = command.stdin(Stdio::from(pipe)).output().unwrap();
        assert!(packing.wait().unwrap().success());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["exchanges"], plain["exchanges"], "{tool}");
        assert_eq!(
            report["capture"]["packets"], plain["capture"]["packets"],
            "{tool}"
        );
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Command::new(program())
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Splits the records of a pcap file with a header of 24 bytes into two files.
fn pieces(whole: &[u8], folder: &std::path::Path) -> [PathBuf; 2] {
    let (header, mut rest) = whole.split_at(24);
    let records = rest.len() / 2;
    let mut first = header.to_vec();
    while first.len() < records {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (record, behind) = rest.split_at(16 + len);
        first.extend(record);
        rest = behind;
    }
    let second = [header, rest].concat();
    let paths = ["piece.pcap0", "piece.pcap1"].map(|name| folder.join(name));
    fs::write(&paths[0], first).unwrap();
    fs::write(&paths[1], second).unwrap();
    paths
}

#[test]
fn pieces_of_a_capture_are_one_in_any_order_and_a_bad_one_is_left_out() {
    let path = fixture("ethernet.pcap");
    let json = ["--format", "json", "-q"];
    let whole = lagtrace(["analyze", path.to_str().unwrap()].into_iter().chain(json)).json();
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = pieces(&fs::read(&path).unwrap(), folder.path());
    let bad = folder.path().join("piece.pcap2");
    fs::write(&bad, "hello, this is a text\n").unwrap();
    let files = [&second, &bad, &first].map(|path| path.to_str().unwrap());
    let report = lagtrace(["analyze"].into_iter().chain(files).chain(json)).json();
    for field in ["exchanges", "connections", "services", "findings"] {
        assert_eq!(report[field], whole[field], "{field}");
    }
    assert!(
        notes(&report).contains(&"pieces-of-one-capture"),
        "{report:#}"
    );
    let notes = report["notes"].as_array().unwrap();
    let is_said = |note: &serde_json::Value| {
        note["id"] == "file-not-read" && note["text"].as_str().unwrap().contains("piece.pcap2")
    };
    assert!(notes.iter().any(is_said), "{notes:#?}");
}

/// Captures of both ends are advised to who has one of them, and not to who has both.
#[test]
fn who_has_captures_of_both_ends_is_not_told_to_make_them() {
    let [client, server] = ["client", "server"].map(|end| recording("path-queueing-8ms", end));
    let is_advised = |files: &[&PathBuf]| {
        let files = files.iter().map(|path| path.to_str().unwrap());
        let run = lagtrace(["analyze"].into_iter().chain(files).chain(["-v"]));
        run.stdout.contains("at each end")
    };
    assert!(is_advised(&[&client]));
    assert!(!is_advised(&[&client, &server]));
}

#[test]
fn captures_of_different_days_are_not_one() {
    let names = ["nagle-delayed-ack-8ms", "accept-queue-overflow-40ms"];
    let files = names.map(|name| recording(name, "client"));
    let json = ["--format", "json", "-q"];
    let analyze = |files: &[PathBuf]| {
        let files = files.iter().map(|path| path.to_str().unwrap());
        lagtrace(["analyze"].into_iter().chain(files).chain(json)).json()
    };
    let both = analyze(&files);
    assert!(notes(&both).contains(&"separate-captures"), "{both:#}");
    let each = files
        .each_ref()
        .map(|file| analyze(std::slice::from_ref(file)));
    let sum = |of: &dyn Fn(&serde_json::Value) -> u64| each.iter().map(of).sum::<u64>();
    let exchanges = |report: &serde_json::Value| report["exchanges"]["count"].as_u64().unwrap();
    assert_eq!(exchanges(&both), sum(&exchanges));
    let points = both["capture"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for (point, alone) in points.iter().zip(&each) {
        let alone = &alone["capture"]["points"][0];
        assert_eq!(point["connections"], alone["connections"], "{points:#?}");
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let path = fixture("ethernet.pcap");
    let wanted: [&[&str]; 5] = [
        &["--format", "json"],
        &["--format", "json", "--connections", "9"],
        &["--format", "ndjson"],
        &["--format", "ndjson", "--connections"],
        &["--exchanges", "50", "--sort", "latency"],
    ];
    for wanted in wanted {
        let analyze = |threads: &str| {
            let arguments = ["analyze", path.to_str().unwrap(), "--threads", threads];
            lagtrace(arguments.into_iter().chain(wanted.iter().copied())).stdout
        };
        assert_eq!(analyze("1"), analyze("2"), "{wanted:?}");
        assert_eq!(analyze("1"), analyze("9"), "{wanted:?}");
    }
}

#[test]
fn what_is_still_being_written_is_reported_on_an_interrupt() {
    let whole = fs::read(fixture("ethernet.pcap")).unwrap();
    let mut command = Command::new(program());
    command.args(["analyze", "-", "--format", "json", "-q"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&whole[..whole.len() / 2]).unwrap();
    input.flush().unwrap();
    // The pipe stays open, so only the signal can end the reading.
    std::thread::sleep(std::time::Duration::from_millis(700));
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["capture"]["packets"].as_u64().unwrap() > 0);
    let notes = report["notes"].as_array().unwrap();
    assert!(
        notes.iter().any(|note| note["id"] == "interrupted"),
        "{notes:#?}"
    );
    drop(input);
}

/// Returns the packets of one interface in a capture on `any` (cooked, version 2: the index of the
/// interface follows the protocol).
fn of_interface(whole: &[u8], index: u32) -> Vec<u8> {
    let (header, mut rest) = whole.split_at(24);
    let mut one = header.to_vec();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (record, behind) = rest.split_at(16 + len);
        if record[20..24] == index.to_be_bytes() {
            one.extend(record);
        }
        rest = behind;
    }
    one
}

/// Two captures of `tcpdump -i any`: 24 requests over a bridge whose filter drops some responses,
/// and 20 requests in a VXLAN. The VXLAN's packets are seen on the tunnel's device and,
/// encapsulated, on the device below it. In both captures, every packet occurs twice.
#[test]
fn what_any_sees_twice_happened_once() {
    let folder = tempfile::tempdir().unwrap();
    let json = ["--format", "json", "-q", "--connections"];
    let analyze = |path: &std::path::Path| {
        lagtrace(["analyze", path.to_str().unwrap()].into_iter().chain(json)).json()
    };
    // The interface on which all packets are seen.
    for (name, interface, requests) in [("any-bridge.pcap", 3, 24), ("any-vxlan.pcap", 2, 20)] {
        let path = fixture(name);
        let any = analyze(&path);
        let alone = folder.path().join(name);
        fs::write(&alone, of_interface(&fs::read(&path).unwrap(), interface)).unwrap();
        let one = analyze(&alone);
        assert!(notes(&any).contains(&"duplicate-packets"), "{any:#}");
        assert!(!notes(&one).contains(&"duplicate-packets"), "{one:#}");
        for report in [&any, &one] {
            assert_eq!(report["exchanges"]["count"], requests, "{name}: {report:#}");
        }
        let connections = |report: &serde_json::Value| {
            let list = report["connections"]["list"].as_array().unwrap().clone();
            let mut list: Vec<_> = list
                .into_iter()
                .map(|c| (c["client"].to_string(), c))
                .collect();
            list.sort_by(|(one, _), (other, _)| one.cmp(other));
            list
        };
        for ((_, any), (_, one)) in connections(&any).iter().zip(&connections(&one)) {
            for side in ["client_side", "server_side"] {
                let number = |of: &serde_json::Value| of.as_u64().unwrap();
                let (any, one) = (&any[side], &one[side]);
                let copies = number(&any["retransmissions"]["copies"]);
                let packets = number(&any["packets"]) - copies;
                assert!(
                    copies > 20 && packets == number(&one["packets"]),
                    "{name}: {any:#}"
                );
                for kind in ["repeated", "repeated_bytes", "spurious"] {
                    let (any, one) = (&any["retransmissions"], &one["retransmissions"]);
                    assert_eq!(any[kind], one[kind], "{name}: {kind}");
                }
            }
            let lasted = |of: &serde_json::Value| of["duration_ns"].as_f64().unwrap();
            assert!((lasted(any) / lasted(one) - 1.0).abs() < 0.01, "{any:#}");
        }
    }
}
