//! Stand-stills behind more exchanges than are kept.

use super::starved::{Step, opened, segments};
use super::*;
use crate::cause::Id;

/// Exchanges of each connection before the server stands still and after: of all of them
/// more than are kept.
const BEFORE: i64 = 600;
const AFTER: i64 = 20;
/// From one to the next, in milliseconds.
const APART: i64 = 2;
/// The stand-still's begin, the acknowledgement of what came, and its end.
const STOOD: (i64, i64, i64) = (1_300, 1_342, 1_700);

fn asked(at: i64, answered: i64) -> [Step; 2] {
    [(at, true, ACK, REQUEST), (answered, false, ACK, RESPONSE)]
}

/// A connection that is answered at once but for one time, or always.
fn connection(waits: bool) -> Vec<Step> {
    let quick = |at: i64| asked(at, at + 1);
    let before = (0..BEFORE).flat_map(|n| quick(1 + n * APART));
    let after = (0..AFTER).flat_map(|n| quick(STOOD.2 + 10 + n * APART));
    let (begin, acknowledged, end) = STOOD;
    let meanwhile: Vec<Step> = if waits {
        let [asked, answered] = asked(begin, end);
        vec![asked, (acknowledged, false, ACK, b"".as_slice()), answered]
    } else {
        (begin..end).step_by(50).flat_map(quick).collect()
    };
    opened(before.chain(meanwhile).chain(after))
}

fn found(connections: u16, others: u16) -> Vec<Id> {
    let mut analyzer = Analyzer::new(Options::default());
    let all = (0..connections + others).flat_map(|n| segments(n, connection(n < connections)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(segment, _)| segment.at);
    for (number, (mut segment, payload)) in (1..).zip(all) {
        segment.number = number;
        analyzer.segment(&segment, payload);
    }
    let findings = analyzer.finish().findings;
    findings.iter().map(|finding| finding.cause).collect()
}

#[test]
fn a_long_one_is_found_behind_thousands_of_quick_answers() {
    assert_eq!(found(5, 0).first(), Some(&Id::StopTheWorld));
}

#[test]
fn none_is_where_another_connection_was_answered_meanwhile() {
    assert!(!found(5, 1).contains(&Id::StopTheWorld));
}
