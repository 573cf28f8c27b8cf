//! Tests that a recording without any one of its packets has the same owners of time. Time may
//! become `Unknown`, and an exchange may be cut, but no time moves to another owner.

use core::time::Duration;
use std::sync::Arc;

use lagtrace_core::exchange::Exchange;
use lagtrace_core::exchange::wait::{Bound, Owner, Wait};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::time::Timestamp;
use libtest_mimic::Trial;

use crate::reading::{Captured, analyse, recording, segments};
use crate::truth::{PROTOCOLS, TRUTHS};

/// Minimum tolerance for the ends of waits that are computed from round trips.
const LEAST_TOLERANCE: Duration = Duration::from_micros(300);

/// Number of packets of a connection, from its first, that are left out one at a time.
const PACKETS: usize = 60;

/// Returns the waits of one client's exchanges, in order of time.
fn timeline(exchanges: &[Exchange], client: Endpoint) -> Vec<Wait> {
    let mut waits: Vec<Wait> = exchanges
        .iter()
        .filter(|exchange| exchange.id.client == client)
        .flat_map(|exchange| {
            let handshake = exchange.connecting.handshake.as_ref();
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

/// Returns a wait in `after` that gives more than `slack` to an owner that does not have this time
/// in `before`.
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

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |what: &str, name: &'static str, faults: fn(&str) -> Vec<String>| {
        let title = format!("without_a_packet::{what}::{name}");
        trials.push(crate::trial(title, move || faults(name)));
    };
    for truth in TRUTHS {
        if truth.is_lossless {
            add("http_keeps_its_owners", truth.recording, of_http);
            add("turns_keep_their_owners", truth.recording, of_turns);
            add("a_late_start_keeps_owners", truth.recording, late);
        } else {
            add("losses_keep_their_owners", truth.recording, of_http);
        }
    }
    for name in PROTOCOLS {
        match name {
            "http2" => add("streams_keep_their_owners", name, of_streams),
            _ => add("other_protocols_keep_their_owners", name, of_protocol),
        }
    }
    trials
}

fn of_http(name: &str) -> Vec<String> {
    leave_out_each(first_connection(name), Duration::ZERO)
}

/// Leaves out packets of a connection whose payload was overwritten, so that it is no longer HTTP.
/// Only the alternating turns show the exchanges.
fn of_turns(name: &str) -> Vec<String> {
    let mut one = first_connection(name);
    one.iter_mut().for_each(|(_, payload)| payload.fill(0x16));
    leave_out_each(one, Duration::ZERO)
}

/// Leaves out packets of a recording of another protocol. Some of these recordings crossed no path,
/// and their waits are as short as the error of their timestamps.
fn of_protocol(name: &str) -> Vec<String> {
    let one = first_connection(&format!("../../protocols/{name}"));
    leave_out_each(one, LEAST_TOLERANCE)
}

/// Returns the segments of the recording's first connection.
fn first_connection(name: &str) -> Vec<Captured> {
    let mut one: Vec<Captured> = segments(&recording(name));
    let flow = one.first().expect("a packet").0.flow;
    one.retain(|(segment, _)| segment.flow == flow);
    one
}

/// Leaves out each of the first packets, one at a time, and lists the faults.
fn leave_out_each(mut one: Vec<Captured>, slack: Duration) -> Vec<String> {
    one.truncate(PACKETS);
    let whole = analyse(&one);
    let client = whole.exchanges.first().expect("an exchange").id.client;
    let before = timeline(&whole.exchanges, client);
    let mut faults = Vec::new();
    for left_out in 0..one.len() {
        let mut rest = one.clone();
        let (gone, _) = rest.remove(left_out);
        let after = timeline(&analyse(&rest).exchanges, client);
        if let Some(fault) = conflict(&before, &after, slack) {
            let (flags, seq, ack, len) = (gone.flags, gone.seq, gone.ack, gone.payload_len);
            let what = format!(
                "packet {} ({flags:?} seq {seq} ack {ack} len {len})",
                gone.number
            );
            faults.push(format!("without {what}: {fault}"));
        }
    }
    faults
}

/// Leaves out packets of an HTTP/2 connection. Because streams overlap, each stream is compared
/// only with itself.
fn of_streams(name: &str) -> Vec<String> {
    let one: Vec<Captured> = segments(&recording(&format!("../../protocols/{name}")));
    let whole = analyse(&one).exchanges;
    let client = whole.first().expect("an exchange").id.client;
    let of = |exchanges: &[Exchange], request: &Option<Arc<str>>| {
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
    faults
}

/// Lets the capture begin later. It then contains no handshake that shows the round trip, so its
/// waits have larger errors.
fn late(name: &str) -> Vec<String> {
    let slack = Duration::from_millis(1);
    let one = first_connection(name);
    let whole = analyse(&one);
    let client = whole.exchanges.first().expect("an exchange").id.client;
    let before = timeline(&whole.exchanges, client);
    let mut faults = Vec::new();
    for late in 1..one.len().min(12) {
        let after = timeline(&analyse(&one[late..]).exchanges, client);
        let fault = conflict(&before, &after, slack);
        faults.extend(fault.map(|fault| format!("from packet {late}: {fault}")));
    }
    faults
}
