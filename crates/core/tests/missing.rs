//! Leaving out any one packet of a recording turns time into `Unknown` or cuts
//! an exchange; it never gives time to another owner.
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

#[path = "corpus/reading.rs"]
mod reading;
#[allow(dead_code, reason = "the corpus's own test needs all of it")]
#[path = "corpus/truth.rs"]
mod truth;

use core::time::Duration;

use lagtrace_core::exchange::Exchange;
use lagtrace_core::flow::Endpoint;
use lagtrace_core::time::Timestamp;
use lagtrace_core::wait::{Bound, Owner, Wait};
use reading::{Captured, analyse, recording, segments};
use truth::TRUTHS;

/// Boundaries that are computed from round trips may move by this much at least.
const LEAST_TOLERANCE: Duration = Duration::from_micros(300);

/// The waits of one client's exchanges, in time order.
fn timeline(exchanges: &[Exchange], client: Endpoint) -> Vec<Wait> {
    let mut waits: Vec<Wait> = exchanges
        .iter()
        .filter(|exchange| exchange.client == client)
        .flat_map(|exchange| {
            let handshake = exchange.handshake.as_ref();
            let before = handshake.into_iter().flat_map(|handshake| &handshake.waits);
            before.chain(&exchange.waits).copied()
        })
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

/// Where `after` gives more than `slack` to an owner that `before` does not
/// give it to.
fn conflict(before: &[Wait], after: &[Wait], slack: Duration) -> Option<String> {
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
            let tolerance = error_of(old).max(error_of(new)).max(slack);
            let is_other = old.owner != new.owner && old.owner != Owner::Unknown;
            if is_other && overlap > tolerance {
                return Some(format!("{overlap:?} of {old:?} became {new:?}"));
            }
        }
        let uncovered = new.duration().saturating_sub(covered);
        if uncovered > error_of(new).max(slack) {
            return Some(format!(
                "{uncovered:?} that no exchange owned became {new:?}"
            ));
        }
    }
    None
}

/// Every packet of the recording's first connection in turn. Bytes turned to
/// something that is no HTTP leave only the turns to go by.
fn leave_out_each(name: &str, packets: usize, is_scrambled: bool, slack: Duration) -> Vec<String> {
    let mut one: Vec<Captured> = segments(&recording(name));
    let flow = one.first().expect("a packet").0.flow;
    one.retain(|(segment, _)| segment.flow == flow);
    one.truncate(packets);
    if is_scrambled {
        one.iter_mut().for_each(|(_, payload)| payload.fill(0x16));
    }
    let whole = analyse(&one);
    let client = whole.exchanges.first().expect("an exchange").client;
    let before = timeline(&whole.exchanges, client);
    let mut faults = Vec::new();
    let mut compare = |rest: &[Captured], what: String| {
        let after = timeline(&analyse(rest).exchanges, client);
        if let Some(fault) = conflict(&before, &after, slack) {
            faults.push(format!("{name} without {what}: {fault}"));
        }
    };
    for left_out in 0..one.len() {
        let mut rest = one.clone();
        let (gone, _) = rest.remove(left_out);
        let what = format!(
            "packet {} ({:?} seq {} ack {} len {})",
            gone.number, gone.flags, gone.seq, gone.ack, gone.payload_len
        );
        compare(&rest, what);
    }
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

fn all(is_lossless: bool, is_scrambled: bool) -> Vec<String> {
    let meant = TRUTHS
        .iter()
        .filter(|truth| truth.is_lossless == is_lossless);
    meant
        .flat_map(|truth| leave_out_each(truth.recording, 60, is_scrambled, Duration::ZERO))
        .collect()
}

#[test]
fn http_keeps_its_owners() {
    assert_none(&all(true, false));
}

#[test]
fn turns_keep_their_owners() {
    assert_none(&all(true, true));
}

#[test]
fn losses_keep_their_owners() {
    assert_none(&all(false, false));
}

/// Recordings of other protocols than HTTP/1.x, a connection each.
const PROTOCOLS: [&str; 10] = [
    "memcached",
    "mysql",
    "postgres",
    "redis",
    "tls-1.2",
    "tls-1.2-server",
    "tls-1.2-resumed",
    "tls-1.3",
    "tls-1.3-retry",
    "tls-1.3-gnutls",
];

#[test]
fn other_protocols_keep_their_owners() {
    let faults: Vec<String> = PROTOCOLS
        .iter()
        .flat_map(|name| {
            // Some crossed no path: their waits are as short as its stamps stray.
            leave_out_each(
                &format!("../../protocols/{name}"),
                60,
                false,
                LEAST_TOLERANCE,
            )
        })
        .collect();
    assert_none(&faults);
}

/// Streams overlap: each is held against itself.
#[test]
fn streams_keep_their_owners() {
    let one: Vec<Captured> = segments(&recording("../../protocols/http2"));
    let whole = analyse(&one).exchanges;
    let client = whole.first().expect("an exchange").client;
    let of = |exchanges: &[Exchange], request: &Option<String>| {
        let mut exchanges = exchanges.to_vec();
        exchanges.retain(|exchange| exchange.request == *request);
        timeline(&exchanges, client)
    };
    let mut faults = Vec::new();
    for left_out in 0..one.len() {
        let mut rest = one.clone();
        let (gone, _) = rest.remove(left_out);
        let after = analyse(&rest).exchanges;
        for exchange in &whole {
            let request = &exchange.request;
            let fault = conflict(&of(&whole, request), &of(&after, request), Duration::ZERO);
            faults.extend(fault.map(|fault| format!("without {}: {fault}", gone.number)));
        }
    }
    assert_none(&faults);
}

/// A capture that began later has no handshake to take the distance from, and
/// says so by its error; what counts as flow follows the jitter seen.
#[test]
fn a_late_start_keeps_owners() {
    let slack = Duration::from_millis(1);
    let mut faults = Vec::new();
    for truth in TRUTHS.iter().filter(|truth| truth.is_lossless) {
        let mut one: Vec<Captured> = segments(&recording(truth.recording));
        let flow = one.first().expect("a packet").0.flow;
        one.retain(|(segment, _)| segment.flow == flow);
        let whole = analyse(&one);
        let client = whole.exchanges.first().expect("an exchange").client;
        let before = timeline(&whole.exchanges, client);
        for late in 1..one.len().min(12) {
            let after = timeline(&analyse(&one[late..]).exchanges, client);
            let fault = conflict(&before, &after, slack);
            faults.extend(
                fault.map(|fault| format!("{} from packet {late}: {fault}", truth.recording)),
            );
        }
    }
    assert_none(&faults);
}
