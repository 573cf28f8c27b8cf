//! Tests of stalls after more exchanges than are kept.

use super::starved::{Step, opened, segments};
use super::*;
use crate::registry::Id;

/// Number of exchanges per connection before the stall and after it. Over all connections, there
/// are more than are kept.
const BEFORE: i64 = 600;
const AFTER: i64 = 20;
/// The time from one exchange to the next, in milliseconds.
const APART: i64 = 2;
/// The time after the stall until all connections are again answered immediately, in milliseconds.
const LAST: i64 = 90;
/// The milliseconds at which the stall begins, the kernel acknowledges the requests, and the stall
/// ends.
const STOOD: (i64, i64, i64) = (1_300, 1_342, 1_700);

fn asked(at: i64, answered: i64) -> [Step; 2] {
    [(at, true, ACK, REQUEST), (answered, false, ACK, RESPONSE)]
}

/// A connection that is answered immediately, except for one request. That request waits until
/// `waits` milliseconds after the stall's end; with `None`, all are answered immediately.
fn connection(waits: Option<i64>) -> Vec<Step> {
    let quick = |at: i64| asked(at, at + 1);
    let before = (0..BEFORE).flat_map(|n| quick(1 + n * APART));
    let after = (0..AFTER).flat_map(|n| quick(STOOD.2 + LAST + n * APART));
    let (begin, acknowledged, end) = STOOD;
    let meanwhile: Vec<Step> = if let Some(longer) = waits {
        let [asked, answered] = asked(begin, end + longer);
        vec![asked, (acknowledged, false, ACK, b"".as_slice()), answered]
    } else {
        (begin..end).step_by(50).flat_map(quick).collect()
    };
    opened(before.chain(meanwhile).chain(after))
}

/// Returns the causes found. Each of `waits` is a connection that waits this many milliseconds
/// longer than the stall, and `others` connections are answered during the stall.
fn found(waits: &[i64], others: usize) -> Vec<Id> {
    let waits = waits.iter().copied().map(Some);
    let all = waits.chain(std::iter::repeat_n(None, others));
    let all = (0..)
        .zip(all)
        .flat_map(|(port, waits)| segments(port, connection(waits)))
        .collect();
    causes(Analyzer::new(Options::default()), all)
}

#[test]
fn a_long_one_is_found_behind_thousands_of_quick_answers() {
    assert_eq!(found(&[0; 5], 0).first(), Some(&Id::StopTheWorld));
}

#[test]
fn who_waits_for_a_processor_after_a_long_one_has_met_it_too() {
    let waits = [0, 0, 0, 20, 40, 60, 80];
    assert_eq!(found(&waits, 0).first(), Some(&Id::StopTheWorld));
}

#[test]
fn none_is_where_others_were_answered_meanwhile_or_each_waits_for_itself() {
    assert!(!found(&[0; 5], 1).contains(&Id::StopTheWorld));
    let apart = [0, 20, 40, 60, 80];
    assert!(!found(&apart, 0).contains(&Id::StopTheWorld));
}
