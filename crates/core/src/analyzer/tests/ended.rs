//! Tests of exchanges and layers at the end of a capture, and around holes in it.

use core::time::Duration;

use super::*;
use crate::report::LayerState;

const QUESTION: (bool, usize) = (true, 40);
const PART: (bool, usize) = (false, 200);
const ACKNOWLEDGED: (bool, usize) = (true, 0);

/// Counts complete exchanges and those that were cut.
fn counts(script: &[(bool, usize)]) -> (u64, u64) {
    let ends =
        [(1, 30_000), (2, 80)].map(|(host, port)| Endpoint::new([10, 0, 0, host].into(), port));
    let mut analyzer = Analyzer::new(Options::default());
    for segment in conversation(ends, script.iter().copied()) {
        analyzer.segment(&segment, b"");
    }
    let exchanges = analyzer.finish().exchanges;
    (exchanges.count, exchanges.cut)
}

#[test]
fn an_answer_that_nobody_acknowledged_may_go_on() {
    let held = [QUESTION, PART, ACKNOWLEDGED, PART];
    assert_eq!(
        counts(&[held.as_slice(), &held, &[QUESTION, PART]].concat()),
        (2, 1)
    );
}

#[test]
fn one_that_was_acknowledged_had_no_reason_to_wait() {
    let script = [QUESTION, PART, QUESTION, PART, ACKNOWLEDGED];
    assert_eq!(counts(&script), (2, 0));
}

#[test]
fn the_only_one_is_taken_as_it_is() {
    assert_eq!(counts(&[QUESTION, PART]), (1, 0));
}

/// Returns the state of the report's layer `name`.
fn state(report: &Report, name: &str) -> Option<LayerState> {
    let layer = report.layers.iter().find(|layer| layer.layer == name);
    layer.map(|layer| layer.state)
}

/// A SYN at the end of the capture, from a port without other packets.
fn last_syn(traffic: &[(Segment, &'static [u8])]) -> Segment {
    let (first, _) = traffic[0];
    let ends =
        [(1, 50_000), (2, 80)].map(|(host, port)| Endpoint::new([10, 0, 0, host].into(), port));
    let (flow, direction) = FlowKey::new(Transport::Tcp, ends[0], ends[1]);
    Segment {
        at: traffic[traffic.len() - 1].0.at,
        number: traffic.len() as u64 + 1,
        flow,
        direction,
        ..first
    }
}

#[test]
fn a_syn_in_flight_at_the_end_is_nobodys_fault() {
    let traffic = traffic(3);
    let mut analyzer = Analyzer::new(Options::default());
    for (segment, payload) in &traffic {
        analyzer.segment(segment, payload);
    }
    analyzer.segment(&last_syn(&traffic), b"");
    let report = analyzer.finish();
    assert_eq!(state(&report, "connection"), Some(LayerState::Cleared));
    let mut alone = Analyzer::new(Options::default());
    alone.segment(&last_syn(&traffic), b"");
    let report = alone.finish();
    assert_eq!(state(&report, "connection"), Some(LayerState::Suspected));
    assert_eq!(state(&report, "transport"), Some(LayerState::NotMeasured));
}

#[test]
fn a_syn_that_waits_far_longer_than_others_is_not_in_flight() {
    for (ahead, expected) in [(10, LayerState::Cleared), (60, LayerState::Suspected)] {
        let traffic = traffic(3);
        let mut analyzer = Analyzer::new(Options::default());
        let mut syn = last_syn(&traffic);
        let end = syn.at;
        syn.at = end - Duration::from_millis(ahead);
        analyzer.segment(&syn, b"");
        for (segment, payload) in &traffic {
            let at = segment.at.max(end - Duration::from_millis(10));
            analyzer.segment(&Segment { at, ..*segment }, payload);
        }
        let report = analyzer.finish();
        assert_eq!(state(&report, "connection"), Some(expected), "{ahead} ms");
    }
}

#[test]
fn a_response_that_is_broken_off_tells_how_long_the_server_thought() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\nok";
    let ends =
        [(1, 30_000), (2, 80)].map(|(host, port)| Endpoint::new([10, 0, 0, host].into(), port));
    let script = [(true, REQUEST), (false, b"".as_slice()), (false, HEAD)];
    let lengths = script.map(|(by_client, payload)| (by_client, payload.len()));
    let mut analyzer = Analyzer::new(Options::default());
    for (segment, (_, payload)) in conversation(ends, lengths).zip(script) {
        analyzer.segment(&segment, payload);
    }
    let report = analyzer.finish();
    assert_eq!((report.exchanges.count, report.exchanges.cut), (0, 1));
    assert_eq!(state(&report, "server"), Some(LayerState::Suspected));
}

#[test]
fn one_retransmission_in_many_segments_clears_the_transport() {
    let ends =
        [(1, 30_000), (2, 80)].map(|(host, port)| Endpoint::new([10, 0, 0, host].into(), port));
    for (asked, expected) in [(5, LayerState::Suspected), (300, LayerState::Cleared)] {
        let script = std::iter::repeat_n([QUESTION, PART], asked).flatten();
        let mut analyzer = Analyzer::new(Options::default());
        let mut last = None;
        for segment in conversation(ends, script) {
            analyzer.segment(&segment, b"");
            last = Some(segment);
        }
        let last = last.expect("some were asked");
        let again = Segment {
            at: last.at + Duration::from_millis(250),
            number: last.number + 1,
            ..last
        };
        analyzer.segment(&again, b"");
        assert_eq!(state(&analyzer.finish(), "transport"), Some(expected));
    }
}

/// Counts complete exchanges and those that were cut, in a capture without the segment at `index`.
fn counts_without(script: &[(bool, usize)], index: usize) -> (u64, u64) {
    let ends =
        [(1, 30_000), (2, 80)].map(|(host, port)| Endpoint::new([10, 0, 0, host].into(), port));
    let mut analyzer = Analyzer::new(Options::default());
    for (at, segment) in conversation(ends, script.iter().copied()).enumerate() {
        if at != index {
            analyzer.segment(&segment, b"");
        }
    }
    let exchanges = analyzer.finish().exchanges;
    (exchanges.count, exchanges.cut)
}

#[test]
fn a_hole_within_an_answer_hides_no_request() {
    let answer = [QUESTION, PART, PART, ACKNOWLEDGED, PART, ACKNOWLEDGED];
    let script = [answer, answer].concat();
    assert_eq!(counts_without(&script, 2), (2, 0));
    // The first answer's end may be in the hole.
    assert_eq!(counts_without(&script, 4), (1, 1));
    // A question may be in the hole, so it is unknown which question was answered.
    assert_eq!(counts_without(&script, 6), (0, 1));
}

/// Counts complete exchanges, and those that the client gave up. A MySQL client sends bytes that
/// cannot be read, and then a FIN after the time `after`.
fn given_up(after: Duration) -> (u64, u64) {
    const GREETING: &[u8] = b"\x4a\0\0\0\x0a8.0.36\0 and whatever follows in a greeting that long";
    const LOGIN: &[u8] = b"\x20\0\0\x01\x85\xa6\xff\x19";
    const DONE: &[u8] = b"\x07\0\0\x02\0\0\0\x02\0\0\0";
    const QUIT: &[u8] = b"\x17\x03\x03\0\x1d a word that nobody can read";
    let ends =
        [(1, 30_000), (2, 3306)].map(|(host, port)| Endpoint::new([10, 0, 0, host].into(), port));
    let script = [
        (false, GREETING),
        (true, LOGIN),
        (false, DONE),
        (true, QUIT),
    ];
    let lengths = script.map(|(by_client, payload)| (by_client, payload.len()));
    let mut analyzer = Analyzer::new(Options::default());
    let mut last = None;
    for (segment, (_, payload)) in conversation(ends, lengths).zip(script) {
        analyzer.segment(&segment, payload);
        last = Some(segment);
    }
    let last = last.expect("some were sent");
    let fin = Segment {
        at: last.at + after,
        number: last.number + 1,
        seq: last.seq.wrapping_add(last.payload_len),
        flags: FIN,
        payload_len: 0,
        ..last
    };
    analyzer.segment(&fin, b"");
    let exchanges = analyzer.finish().exchanges;
    (exchanges.count, exchanges.timeouts)
}

#[test]
fn a_farewell_is_no_request_and_one_that_waits_for_its_answer_is() {
    assert_eq!(given_up(Duration::from_micros(50)), (1, 0));
    assert_eq!(given_up(Duration::from_millis(400)), (1, 1));
}
