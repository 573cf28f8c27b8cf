//! What the end of a capture cuts off, where nothing but turns tells messages apart.

use super::*;

const QUESTION: (bool, usize) = (true, 40);
const PART: (bool, usize) = (false, 200);
const ACKNOWLEDGED: (bool, usize) = (true, 0);

/// How many exchanges are counted, and how many were cut.
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
