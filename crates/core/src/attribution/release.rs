//! Acknowledgements and windows, by the time at which they reached the sender.
//!
//! Timestamps of the observation point are not the sender's. What passes the point at time `t`
//! answers what passed the point one round trip to the sender earlier.

use core::time::Duration;

use super::Trace;
use crate::attribution::packet_record::PacketRecord;
use crate::exchange::Side;
use crate::observed::time::Timestamp;

/// Maximum time after an ACK's arrival in which a sender that was blocked on it sends.
pub(super) const REACTION: Duration = Duration::from_micros(500);

/// Minimum round trip of a path: on a shorter path an ACK returns immediately, and a segment that
/// leaves with it may just as well have been written at that moment.
pub(super) const LEAST_TRIP: Duration = Duration::from_millis(1);

/// Variation of the round trip, as a fraction of it (one in this many).
const STRAYING: u32 = 32;

/// Number of links on which a full segment is serialized: by its sender, and once more by a switch.
const WIRES: u32 = 2;

/// Returns the maximum time that `sender` takes to send a segment after its release arrived. The
/// round trip to the sender may have been measured with a bare acknowledgement, which takes far
/// less time to serialize on a slow link than a full segment.
pub(super) fn reaction(trace: &Trace<'_>, sender: Side) -> Duration {
    REACTION + trace.serialization(sender) * WIRES
}

/// Returns the maximum delay of an answer of `sender` relative to the minimum round trip.
fn lateness(trace: &Trace<'_>, sender: Side) -> Duration {
    let trip = trace.round_trip(sender);
    trip.error() + reaction(trace, sender) + trip.floor().unwrap_or_default() / STRAYING
}

/// Returns the peer's acknowledgement or window update with which `packet`, at `index`, left, if
/// there is one.
pub(super) fn release<'a>(
    trace: &Trace<'a>,
    packet: &PacketRecord,
    index: usize,
) -> Option<&'a PacketRecord> {
    let trip = trace.round_trip(packet.by);
    let target = packet.at - trip.floor()?;
    let slack = trip.error() + REACTION;
    let packets = trace.packets.get(..index).unwrap_or_default();
    let from = packets.partition_point(|other| other.at < target - lateness(trace, packet.by));
    let near = packets
        .iter()
        .skip(from)
        .take_while(|other| other.at <= target + slack);
    near.into_iter()
        .find(|other| other.by == packet.by.peer() && lets_go(trace, packet.by, other))
}

/// Returns true if a segment of the peer makes room for more of `sender`'s data: it acknowledges
/// something, widens the window, or reports data beyond a hole. After a loss, a duplicate
/// acknowledgement does too (each takes a segment out of the pipe: RFC 6675 §4, RFC 5681 §3.2).
fn lets_go(trace: &Trace<'_>, sender: Side, other: &PacketRecord) -> bool {
    let is_duplicate = other.data.is_none() && trace.pipe(sender).has_losses;
    other.is_news || other.reports.hole || is_duplicate
}

/// Returns true if `packet`, sent after a full segment, left about a round trip after an
/// acknowledgement that makes room. On a path whose delay varies, the sender is as likely to have
/// waited for that acknowledgement as for its program.
pub(super) fn is_about_a_trip_later(
    trace: &Trace<'_>,
    packet: &PacketRecord,
    index: usize,
) -> bool {
    let Some(trip) = trace.round_trip(packet.by).floor() else {
        return false;
    };
    let (least, most) = (trip * 7 / 8, trip * 3 / 2);
    let packets = trace.packets.get(..index).unwrap_or_default().iter().rev();
    let mut words = packets.take_while(|other| packet.at.since(other.at) <= most);
    trip >= LEAST_TRIP
        && words.any(|other| {
            let is_word = other.by == packet.by.peer() && other.is_news && other.data.is_none();
            is_word && packet.at.since(other.at) >= least
        })
}

/// Returns the release of `packet` only if it carried no data: a message of the peer is sent by its
/// program.
pub(super) fn bare_release<'a>(
    trace: &Trace<'a>,
    packet: &PacketRecord,
    index: usize,
) -> Option<&'a PacketRecord> {
    release(trace, packet, index).filter(|ack| ack.data.is_none())
}

/// The acknowledgements and windows that the sender of `packet` had received from its peer just
/// before the release of `packet`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// The end of the sender's data that was acknowledged.
    pub(super) acked: u64,
    /// The furthest byte that the sender was allowed to send; `None` if the window scale is not
    /// known.
    pub(super) edge: Option<u64>,
    /// True if the peer's last window was closed.
    pub(super) is_closed: bool,
}

/// Returns the acknowledgements and windows that the sender of `packet` had received, without those
/// of the segment that released `packet`.
pub(super) fn heard(trace: &Trace<'_>, packet: &PacketRecord, index: usize) -> Option<Heard> {
    let until = packet.at - trace.round_trip(packet.by).floor()? - lateness(trace, packet.by);
    last_word(trace, packet.by.peer(), until, index)
}

/// Returns what the peer had sent by the time `packet` passed, whether received yet or not.
pub(super) fn told(trace: &Trace<'_>, packet: &PacketRecord, index: usize) -> Option<Heard> {
    last_word(trace, packet.by.peer(), packet.at, index)
}

fn last_word(trace: &Trace<'_>, by: Side, until: Timestamp, index: usize) -> Option<Heard> {
    let packets = trace.packets.get(..index).unwrap_or_default();
    let end = packets.partition_point(|packet| packet.at <= until);
    let last = packets
        .get(..end)
        .unwrap_or_default()
        .iter()
        .rev()
        .find(|packet| packet.by == by);
    let (acked, edge, is_closed) = match last {
        Some(last) => (last.ack, last.edge, last.is_closed),
        // The peer has sent nothing since the exchange began.
        None => {
            let mut sent = packets.iter().filter(|packet| packet.by == by.peer());
            sent.find_map(|packet| packet.data)
                .map(|data| (data.acked, data.edge, false))?
        }
    };
    Some(Heard {
        acked,
        edge: (edge > 0).then_some(edge),
        is_closed,
    })
}
