//! Connections one by one, compared with tshark and tcptrace on recordings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::program::{has_tool, lagtrace, run};

/// Recordings of all kinds: lossless and lossy, with reordering, duplicates, full and zero windows,
/// with IPv6, with connections begun before the capture, and with gaps.
const RECORDINGS: [&str; 12] = [
    "packet-loss-20ms-segments/client.pcap.gz",
    "packet-loss-20ms-offload/server.pcap.gz",
    "packet-loss-burst-20ms/client.pcap.gz",
    "healthy-gaps-20ms/client.pcap.gz",
    "healthy-mid-connection-20ms/client.pcap.gz",
    "healthy-ipv6-20ms-ipv6/client.pcap.gz",
    "zero-window-0ms/client.pcap.gz",
    "receive-window-20ms/client.pcap.gz",
    "reordering-20ms/client.pcap.gz",
    "keep-alive-idle-40ms/client.pcap.gz",
    "tail-loss-probe-20ms/client.pcap.gz",
    "syn-loss-syn-20ms/client.pcap.gz",
];

fn recordings() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    RECORDINGS.map(|name| corpus.join(name)).into()
}

/// Returns the connections that lagtrace lists, by stream number.
fn connections(capture: &Path) -> BTreeMap<u64, Value> {
    let path = capture.to_str().unwrap();
    let arguments = [
        "analyze",
        path,
        "--connections",
        "100000",
        "--format",
        "json",
    ];
    let report = lagtrace(arguments).json();
    let list = report["connections"]["list"].as_array().unwrap();
    list.iter()
        .map(|record| (record["stream"].as_u64().unwrap(), record.clone()))
        .collect()
}

/// The counts of tshark for one end of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    packets: u64,
    bytes: u64,
    /// The number of segments that were retransmitted or out of order. tshark distinguishes these
    /// two by the time between segments, and lagtrace by the sender's IP identifications, so only
    /// their sum is comparable.
    late: u64,
    probes: u64,
    has_zero_window: bool,
    has_full_window: bool,
}

const FIELDS: [&str; 11] = [
    "tcp.stream",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "tcp.len",
    "tcp.flags.syn",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.keep_alive",
    "tcp.analysis.zero_window",
    "tcp.analysis.window_full",
];

/// Returns tshark's counts by stream and sender.
fn counted_by_tshark(capture: &Path) -> BTreeMap<(u64, String), Counted> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "separator=|", "-Y", "tcp", "-r"]);
    command.arg(capture);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let mut all: BTreeMap<(u64, String), Counted> = BTreeMap::new();
    for line in run(&mut command).stdout.lines() {
        let values: Vec<&str> = line.split('|').collect();
        let [
            stream,
            v4,
            v6,
            port,
            len,
            syn,
            again,
            disorder,
            probe,
            zero,
            full,
        ] = values[..]
        else {
            panic!("tshark says {line}")
        };
        let source = match v4 {
            "" => format!("[{v6}]:{port}"),
            v4 => format!("{v4}:{port}"),
        };
        let counted = all.entry((stream.parse().unwrap(), source)).or_default();
        let is_syn = matches!(syn, "1" | "True");
        counted.packets += 1;
        counted.bytes += len.parse::<u64>().unwrap_or(0);
        counted.late += u64::from((!again.is_empty() && !is_syn) || !disorder.is_empty());
        counted.probes += u64::from(!probe.is_empty());
        counted.has_zero_window |= !zero.is_empty();
        counted.has_full_window |= !full.is_empty();
    }
    all
}

/// Returns lagtrace's counts. Where lagtrace reports a count as unknown, tshark's is used.
fn counted_by_us(side: &Value, theirs: &Counted) -> Counted {
    let resent = &side["retransmissions"];
    let sum = |names: &[&str]| {
        names
            .iter()
            .map(|name| resent[*name].as_u64().unwrap())
            .sum()
    };
    let has = |spells: &Value, theirs| spells["count"].as_u64().map_or(theirs, |n| n > 0);
    Counted {
        packets: side["packets"].as_u64().unwrap(),
        bytes: side["bytes"].as_u64().unwrap(),
        late: sum(&["repeated", "lost_before", "overtaken", "filled", "copies"]),
        probes: sum(&["probes"]),
        has_zero_window: has(&side["zero_window"], theirs.has_zero_window),
        has_full_window: has(&side["full_window"], theirs.has_full_window),
    }
}

#[test]
fn counts_are_those_of_tshark() {
    const TEST: &str = "counts_are_those_of_tshark";
    if !has_tool(TEST, "tshark") {
        return;
    }
    let mut compared = 0;
    for capture in recordings() {
        let ours = connections(&capture);
        let theirs = counted_by_tshark(&capture);
        let streams: std::collections::BTreeSet<u64> =
            theirs.keys().map(|(stream, _)| *stream).collect();
        assert!(streams.iter().eq(ours.keys()), "{}", capture.display());
        for ((stream, source), theirs) in &theirs {
            let record = &ours[stream];
            let side = if record["client"] == source.as_str() {
                &record["client_side"]
            } else {
                &record["server_side"]
            };
            let ours = counted_by_us(side, theirs);
            let place = format!("{} {stream} {source}", capture.display());
            assert_eq!(&ours, theirs, "{place}: {side:#}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared} ends");
}

/// Returns the output of `tcptrace -lnr` for a capture: for each connection, the figures of its
/// ends `a` and `b`.
fn counted_by_tcptrace(capture: &Path) -> Vec<BTreeMap<String, [String; 2]>> {
    let output = run(Command::new("tcptrace")
        .args(["-lnr", "--csv"])
        .arg(capture))
    .stdout;
    let lines = output.lines().filter(|line| !line.starts_with('#'));
    let mut lines = lines.filter(|line| line.contains(','));
    let names: Vec<&str> = lines.next().unwrap().split(',').map(str::trim).collect();
    lines
        .map(|line| {
            let values: Vec<&str> = line.split(',').map(str::trim).collect();
            let mut figures: BTreeMap<String, [String; 2]> = BTreeMap::new();
            for (name, value) in names.iter().zip(values) {
                let (name, slot) = match name.rsplit_once('_') {
                    Some((name, "a2b" | "a")) => (name, 0),
                    Some((name, "b2a" | "b")) => (name, 1),
                    _ => (*name, 0),
                };
                figures.entry(name.to_owned()).or_default()[slot] = value.to_owned();
            }
            figures
        })
        .collect()
}

/// The figures that tcptrace and lagtrace both have, and their place in lagtrace's record. Other
/// figures have different definitions: lagtrace counts probes separately from other bare ACKs, and
/// reports an initial window only if that window ended the first flight. lagtrace also reports no
/// window whose scaling is unknown.
const SAME: [(&str, &str); 7] = [
    ("total_packets", "/packets"),
    ("actual_data_pkts", "/data_packets"),
    ("actual_data_bytes", "/bytes"),
    ("sack_pkts_sent", "/acknowledgements/sacks"),
    ("dsack_pkts_sent", "/acknowledgements/d_sacks"),
    ("mss_requested", "/mss"),
    ("max_win_adv", "/window/max"),
];

#[test]
fn counts_and_least_round_trips_are_those_of_tcptrace() {
    const TEST: &str = "counts_and_least_round_trips_are_those_of_tcptrace";
    if !has_tool(TEST, "tcptrace") {
        return;
    }
    let mut compared = 0;
    // tcptrace has its own notation for IPv6 addresses.
    for capture in recordings().iter().filter(|path| !is_ipv6(path)) {
        let ours = connections(capture);
        // tcptrace numbers connections from 1, in the order of lagtrace's stream numbers.
        for (theirs, record) in counted_by_tcptrace(capture).iter().zip(ours.values()) {
            for slot in 0..2 {
                compare_with_tcptrace(record, theirs, slot, capture);
                compared += 1;
            }
        }
    }
    assert!(compared > 50, "{compared} ends");
}

fn is_ipv6(capture: &Path) -> bool {
    capture.to_string_lossy().contains("ipv6")
}

fn compare_with_tcptrace(
    record: &Value,
    theirs: &BTreeMap<String, [String; 2]>,
    slot: usize,
    capture: &Path,
) {
    let host = format!("{}:{}", theirs["host"][slot], theirs["port"][slot]);
    let (side, peer) = if record["client"] == host.as_str() {
        (&record["client_side"], &record["server_side"])
    } else {
        (&record["server_side"], &record["client_side"])
    };
    let place = format!("{} {host}", capture.display());
    for (name, path) in SAME {
        let number = theirs[name][slot].parse::<u64>().unwrap();
        // If lagtrace does not know a figure, tcptrace reports 0 or an unscaled window.
        if let Some(ours) = side.pointer(path).and_then(Value::as_u64) {
            assert_eq!(ours, number, "{name} of {place}");
        }
    }
    // tcptrace measures from the data of this end to its acknowledgement, which is the round trip
    // to the peer, in tenths of milliseconds.
    let theirs = theirs["RTT_min"][slot].parse::<f64>().unwrap();
    if let Some(ours) = peer.pointer("/round_trip/min_ns").and_then(Value::as_f64) {
        let apart = (ours / 1e6 - theirs).abs();
        assert!(apart <= 0.11, "{ours} ns, {theirs} ms: {place}");
    }
}

#[test]
fn what_the_capture_does_not_show_is_unknown_and_no_zero() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let capture = corpus.join("healthy-mid-connection-20ms/client.pcap.gz");
    let mut seen = 0;
    for record in connections(&capture).values() {
        if record["begin_seen"].as_bool().unwrap() {
            continue;
        }
        seen += 1;
        for unknown in ["/handshake", "/window_scaling", "/client_side/mss"] {
            assert!(record.pointer(unknown).unwrap().is_null(), "{record:#}");
        }
        for side in ["client_side", "server_side"] {
            for unknown in ["window", "window_scale", "full_window", "initial_window"] {
                assert!(record[side][unknown].is_null(), "{unknown}: {record:#}");
            }
            assert!(record[side]["system"]["looks_like"].is_null());
        }
    }
    assert!(seen > 0);
    let path = capture.to_str().unwrap();
    let text = lagtrace(["analyze", path, "--connections", "3", "-v"]).stdout;
    assert!(text.contains("window scaling unknown"), "{text}");
    assert!(text.contains("its beginning was not seen"), "{text}");
}

#[test]
fn lines_stream_every_connection_and_a_document_holds_those_asked_for() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let capture = corpus.join("packet-loss-20ms-segments/client.pcap.gz");
    let path = capture.to_str().unwrap();
    let all = connections(&capture);
    let lines = lagtrace(["analyze", path, "--connections", "1", "--format", "ndjson"]).stdout;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["type"] == "connection")
        .collect();
    assert_eq!(lines.len(), all.len());
    assert!(lines.iter().all(|line| line["capture"] == path));

    let by_start = ["--connections", "1", "--connections-by", "start"];
    let arguments = ["analyze", path, "--format", "json"];
    let report = lagtrace(arguments.into_iter().chain(by_start)).json();
    let listed = &report["connections"];
    assert_eq!(listed["seen"], all.len());
    assert_eq!(listed["list"].as_array().unwrap().len(), 1);
    assert_eq!(listed["list"][0]["stream"], 0);
    let plain = lagtrace(arguments).json();
    assert!(plain.get("connections").is_none(), "not asked for");
}

#[test]
fn a_quic_flow_is_a_row_with_what_its_headers_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/quic");
    let capture = folder.join("retry.pcap");
    let path = capture.to_str().unwrap();
    let arguments = ["analyze", path, "--connections", "--format", "json"];
    let report = lagtrace(arguments).json();
    let [record] = &report["connections"]["list"].as_array().unwrap()[..] else {
        panic!("{report:#}")
    };
    assert_eq!(record["protocol"], "quic");
    assert_eq!(record["stream"], 0);
    assert_eq!(record["quic"]["retries"], 1);
    assert!(record["handshake"]["took_ns"].as_u64().unwrap() > 60_000_000);
    assert_eq!(record["server_side"]["round_trip"]["method"], "spin-bit");
    for unknown in ["/exchanges", "/lost", "/server_side/retransmissions"] {
        assert!(record.pointer(unknown).unwrap().is_null(), "{record:#}");
    }
    let text = lagtrace(["analyze", path, "--connections"]).stdout;
    assert!(text.contains("udp 0"), "{text}");
}
