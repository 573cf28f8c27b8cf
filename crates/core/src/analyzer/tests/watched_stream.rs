//! Tests of streams that a watched server sends without a request.

use super::starved::{Step, at, opened, segments};
use super::*;
use crate::observed::event::{Event, EventBody, Phase};
use crate::observed::kernel_span::WatchTally;
use crate::registry::Id;

const PART: &[u8] = &[b'x'; 1000];
/// Number of parts of a stream before the client's window closes, and after it opens; 1 ms apart.
const PARTS: i64 = 40;
/// The milliseconds at which the client's window closes and opens.
const SHUT: (i64, i64) = (60, 900);

/// A stream that nobody requested.
fn stream() -> Vec<Step> {
    let said = |from| (from..from + PARTS).map(|ms| (ms, false, ACK, PART));
    let heard = |ms| (ms, true, ACK, b"".as_slice());
    let probe = [(500, false, ACK, b"".as_slice()), heard(500)];
    let first = said(10).chain([heard(SHUT.0)]).chain(probe);
    let second = [heard(SHUT.1)].into_iter().chain(said(SHUT.1));
    opened(first.chain(second).chain([heard(SHUT.1 + PARTS)]))
}

/// Returns the causes found by watching five streams. Packets between the milliseconds `unseen` are
/// not seen.
fn found(is_shut: bool, unseen: (i64, i64)) -> Vec<Id> {
    let mut all: Vec<_> = (0..5).flat_map(|port| segments(port, stream())).collect();
    for (segment, _) in &mut all {
        let by_client = segment.flow.destination(segment.direction).port == 80;
        if is_shut && by_client && segment.at >= at(SHUT.0) && segment.at < at(SHUT.1) {
            segment.window = 0;
        }
    }
    let is_seen = |segment: &Segment| segment.at < at(unseen.0) || segment.at >= at(unseen.1);
    all.retain(|(segment, _)| is_seen(segment));
    let mut analyzer = Analyzer::new(Options::default());
    let tally = EventBody::Watched(WatchTally::default());
    analyzer.observe(Event::here(at(0), Phase::Baseline, tally));
    causes(analyzer, all)
}

#[test]
fn a_client_that_has_no_room_for_a_stream_is_told() {
    assert_eq!(found(true, (0, 0)), [Id::ZeroWindow]);
}

#[test]
fn a_server_that_rests_is_not() {
    assert_eq!(found(false, (0, 0)), []);
}

/// A near miss: the client's window may have opened and closed again unseen.
#[test]
fn what_passed_while_nobody_watched_is_nobodys() {
    assert_eq!(found(true, (SHUT.0 + 5, SHUT.1 + 5)), []);
}
