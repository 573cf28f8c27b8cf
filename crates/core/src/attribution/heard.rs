//! The time at which the client received a response that had passed the observation point long
//! before, derived from the client's acknowledgements.

use core::time::Duration;

use super::Trace;
use crate::attribution::packet::Arrival;
use crate::attribution::packet::Need;
use crate::attribution::packet_record::PacketRecord;
use crate::exchange::Side;
use crate::observed::tcp::TCP_DELACK_MAX;

/// Maximum gap between segments that also arrive close together, so that the client's kernel
/// handled them one directly after the other.
const TOGETHER: Duration = Duration::from_millis(2);

/// Returns the time, beyond the path's minimum, that the end of the response took to reach the
/// client. `None` if no acknowledgement shows it: a delayed one says nothing about the path. The
/// time for which the acknowledgement queued on its way back is subtracted, by its timestamp.
pub(super) fn late(trace: &Trace<'_>) -> Option<Duration> {
    // At the client, packets reach it as they pass the point.
    if trace.is_near(Side::Client) {
        return None;
    }
    let floor = trace.trips.client.floor()?;
    let (before, last) = last_two(trace)?;
    let took = before
        .and_then(|before| apart(trace, before, last))
        .or_else(|| outlasted(trace, last, floor))?;
    Some(took.saturating_sub(floor))
}

/// Returns the delay shown by an ACK of the second-last segment that does not cover the last one,
/// although the two were sent directly after each other. The client did not delay this ACK: by the
/// time a delayed ACK leaves, both segments have arrived.
fn apart(trace: &Trace<'_>, before: &PacketRecord, last: &PacketRecord) -> Option<Duration> {
    let covered = before.data?.span.end;
    let mut acks = after(trace, last);
    let first = acks
        .find(|ack| ack.ack >= covered)
        .filter(|ack| ack.ack < trace.response.end)?;
    let own = acks.find(|ack| ack.ack >= trace.response.end)?;
    let apart = last.at.since(before.at);
    if apart > TOGETHER || own.at.since(first.at) > apart + TOGETHER {
        return None;
    }
    let took = first.at.since(before.at).min(own.at.since(last.at));
    Some(took.saturating_sub(first.queued.known()))
}

/// Returns the delay of an ACK that came so late that the server had needlessly retransmitted the
/// data. `None` if the ACK came within the longest delay of a delayed ACK.
fn outlasted(trace: &Trace<'_>, last: &PacketRecord, floor: Duration) -> Option<Duration> {
    let own = after(trace, last).find(|ack| ack.ack >= trace.response.end)?;
    // An ACK that comes later may answer the retransmission: the one before it was lost.
    let is_needless = |packet: &&PacketRecord| {
        let repeat = packet.data.filter(|data| data.arrival == Arrival::Repeat);
        let is_told = repeat.is_some_and(|data| data.need == Need::Spurious);
        let is_of_first =
            own.at.since(packet.at) * 8 < floor * 7 || (is_told && !own.reports.answers_copy);
        let is_between = packet.at > last.at && packet.at < own.at;
        packet.by == Side::Server && is_between && repeat.is_some() && is_of_first
    };
    let took = own.at.since(last.at).saturating_sub(own.queued.known());
    let is_repeated = trace.packets.iter().any(|packet| is_needless(&packet));
    (is_repeated && took >= TCP_DELACK_MAX + floor).then_some(took)
}

/// Iterates over the client's segments after this one.
fn after<'t>(
    trace: &Trace<'t>,
    packet: &'t PacketRecord,
) -> impl Iterator<Item = &'t PacketRecord> {
    let is_after = move |next: &&PacketRecord| next.by == Side::Client && next.at > packet.at;
    trace.packets.iter().filter(is_after)
}

/// Returns the first transmission of the response's last segment, and the segment before it.
fn last_two<'t>(trace: &Trace<'t>) -> Option<(Option<&'t PacketRecord>, &'t PacketRecord)> {
    let mut sent = trace
        .packets
        .iter()
        .filter(|packet| packet.by == Side::Server && packet.data.is_some());
    let mut before: Option<&PacketRecord> = None;
    let last = sent.find(|packet| {
        let reaches = packet
            .data
            .is_some_and(|data| data.span.end >= trace.response.end);
        if !reaches {
            before = Some(packet);
        }
        reaches
    })?;
    let start = last.data?.span.start;
    let is_whole = last.data?.span.end == trace.response.end;
    let is_next = |before: &&PacketRecord| before.data.is_some_and(|data| data.span.end == start);
    is_whole.then_some((before.filter(is_next), last))
}
