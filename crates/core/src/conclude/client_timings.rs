//! Exchanges made from the timestamps of our own requests, if no packets were captured.
//!
//! The program knows when it sent a request, and when the first and the last byte of the response
//! arrived. The round trip comes from probes. The timestamps do not show why a response stalled
//! between its first and last byte; an experiment can find out.

use core::time::Duration;

use crate::cause::{grown_handshakes_of, stall_follows_ack};
use crate::exchange::wait::{Bound, Owner, Wait, WaitKind};
use crate::exchange::{
    Connecting, Exchange, ExchangeId, ExchangePackets, Hold, HoldPackets, HoldRelease, Outcome,
    Particulars, PathTimes, ResponseBytes, Seldom, Sending, Side, Signs,
};
use crate::facts::Facts;
use crate::observed::event::{PointId, RequestFailure, RequestSample, TargetId};
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;

/// Maximum gap between two reads that is not a stall.
const FLOW: Duration = Duration::from_micros(500);

/// Returns the target's recorded requests as exchanges.
pub(crate) fn exchanges(facts: &Facts, target: TargetId, server: Endpoint) -> Vec<Exchange> {
    // What waits on the path under load waits there for each request.
    let loaded = grown_handshakes_of(facts, target).map(|(_, loaded)| loaded);
    let travel = loaded.or_else(|| facts.round_trip(target));
    let stall = match stall_follows_ack(facts, target) {
        Some(true) => (WaitKind::ResponseHeld, Owner::Server),
        Some(false) => (WaitKind::ServerPause, Owner::Server),
        None => (WaitKind::Unknown, Owner::Unknown),
    };
    // The server's kernel has what needed no retransmission.
    let is_heard = facts.own_retransmissions(target) == Some(0);
    let made = facts.loads.samples_of(target).map(|(sample, is_closed)| {
        let mut exchange = exchange(sample, server, travel, stall);
        exchange.particulars.closing.server_asked = is_closed;
        exchange.particulars.closing.is_told = true;
        exchange.signs.is_made = sample.flow.is_some();
        exchange.signs.has_response = sample.first_byte.is_some();
        exchange.signs.is_left_waiting = exchange.outcome == Outcome::Cut && sample.flow.is_some();
        exchange.signs.is_request_acked = is_heard && sample.flow.is_some();
        exchange
    });
    made.collect()
}

fn exchange(
    sample: &RequestSample,
    server: Endpoint,
    travel: Option<Duration>,
    stall: (WaitKind, Owner),
) -> Exchange {
    let client = sample.flow.map_or(server, |flow| {
        let (low, high) = flow.ends();
        if low == server { high } else { low }
    });
    let outcome = match sample.outcome {
        Ok(status) => Outcome::Complete(Some(status)),
        Err(RequestFailure::Timeout) => Outcome::TimedOut,
        Err(RequestFailure::Reset) => Outcome::Reset,
        Err(RequestFailure::Closed) => Outcome::Closed,
        Err(_) => Outcome::Cut,
    };
    let waits = tile(sample, travel, stall);
    let sending = Sending {
        holds: hold(sample, &waits).into_iter().collect(),
        ..Sending::default()
    };
    Exchange {
        id: ExchangeId {
            client,
            server,
            point: PointId::default(),
            ordinal: sample.ordinal,
        },
        begin: sample.sent,
        end: sample.ended.max(sample.sent),
        outcome,
        request: None,
        waits,
        sending: sending.into(),
        loss: Seldom::default(),
        response: ResponseBytes {
            count: sample.received_bytes,
            ..ResponseBytes::default()
        },
        path: PathTimes {
            to_server: travel,
            is_told: travel.is_some(),
            ..PathTimes::default()
        },
        packets: ExchangePackets::default(),
        connecting: Connecting {
            setup: sample.setup,
            handshake: None,
        },
        particulars: Particulars::default(),
        signs: Signs::default(),
        at_host: None,
    }
}

fn tile(sample: &RequestSample, travel: Option<Duration>, stall: (WaitKind, Owner)) -> Vec<Wait> {
    let end = sample.ended.max(sample.sent);
    let mut waits = Vec::new();
    let mut cursor = sample.sent;
    let mut push = |until: Timestamp, (kind, owner): (WaitKind, Owner), bound| {
        let until = until.min(end);
        if until > cursor {
            waits.push(Wait {
                start: cursor,
                end: until,
                kind,
                owner,
                released_by: None,
                bound,
            });
            cursor = until;
        }
    };
    let path = (WaitKind::RoundTrip, Owner::Path);
    let (Some(first), Some(travel)) = (sample.first_byte, travel) else {
        push(end, (WaitKind::Unknown, Owner::Unknown), Bound::Observed);
        return waits;
    };
    let travel = travel.min(first.since(sample.sent));
    let inferred = Bound::Inferred(travel / 4);
    push(sample.sent + travel / 2, path, inferred);
    push(
        first - (travel - travel / 2),
        (WaitKind::ServerThink, Owner::Server),
        inferred,
    );
    push(first, path, inferred);
    if sample.longest_gap > FLOW {
        push(first + sample.longest_gap, stall, Bound::Observed);
    }
    push(
        end,
        (WaitKind::ResponseTransfer, Owner::Path),
        Bound::Observed,
    );
    waits
}

/// Returns the stall in the form that the rules use, if an experiment showed that our ACK ends the
/// stall.
fn hold(sample: &RequestSample, waits: &[Wait]) -> Option<Hold> {
    let wait = waits
        .iter()
        .find(|wait| wait.kind == WaitKind::ResponseHeld)?;
    Some(Hold {
        sender: Side::Server,
        release: HoldRelease::Acknowledgement,
        held: wait.duration(),
        ack_delay: sample.longest_gap,
        reaction_ns: 0,
        is_crowded: false,
        packets: HoldPackets::default(),
    })
}
