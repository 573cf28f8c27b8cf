//! Tests of time that is only assumed to be the path's, or not a response's.

use super::starved::{Step, opened, segments};
use super::*;
use crate::report::{Caveat, OverallResult};

const ASKED: &[u8] = b"\x01\x00\x00\x20 some words of an unknown kind";
const ANSWERED: &[u8] = b"\x02\x00\x00\x10 and some more.";
const TURNS: i64 = 60;

/// Requests 20 ms apart, each answered 4 ms later. Without `is_whole`, the capture begins behind the
/// handshake. If `is_acked`, the server's kernel acknowledges each request after 1 ms.
fn requests(is_whole: bool, is_acked: bool) -> Vec<Step> {
    let turn = |n: i64| {
        let ms = 10 + n * 20;
        let ack = is_acked.then_some((ms + 1, false, ACK, b"".as_slice()));
        let request = (ms, true, ACK, REQUEST);
        let end = [(ms + 4, false, ACK, RESPONSE), (ms + 4, true, ACK, b"")];
        [request].into_iter().chain(ack).chain(end)
    };
    let skipped = if is_whole { 0 } else { 3 };
    opened((0..TURNS).flat_map(turn)).split_off(skipped)
}

/// Undecoded requests 20 ms apart. Every `nth` response has a second part `later` ms after the first
/// one, for which the client waits.
fn in_parts(nth: i64, later: i64) -> Vec<Step> {
    let turn = |n: i64| {
        let ms = 10 + n * 20;
        let rest = (n % nth == 0).then_some((ms + 1 + later, false, ACK, ANSWERED));
        let begin = [(ms, true, ACK, ASKED), (ms + 1, false, ACK, ANSWERED)];
        begin.into_iter().chain(rest)
    };
    opened((0..TURNS).flat_map(turn))
}

fn result(steps: Vec<Step>) -> (OverallResult, Vec<Caveat>) {
    let mut analyzer = Analyzer::new(Options::default());
    for (segment, payload) in segments(0, steps) {
        analyzer.segment(&segment, payload);
    }
    let overall = analyzer.finish().overall.expect("an overall result");
    (overall.result, overall.caveats)
}

#[test]
fn a_distance_that_no_kernel_shows_is_said_to_be_assumed() {
    for (is_whole, is_acked) in [(false, false), (true, false), (false, true)] {
        let (result, caveats) = result(requests(is_whole, is_acked));
        let is_assumed = !is_whole && !is_acked;
        assert_eq!(
            caveats.contains(&Caveat::DistanceAssumed),
            is_assumed,
            "{is_whole} {is_acked}: {result:?} {caveats:?}"
        );
        assert!(
            !is_assumed || result == OverallResult::NotJudged,
            "{result:?}"
        );
    }
}

#[test]
fn what_follows_an_undecoded_response_after_a_pause_may_belong_to_it() {
    let is_open = |nth, later| {
        let (result, caveats) = result(in_parts(nth, later));
        assert_eq!(
            result == OverallResult::NotJudged,
            caveats.contains(&Caveat::EndsUnknown),
            "{result:?} {caveats:?}"
        );
        caveats.contains(&Caveat::EndsUnknown)
    };
    assert!(is_open(2, 12));
    assert!(is_open(4, 12), "a few of them");
    assert!(!is_open(2, 1), "right behind it");
    assert!(!is_open(TURNS, 12), "once: {} of {TURNS}", 1);
}
