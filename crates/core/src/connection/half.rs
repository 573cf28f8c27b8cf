//! State of one direction of a connection: its sender's bytes, as one observation point saw them.

use core::time::Duration;

use crate::attribution::packet::Order;
use crate::attribution::packet::{Arrival, Pipe, Span};
use crate::attribution::rtt::RoundTrip;
use crate::connection::facts::end::Marks;
use crate::connection::flight::Flight;
use crate::connection::order::Numbering;
use crate::connection::repeats::Repeats;
use crate::connection::timing::{Timed, Timing};
use crate::connection::transit::{Reply, Transit};
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::tcp::TCPOLEN_TSTAMP_ALIGNED;
use crate::observed::time::Timestamp;

/// Maximum number of holes remembered at a time; a capture with more has lost track of the stream.
const MAX_HOLES: usize = 32;
/// Maximum number of bytes revealed by one sequence number; a larger step is not a loss but a wrong
/// sequence number.
const MOST_REVEALED: u64 = 1 << 20;
/// MSS assumed until the SYN or a larger segment shows it (Ethernet with timestamps).
const DEFAULT_MSS: u32 = 1448;

/// State of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Half {
    /// Returns the sequence number of stream offset 0.
    base: Option<u32>,
    /// True if offset 0 is the stream's true beginning.
    pub(crate) has_start: bool,
    /// End of the furthest byte seen.
    pub(crate) next: u64,
    /// Furthest byte that the peer acknowledged.
    pub(crate) acked: u64,
    /// Stretches below `next` that were not seen.
    holes: Vec<Span>,
    /// Number of bytes that the peer acknowledged although they were never seen here.
    pub(crate) unseen_bytes: u64,
    /// MSS that this side offered.
    pub(crate) offered_mss: Option<u16>,
    /// Window scale that this side offered; `None`: not seen, or no scaling.
    pub(crate) window_scale: Option<u8>,
    /// Window scale in effect, if it is known from another source than the handshake.
    pub(crate) told_shift: Option<u8>,
    /// Largest payload seen.
    largest: u32,
    has_timestamps: bool,
    timing: Timing,
    /// Round trip from a segment of this side passing the observation point to the peer's reply
    /// passing back.
    pub(crate) to_peer: RoundTrip,
    /// The reply time measured by the latest acknowledgement, if it measured one.
    pub(crate) reply: Option<Duration>,
    /// Segments with payload.
    pub(crate) data_segments: u64,
    /// Offset of the FIN.
    pub(crate) fin: Option<u64>,
    numbering: Numbering,
    /// Data that was retransmitted recently.
    pub(crate) repeats: Repeats,
    /// True if any of this side's data was retransmitted.
    pub(crate) has_repeats: bool,
    /// Data segments that were retransmitted, or filled a gap out of order.
    pub(crate) repaired: u64,
    /// True if this side ever advertised a zero window.
    pub(crate) had_no_window: bool,
    /// Congestion marks (ECN) on this side's packets.
    pub(crate) marks: Marks,
    /// True if this side currently advertises a zero window.
    pub(crate) has_no_window: bool,
    /// Bytes that this side has in flight at a time.
    pub(crate) flight: Flight,
    /// Bytes of packets that a router reported as too big: it dropped the packets, and the bytes
    /// are immediately retransmitted in smaller ones.
    too_big: Option<Box<Span>>,
    /// Time for which this side's segments queued on their way to the observation point.
    pub(crate) transit: Transit,
}

impl Half {
    /// Returns the stream offset of a sequence number: the one nearest to what was seen.
    #[inline]
    pub(crate) fn offset(&mut self, seq: u32) -> u64 {
        let base = *self.base.get_or_insert(seq);
        let near = base.wrapping_add(self.next as u32);
        let delta = i64::from(seq.wrapping_sub(near) as i32);
        // No capture has the 2^63 bytes at which this would overflow.
        (self.next as i64 + delta).max(0) as u64
    }

    /// Returns true if an acknowledgement does not acknowledge the SYN, which is the only thing
    /// that this side has sent, but something else.
    pub(crate) fn is_alien_ack(&self, ack: u32) -> bool {
        self.next == 0 && self.base.is_some_and(|base| base != ack)
    }

    /// Records what a SYN of this side offers.
    pub(crate) fn open(&mut self, syn: &Segment) {
        self.base = Some(syn.seq.wrapping_add(1));
        self.has_start = true;
        self.offered_mss = syn.options.mss;
        self.window_scale = syn.options.window_scale;
        self.has_timestamps = syn.options.timestamps.is_some();
        self.numbering.meet(syn);
    }

    /// Records what a non-SYN segment reveals about this side's offer, as one end's kernel knows
    /// it.
    #[inline]
    pub(crate) fn learn_terms(&mut self, segment: &Segment) {
        if self.told_shift.is_none() && segment.options.window_scale.is_some() {
            self.told_shift = segment.options.window_scale;
            self.offered_mss = self.offered_mss.or(segment.options.mss);
        }
    }

    /// Records that a router rejected the packet at `seq` as too big: the bytes in flight from
    /// there on are in packets just as big, or are retransmitted with it (`tcp_simple_retransmit()`
    /// in `net/ipv4/tcp_input.c`).
    pub(crate) fn told_too_big(&mut self, seq: u32) {
        if self.base.is_none() {
            return;
        }
        let start = self.offset(seq);
        if start >= self.next || start < self.acked {
            return;
        }
        let end = self.next;
        let told = match self.too_big.as_deref() {
            Some(told) if told.end > start => Span {
                start: told.start.min(start),
                end: told.end.max(end),
            },
            _ => Span { start, end },
        };
        self.too_big = Some(Box::new(told));
    }

    /// Returns true if a router rejected these bytes as too big.
    pub(crate) fn was_too_big(&self, span: Span) -> bool {
        self.too_big
            .as_deref()
            .is_some_and(|told| span.start < told.end && span.end > told.start)
    }

    /// Returns the sequence number of stream offset 0.
    pub(crate) fn base(&self) -> Option<u32> {
        self.base
    }

    /// Returns true if an acknowledgement covers bytes of this side that were not seen.
    #[inline]
    pub(crate) fn is_beyond(&self, ack: u32) -> bool {
        let end = self.next + u64::from(self.fin.is_some());
        let seen = self.holes.first().map_or(end, |hole| hole.start);
        let seen = self.base.map(|base| base.wrapping_add(seen as u32));
        seen.is_some_and(|seen| ack.wrapping_sub(seen) as i32 > 0)
    }

    /// Returns true if the peer's segment echoes a timestamp of this side that is newer than the
    /// last one seen.
    #[inline]
    pub(crate) fn is_echoed_early(&self, segment: &Segment) -> bool {
        let echoed = segment.options.timestamps.map(|(_, echo)| echo);
        let last = self.transit.last_stamp();
        echoed
            .zip(last)
            .is_some_and(|(echo, last)| echo.wrapping_sub(last) as i32 > 0)
    }

    /// Returns true if `seq` is the number of the last byte seen, as in keep-alive probes.
    pub(crate) fn is_before_next(&self, seq: u32) -> bool {
        let last = self
            .base
            .map(|base| base.wrapping_add(self.next as u32).wrapping_sub(1));
        self.next > 0 && last == Some(seq)
    }

    /// Returns true if this SYN opens a different connection from the one seen so far.
    pub(crate) fn is_other_syn(&self, syn: &Segment) -> bool {
        self.base
            .is_some_and(|base| base != syn.seq.wrapping_add(1))
    }

    /// Returns the payload of a full segment from this side, given what its peer offered.
    #[inline]
    pub(crate) fn mss(&self, peer: &Self) -> u32 {
        let offered = match (self.offered_mss, peer.offered_mss) {
            (Some(own), Some(peer)) => Some(u32::from(own.min(peer))),
            (one, other) => one.or(other).map(u32::from),
        };
        let options = if self.has_timestamps {
            TCPOLEN_TSTAMP_ALIGNED
        } else {
            0
        };
        match offered {
            Some(mss) => mss.saturating_sub(options).max(1),
            None if self.largest >= DEFAULT_MSS => DEFAULT_MSS,
            None => DEFAULT_MSS.max(self.largest),
        }
    }

    /// Returns the window that a segment of this side advertises, in bytes; `None` if the window
    /// scale was not seen (RFC 7323 §2.2: scaling applies only if both SYNs offer it).
    #[inline]
    pub(crate) fn window(&self, peer: &Self, segment: &Segment) -> Option<u64> {
        if let Some(shift) = self.told_shift {
            return Some(u64::from(segment.window) << shift.min(14));
        }
        if !self.has_start || !peer.has_start {
            return None;
        }
        let shift = match (self.window_scale, peer.window_scale) {
            (Some(shift), Some(_)) => shift.min(14),
            _ => 0,
        };
        Some(u64::from(segment.window) << shift)
    }

    /// Returns the properties of this side as a sender.
    pub(crate) fn pipe(&self, peer: &Self) -> Pipe {
        Pipe {
            mss: self.mss(peer),
            has_start: self.has_start,
            has_clock: self.transit.has_clock(),
            is_numbered: self.numbering.tells_losses(),
            has_repeats: self.has_repeats,
            has_losses: self.repaired > 0,
        }
    }

    /// Records that this side's IP identifications come from a counter shared with other
    /// connections.
    pub(crate) fn shares_counter(&mut self) {
        self.numbering.share();
    }

    /// Returns the number of segments of this side that were lost before the observation point just
    /// before this one, and whether it was sent after all that arrived before it.
    pub(crate) fn place_in_order(&mut self, segment: &Segment, mss: u32) -> (u16, Order) {
        let is_past_hole = self.offset(segment.seq) > self.next;
        self.numbering.place(segment, mss, is_past_hole)
    }

    /// Takes in a data segment; returns the span of its payload and its relation to earlier bytes.
    pub(crate) fn take(&mut self, segment: &Segment, order: Order) -> (Span, Arrival) {
        let start = self.offset(segment.seq);
        let span = Span {
            start,
            end: start + u64::from(segment.payload_len),
        };
        self.data_segments += 1;
        self.largest = self.largest.max(segment.payload_len);
        self.has_timestamps |= segment.options.timestamps.is_some();
        let arrival = match self.place(span) {
            Arrival::Repeat if order == Order::Older => Arrival::Copy,
            arrival => arrival,
        };
        // A segment that arrives late because others overtook it repairs nothing.
        let is_fill = arrival == Arrival::Fill && order != Order::Older;
        self.repaired += u64::from(is_fill || arrival == Arrival::Repeat);
        match arrival {
            Arrival::Repeat => {
                let tsval = segment.options.timestamps.map(|(tsval, _)| tsval);
                self.has_repeats = true;
                self.repeats.watch(segment.number, span, segment.at, tsval);
                self.timing.spoil(span);
            }
            Arrival::InOrder | Arrival::PastHole => self.timing.push(Timed {
                end: span.end,
                at: segment.at,
                is_repeated: false,
            }),
            Arrival::Fill | Arrival::KeepAlive | Arrival::Copy => {}
        }
        (span, arrival)
    }

    /// Takes in the sequence number of a bare ACK, which is its sender's next one (RFC 9293 §3.4):
    /// all bytes before it were sent, whether seen here or not.
    pub(crate) fn reveal(&mut self, seq: u32) {
        let is_known = self.has_start || self.next > 0;
        let offset = self.offset(seq);
        let end = self.fin.map_or(offset, |fin| offset.min(fin));
        if is_known && end > self.next && end - self.next <= MOST_REVEALED {
            self.remember_hole(Span {
                start: self.next,
                end,
            });
            self.next = end;
        }
    }

    /// Records a FIN after the payload that ends at `end`.
    pub(crate) fn finish(&mut self, end: u64, at: Timestamp) {
        let span = Span {
            start: end,
            end: end + 1,
        };
        if self.fin.is_some() {
            self.timing.spoil(span);
            return;
        }
        self.fin = Some(end);
        self.timing.push(Timed {
            end: span.end,
            at,
            is_repeated: false,
        });
    }

    fn place(&mut self, span: Span) -> Arrival {
        if span.end > self.next {
            let arrival = if span.start > self.next && (self.has_start || self.next > 0) {
                self.remember_hole(Span {
                    start: self.next,
                    end: span.start,
                });
                Arrival::PastHole
            } else {
                Arrival::InOrder
            };
            self.next = span.end;
            return arrival;
        }
        if self.fill(span) {
            return Arrival::Fill;
        }
        if span.end - span.start <= 1 && span.end == self.next {
            return Arrival::KeepAlive;
        }
        Arrival::Repeat
    }

    fn remember_hole(&mut self, hole: Span) {
        if self.holes.len() == MAX_HOLES {
            self.holes.remove(0);
        }
        self.holes.push(hole);
    }

    /// Removes `span` from the holes; returns true if it touched one.
    fn fill(&mut self, span: Span) -> bool {
        if self.holes.is_empty() {
            return false;
        }
        let mut touched = false;
        let mut left = Vec::with_capacity(self.holes.len());
        for hole in self.holes.drain(..) {
            if span.end <= hole.start || span.start >= hole.end {
                left.push(hole);
                continue;
            }
            touched = true;
            if hole.start < span.start {
                left.push(Span {
                    start: hole.start,
                    end: span.start,
                });
            }
            if span.end < hole.end {
                left.push(Span {
                    start: span.end,
                    end: hole.end,
                });
            }
        }
        self.holes = left;
        touched
    }

    /// Takes in the peer's acknowledgement; returns the acknowledged stretch that was never seen
    /// here because the capture missed it.
    pub(crate) fn acknowledge(&mut self, ack: u32, at: Timestamp, is_bare: bool) -> Option<Span> {
        let offset = self.offset(ack);
        if offset <= self.acked {
            return None;
        }
        self.acked = offset;
        self.measure(offset, at, is_bare);
        let payload_end = self.fin.map_or(offset, |fin| offset.min(fin));
        let unseen_tail = (payload_end > self.next).then_some(Span {
            start: self.next,
            end: payload_end,
        });
        let torn = self.drop_acknowledged_holes(offset);
        if let Some(tail) = unseen_tail {
            self.next = tail.end;
        }
        let unseen = match (torn, unseen_tail) {
            (Some(hole), Some(tail)) => Some(Span {
                start: hole.start,
                end: tail.end,
            }),
            (one, other) => one.or(other),
        };
        if let Some(span) = unseen {
            self.unseen_bytes += span.end - span.start;
        }
        unseen
    }

    /// Drops the holes that the peer has acknowledged: they will never be filled.
    #[inline]
    fn drop_acknowledged_holes(&mut self, offset: u64) -> Option<Span> {
        if self.holes.is_empty() {
            return None;
        }
        let mut torn: Option<Span> = None;
        self.holes.retain(|hole| {
            let is_acked = hole.end <= offset;
            if is_acked {
                let start = torn.map_or(hole.start, |t| t.start.min(hole.start));
                let end = torn.map_or(hole.end, |t| t.end.max(hole.end));
                torn = Some(Span { start, end });
            }
            !is_acked
        });
        torn
    }

    fn measure(&mut self, offset: u64, at: Timestamp, is_bare: bool) {
        self.reply = None;
        let last = self.timing.take_until(offset);
        if let Some(timed) = last.filter(|timed| timed.end == offset && !timed.is_repeated) {
            let took = at.since(timed.at);
            if self.fin.is_some_and(|fin| offset > fin) {
                self.to_peer.sample_fin(took);
                return;
            }
            if is_bare {
                self.to_peer.sample_receipt(took)
            } else {
                self.to_peer.sample(took)
            }
            self.reply = Some(took);
        }
    }

    /// Returns the number of payload bytes that were seen.
    pub(crate) fn seen_bytes(&self) -> u64 {
        self.next.saturating_sub(self.unseen_bytes)
    }

    /// Returns the reply time of the latest acknowledgement of this side's data, with the minimum.
    pub(crate) fn latest_reply(&self) -> Option<Reply> {
        let (took, least) = self.reply.zip(self.to_peer.floor())?;
        Some(Reply { took, least })
    }

    /// Takes in the time from this side's SYN to its answer.
    pub(crate) fn measure_handshake(&mut self, took: Duration) {
        self.to_peer.sample_handshake(took);
    }

    /// Records that the observation point is on the peer's own host.
    pub(crate) fn stand_at_peer(&mut self) {
        if self.to_peer.floor() != Some(Duration::ZERO) {
            self.to_peer = RoundTrip::none();
        }
    }

    /// Frees what only an open connection needs.
    pub(crate) fn retire(&mut self) {
        self.holes = Vec::new();
        self.repeats.retire();
        self.timing.keep_last();
    }
}

/// Returns true if the segment carries a FIN, which takes sequence space in addition to the
/// payload.
pub(crate) fn carries_fin(segment: &Segment) -> bool {
    segment.flags.contains(TcpFlags::FIN)
}
