//! A path that passes small segments but no large ones.

use core::time::Duration;

use super::Trace;
use crate::attribution::packet::Arrival;
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::{MtuLoss, Recovery, RecoveryMechanism, Side};
use crate::observed::time::Timestamp;

/// Maximum payload that every path has to pass (RFC 9293 §3.7.1: the MSS that is assumed if no
/// option names another).
const EVERY_PATH: u64 = 536;
/// Minimum time after which the sender has retransmitted twice: its timer is 200 ms or more
/// (`TCP_RTO_MIN`), and doubles.
const TWO_COPIES: Duration = Duration::from_millis(600);

/// Returns the large segments of a response that never arrived, however often retransmitted, while
/// smaller ones did.
pub(super) fn mtu_loss(trace: &Trace<'_>, recoveries: &[Recovery]) -> Option<MtuLoss> {
    if !trace.is_near(Side::Server) {
        elsewhere(trace, recoveries).or_else(|| never_came(trace))
    } else if trace.pipe(Side::Server).has_repeats {
        beside_sender(trace)
    } else {
        never_came(trace)
    }
}

/// Iterates over the segments of the response; over all of the server's, if it is not known which
/// bytes are its response, as within a TLS handshake.
fn response<'a>(trace: &'a Trace<'_>) -> impl Iterator<Item = (&'a PacketRecord, Data)> {
    let span = Some(trace.response).filter(|span| span.end > span.start);
    let is_part = move |data: Data| {
        span.is_none_or(|span| data.span.start < span.end && data.span.end > span.start)
    };
    trace
        .packets
        .iter()
        .filter(|packet| packet.by == Side::Server)
        .filter_map(|packet| Some((packet, packet.data?)))
        .filter(move |(_, data)| is_part(*data))
}

/// Returns the first full segment, if it was retransmitted at least twice and was not acknowledged
/// before it was split into smaller ones, if ever. A response without a full segment is told by its
/// largest one.
fn beside_sender(trace: &Trace<'_>) -> Option<MtuLoss> {
    let full = response(trace).find(|(_, data)| !data.is_small);
    let (first, large) = full.or_else(|| largest(trace))?;
    // The kernel may have handed several segments to the network card as one.
    let is_large =
        |data: &Data| !data.is_small || (full.is_none() && length(*data) >= length(large));
    let copies = || {
        response(trace).filter(|(_, data)| {
            data.arrival == Arrival::Repeat && data.span.start == large.span.start
        })
    };
    let in_full: Vec<&PacketRecord> = copies()
        .filter(|(_, data)| is_large(data))
        .map(|(packet, _)| packet)
        .collect();
    let smaller = copies().find(|(_, data)| !is_large(data));
    let last = in_full.last().filter(|_| in_full.len() >= 2)?;
    let until = smaller.map_or(Timestamp::MAX, |(packet, _)| packet.at);
    let meanwhile = || {
        let by_client = trace.packets.iter().filter(|p| p.by == Side::Client);
        by_client.filter(|packet| packet.at > first.at && packet.at < until)
    };
    let has_passed = meanwhile().any(|packet| packet.ack > large.span.start);
    (!has_passed).then(|| MtuLoss {
        copies: u32::try_from(in_full.len()).unwrap_or(u32::MAX),
        passed: smaller.map_or(0, |(_, data)| length(data)),
        is_heard: meanwhile().next().is_some(),
        is_full: full.is_some(),
        unseen: 0,
        packet: last.number,
    })
}

/// Returns the largest of the response's segments, if it is so large that not every path has to pass
/// it.
fn largest<'a>(trace: &'a Trace<'_>) -> Option<(&'a PacketRecord, Data)> {
    let largest = response(trace).max_by_key(|(packet, data)| {
        let is_first = core::cmp::Reverse((packet.at, packet.number));
        (data.span.end - data.span.start, is_first)
    });
    largest.filter(|(_, data)| u64::from(length(*data)) > EVERY_PATH)
}

/// Returns the bytes that the server had sent before a smaller segment that came, if they are too
/// many for a segment that every path passes, and did not come in the time in which the server sends
/// them three times.
fn never_came(trace: &Trace<'_>) -> Option<MtuLoss> {
    let lost = trace.after.lost_of_server;
    if lost <= EVERY_PATH || trace.end.since(trace.begin) < TWO_COPIES {
        return None;
    }
    let mss = trace.pipe(Side::Server).mss;
    let by_server = || {
        trace
            .packets
            .iter()
            .filter(|packet| packet.by == Side::Server)
    };
    let passed = by_server()
        .filter_map(|packet| packet.data)
        .filter(|data| data.arrival == Arrival::PastHole && length(*data) < mss);
    Some(MtuLoss {
        copies: 0,
        passed: passed.map(length).max().unwrap_or_default(),
        is_heard: true,
        is_full: lost >= u64::from(mss),
        unseen: lost,
        packet: by_server().next_back()?.number,
    })
}

/// Returns the full segments that are missing from a long response whose segments come only after
/// ineffective retransmissions, and are then all smaller than the ends had agreed on and than before.
fn elsewhere(trace: &Trace<'_>, recoveries: &[Recovery]) -> Option<MtuLoss> {
    if !trace.pipe(Side::Server).is_agreed {
        return None;
    }
    let repair = recoveries.iter().find(|recovery| {
        recovery.sender == Side::Server
            && recovery.again
            && recovery.mechanism == RecoveryMechanism::Timeout
    })?;
    // Two small segments that came together may look like a full one.
    let full = response(trace).filter(|(_, data)| !data.is_small).count();
    let (repairing, data) = response(trace).find(|(packet, _)| packet.number == repair.packet)?;
    let has_come_before = response(trace)
        .take_while(|(packet, _)| packet.at < repairing.at)
        .any(|(_, other)| length(other) == length(data));
    let alike = response(trace)
        .filter(|(_, other)| length(*other) == length(data))
        .count();
    let goes_on = trace.response.end > data.span.end + u64::from(length(data));
    (full * 4 <= alike && goes_on && alike >= 3 && !has_come_before).then(|| MtuLoss {
        copies: 0,
        passed: length(data),
        is_heard: true,
        is_full: true,
        unseen: 0,
        packet: repair.packet,
    })
}

fn length(data: Data) -> u32 {
    u32::try_from(data.span.end - data.span.start).unwrap_or(u32::MAX)
}
