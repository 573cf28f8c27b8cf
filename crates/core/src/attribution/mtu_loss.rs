//! A path that passes small segments but no full ones.

use super::Trace;
use crate::attribution::packet::Arrival;
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::{MtuLoss, Recovery, RecoveryMechanism, Side};
use crate::observed::time::Timestamp;

/// Returns the full segments of a response that never arrived, however often retransmitted, while
/// smaller ones did.
pub(super) fn mtu_loss(trace: &Trace<'_>, recoveries: &[Recovery]) -> Option<MtuLoss> {
    if !trace.is_near(Side::Server) {
        elsewhere(trace, recoveries)
    } else if trace.pipe(Side::Server).has_repeats {
        beside_sender(trace)
    } else {
        None
    }
}

fn response<'a>(trace: &'a Trace<'_>) -> impl Iterator<Item = (&'a PacketRecord, Data)> {
    let span = trace.response;
    trace
        .packets
        .iter()
        .filter(|packet| packet.by == Side::Server)
        .filter_map(|packet| Some((packet, packet.data?)))
        .filter(move |(_, data)| data.span.start < span.end.max(span.start + 1))
        .filter(move |(_, data)| data.span.end > span.start)
}

/// Returns the first full segment, if it was retransmitted at least twice and was not acknowledged
/// before it was split into smaller ones, if ever.
fn beside_sender(trace: &Trace<'_>) -> Option<MtuLoss> {
    let (first, full) = response(trace).find(|(_, data)| !data.is_small)?;
    let copies = || {
        response(trace).filter(|(_, data)| {
            data.arrival == Arrival::Repeat && data.span.start == full.span.start
        })
    };
    let in_full: Vec<&PacketRecord> = copies()
        .filter(|(_, data)| !data.is_small)
        .map(|(packet, _)| packet)
        .collect();
    let smaller = copies().find(|(_, data)| data.is_small);
    let last = in_full.last().filter(|_| in_full.len() >= 2)?;
    let until = smaller.map_or(Timestamp::MAX, |(packet, _)| packet.at);
    let meanwhile = || {
        let by_client = trace.packets.iter().filter(|p| p.by == Side::Client);
        by_client.filter(|packet| packet.at > first.at && packet.at < until)
    };
    let has_passed = meanwhile().any(|packet| packet.ack > full.span.start);
    (!has_passed).then(|| MtuLoss {
        copies: u32::try_from(in_full.len()).unwrap_or(u32::MAX),
        passed: smaller.map_or(0, |(_, data)| length(data)),
        is_heard: meanwhile().next().is_some(),
        packet: last.number,
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
        packet: repair.packet,
    })
}

fn length(data: Data) -> u32 {
    u32::try_from(data.span.end - data.span.start).unwrap_or(u32::MAX)
}
