//! Facts of one end of a connection: what it sent and how it answered.

use core::time::Duration;

use super::Step;
use super::flight::{FirstFlight, PassingPiece};
use super::spell::Spell;
use crate::attribution::LEAST_DELAYED_ACK;
use crate::attribution::packet::Arrival;
use crate::attribution::packet::Order;
use crate::attribution::packet_record::Data;
use crate::exchange::{Recovery, RecoveryMechanism};
use crate::observed::segment::{Segment, TcpFlags, TcpOptions};
use crate::observed::time::Timestamp;
use crate::stats::sample::Sample;

/// Maximum number of retransmissions whose gap is remembered until their exchange shows what they
/// were.
const MAX_GAPS: usize = 8;
/// Maximum delay of a delayed acknowledgement: RFC 1122 §4.2.3.2 allows half a second; the rest
/// allows for a tick of the timer.
const MOST_DELAYED_ACK: Duration = Duration::from_millis(600);
/// Number of unacknowledged segments beyond which a receiver acknowledges immediately (RFC 1122
/// §4.2.3.2: every second full-sized segment).
const DELAYED_SEGMENTS: u64 = 2;

/// Facts of one end.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub(crate) sent: SentCounts,
    has_fin: bool,
    pub(crate) most_in_flight: Option<u32>,
    /// The minimum and maximum of the end's window, in bytes.
    pub(crate) window: Option<(u32, u32)>,
    /// The times that the end took to answer, including propagation from the observation point and
    /// back.
    pub(crate) replies: Sample,
    pub(super) flight: FirstFlight,
    last_data: Option<Timestamp>,
    /// The window field of the end's latest segment.
    last_window: Option<u16>,
    pub(crate) clock: SenderClock,
    /// The end's SYN, if it was seen.
    pub(crate) syn: Option<Syn>,
    pub(crate) ttl: Option<(u8, u8)>,
    /// True if segments after the end's SYN carry timestamps; `None` before any segment came.
    pub(crate) has_timestamps: Option<bool>,
    /// Congestion marks (ECN).
    pub(crate) ecn_marks: EcnMarks,
    /// Facts that most connections never have.
    rare: Option<Box<Rare>>,
}

/// Counts of what one end sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentCounts {
    pub(crate) segments: u32,
    pub(crate) data_segments: u32,
    pub(crate) bytes: u64,
    pub(crate) bare_acks: u32,
    /// Number of data segments whose bytes had passed the observation point before.
    pub(crate) repeats: u32,
    pub(crate) repeated_bytes: u64,
    /// Number of data segments that filled a hole.
    pub(crate) fills: Fills,
    /// Keep-alive and zero-window probes (RFC 9293 §3.8.4, §3.8.6.1).
    pub(crate) probes: u32,
}

/// Congestion marks (ECN, RFC 3168) on one end's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnMarks {
    /// True if the end's SYN or SYN/ACK declares support for ECN.
    pub(crate) is_able: bool,
    /// Number of packets that the path marked.
    pub(crate) marked: u32,
    /// Number of packets that echo marks on the peer's packets.
    pub(crate) echoed: u32,
}

impl EcnMarks {
    /// Takes in a packet of that end.
    #[inline]
    pub(crate) fn observe_segment(&mut self, segment: &Segment) {
        let flags = segment.flags;
        if flags.contains(TcpFlags::SYN) {
            // A SYN requests ECN with both flags, its answer accepts with one (RFC 3168 §6.1.1).
            let asks = flags.contains(TcpFlags::CWR) || flags.contains(TcpFlags::ACK);
            self.is_able = flags.contains(TcpFlags::ECE) && asks;
            return;
        }
        self.marked = self
            .marked
            .saturating_add(u32::from(segment.ip.congestion_marked));
        let is_echo = flags.contains(TcpFlags::ECE);
        self.echoed = self.echoed.saturating_add(u32::from(is_echo));
    }

    /// Returns true if the two ends agreed on ECN. If the handshake was not seen, echoed marks show
    /// the agreement. Without an echo, the bits may have their older meaning (type of service).
    pub(crate) fn are_meant(ends: [Self; 2]) -> bool {
        let [one, other] = ends;
        let is_echoed = one.marked.max(other.marked) > 0 && one.echoed.max(other.echoed) > 0;
        (one.is_able && other.is_able) || is_echoed
    }
}

/// Data segments that filled a hole, by what their sender's IP identifications show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fills {
    /// Number of segments sent after those that arrived before them: the first copy was lost before
    /// the observation point.
    pub(crate) resent: u32,
    /// Number of segments sent before those that arrived ahead of them.
    pub(crate) overtaken: u32,
    /// Number of segments whose sending order is unknown.
    pub(crate) untold: u32,
}

/// The options and fields of a SYN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syn {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) has_timestamps: bool,
    /// Order of the SYN's options, see [`TcpOptions::layout`].
    pub(crate) layout: u32,
}

/// A sender's timestamp clock: its first and its latest reading.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderClock {
    pub(crate) first: Option<(Timestamp, u32)>,
    pub(crate) last: Option<(Timestamp, u32)>,
}

/// Facts that most connections never have.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// The periods in which the end's window was zero.
    pub(crate) zero_window: Spell,
    /// The periods in which the peer's window had no room for another of the end's segments.
    pub(crate) full_window: Spell,
    /// The delays of the end's acknowledgements.
    pub(crate) delayed_acks: Sample,
    pub(crate) duplicate_acks: u32,
    pub(crate) sacks: u32,
    pub(crate) d_sacks: u32,
    pub(crate) fast: u32,
    pub(crate) timeouts: u32,
    pub(crate) tail_loss_probes: u32,
    pub(crate) lost_again: u32,
    /// Number of segments retransmitted although an earlier copy arrived.
    pub(crate) spurious: u32,
    /// Number of segments that the path or the capture duplicated.
    pub(crate) copies: u32,
    /// Maximum number of bytes that overtook a segment.
    pub(crate) reordering: u64,
    /// Minimum time from a segment to its retransmission by a timer.
    pub(crate) least_timeout: Option<Duration>,
    gaps: Vec<(u64, Duration)>,
}

impl End {
    /// Returns true if the end's segments carry timestamps; `None` before any segment showed it.
    pub(crate) fn carries_timestamps(&self) -> Option<bool> {
        self.has_timestamps
            .or(self.syn.map(|syn| syn.has_timestamps))
    }

    /// Returns the bytes of the end's first flight, and true if its window may be larger.
    pub(crate) fn initial_window(&self) -> Option<(u32, bool)> {
        self.flight.window()
    }

    /// Returns the number of segments that were retransmitted or late.
    pub(crate) fn resent(&self) -> u32 {
        let Fills {
            resent,
            overtaken,
            untold,
        } = self.sent.fills;
        let fills = resent.saturating_add(overtaken).saturating_add(untold);
        self.sent.repeats.saturating_add(fills)
    }

    pub(crate) fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Counts a segment of any kind.
    #[inline]
    pub(super) fn count(&mut self, segment: &Segment) {
        self.sent.segments = self.sent.segments.saturating_add(1);
        self.ecn_marks.observe_segment(segment);
        self.sent.bytes += u64::from(segment.payload_len);
        let ttl = segment.ip.ttl;
        if self.ttl != Some((ttl, ttl)) {
            let (least, most) = self.ttl.unwrap_or((ttl, ttl));
            self.ttl = Some((least.min(ttl), most.max(ttl)));
        }
    }

    pub(super) fn open(&mut self, syn: &Segment) {
        let TcpOptions {
            mss,
            window_scale,
            sack_permitted,
            timestamps,
            layout,
            ..
        } = syn.options;
        self.syn = Some(Syn {
            mss,
            window_scale,
            sack_permitted,
            has_timestamps: timestamps.is_some(),
            layout,
        });
    }

    /// Takes in one of the end's own segments after the handshake.
    #[inline]
    pub(super) fn send(&mut self, step: &Step<'_>) {
        let segment = step.segment;
        self.read_clock(segment);
        match &step.data {
            Some(data) => self.send_data(step, data),
            None => self.send_ack(step),
        }
        let window = step.window.and_then(|bytes| u32::try_from(bytes).ok());
        if let Some(window) = window {
            let (least, most) = self.window.unwrap_or((window, window));
            self.window = Some((least.min(window), most.max(window)));
        }
        if segment.window == 0 || self.rare.is_some() {
            let is_zero = segment.window == 0;
            self.rare_mut().zero_window.set(is_zero, segment.at);
        }
        self.last_window = Some(segment.window);
        if segment.options.sack_count > 0 {
            self.count_sack(segment);
        }
    }

    fn read_clock(&mut self, segment: &Segment) {
        let stamp = segment.options.timestamps;
        self.has_timestamps = Some(self.has_timestamps.unwrap_or(true) && stamp.is_some());
        if let Some((tsval, _)) = stamp {
            self.clock.first.get_or_insert((segment.at, tsval));
            self.clock.last = Some((segment.at, tsval));
        }
    }

    fn send_data(&mut self, step: &Step<'_>, data: &Data) {
        let segment = step.segment;
        self.sent.data_segments = self.sent.data_segments.saturating_add(1);
        match data.arrival {
            Arrival::Repeat => self.repeat(segment),
            Arrival::Fill => self.fill(data.order, step.behind),
            Arrival::Copy => self.copy(),
            Arrival::KeepAlive => self.sent.probes = self.sent.probes.saturating_add(1),
            Arrival::InOrder | Arrival::PastHole => {}
        }
        if let Some(in_flight) = step.in_flight {
            let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
            self.most_in_flight = self.most_in_flight.max(Some(in_flight));
        }
        let piece = PassingPiece {
            at: segment.at,
            span: data.span,
            is_small: data.is_small,
            is_next: data.arrival == Arrival::InOrder,
        };
        self.flight.add_piece(piece, step.trip);
        self.last_data = Some(segment.at);
        if step.room.is_some_and(|room| room < u64::from(step.mss)) {
            self.rare_mut().full_window.set(true, segment.at);
        }
    }

    fn copy(&mut self) {
        let rare = self.rare_mut();
        rare.copies = rare.copies.saturating_add(1);
    }

    /// Counts a duplicate of one of the end's segments.
    pub(super) fn doubled(&mut self, segment: &Segment) {
        let has_data = segment.payload_len > 0;
        self.sent.data_segments = self.sent.data_segments.saturating_add(u32::from(has_data));
        self.copy();
    }

    fn fill(&mut self, order: Order, behind: u64) {
        let fills = &mut self.sent.fills;
        match order {
            Order::Newer => fills.resent = fills.resent.saturating_add(1),
            Order::Untold => fills.untold = fills.untold.saturating_add(1),
            Order::Older => {
                fills.overtaken = fills.overtaken.saturating_add(1);
                let rare = self.rare_mut();
                rare.reordering = rare.reordering.max(behind);
            }
        }
    }

    /// Records that one of the end's segments turned out to have been sent needlessly.
    pub(super) fn was_spurious(&mut self) {
        let rare = self.rare_mut();
        rare.spurious = rare.spurious.saturating_add(1);
    }

    fn repeat(&mut self, segment: &Segment) {
        self.sent.repeats = self.sent.repeats.saturating_add(1);
        self.sent.repeated_bytes += u64::from(segment.payload_len);
        let Some(last) = self.last_data else { return };
        let gap = (segment.number, segment.at.since(last));
        let gaps = &mut self.rare_mut().gaps;
        if gaps.len() == MAX_GAPS {
            gaps.remove(0);
        }
        gaps.push(gap);
    }

    fn send_ack(&mut self, step: &Step<'_>) {
        const BARE: u8 = TcpFlags::ACK.0;
        let segment = step.segment;
        if segment.flags.contains(TcpFlags::FIN) {
            self.sent.repeats = self.sent.repeats.saturating_add(u32::from(self.has_fin));
            self.has_fin = true;
        }
        if segment.flags.0 & !(TcpFlags::PSH.0 | TcpFlags::ECE.0 | TcpFlags::CWR.0) != BARE {
            return;
        }
        if step.is_probe {
            self.sent.probes = self.sent.probes.saturating_add(1);
            return;
        }
        self.sent.bare_acks = self.sent.bare_acks.saturating_add(1);
        if step.newly_acked == 0 {
            // RFC 5681 §2, which also requires the window to be the same.
            if step.is_awaited && self.last_window == Some(segment.window) {
                let rare = self.rare_mut();
                rare.duplicate_acks = rare.duplicate_acks.saturating_add(1);
            }
            return;
        }
        let is_little = step.newly_acked < DELAYED_SEGMENTS * u64::from(step.mss);
        let (Some(reply), Some(floor)) = (step.reply, step.floor) else {
            return;
        };
        let delay = reply.saturating_sub(floor);
        if is_little && (LEAST_DELAYED_ACK..=MOST_DELAYED_ACK).contains(&delay) {
            self.rare_mut().delayed_acks.push(delay);
        }
    }

    fn count_sack(&mut self, segment: &Segment) {
        let is_d_sack = is_d_sack(segment.options.sack_blocks(), segment.ack);
        let rare = self.rare_mut();
        rare.sacks = rare.sacks.saturating_add(1);
        rare.d_sacks = rare.d_sacks.saturating_add(u32::from(is_d_sack));
    }

    /// Records the room that the peer's window leaves for this end's bytes.
    #[inline]
    pub(super) fn allowed(&mut self, room: Option<u64>, mss: u32, at: Timestamp) {
        if let (Some(rare), Some(room)) = (&mut self.rare, room)
            && room >= u64::from(mss)
        {
            rare.full_window.set(false, at);
        }
    }

    /// Takes in the repair of a loss of the end's data.
    pub(super) fn recovered(&mut self, recovery: &Recovery) {
        let packet = recovery.packet;
        let rare = self.rare_mut();
        rare.lost_again = rare.lost_again.saturating_add(u32::from(recovery.again));
        match recovery.mechanism {
            RecoveryMechanism::Fast => rare.fast = rare.fast.saturating_add(1),
            RecoveryMechanism::Probe => {
                rare.tail_loss_probes = rare.tail_loss_probes.saturating_add(1);
            }
            RecoveryMechanism::Timeout => {
                rare.timeouts = rare.timeouts.saturating_add(1);
                let gap = rare.gaps.iter().find(|(number, _)| *number == packet);
                let gap = gap.map(|&(_, gap)| gap);
                rare.least_timeout = rare.least_timeout.into_iter().chain(gap).min();
            }
        }
    }
}

/// Returns true if SACK blocks report bytes that arrived twice (RFC 2883 §4): the first block is at
/// or below the acknowledgement, or inside the second.
fn is_d_sack(blocks: &[(u32, u32)], ack: u32) -> bool {
    let not_after = |one: u32, other: u32| one.wrapping_sub(other) as i32 <= 0;
    let Some((&(left, right), rest)) = blocks.split_first() else {
        return false;
    };
    let is_inside = |&(outer_left, outer_right): &(u32, u32)| {
        not_after(outer_left, left) && not_after(right, outer_right)
    };
    not_after(right, ack) || rest.first().is_some_and(is_inside)
}

#[cfg(test)]
mod tests {
    use super::is_d_sack;

    #[test]
    fn a_d_sack_lies_below_the_ack_or_inside_the_next_block() {
        assert!(is_d_sack(&[(100, 200)], 200));
        assert!(is_d_sack(&[(u32::MAX - 9, 5)], 6), "around zero");
        assert!(is_d_sack(&[(300, 400), (300, 900)], 200));
        assert!(!is_d_sack(&[(300, 400), (600, 900)], 200));
        assert!(!is_d_sack(&[], 200));
    }
}
