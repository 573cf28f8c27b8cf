//! Tests of requests that other clients send to the service under investigation.

use super::starved::{Step, answered, at, begins, ends, opened, segments};
use super::*;
use crate::observed::event::{Event, EventBody, Phase, TargetId};
use crate::report::Report;

/// The requests of the other client: one each 100 ms, answered after 60 ms.
const FOREIGN: u64 = 17;

/// A connection of another client, which asks for something slow.
fn slow() -> Vec<Step> {
    let turns = (0..FOREIGN as i64).map(|number| 150 + 100 * number);
    let turn = |ms| [(ms, true, ACK, REQUEST), (ms + 60, false, ACK, RESPONSE)];
    opened(turns.flat_map(turn))
}

/// Returns the report on an investigation of which the flows at these ports are known.
fn report(known: &[u16]) -> Report {
    let [_, server] = ends(0);
    let mut analyzer = Analyzer::new(Options {
        targets: vec![(TargetId::Subject, server)],
        ..Options::default()
    });
    analyzer.observe(begins(1));
    for &port in known {
        let (flow, _) = FlowKey::new(Transport::Tcp, ends(port)[0], server);
        analyzer.observe(Event::here(
            at(0),
            Phase::Baseline,
            EventBody::FlowPhase(flow),
        ));
    }
    let mut all = segments(0, answered(1));
    all.extend(segments(1, slow()));
    all.sort_by_key(|(segment, _)| segment.at);
    for (segment, payload) in &all {
        analyzer.segment(segment, payload);
    }
    analyzer.finish()
}

fn told(report: &Report) -> Option<&str> {
    let mut notes = report.notes.iter();
    let note = notes.find(|note| note.id == "foreign-requests");
    note.map(|note| note.text.as_str())
}

#[test]
fn requests_of_others_are_told_and_not_counted() {
    let report = report(&[0]);
    assert!(
        report.exchanges.latency_ns.max < 5_000_000,
        "{:#?}",
        report.exchanges
    );
    let text = told(&report).expect("others");
    assert!(text.contains(&format!("sent {FOREIGN} requests")), "{text}");
    assert_eq!(report.findings.len(), 0, "{:#?}", report.findings);
}

#[test]
fn all_requests_count_if_all_are_ours_or_none_is_known() {
    for known in [&[0, 1][..], &[]] {
        let report = report(known);
        assert_eq!(told(&report), None);
        assert!(report.exchanges.latency_ns.max > 50_000_000, "{known:?}");
    }
}
