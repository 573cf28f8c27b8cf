//! The short way of a plain exchange, which most exchanges are: one segment each way, of which
//! nothing is in doubt. Its waits are the propagation and the server, so its packets are not
//! searched for anything else.

use core::time::Duration;

use super::{LEAST_DELAYED_ACK, Tiling, Trace};
use crate::attribution::packet::Arrival;
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::wait::{Bound, Owner, Wait, WaitKind};
use crate::exchange::{PathTimes, Queueing, Side};
use crate::observed::time::Timestamp;

/// Tiles a plain exchange as the full way does; returns false if it has to go that way.
pub(super) fn tile(trace: &Trace<'_>, tiling: &mut Tiling) -> bool {
    let floor = trace.trips.server.floor().filter(|_| is_sure(trace));
    let (Some((request, response)), Some(floor)) = (messages(trace), floor) else {
        return false;
    };
    if response.queued.possible() > response.queued.known() + LEAST_DELAYED_ACK {
        return false;
    }
    push_waits(
        &mut tiling.waits,
        trace,
        response,
        floor + response.queued.known(),
    );
    tiling.path = path_times(trace, request, response);
    true
}

/// Returns the packets of an exchange whose messages are one segment each, which arrived in order,
/// and are followed by nothing or by the client's next request: neither message has gaps, and no bare
/// acknowledgement answers the response.
fn messages<'a>(trace: &Trace<'a>) -> Option<(&'a PacketRecord, &'a PacketRecord)> {
    let [request, response, next @ ..] = trace.packets else {
        return None;
    };
    let is_message = |packet: &PacketRecord, by: Side, at: Timestamp| {
        let is_whole = |data: Data| {
            let is_new = data.arrival == Arrival::InOrder && data.span.end > data.span.start;
            is_new && data.span == trace.span(by)
        };
        let is_whole = packet.data.is_some_and(is_whole);
        packet.by == by && packet.at == at && is_whole && is_undisturbed(packet)
    };
    let is_next = |packet: &PacketRecord| {
        let is_behind = |data: Data| data.span.start >= trace.request.end;
        let is_behind = packet.data.is_some_and(is_behind);
        packet.by == Side::Client && is_behind && is_undisturbed(packet)
    };
    let is_plain = is_message(request, Side::Client, trace.begin)
        && is_message(response, Side::Server, trace.end)
        && next.len() <= 1
        && next.iter().all(is_next);
    is_plain.then_some((request, response))
}

/// Returns true if no segment is missing before the packet, and its sender has room for the answer.
fn is_undisturbed(packet: &PacketRecord) -> bool {
    packet.skipped == 0 && !packet.is_closed
}

/// Returns true if nothing on the connection makes it doubtful when the server had the request, and
/// that the response answers it.
fn is_sure(trace: &Trace<'_>) -> bool {
    trace.behind.is_none()
        && trace.torn.is_empty()
        && !trace.pipes.client.has_repeats
        && !trace.pipes.server.has_repeats
        && trace.after.lost_of_server == 0
        && !trace.after.ends_with_fin
        && !trace.doubts.is_unasked
}

/// Appends the way to the server, its thinking, and the way back; without the empty ones, and both
/// ways as one if nothing is between them.
fn push_waits(
    waits: &mut Vec<Wait>,
    trace: &Trace<'_>,
    response: &PacketRecord,
    propagation: Duration,
) {
    let (begin, end) = (trace.begin, trace.end);
    let propagation = propagation.min(end.since(begin));
    let out = begin + propagation / 2;
    let back = end - (propagation - propagation / 2);
    let bound = Bound::Inferred(trace.trips.server.split_error());
    let trip = |start, end, released_by| Wait {
        start,
        end,
        kind: WaitKind::RoundTrip,
        owner: Owner::Path,
        released_by,
        bound,
    };
    let released_by = Some(response.number);
    if back <= out {
        if begin < end {
            waits.push(trip(begin, end, released_by));
        }
        return;
    }
    if begin < out {
        waits.push(trip(begin, out, None));
    }
    waits.push(Wait {
        kind: WaitKind::ServerThink,
        owner: Owner::Server,
        ..trip(out, back, None)
    });
    if back < end {
        waits.push(trip(back, end, released_by));
    }
}

/// Returns what the packets show about the propagation of request and response.
fn path_times(trace: &Trace<'_>, request: &PacketRecord, response: &PacketRecord) -> PathTimes {
    PathTimes {
        idle: request.idle,
        reply: Some(trace.end.since(trace.begin)),
        queued: Queueing {
            request: request.queued.known(),
            response: response.queued.known(),
        },
        to_client: trace.trips.client.floor().unwrap_or_default(),
        to_server: trace.trips.server.floor(),
        is_told: trace.trips.server.is_told(),
        is_measured: trace.trips.server.is_measured(),
        ttl: response.ttl,
        is_numbered: trace.pipes.client.is_numbered,
        ..PathTimes::default()
    }
}
