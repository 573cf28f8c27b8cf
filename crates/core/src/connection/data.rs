//! A segment's own bytes: arrival, bytes in flight and position in the stream.

use core::cmp::Ordering;
use core::num::NonZeroU64;
use core::time::Duration;

use super::Connection;
use super::half::carries_fin;
use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::attribution::packet::{Arrival, Span};
use crate::attribution::packet_record::Data;
use crate::observed::segment::Segment;

impl Connection {
    /// Takes in the segment's payload, if it has any.
    pub(super) fn take_data(
        &mut self,
        segment: &Segment,
        mss: u32,
        order: Order,
        skipped: u16,
    ) -> Option<Data> {
        if segment.payload_len == 0 {
            return None;
        }
        let window = self.windows.get_mut(segment.direction.reverse());
        let allowed_now = window.now;
        let allowed = core::mem::replace(&mut window.when_used, allowed_now);
        let trip = self.whole_trip();
        let half = self.half_mut(segment.direction);
        let acked = half.sequence.acked;
        let in_flight = half.sequence.next.saturating_sub(acked);
        let (span, arrival) = half.observe_data(segment, order);
        let after_cut = self.after_cut(segment, arrival, trip, in_flight == 0, skipped);
        let half = self.half(segment.direction);
        let was_too_big = arrival == Arrival::Repeat && half.was_too_big(span);
        let had_no_room = allowed.is_some_and(|edge| span.end > edge.get());
        Some(Data {
            span,
            arrival,
            is_small: is_partial(segment.payload_len, mss),
            has_fin: carries_fin(segment),
            was_too_big,
            acked,
            edge: allowed_now.map_or(0, NonZeroU64::get),
            order,
            need: match arrival {
                Arrival::Repeat if span.end <= acked => Need::Spurious,
                Arrival::Repeat => Need::Pending,
                _ => Need::Needed,
            },
            after_cut,
            in_flight,
            had_no_room,
        })
    }

    /// Tracks how much the segment's sender has in flight at a time. Returns true if the segment is
    /// the first after a wait that only a congestion window reduced by losses explains.
    fn after_cut(
        &mut self,
        segment: &Segment,
        arrival: Arrival,
        trip: Duration,
        idle: bool,
        skipped: u16,
    ) -> bool {
        let flight = &mut self.half_mut(segment.direction).flight;
        let bytes = u64::from(segment.payload_len);
        let is_repair = match arrival {
            Arrival::Repeat | Arrival::Fill | Arrival::PastHole => true,
            Arrival::InOrder => skipped > 0 && !flight.is_too_soon(segment.at, trip),
            Arrival::Copy | Arrival::KeepAlive => false,
        };
        let after_cut = match arrival {
            Arrival::InOrder | Arrival::PastHole => flight.add_bytes(segment.at, bytes, trip, idle),
            _ => false,
        };
        if is_repair {
            flight.cut(segment.at);
        }
        after_cut
    }
}

/// Returns true if the segment brought bytes not seen before.
pub(crate) fn is_progress(arrival: Arrival) -> bool {
    matches!(
        arrival,
        Arrival::InOrder | Arrival::PastHole | Arrival::Fill
    )
}

/// Returns true if the payload's length is no multiple of the MSS. Most cases are decided without a
/// division.
#[inline]
fn is_partial(payload_len: u32, mss: u32) -> bool {
    match payload_len.cmp(&mss) {
        Ordering::Less => payload_len > 0,
        Ordering::Equal => false,
        Ordering::Greater => !payload_len.is_multiple_of(mss),
    }
}

/// Returns an empty stretch at `offset`.
pub(crate) fn empty_span(offset: u64) -> Span {
    Span {
        start: offset,
        end: offset,
    }
}
