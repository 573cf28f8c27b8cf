//! Tests that each recording gets the diagnosis for which its scenario was built, in any container
//! and over any link layer.

use lagtrace_core::exchange::Outcome as Ended;
use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::observed::segment::{IpFacts, Segment, SentBy};
use lagtrace_core::registry::Id;
use lagtrace_core::report::Verdict;
use libtest_mimic::Trial;

use crate::reading::{
    Captured, Outcome, analyse, analyse_lacking, analyse_seeded, recording, segments, tiling_fault,
};
use crate::rewriting::{Frames, Link};
use crate::truth::{TRUTHS, Truth};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for truth in TRUTHS {
        let mut add = |what: &str, faults: fn(&Truth) -> Vec<String>| {
            let name = format!("{what}::{}", truth.recording);
            trials.push(crate::trial(name, move || faults(truth)));
        };
        add("gets_its_diagnosis", own);
        add("gives_equal_bytes_whatever_the_seed", seeds);
        if truth.expected.iter().any(|it| it.cause == Id::PacketLoss) {
            add(
                "losses_of_the_capture_are_told_from_those_of_the_path",
                lacking,
            );
        }
        if truth.is_transformed {
            add("containers_and_links_change_nothing", containers);
        }
        if truth.is_transformed && truth.is_lossless {
            add("over_ipv6_is_diagnosed_alike", over_ipv6);
            add("cut_packets_are_diagnosed_by_turns", cut);
        }
    }
    trials
}

/// Lists the differences between the analysis and `truth`: findings that are missing or wrong, too
/// few exchanges, and waits that do not tile.
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
                let sure = if finding.cause.cause().says_only_where {
                    finding.location.as_ref().map(|at| at.certainty)
                } else {
                    Some(finding.verdict)
                };
                if sure != Some(Verdict::Strong) {
                    faults.push(format!("{} is {:?}", wanted.cause, finding.verdict));
                }
                if !wanted.cost_ms.contains(&cost) {
                    faults.push(format!("{} costs {cost:.2} ms an exchange", wanted.cause));
                }
            }
        }
    }
    faults.extend(crate::books::account_fault(report));
    for finding in report.causes() {
        let is_expected = truth
            .expected
            .iter()
            .any(|wanted| wanted.cause == finding.cause);
        if !is_expected && !truth.allowed.contains(&finding.cause) {
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

/// Lists the faults of a recording in one container. Each fault begins with `what`, the container's
/// name.
fn faults_as(what: &str, truth: &Truth, outcome: &Outcome) -> Vec<String> {
    let faults = faults(truth, outcome).into_iter();
    faults.map(|fault| format!("{what}: {fault}")).collect()
}

fn own(truth: &Truth) -> Vec<String> {
    let outcome = analyse(&segments(&recording(truth.recording)));
    let mut faults = faults(truth, &outcome);
    let unknown = unknown_share(&outcome);
    if unknown > truth.most_unknown {
        faults.push(format!("{unknown:.3} of the time is unknown"));
    }
    faults
}

/// A capture that lost more than a few packets does not show whether the path lost any.
fn lacking(truth: &Truth) -> Vec<String> {
    let segments = segments(&recording(truth.recording));
    let all = segments.len() as u64;
    let mut faults = Vec::new();
    for (lost, is_sure) in [(all / 400, true), (all / 20 + 100, false)] {
        let report = analyse_lacking(&segments, lost).report;
        let mut findings = report.findings.iter();
        let found = findings.find(|finding| finding.cause == Id::PacketLoss);
        if found.is_some_and(|found| found.verdict == Verdict::Strong) != is_sure {
            faults.push(format!("{lost} of {all} packets lost: {found:?}"));
        }
    }
    faults
}

/// Returns true if the segments are equal, except for record numbers, for lengths below IP, and for
/// what only some links say.
fn same_traffic(a: &[Captured], b: &[Captured]) -> bool {
    let facts = |segment: &Segment| IpFacts {
        sent_by: SentBy::Unknown,
        ..segment.ip
    };
    a.len() == b.len()
        && a.iter().zip(b).all(|((x, p), (y, q))| {
            (x.at, x.flow, x.seq, x.ack, x.payload_len, facts(x))
                == (y.at, y.flow, y.seq, y.ack, y.payload_len, facts(y))
                && p == q
        })
}

fn containers(truth: &Truth) -> Vec<String> {
    let frames = Frames::read(&recording(truth.recording));
    let plain = segments(&frames.pcap(Link::Raw, true));
    let mut faults = faults_as("as raw IP", truth, &analyse(&plain));
    let exact = [
        ("pcap over Ethernet", frames.pcap(Link::Ethernet, true)),
        ("pcap over a VLAN", frames.pcap(Link::Vlan, true)),
        ("pcap over two VLANs", frames.pcap(Link::DoubleVlan, true)),
        ("pcap, cooked", frames.pcap(Link::Cooked, true)),
        ("pcap, cooked v2", frames.pcap(Link::Cooked2, true)),
        ("big-endian pcap", frames.big_endian_pcap()),
        ("pcapng", frames.pcapng(Link::Ethernet, 9)),
    ];
    for (what, file) in &exact {
        let after = segments(file);
        if !same_traffic(&plain, &after) {
            faults.push(format!("{what}: not the same traffic"));
        }
        faults.extend(faults_as(what, truth, &analyse(&after)));
    }
    // These formats round the timestamps.
    let coarse = [
        (
            "pcapng, binary resolution",
            frames.pcapng(Link::Raw, 0x80 | 30),
        ),
        ("in microseconds", frames.pcap(Link::Ethernet, false)),
        ("in pcapng's microseconds", frames.pcapng(Link::Cooked, 6)),
    ];
    for (what, file) in &coarse {
        faults.extend(faults_as(what, truth, &analyse(&segments(file))));
    }
    faults
}

fn over_ipv6(truth: &Truth) -> Vec<String> {
    let frames = Frames::read(&recording(truth.recording)).over_ipv6();
    faults(
        truth,
        &analyse(&segments(&frames.pcap(Link::Ethernet, true))),
    )
}

/// Lists the faults of a recording whose packets are cut to 96 bytes. Messages cannot be
/// distinguished then, but the alternating turns of the two ends can. The headers alone show which
/// end held data back.
fn cut(truth: &Truth) -> Vec<String> {
    let frames = Frames::read(&recording(truth.recording)).cut_to(96);
    let outcome = analyse(&segments(&frames.pcap(Link::Ethernet, true)));
    let by_turns = Truth {
        least_exchanges: 0,
        ..*truth
    };
    let mut faults = faults(&by_turns, &outcome);
    let count = outcome.report.exchanges.count;
    if count * 10 < truth.least_exchanges * 9 {
        faults.push(format!("only {count} exchanges"));
    }
    faults
}

fn seeds(truth: &Truth) -> Vec<String> {
    let segments = segments(&recording(truth.recording));
    let bytes = |seed| {
        let report = analyse_seeded(&segments, seed).report;
        serde_json::to_string(&report).expect("a report is JSON")
    };
    let first = bytes(0);
    let others = [0, 1, u64::MAX].into_iter();
    let others = others.filter(|seed| bytes(*seed) != first);
    let mut faults: Vec<String> = others
        .map(|seed| format!("other with seed {seed}"))
        .collect();
    if first.len() >= 1 << 20 {
        faults.push(format!("{} bytes", first.len()));
    }
    faults
}
