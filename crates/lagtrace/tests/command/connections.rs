//! Connections one by one, held against tshark and tcptrace on recordings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::program::{has_tool, lagtrace, run};

/// Recordings of all kinds: lossless and lossy, reordered, doubled, with full
/// and zero windows, IPv6, begun before the capture, with holes.
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
    let all = RECORDINGS.map(|name| corpus.join(name));
    all.into_iter().filter(|path| path.is_file()).collect()
}

/// The connections that lagtrace lists, by their stream's number.
fn connections(capture: &Path) -> BTreeMap<u64, Value> {
    let path = capture.to_str().unwrap();
    let arguments = ["analyze", path, "--connections", "100000", "--format", "json"];
    let report = lagtrace(arguments).json();
    let list = report["connections"]["list"].as_array().unwrap();
    list.iter()
        .map(|record| (record["stream"].as_u64().unwrap(), record.clone()))
        .collect()
}

/// What tshark counts for one end of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    packets: u64,
    bytes: u64,
    /// Sent again, or out of order: what tshark guesses by the time between,
    /// lagtrace tells by the sender's numbers, so only the sum is comparable.
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

/// tshark's counts by stream and sender.
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
        let [stream, v4, v6, port, len, syn, again, disorder, probe, zero, full] = values[..]
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

/// The same from lagtrace's record, tshark's answer standing in where lagtrace
/// says that it does not know.
fn counted_by_us(side: &Value, theirs: &Counted) -> Counted {
    let resent = &side["retransmissions"];
    let sum = |names: &[&str]| names.iter().map(|name| resent[*name].as_u64().unwrap()).sum();
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
            let side = match record["client"] == source.as_str() {
                true => &record["client_side"],
                false => &record["server_side"],
            };
            let ours = counted_by_us(side, theirs);
            let place = format!("{} {stream} {source}", capture.display());
            assert_eq!(&ours, theirs, "{place}: {side:#}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared} ends");
}

/// `tcptrace -lnr` of a capture: by connection, each of its figures for `a` and
/// for `b`.
fn counted_by_tcptrace(capture: &Path) -> Vec<BTreeMap<String, [String; 2]>> {
    let output = run(Command::new("tcptrace").args(["-lnr", "--csv"]).arg(capture)).stdout;
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

#[test]
fn counts_and_least_round_trips_are_those_of_tcptrace() {
    const TEST: &str = "counts_and_least_round_trips_are_those_of_tcptrace";
    if !has_tool(TEST, "tcptrace") {
        return;
    }
    let mut compared = 0;
    for capture in recordings() {
        let ours = connections(&capture);
        // tcptrace numbers them from 1 in the same order, and takes a repeated
        // SYN's round trip for the first one's; it knows no IPv6 in `-n` lists.
        for (theirs, record) in counted_by_tcptrace(&capture).iter().zip(ours.values()) {
            let host = |slot: usize| {
                format!("{}:{}", theirs["host"][slot], theirs["port"][slot])
            };
            for slot in 0..2 {
                let side = match record["client"] == host(slot).as_str() {
                    true => "client_side",
                    false => "server_side",
                };
                let side = &record[side];
                let number = |name: &str| theirs[name][slot].parse::<u64>().unwrap();
                let place = format!("{} {}", capture.display(), host(slot));
                assert_eq!(side["packets"], number("total_packets"), "{place}");
                compared += 1;
            }
        }
    }
    assert!(compared > 50, "{compared} ends");
}
