//! State of one direction of a connection: its sender's bytes, as one observation point saw them.

use core::time::Duration;

use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::attribution::packet::{Arrival, Pipe, Span};
use crate::attribution::rtt::RoundTrip;
use crate::connection::facts::end::EcnMarks;
use crate::connection::flight::Flight;
use crate::connection::order::Numbering;
use crate::connection::repeats::Repeats;
use crate::connection::sequence::SequenceSpace;
use crate::connection::timing::{Timed, Timing};
use crate::connection::transit::{Reply, Transit};
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::tcp::TCPOLEN_TSTAMP_ALIGNED;
use crate::observed::time::Timestamp;

/// MSS assumed until the SYN or a larger segment shows it (Ethernet with timestamps).
const DEFAULT_MSS: u32 = 1448;
/// MSS of Ethernet without options.
const ETHERNET_MSS: u32 = 1460;
/// Minimum payload of a full segment: the default MSS minus timestamps (RFC 9293 §3.7.1).
const LEAST_MSS: u32 = 524;
/// Payloads of full jumbo frames, of 9,000 or 9,001 bytes, with and without timestamps.
const JUMBO: core::ops::RangeInclusive<u32> = 8_928..=8_961;
/// Number of pairs of largest segments that shows that these are full.
const FULL_PAIRS: u8 = 2;

/// State of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Half {
    /// The sequence numbers that were seen and acknowledged.
    pub(crate) sequence: SequenceSpace,
    /// The options that this side offered, and the largest segment that it sent.
    pub(crate) offer: Offer,
    timing: Timing,
    /// Round trip from a segment of this side passing the observation point to the peer's reply
    /// passing back.
    pub(crate) to_peer: RoundTrip,
    /// The reply time measured by the latest acknowledgement, if it measured one.
    pub(crate) reply: Option<Duration>,
    /// Segments with payload.
    pub(crate) data_segments: u64,
    /// Data segments that were retransmitted, or filled a gap out of order.
    pub(crate) repaired: u64,
    numbering: Numbering,
    /// Data that was retransmitted.
    pub(crate) repeats: Repeats,
    /// The zero windows that this side advertised.
    pub(crate) zero_window: ZeroWindow,
    /// Congestion marks (ECN) on this side's packets.
    pub(crate) ecn_marks: EcnMarks,
    /// Bytes that this side has in flight at a time.
    pub(crate) flight: Flight,
    /// Bytes of packets that a router reported as too big: it dropped the packets, and the bytes
    /// are immediately retransmitted in smaller ones.
    too_big: Option<Box<Span>>,
    /// Time for which this side's segments queued on their way to the observation point.
    pub(crate) transit: Transit,
}

/// The options that one side offered, and the largest segment that it sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    /// The MSS that this side offered.
    pub(crate) mss: Option<u16>,
    /// The window scale that this side offered; `None` if the SYN was not seen or offered none.
    pub(crate) window_scale: Option<u8>,
    /// The window scale in effect, if the kernel of one end reported it.
    pub(crate) kernel_shift: Option<u8>,
    /// True if this side's segments carry timestamps.
    has_timestamps: bool,
    /// The largest payload seen of those that are [beyond](Self::is_beyond) what a SYN shows.
    largest: u32,
    /// Number of times that two segments of this size followed each other within one flight.
    pairs: u8,
    /// True if the previous data segment had this size.
    was_largest: bool,
}

impl Offer {
    /// Returns true if no SYN shows the size of a full segment, or a wrong one: a device on the path
    /// may lower the MSS that this side offers, but not what it sends.
    #[inline]
    fn is_beyond(&self, len: u32) -> bool {
        let mss = self.mss.map(u32::from);
        mss.is_none_or(|mss| len > mss && len <= ETHERNET_MSS)
    }

    /// Takes in the size of a data segment that is [beyond](Self::is_beyond) what a SYN shows.
    /// `is_next`: it follows the previous one, which is not yet acknowledged.
    fn note_size(&mut self, len: u32, is_next: bool) {
        if len > self.largest {
            (self.largest, self.pairs) = (len, 0);
            self.was_largest = true;
            return;
        }
        let is_largest = len == self.largest;
        let was_largest = core::mem::replace(&mut self.was_largest, is_largest);
        if is_largest && was_largest && is_next {
            self.pairs = self.pairs.saturating_add(1);
        }
    }

    /// Returns the payload of a full segment, if no SYN shows the MSS. The largest segments are full
    /// if several of them were in flight together: a tunnel or an overlay network leaves less room
    /// than Ethernet, jumbo frames leave more. Segments of other sizes are those of a kernel that
    /// lets the network card split them.
    fn assumed_mss(&self) -> u32 {
        let is_usual = (LEAST_MSS..DEFAULT_MSS).contains(&self.largest);
        let full = self.full().filter(|full| is_usual || JUMBO.contains(full));
        full.unwrap_or(DEFAULT_MSS)
    }

    /// Returns the size of the largest segments, if they are full.
    #[inline]
    fn full(&self) -> Option<u32> {
        (self.pairs >= FULL_PAIRS).then_some(self.largest)
    }
}

/// The zero windows that one side advertised.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ZeroWindow {
    /// True if the latest segment advertised a zero window.
    pub(crate) is_now: bool,
    /// True if any segment advertised a zero window.
    pub(crate) was_ever: bool,
}

impl Half {
    /// Records what a SYN of this side offers.
    pub(crate) fn open(&mut self, syn: &Segment) {
        self.sequence.open(syn.seq);
        self.offer.mss = syn.options.mss;
        self.offer.window_scale = syn.options.window_scale;
        self.offer.has_timestamps = syn.options.timestamps.is_some();
        self.numbering.meet(syn);
    }

    /// Records what a non-SYN segment reveals about this side's offer, as one end's kernel knows
    /// it.
    #[inline]
    pub(crate) fn learn_terms(&mut self, segment: &Segment) {
        if self.offer.kernel_shift.is_none() && segment.options.window_scale.is_some() {
            self.offer.kernel_shift = segment.options.window_scale;
            self.offer.mss = self.offer.mss.or(segment.options.mss);
        }
    }

    /// Records that a router rejected the packet at `seq` as too big: the bytes in flight from
    /// there on are in packets just as big, or are retransmitted with it (`tcp_simple_retransmit()`
    /// in `net/ipv4/tcp_input.c`).
    pub(crate) fn told_too_big(&mut self, seq: u32) {
        if self.sequence.base().is_none() {
            return;
        }
        let start = self.sequence.offset(seq);
        if start >= self.sequence.next || start < self.sequence.acked {
            return;
        }
        let end = self.sequence.next;
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

    /// Returns true if the peer's segment echoes a timestamp of this side that is newer than the
    /// last one seen.
    #[inline]
    pub(crate) fn is_echoed_early(&self, segment: &Segment) -> bool {
        let echoed = segment.options.timestamps.map(|(_, echo)| echo);
        let last = self.transit.last_timestamp();
        echoed
            .zip(last)
            .is_some_and(|(echo, last)| echo.wrapping_sub(last) as i32 > 0)
    }

    /// Returns the payload of a full segment from this side, given what its peer offered.
    #[inline]
    pub(crate) fn mss(&self, peer: &Self) -> u32 {
        let offered = match (self.offer.mss, peer.offer.mss) {
            (Some(own), Some(peer)) => Some(u32::from(own.min(peer))),
            (one, other) => one.or(other).map(u32::from),
        };
        let options = if self.offer.has_timestamps {
            TCPOLEN_TSTAMP_ALIGNED
        } else {
            0
        };
        let Some(offered) = offered else {
            return self.offer.assumed_mss();
        };
        let allowed = peer.offer.mss.map_or(0, u32::from).saturating_sub(options);
        let shown = self.offer.full().filter(|&shown| shown <= allowed);
        let mss = offered.saturating_sub(options).max(1);
        shown.map_or(mss, |shown| shown.max(mss))
    }

    /// Returns the window that a segment of this side advertises, in bytes; `None` if the window
    /// scale was not seen (RFC 7323 §2.2: scaling applies only if both SYNs offer it).
    #[inline]
    pub(crate) fn window(&self, peer: &Self, segment: &Segment) -> Option<u64> {
        if let Some(shift) = self.offer.kernel_shift {
            return Some(u64::from(segment.window) << shift.min(14));
        }
        if !self.sequence.has_start() || !peer.sequence.has_start() {
            return None;
        }
        let shift = match (self.offer.window_scale, peer.offer.window_scale) {
            (Some(shift), Some(_)) => shift.min(14),
            _ => 0,
        };
        Some(u64::from(segment.window) << shift)
    }

    /// Returns the properties of this side as a sender.
    pub(crate) fn pipe(&self, peer: &Self) -> Pipe {
        Pipe {
            mss: self.mss(peer),
            is_agreed: self.offer.mss.is_some() && peer.offer.mss.is_some(),
            has_timestamps: self.offer.has_timestamps && peer.offer.has_timestamps,
            has_start: self.sequence.has_start(),
            has_clock: self.transit.has_clock(),
            is_numbered: self.numbering.tells_losses(),
            has_repeats: self.repeats.has_any(),
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
        let is_past_hole = self.sequence.offset(segment.seq) > self.sequence.next;
        self.numbering.place(segment, mss, is_past_hole)
    }

    /// Takes in a data segment; returns the span of its payload and its relation to earlier bytes.
    pub(crate) fn observe_data(&mut self, segment: &Segment, order: Order) -> (Span, Arrival) {
        let start = self.sequence.offset(segment.seq);
        let span = Span {
            start,
            end: start + u64::from(segment.payload_len),
        };
        if segment.payload_len == 1 && !segment.flags.contains(TcpFlags::PSH) {
            self.sequence.begin_with_probe();
        }
        self.data_segments += 1;
        if self.offer.is_beyond(segment.payload_len) {
            let is_next = start == self.sequence.next && self.sequence.acked < start;
            self.offer.note_size(segment.payload_len, is_next);
        }
        self.offer.has_timestamps |= segment.options.timestamps.is_some();
        let arrival = match self.sequence.place(span) {
            Arrival::Repeat if order == Order::Older => Arrival::Copy,
            arrival => arrival,
        };
        // A segment that arrives late because others overtook it repairs nothing.
        let is_fill = arrival == Arrival::Fill && order != Order::Older;
        self.repaired += u64::from(is_fill || arrival == Arrival::Repeat);
        match arrival {
            Arrival::Repeat => {
                let tsval = segment.options.timestamps.map(|(tsval, _)| tsval);
                let is_acked = span.end <= self.sequence.acked;
                let need = if is_acked {
                    Need::Untold
                } else {
                    Need::Pending
                };
                self.repeats
                    .watch((segment.number, segment.at), span, tsval, need);
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

    /// Records a FIN after the payload that ends at `end`.
    pub(crate) fn finish(&mut self, end: u64, at: Timestamp) {
        let span = Span {
            start: end,
            end: end + 1,
        };
        if self.sequence.fin.is_some() {
            self.timing.spoil(span);
            return;
        }
        self.sequence.fin = Some(end);
        self.timing.push(Timed {
            end: span.end,
            at,
            is_repeated: false,
        });
    }

    /// Takes in the peer's acknowledgement; returns the acknowledged stretch that was never seen
    /// here because the capture missed it.
    pub(crate) fn acknowledge(&mut self, ack: u32, at: Timestamp, is_bare: bool) -> Option<Span> {
        let offset = self.sequence.offset(ack);
        if offset <= self.sequence.acked {
            return None;
        }
        self.sequence.acked = offset;
        self.measure(offset, at, is_bare);
        self.sequence.acknowledge(offset)
    }

    fn measure(&mut self, offset: u64, at: Timestamp, is_bare: bool) {
        self.reply = None;
        let last = self.timing.take_until(offset);
        if let Some(timed) = last.filter(|timed| timed.end == offset && !timed.is_repeated) {
            let took = at.since(timed.at);
            if self.sequence.fin.is_some_and(|fin| offset > fin) {
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
        self.sequence.retire();
        self.repeats.retire();
        self.timing.keep_last();
    }
}

/// Returns true if the segment carries a FIN, which takes sequence space in addition to the
/// payload.
pub(crate) fn carries_fin(segment: &Segment) -> bool {
    segment.flags.contains(TcpFlags::FIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::Endpoint;
    use crate::observed::segment::TcpOptions;

    /// Returns the full size of the server's segments: its SYN offers 1,400 bytes, the client's
    /// `allowed`, and its data comes in segments of `sizes`.
    fn full(allowed: u16, sizes: &[u32]) -> u32 {
        let end = |last, port| Endpoint::new([10, 0, 0, last].into(), port);
        let (client, server) = (end(1, 40_000), end(2, 80));
        let mut halves =
            [(client, server, allowed), (server, client, 1400)].map(|(from, to, mss)| {
                let mut half = Half::default();
                half.open(&Segment {
                    flags: TcpFlags::SYN,
                    options: TcpOptions {
                        mss: Some(mss),
                        ..TcpOptions::default()
                    },
                    ..Segment::sent(from, to, Timestamp::default())
                });
                half
            });
        let [peer, own] = &mut halves;
        let mut seq = 1;
        for &payload_len in sizes {
            let segment = Segment {
                seq,
                payload_len,
                ..Segment::sent(server, client, Timestamp::default())
            };
            own.observe_data(&segment, Order::Untold);
            seq += payload_len;
        }
        own.mss(peer)
    }

    #[test]
    fn what_a_sender_sends_corrects_a_lowered_offer() {
        assert_eq!(full(1460, &[1400; 5]), 1400);
        assert_eq!(full(1460, &[1460; 5]), 1460);
        assert_eq!(full(1460, &[1460, 1400, 1400, 1400]), 1400, "only once");
        // A network card joins segments.
        assert_eq!(full(1460, &[2800; 5]), 1400);
        assert_eq!(full(1420, &[1460; 5]), 1400, "the client allows less");
    }
}
