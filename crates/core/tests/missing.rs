//! Leaving out any one packet of a recording turns time into `Unknown` or cuts
//! an exchange; it never gives time to another owner.
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

#[path = "corpus/reading.rs"]
mod reading;

use core::time::Duration;

use lagtrace_core::exchange::Exchange;
use lagtrace_core::flow::Endpoint;
use lagtrace_core::time::Timestamp;
use lagtrace_core::wait::{Bound, Owner, Wait, WaitKind};
use reading::{Captured, analyse, recording, segments};

/// Boundaries that are computed from round trips may move by this much at least.
const LEAST_TOLERANCE: Duration = Duration::from_micros(300);

/// The waits of one client's exchanges, in time order.
fn timeline(exchanges: &[Exchange], client: Endpoint) -> Vec<Wait> {
    let mut waits: Vec<Wait> = exchanges
        .iter()
        .filter(|exchange| exchange.client == client)
        .flat_map(|exchange| exchange.waits.iter().copied())
        .collect();
    waits.sort_by_key(|wait| wait.start);
    waits
}

fn error_of(wait: &Wait) -> Duration {
    match wait.bound {
        Bound::Observed => Duration::ZERO,
        Bound::Inferred(error) => error.max(LEAST_TOLERANCE),
    }
}

/// Where `after` gives time to an owner that `before` does not give it to.
fn conflict(before: &[Wait], after: &[Wait]) -> Option<String> {
    for new in after.iter().filter(|wait| wait.owner != Owner::Unknown) {
        let mut covered = Duration::ZERO;
        for old in before
            .iter()
            .filter(|old| old.start < new.end && old.end > new.start)
        {
            let (start, end): (Timestamp, Timestamp) =
                (old.start.max(new.start), old.end.min(new.end));
            let overlap = end.since(start);
            covered += overlap;
            let tolerance = error_of(old).max(error_of(new));
            if old.owner != new.owner && overlap > tolerance {
                return Some(format!("{overlap:?} of {old:?} became {new:?}"));
            }
        }
        let uncovered = new.duration().saturating_sub(covered);
        if uncovered > error_of(new) {
            return Some(format!(
                "{uncovered:?} that no exchange owned became {new:?}"
            ));
        }
    }
    None
}

/// The share of time that is the same kind of wait in both; informative.
fn leave_out_each(name: &str, packets: usize) -> Vec<String> {
    let all: Vec<Captured> = segments(&recording(name));
    let Some(first) = all.first() else {
        return vec![format!("{name} is empty")];
    };
    let flow = first.0.flow;
    let one: Vec<Captured> = all
        .into_iter()
        .filter(|(segment, _)| segment.flow == flow)
        .take(packets)
        .collect();
    let whole = analyse(&one);
    let client = whole.exchanges.first().expect("an exchange").client;
    let before = timeline(&whole.exchanges, client);
    let mut faults = Vec::new();
    for left_out in 0..one.len() {
        let mut rest = one.clone();
        let (gone, _) = rest.remove(left_out);
        let outcome = analyse(&rest);
        let after = timeline(&outcome.exchanges, client);
        if let Some(fault) = conflict(&before, &after) {
            faults.push(format!(
                "{name} without packet {} ({:?} seq {} ack {} len {}): {fault}",
                gone.number, gone.flags, gone.seq, gone.ack, gone.payload_len
            ));
        }
    }
    let _ = WaitKind::Unknown;
    faults
}

fn assert_none(faults: &[String]) {
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

macro_rules! leave_out {
    ($($test:ident $name:literal;)*) => {
        $(#[test]
        fn $test() {
            assert_none(&leave_out_each($name, 50));
        })*
    };
}

leave_out! {
    the_case_at_the_client "latency-8ms-client";
    the_case_at_the_server "latency-8ms-server";
    the_case_without_distance "latency-0ms-client";
    the_case_far_away "latency-50ms-client";
    the_good_server_at_the_client "good-8ms-client";
    the_good_server_at_the_server "good-8ms-server";
    a_pause_at_the_client "pause-44-8ms-client";
    a_pause_at_the_server "pause-44-8ms-server";
    a_pause_far_away "pause-44-50ms-client";
    thinking_at_the_client "think-44-8ms-client";
    thinking_at_the_server "think-44-8ms-server";
    thinking_without_distance "think-44-0ms-client";
    losses_at_the_client "lossy-latency-8ms-client";
    losses_at_the_server "lossy-latency-8ms-server";
}
