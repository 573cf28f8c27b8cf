//! Real recordings of the case and of what looks like it, at either end and at
//! several distances: each gets the diagnosis that its scenario was built for,
//! whatever container and link layer it is put into.
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

#[path = "corpus/reading.rs"]
mod reading;
#[path = "corpus/rewriting.rs"]
mod rewriting;
#[path = "corpus/truth.rs"]
mod truth;

use lagtrace_core::exchange::{Exchange, Outcome as Ended};
use lagtrace_core::report::Verdict;
use lagtrace_core::wait::{Owner, WaitKind};
use reading::{Captured, Outcome, analyse, analyse_seeded, recording, segments, tiling_fault};
use rewriting::{Frames, Link};
use truth::{TRUTHS, Truth};

/// What the analysis of `segments` lacks or has too much, by `truth`.
fn faults(truth: &Truth, outcome: &Outcome) -> Vec<String> {
    let report = &outcome.report;
    let mut faults = Vec::new();
    for wanted in truth.expected {
        let found = report
            .findings
            .iter()
            .find(|finding| finding.cause == wanted.cause);
        match found {
            None => faults.push(format!("{} is missing", wanted.cause)),
            Some(finding) => {
                let cost = finding.cost_ns as f64 / 1e6 / finding.affected.exchanges.max(1) as f64;
                if finding.culprit != wanted.culprit {
                    faults.push(format!(
                        "{} is blamed on {:?}",
                        wanted.cause, finding.culprit
                    ));
                }
                if finding.verdict != Verdict::Strong {
                    faults.push(format!("{} is {:?}", wanted.cause, finding.verdict));
                }
                if !wanted.cost_ms.contains(&cost) {
                    faults.push(format!("{} costs {cost:.2} ms an exchange", wanted.cause));
                }
            }
        }
    }
    for finding in &report.findings {
        let is_expected = truth
            .expected
            .iter()
            .any(|wanted| wanted.cause == finding.cause);
        if !is_expected && !truth.allowed.contains(&finding.cause.as_str()) {
            faults.push(format!(
                "{} is {:?} and is not there",
                finding.cause, finding.verdict
            ));
        }
    }
    let whole = outcome
        .exchanges
        .iter()
        .filter(|exchange| matches!(exchange.outcome, Ended::Complete(Some(200))));
    if (whole.count() as u64) < truth.least_exchanges {
        faults.push(format!("only {} exchanges", report.exchanges.count));
    }
    faults.extend(outcome.exchanges.iter().filter_map(tiling_fault));
    faults
}

fn unknown_share(outcome: &Outcome) -> f64 {
    let waits = &outcome.report.exchanges.waits;
    waits
        .iter()
        .filter(|wait| wait.owner == Owner::Unknown)
        .map(|wait| wait.share)
        .sum()
}

fn assert_truth(what: &str, truth: &Truth, outcome: &Outcome) {
    let faults = faults(truth, outcome);
    assert!(
        faults.is_empty(),
        "{} {what}:\n{}",
        truth.recording,
        faults.join("\n")
    );
}

#[test]
fn every_recording_gets_its_diagnosis() {
    let mut all = Vec::new();
    for truth in TRUTHS {
        let outcome = analyse(&segments(&recording(truth.recording)));
        let found = faults(truth, &outcome);
        all.extend(
            found
                .into_iter()
                .map(|fault| format!("{}: {fault}", truth.recording)),
        );
        let unknown = unknown_share(&outcome);
        if unknown > truth.most_unknown {
            all.push(format!(
                "{}: {unknown:.3} of the time is unknown",
                truth.recording
            ));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn no_recording_is_without_its_truth() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/recordings");
    for entry in std::fs::read_dir(folder).expect("the recordings' folder") {
        let path = entry.expect("its entry").path();
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a plain name");
        if path
            .extension()
            .is_some_and(|extension| extension == "pcap")
        {
            assert!(TRUTHS.iter().any(|truth| truth.recording == name), "{name}");
        }
    }
}

/// Segments as far as they do not depend on record numbers and lengths below IP.
fn same_traffic(a: &[Captured], b: &[Captured]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|((x, p), (y, q))| {
            (x.at, x.flow, x.seq, x.ack, x.payload_len, x.ip)
                == (y.at, y.flow, y.seq, y.ack, y.payload_len, y.ip)
                && p == q
        })
}

#[test]
fn containers_and_links_change_nothing() {
    for truth in TRUTHS.iter().filter(|truth| truth.is_transformed) {
        let frames = Frames::read(&recording(truth.recording));
        let plain = segments(&frames.pcap(Link::Raw, true));
        let before = analyse(&plain);
        assert_truth("as raw IP", truth, &before);
        let variants = [
            ("pcap over Ethernet", frames.pcap(Link::Ethernet, true)),
            ("pcap over a VLAN", frames.pcap(Link::Vlan, true)),
            ("pcap over two VLANs", frames.pcap(Link::DoubleVlan, true)),
            ("pcap, cooked", frames.pcap(Link::Cooked, true)),
            ("pcap, cooked v2", frames.pcap(Link::Cooked2, true)),
            ("big-endian pcap", frames.big_endian_pcap()),
            ("pcapng", frames.pcapng(Link::Ethernet, 9)),
            (
                "pcapng, binary resolution",
                frames.pcapng(Link::Raw, 0x80 | 30),
            ),
        ];
        for (what, file) in &variants {
            let after = segments(file);
            let is_exact = !what.contains("binary");
            assert!(
                !is_exact || same_traffic(&plain, &after),
                "{} {what}",
                truth.recording
            );
            assert_truth(what, truth, &analyse(&after));
        }
        let coarse = analyse(&segments(&frames.pcap(Link::Ethernet, false)));
        assert_truth("in microseconds", truth, &coarse);
        assert_truth(
            "in pcapng's microseconds",
            truth,
            &analyse(&segments(&frames.pcapng(Link::Cooked, 6))),
        );
    }
}

#[test]
fn ipv6_is_diagnosed_like_ipv4() {
    for truth in TRUTHS
        .iter()
        .filter(|truth| truth.is_transformed && truth.is_lossless)
    {
        let frames = Frames::read(&recording(truth.recording)).over_ipv6();
        assert_truth(
            "over IPv6",
            truth,
            &analyse(&segments(&frames.pcap(Link::Ethernet, true))),
        );
    }
}

/// Messages cannot be told apart without their heads, yet turns can, and what
/// was held by whom shows in the headers alone.
#[test]
fn cut_packets_are_diagnosed_by_turns() {
    for truth in TRUTHS
        .iter()
        .filter(|truth| truth.is_transformed && truth.is_lossless)
    {
        let frames = Frames::read(&recording(truth.recording)).cut_to(96);
        let outcome = analyse(&segments(&frames.pcap(Link::Ethernet, true)));
        let by_turns = Truth {
            least_exchanges: 0,
            ..*truth
        };
        assert_truth("cut to 96 bytes", &by_turns, &outcome);
        let whole = outcome.report.exchanges.count;
        assert!(
            whole * 10 >= truth.least_exchanges * 9,
            "{}: {whole}",
            truth.recording
        );
    }
}

#[test]
fn equal_input_gives_equal_bytes_whatever_the_seed() {
    for truth in TRUTHS {
        let segments = segments(&recording(truth.recording));
        let bytes = |seed| {
            let report = analyse_seeded(&segments, seed).report;
            serde_json::to_string(&report).expect("a report is JSON")
        };
        let first = bytes(0);
        assert!(first.len() < 1 << 20, "{} bytes", first.len());
        for seed in [0, 1, u64::MAX] {
            assert!(bytes(seed) == first, "{} with seed {seed}", truth.recording);
        }
    }
}

/// What the server noted of one request: when it had read it, and when each of
/// its writes returned, on the clock of the packets' stamps.
#[derive(serde::Deserialize)]
struct Stamp {
    peer: std::net::SocketAddr,
    /// From 1.
    number: u32,
    read_ns: i64,
    written_ns: Vec<i64>,
}

fn stamps(name: &str) -> Vec<Stamp> {
    let path = format!(
        "{}/tests/corpus/recordings/{name}.stamps.ndjson",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).expect("the stamps");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a stamp"))
        .collect()
}

/// How far a wait's ends and length are from the server's own, in the order of
/// the exchanges.
fn strays(name: &str, kind: WaitKind, from: impl Fn(&Stamp) -> (i64, i64)) -> Vec<[i64; 2]> {
    let stamps = stamps(name);
    let outcome = analyse(&segments(&recording(&format!("{name}-server"))));
    let of = |exchange: &Exchange| {
        let stamp = stamps.iter().find(|stamp| {
            exchange.client == stamp.peer.into() && exchange.ordinal + 1 == stamp.number
        })?;
        let wait = exchange.waits.iter().find(|wait| wait.kind == kind)?;
        let (start, end) = from(stamp);
        let [starts, ends] = [wait.start.as_nanos() - start, wait.end.as_nanos() - end];
        Some([starts.abs(), ends.abs()])
    };
    let whole = outcome
        .exchanges
        .iter()
        .filter(|x| matches!(x.outcome, Ended::Complete(_)));
    whole.filter_map(of).collect()
}

#[test]
fn owners_agree_with_the_servers_own_stamps() {
    let thought = strays("think-44-8ms", WaitKind::ServerThink, |stamp| {
        (stamp.read_ns, stamp.written_ns[0])
    });
    let paused = strays("pause-44-8ms", WaitKind::ServerPause, |stamp| {
        (stamp.written_ns[0], stamp.written_ns[1])
    });
    for (name, list) in [("think", thought), ("pause", paused)] {
        assert!(list.len() >= 15, "{name}: {}", list.len());
        let near = list
            .iter()
            .filter(|ends| ends.iter().all(|&ns| ns < 1_000_000))
            .count();
        assert!(
            near * 10 >= list.len() * 9,
            "{name}: {near} of {}: {list:?}",
            list.len()
        );
    }
}
