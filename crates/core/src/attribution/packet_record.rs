//! The packets of open exchanges, reduced to the facts that tiling needs.

use core::time::Duration;

use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::attribution::packet::Queued;
use crate::attribution::packet::Reports;
use crate::attribution::packet::{Arrival, Span};
use crate::exchange::Side;
use crate::observed::packet::PacketTime;
use crate::observed::time::Timestamp;

/// Maximum number of packets kept for one connection's open exchanges.
const MAX_PACKETS: usize = 4096;
/// Number of packets for which a new list has room: that many connections may wait for an answer
/// that each packet more would cost megabytes. Lists that are reused have the room they once needed.
const FIRST_PACKETS: usize = 4;
/// Maximum number of lists kept for reuse of their memory: about the number of connections that
/// have an exchange open at a time while the memory is still cached.
const MAX_SPARE: usize = 64;
/// Maximum length of a list kept for reuse of its memory.
const MAX_SPARE_PACKETS: usize = 256;
/// Gap below which packets are merged when there are too many.
const MERGED_NS: i64 = 250_000;

/// A segment of a connection with an open exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketRecord {
    pub(crate) at: Timestamp,
    pub(crate) number: u64,
    pub(crate) by: Side,
    /// The time for which the segment queued on its way to the observation point, as far as its
    /// sender's clock shows.
    pub(crate) queued: Queued,
    /// The segment's time to live on arrival.
    pub(crate) ttl: u8,
    /// The time for which the connection had been silent before the segment.
    pub(crate) idle: Option<Duration>,
    /// The segment's payload, if any.
    pub(crate) data: Option<Data>,
    /// The end of the peer's bytes that the segment acknowledges.
    pub(crate) ack: u64,
    /// The furthest byte that the segment allows the peer to send; 0 if the window scale was not
    /// seen.
    pub(crate) edge: u64,
    /// True if the segment advertises a zero window, which is zero at any window scale.
    pub(crate) is_closed: bool,
    /// True if the segment acknowledges new data or widens the window.
    pub(crate) is_news: bool,
    /// The segment's selective acknowledgement.
    pub(crate) reports: Reports,
    /// Number of segments of the same sender that were lost before the observation point, just
    /// before this one.
    pub(crate) skipped: u16,
}

/// The part of a packet record that is needed to read the payload. It is a copy, so that the record
/// itself is written once, in its final place. Copying a record that was just written would stall
/// the processor, which cannot forward one load from several stores in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketKey {
    pub(crate) at: Timestamp,
    pub(crate) number: u64,
    pub(crate) by: Side,
    pub(crate) ack: u64,
    /// The time since the connection's previous segment, of either side, minus the time for which
    /// this segment is known to have queued.
    pub(crate) idle: Duration,
    /// True if segments of the same sender were lost just before this one.
    pub(crate) is_after_gap: bool,
    /// The position of the payload's first byte.
    pub(crate) start: u64,
    /// True if the peer's window is closed: the segment is a probe, or its sender waits for room.
    pub(crate) is_shut_out: bool,
}

impl PacketKey {
    /// Returns the time and the number of the packet.
    #[inline]
    pub(crate) const fn time(&self) -> PacketTime {
        PacketTime::of(self.at, self.number)
    }
}

impl PacketRecord {
    /// Returns how much longer the segment queued on its way to the observation point than one
    /// before it.
    pub(super) fn queued_longer_than(&self, before: &Self) -> Duration {
        self.queued
            .possible()
            .saturating_sub(before.queued.possible())
    }
}

/// A segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) span: Span,
    pub(crate) arrival: Arrival,
    /// True if the payload is no multiple of the MSS, so that it ends with a partial segment.
    pub(crate) is_small: bool,
    pub(crate) has_fin: bool,
    /// True if a router had reported that an earlier packet with these bytes was too big.
    pub(crate) was_too_big: bool,
    /// The end of this side's bytes that the peer had acknowledged before the segment.
    pub(crate) acked: u64,
    /// The furthest byte that the peer had allowed; 0 if it is not known.
    pub(crate) edge: u64,
    /// The segment's position, by its sender's IP identifications, among the segments seen before.
    pub(crate) order: Order,
    /// Necessity of the transmission, if the bytes were sent before.
    pub(crate) need: Need,
    /// True if the segment is the first after a wait that only a congestion window reduced by
    /// losses explains.
    pub(crate) after_cut: bool,
    /// Bytes seen but not acknowledged before the segment.
    pub(crate) in_flight: u64,
    /// True if the segment did not fit into the receiver's window as it was when the sender sent
    /// its previous data segment. The last data of a message is sent as soon as it fits (RFC 9293
    /// §3.8.6.2.1, rule 2).
    pub(crate) had_no_room: bool,
}

/// Minimum number of packets for determining the serialization time: in shorter exchanges no sender
/// stops because of it.
const LEAST_PACKETS: usize = 6;
/// Maximum serialization time of a full segment: on the slowest local network (10 Mbit/s), plus a
/// little for the driver. Longer times are due to the path or the program.
const LONGEST_ON_WIRE: Duration = Duration::from_micros(1_500);

/// Returns the serialization time of a full segment of `by`: the minimum gap between two segments
/// that its sender released together. Too long if segments were never sent together; 0 if it cannot
/// be determined.
pub(crate) fn serialization(packets: &[PacketRecord], by: Side) -> Duration {
    if packets.len() < LEAST_PACKETS {
        return Duration::ZERO;
    }
    let own = packets.iter().filter(|packet| packet.by == by);
    let mut last: Option<Timestamp> = None;
    let mut least = None;
    for packet in own {
        let is_full = |data: Data| data.arrival == Arrival::InOrder && !data.is_small;
        match packet.data {
            Some(data) if is_full(data) => {
                let gap = last.replace(packet.at).map(|last| packet.at.since(last));
                least = least.into_iter().chain(gap).min();
            }
            Some(_) => last = None,
            None => {}
        }
    }
    least
        .filter(|&gap| gap <= LONGEST_ON_WIRE)
        .unwrap_or_default()
}

/// The pace of one side's bytes within a stretch: the time from the first segment to the last, and
/// the longest gap between two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) took: Duration,
    pub(crate) longest_gap: Duration,
}

impl Pace {
    /// Returns the pace of the segments up to `until`; the time before the first is not a gap.
    pub(crate) fn of(packets: &[PacketRecord], by: Side, span: Span, until: Timestamp) -> Self {
        let mut ends: Option<(Timestamp, Timestamp)> = None;
        let mut pace = Self::default();
        let ours = packets.iter().filter(|packet| {
            let is_part = |data: Data| data.span.start < span.end && data.span.end > span.start;
            packet.by == by && packet.at <= until && packet.data.is_some_and(is_part)
        });
        for packet in ours {
            let (first, before) = ends.unwrap_or((packet.at, packet.at));
            pace.longest_gap = pace.longest_gap.max(packet.at.since(before));
            pace.took = packet.at.since(first);
            ends = Some((first, packet.at));
        }
        pace
    }
}

/// Memory of packet lists that are no longer in use. A connection without an open exchange holds no
/// list, because most connections are idle at any time.
#[derive(Debug, Default)]
pub(crate) struct SpareRecords {
    lists: Vec<Vec<PacketRecord>>,
}

impl SpareRecords {
    fn list(&mut self) -> Vec<PacketRecord> {
        let spare = self.lists.pop();
        spare.unwrap_or_else(|| Vec::with_capacity(FIRST_PACKETS))
    }
}

/// The packets of a connection, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketRecords {
    list: Vec<PacketRecord>,
}

impl PacketRecords {
    /// Returns the memory that the list holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.list.capacity() * size_of::<PacketRecord>()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, packet: PacketRecord, spare: &mut SpareRecords) {
        if self.list.len() == self.list.capacity() {
            self.make_room(spare);
        }
        self.list.push(packet);
    }

    fn make_room(&mut self, spare: &mut SpareRecords) {
        match self.list.len() {
            0 => self.list = spare.list(),
            MAX_PACKETS.. => self.thin_out(),
            len => self.list.reserve_exact(len.min(MAX_PACKETS - len)),
        }
    }

    pub(crate) fn as_slice(&self) -> &[PacketRecord] {
        &self.list
    }

    /// Records whether packet `number` had to be sent; returns false if the packet is no longer
    /// kept.
    pub(crate) fn resolve(&mut self, number: u64, need: Need) -> bool {
        // Packets are numbered in the order in which they come.
        let at = self.list.partition_point(|packet| packet.number < number);
        let packet = self.list.get_mut(at);
        let packet = packet.filter(|packet| packet.number == number);
        let data = packet.and_then(|packet| packet.data.as_mut());
        data.map(|data| data.need = need).is_some()
    }

    /// Drops the packets that were captured before `begin`.
    pub(crate) fn forget_before(&mut self, begin: Timestamp) {
        if self.list.first().is_some_and(|first| first.at < begin) {
            let first = self.list.partition_point(|packet| packet.at < begin);
            self.list.drain(..first);
        }
    }

    /// Drops all packets, and returns their memory to `spare`.
    #[inline]
    pub(crate) fn clear(&mut self, spare: &mut SpareRecords) {
        if self.list.capacity() == 0 {
            return;
        }
        let mut list = core::mem::take(&mut self.list);
        if spare.lists.len() < MAX_SPARE && list.capacity() <= MAX_SPARE_PACKETS {
            list.clear();
            spare.lists.push(list);
        }
    }

    /// Drops all packets and frees their memory.
    pub(crate) fn retire(&mut self) {
        self.list = Vec::new();
    }

    /// Merges runs of ordinary segments: gaps longer than a quarter of a millisecond and everything
    /// notable stay. If that does not halve the list, the older half is dropped, and its time
    /// becomes unknown.
    fn thin_out(&mut self) {
        let mut last_kept = Timestamp::MIN;
        self.list.retain(|packet| {
            let is_plain = packet
                .data
                .is_none_or(|data| data.arrival == Arrival::InOrder);
            let is_near = packet.at.signed_since(last_kept) < MERGED_NS;
            let keep = !(is_plain && is_near);
            if keep {
                last_kept = packet.at;
            }
            keep
        });
        if self.list.len() > MAX_PACKETS / 2 {
            let excess = self.list.len() - MAX_PACKETS / 2;
            self.list.drain(..excess);
        }
    }
}
