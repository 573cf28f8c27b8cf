//! The limit on the calls that a host makes to another one at a time.

use std::collections::BTreeMap;

use super::{Call, CallKind};
use crate::claim::Statement;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::report::EvidenceKind;

/// Maximum share of the time in which more calls than the limit are in progress: times of two ends of
/// a call differ by little.
const BEYOND: f64 = 0.01;
/// Minimum share of the time in which as many calls as the limit are in progress.
const AT_LIMIT: f64 = 0.6;

/// The calls of a host to another one that are in progress at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cause) struct CallLimit {
    to: Endpoint,
    /// Share of the time with that number of calls in progress.
    share: f64,
}

impl CallLimit {
    /// Returns whom a host calls `width` times at a time, nearly always and never more; `None` if it
    /// calls nobody that way. `calls` are those of the host.
    pub(in crate::cause) fn of(calls: &[Call], width: usize) -> Option<Self> {
        let mut times: BTreeMap<Endpoint, Vec<(Timestamp, bool)>> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.kind == CallKind::Request) {
            let steps = times.entry(call.to).or_default();
            steps.extend([(call.begin, true), (call.end, false)]);
        }
        let limits = times.into_iter().filter_map(|(to, steps)| {
            let share = share_at(steps, width)?;
            Some(Self { to, share })
        });
        limits.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// Returns these calls as evidence.
    pub(in crate::cause) fn evidence(self, width: usize) -> Statement {
        let text = format!(
            "the server's host made at most {width} calls to {} at a time, and that many for {:.0} % \
             of the time",
            self.to,
            self.share * 100.0,
        );
        Statement::shows(EvidenceKind::Wire, text)
    }

    /// Returns what to change.
    pub(in crate::cause) fn change(self) -> String {
        format!(
            "use more connections to {} at a time: a larger pool, or more workers if each has its \
             own; or hold each for a shorter time",
            self.to
        )
    }
}

/// Returns the share of the time in which `width` calls are in progress; `None` if it is small, or if
/// more calls than that are in progress now and then. `steps` are the times at which calls begin (true)
/// and end.
fn share_at(mut steps: Vec<(Timestamp, bool)>, width: usize) -> Option<f64> {
    // At the same time, one ends before the next one begins.
    steps.sort_unstable();
    let (mut open, mut at_limit, mut beyond) = (0_usize, 0.0, 0.0);
    let whole = steps.last()?.0.since(steps.first()?.0).as_secs_f64();
    for (&(from, is_begin), &(until, _)) in steps.iter().zip(steps.iter().skip(1)) {
        open = if is_begin {
            open + 1
        } else {
            open.saturating_sub(1)
        };
        let took = until.since(from).as_secs_f64();
        if open == width {
            at_limit += took;
        } else if open > width {
            beyond += took;
        }
    }
    (at_limit >= whole * AT_LIMIT && beyond <= whole * BEYOND).then(|| at_limit / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps of calls of these begins and ends, in milliseconds.
    fn steps(calls: &[(i64, i64)]) -> Vec<(Timestamp, bool)> {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        let of = |&(begin, end): &(i64, i64)| [(at(begin), true), (at(end), false)];
        calls.iter().flat_map(of).collect()
    }

    #[test]
    fn two_calls_at_a_time_are_a_limit_of_two() {
        let calls: Vec<(i64, i64)> = (0..50)
            .flat_map(|n| [(n * 10, n * 10 + 10), (n * 10 + 5, n * 10 + 15)])
            .collect();
        let share = share_at(steps(&calls), 2).expect("a limit");
        assert!((0.95..=1.0).contains(&share), "{share}");
        assert_eq!(share_at(steps(&calls), 1), None);
        assert_eq!(share_at(steps(&calls), 3), None);
    }

    #[test]
    fn calls_that_are_more_at_times_have_no_limit() {
        let mut calls: Vec<(i64, i64)> = (0..50).map(|n| (n * 10, n * 10 + 20)).collect();
        assert!(share_at(steps(&calls), 2).is_some());
        calls.extend([(100, 130), (300, 320)]);
        assert_eq!(share_at(steps(&calls), 2), None);
        let rare: Vec<(i64, i64)> = (0..50).map(|n| (n * 10, n * 10 + 14)).collect();
        assert_eq!(share_at(steps(&rare), 2), None, "two at a time, but seldom");
    }
}
