//! Tests of unanswered lookups, in captures with and without connections.

use core::time::Duration;

use super::*;
use crate::observed::datagram::Datagram;
use crate::report::LayerState;

/// A query for the address of `name`, or an answer that the name does not exist.
fn message(id: u16, name: &str, is_answer: bool) -> Vec<u8> {
    let flags: u16 = if is_answer { 0x8183 } else { 0x0100 };
    let mut bytes = [id, flags, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// Passes a message to `analyzer` at the millisecond `ms`.
fn pass(analyzer: &mut Analyzer, ms: u64, payload: &[u8], is_answer: bool) {
    let client = Endpoint::new([10, 0, 0, 1].into(), 40_000);
    let resolver = Endpoint::new([10, 0, 0, 53].into(), 53);
    let (from, to) = if is_answer {
        (resolver, client)
    } else {
        (client, resolver)
    };
    let (flow, direction) = FlowKey::new(Transport::Udp, from, to);
    let datagram = Datagram {
        at: Timestamp::from_nanos(1_700_000_000_000_000_000) + Duration::from_millis(ms),
        number: 1,
        point: PointId(0),
        flow,
        direction,
        payload_len: payload.len() as u16,
        sent_by: crate::observed::segment::SentBy::Unknown,
    };
    analyzer.datagram(&datagram, payload);
}

/// Returns the state and line of the report's layer `name`, if it exists.
fn names(report: &Report) -> Option<(LayerState, String)> {
    let mut layers = report.layers.iter();
    let layer = layers.find(|layer| layer.layer == "name");
    layer.map(|layer| (layer.state, layer.line.clone()))
}

/// Returns the report on one unanswered lookup and forty answered ones, and this number of
/// connections.
fn asked(connections: u16) -> Report {
    let mut analyzer = Analyzer::new(Options::default());
    for (segment, payload) in traffic(connections) {
        analyzer.segment(&segment, payload);
    }
    for again in 0..3 {
        let query = message(7, "db.test", false);
        pass(&mut analyzer, again * 5_000, &query, false);
    }
    for other in 0..40 {
        let name = format!("n{other}.test");
        let at = 20_000 + u64::from(other) * 100;
        let [query, answer] = [false, true].map(|is_answer| message(100 + other, &name, is_answer));
        pass(&mut analyzer, at, &query, false);
        pass(&mut analyzer, at + 5, &answer, true);
    }
    analyzer.finish()
}

#[test]
fn a_lookup_that_is_never_answered_is_told_among_many_that_are() {
    let report = asked(3);
    let (state, line) = names(&report).expect("one was not answered");
    assert_eq!(state, LayerState::Suspected);
    assert!(line.starts_with("1 of 41 lookups got no answer"), "{line}");
    assert!(line.contains("db.test 3 times within 10.0 s"), "{line}");
    let note = report.notes.iter().find(|note| note.id == "lookups-apart");
    let text = &note.expect("a note beside requests").text;
    assert!(
        text.contains("10.0.0.53") && text.contains("1 of 41 lookups"),
        "{text}"
    );
}

#[test]
fn where_nothing_was_connected_it_is_a_finding_of_its_resolver() {
    let report = asked(0);
    let [finding] = report.findings.as_slice() else {
        panic!("one finding: {:?}", report.findings);
    };
    assert_eq!(finding.cause, crate::registry::Id::DnsRetry);
    assert_eq!(finding.service, "10.0.0.53:53");
    assert_eq!(finding.verdict, crate::report::Verdict::Possible);
    assert!(
        finding.evidence[0]
            .text
            .ends_with("never answered: db.test")
    );
    assert_eq!(
        names(&report).map(|(state, _)| state),
        Some(LayerState::Accused)
    );
}

#[test]
fn where_no_answer_would_be_seen_none_is_missed() {
    let mut analyzer = Analyzer::new(Options::default());
    for again in 0..3 {
        pass(
            &mut analyzer,
            again * 5_000,
            &message(7, "db.test", false),
            false,
        );
    }
    assert_eq!(names(&analyzer.finish()), None);
}
