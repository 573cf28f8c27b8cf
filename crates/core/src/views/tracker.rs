//! Positions in the streams of one connection, packet by packet.

use core::time::Duration;
use std::collections::VecDeque;

use crate::observed::flow::PerDirection;
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// Maximum number of unacknowledged segments of a direction that are remembered.
const MAX_OUTSTANDING: usize = 1 << 14;
/// Maximum number of holes of a direction that are remembered.
const MAX_HOLES: usize = 64;
/// Time within which a segment that fills a hole counts as overtaken rather than sent again, as in
/// Wireshark, if IP identifications do not show in which order segments were sent.
const OVERTAKEN: Duration = Duration::from_millis(3);

/// Sequence numbers, windows and round trips of a connection.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    ways: PerDirection<Way>,
}

/// The effect of a segment on its connection. Positions count from the first sequence number seen of
/// their direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentEffect {
    /// Position of the segment's first byte.
    pub(super) seq: u64,
    /// Position after the segment's last byte.
    pub(super) end: u64,
    /// Position in the other direction that the segment acknowledges; `None` without the ACK flag.
    pub(super) ack: Option<u64>,
    /// True if the segment acknowledges more than all segments before it.
    pub(super) is_ack_new: bool,
    /// The receive window in bytes; `None` if the capture does not show how it is scaled.
    pub(super) window: Option<u64>,
    /// True if the segment's bytes were sent before.
    pub(super) is_again: bool,
    /// Bytes that were sent and not acknowledged: in the segment's direction, and in the other one.
    pub(super) in_flight: [u64; 2],
    /// Time since the data that the segment acknowledges was sent. `None` if the segment
    /// acknowledges nothing new, or if that data was sent more than once (RFC 6298 §3).
    pub(super) round_trip: Option<Duration>,
}

#[derive(Debug, Default)]
struct Way {
    base: Option<u32>,
    sent: i64,
    acked: i64,
    /// The window scale that the sender offered; `None` before its SYN was seen.
    scale: Option<Option<u8>>,
    /// Bytes that the capture passed over so far.
    holes: Vec<(i64, i64)>,
    /// The time and the IP identification of the last segment with bytes.
    last: (Timestamp, Option<u16>),
    /// The ends of segments with the times at which they were sent.
    outstanding: VecDeque<(i64, Timestamp)>,
    /// Stretches, in order and apart, in which the ends of outstanding segments lie of which a part
    /// was sent again: after the first number, up to the second. Each has the end of at least one
    /// outstanding segment that no other has, so they are no more than these.
    again: VecDeque<(i64, i64)>,
}

impl Tracker {
    /// Returns true if the segment opens another connection than the one so far.
    pub(super) fn is_new(&self, segment: &Segment) -> bool {
        let is_open = segment.flags.contains(TcpFlags::SYN) && !has_ack(segment);
        let base = self.ways.get(segment.direction).base;
        is_open && base.is_some_and(|base| base != segment.seq)
    }

    pub(super) fn observe_segment(&mut self, segment: &Segment) -> SegmentEffect {
        let window = self.window(segment);
        let (own, peer) = self.ways.both_mut(segment.direction);
        own.base.get_or_insert(segment.seq);
        let start = own.position(segment.seq);
        let end = start + i64::from(segment.sequence_len());
        let is_again = own.send(start, end, (segment.at, segment.ip.id));
        let (mut is_ack_new, mut round_trip) = (false, None);
        let ack = has_ack(segment).then(|| {
            peer.base.get_or_insert(segment.ack);
            let acked = peer.position(segment.ack);
            is_ack_new = acked > peer.acked;
            round_trip = peer.acknowledge(acked, segment.at);
            positive(acked)
        });
        SegmentEffect {
            seq: positive(start),
            end: positive(end),
            ack,
            is_ack_new,
            window,
            is_again,
            in_flight: [own, peer].map(|way| positive(way.sent - way.acked)),
            round_trip,
        }
    }

    fn window(&mut self, segment: &Segment) -> Option<u64> {
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let (own, peer) = self.ways.both_mut(segment.direction);
        if is_syn {
            own.scale = Some(segment.options.window_scale);
        }
        let shift = match (own.scale, peer.scale) {
            _ if is_syn => 0,
            // The kernel reports the scale in effect with each segment.
            _ if segment.options.window_scale.is_some() => segment.options.window_scale?,
            (Some(Some(own)), Some(Some(_))) => own,
            (Some(None), _) | (_, Some(None)) => 0,
            (None, _) | (_, None) => return None,
        };
        Some(u64::from(segment.window) << shift.min(14))
    }
}

fn has_ack(segment: &Segment) -> bool {
    segment.flags.contains(TcpFlags::ACK)
}

fn positive(position: i64) -> u64 {
    u64::try_from(position).unwrap_or_default()
}

/// Returns true if a segment that arrived after `last` was probably sent before it.
fn is_overtaken(late: (Timestamp, Option<u16>), last: (Timestamp, Option<u16>)) -> bool {
    match (late.1, last.1) {
        (Some(late), Some(last)) if late != last => (late.wrapping_sub(last) as i16) < 0,
        _ => late.0.since(last.0) <= OVERTAKEN,
    }
}

impl Way {
    fn position(&self, seq: u32) -> i64 {
        let sent = self.base.unwrap_or_default().wrapping_add(self.sent as u32);
        self.sent + i64::from(seq.wrapping_sub(sent) as i32)
    }

    /// Records the bytes of a segment; returns true if they were sent before.
    fn send(&mut self, start: i64, end: i64, sent: (Timestamp, Option<u16>)) -> bool {
        if start == end {
            return false;
        }
        let is_next = start >= self.sent;
        let is_again = if is_next {
            let is_hole = start > self.sent && self.holes.len() < MAX_HOLES;
            self.holes.extend(is_hole.then_some((self.sent, start)));
            if self.outstanding.len() < MAX_OUTSTANDING {
                self.outstanding.push_back((end, sent.0));
            }
            false
        } else {
            self.send_again(start);
            !self.fill(start, end) || !is_overtaken(sent, self.last)
        };
        self.sent = self.sent.max(end);
        self.last = sent;
        is_again
    }

    /// Marks the outstanding segments that end after `start` as sent again. The stretches that the
    /// new one contains are dropped, each of which was added once.
    fn send_again(&mut self, mut start: i64) {
        let last = self.outstanding.back().map_or(i64::MIN, |last| last.0);
        if last <= start {
            return;
        }
        while let Some(&(from, until)) = self.again.back() {
            if until < start {
                break;
            }
            start = start.min(from);
            self.again.pop_back();
        }
        self.again.push_back((start, last));
    }

    /// Removes the bytes from the holes; returns true if they were all in one.
    fn fill(&mut self, start: i64, end: i64) -> bool {
        let mut holes = self.holes.iter();
        let Some(at) = holes.position(|hole| hole.0 <= start && end <= hole.1) else {
            return false;
        };
        let (from, until) = self.holes.swap_remove(at);
        let rests = [(from, start), (end, until)];
        let rests = rests.into_iter().filter(|(from, until)| from < until);
        self.holes.extend(rests);
        // Of a hole that is filled in its middle two remain.
        self.holes.truncate(MAX_HOLES);
        true
    }

    /// Records an acknowledgement; returns the round trip that it shows.
    fn acknowledge(&mut self, acked: i64, at: Timestamp) -> Option<Duration> {
        if acked <= self.acked {
            return None;
        }
        self.acked = acked;
        let mut newest = None;
        while let Some(sent) = self.outstanding.front().filter(|sent| sent.0 <= acked) {
            newest = Some(*sent);
            self.outstanding.pop_front();
        }
        let (end, sent) = newest?;
        while self.again.front().is_some_and(|again| again.1 < end) {
            self.again.pop_front();
        }
        let is_once = self.again.front().is_none_or(|again| again.0 >= end);
        // A stretch ends with its last outstanding segment.
        if self.again.front().is_some_and(|again| again.1 == end) {
            self.again.pop_front();
        }
        is_once.then(|| at.since(sent))
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::observed::flow::Endpoint;
    use crate::tests::orders::orders;

    /// Returns the steps of segments: true if the client sent it, its sequence number, its
    /// acknowledgement number, its payload, its time in ms and its IP identification.
    fn steps(segments: &[(bool, u32, u32, u32, i64, u16)]) -> Vec<SegmentEffect> {
        let end = |last, port| Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let mut tracker = Tracker::default();
        let step = |&(is_client, seq, ack, payload_len, ms, id): &_| {
            let ends = [end(1, 4000), end(2, 80)];
            let [from, to] = if is_client { ends } else { [ends[1], ends[0]] };
            let mut segment = Segment::sent(from, to, Timestamp::from_nanos(ms * 1_000_000));
            (segment.seq, segment.ack, segment.payload_len) = (seq, ack, payload_len);
            segment.ip.id = (id > 0).then_some(id);
            tracker.observe_segment(&segment)
        };
        segments.iter().map(step).collect()
    }

    #[test]
    fn positions_continue_across_the_end_of_the_sequence_numbers() {
        let steps = steps(&[
            (true, u32::MAX - 99, 1, 100, 0, 0),
            (true, 0, 1, 100, 1, 0),
            (false, 1, 100, 0, 30, 0),
        ]);
        assert_eq!((steps[1].seq, steps[1].end), (100, 200));
        assert_eq!((steps[1].in_flight[0], steps[2].in_flight[1]), (200, 0));
        assert_eq!(steps[2].ack, Some(200));
        assert_eq!(steps[2].round_trip, Some(Duration::from_millis(29)));
        assert_eq!(steps[2].window, None);
    }

    #[test]
    fn segments_sent_again_differ_from_those_overtaken() {
        let again = |third| {
            let steps = steps(&[(true, 0, 1, 100, 0, 5), (true, 200, 1, 100, 1, 7), third]);
            steps[2].is_again
        };
        assert!(again((true, 0, 1, 100, 2, 8)));
        assert!(!again((true, 100, 1, 100, 2, 6)));
        assert!(again((true, 100, 1, 100, 2, 8)));
        // Without identifications the time decides.
        assert!(!again((true, 100, 1, 100, 4, 0)));
        assert!(again((true, 100, 1, 100, 40, 0)));
    }

    #[test]
    fn data_sent_twice_shows_no_round_trip() {
        let steps = steps(&[
            (true, 0, 1, 100, 0, 0),
            (true, 0, 1, 100, 200, 0),
            (false, 1, 100, 0, 210, 0),
        ]);
        assert!(steps[1].is_again);
        assert_eq!(steps[2].round_trip, None);
    }

    proptest! {
        /// Whatever the order is in which a hole is filled, a part at a time.
        #[test]
        fn holes_keep_to_their_limit(order in orders(MAX_HOLES as u64 * 3)) {
            let mut way = Way::default();
            let sent = (Timestamp::from_nanos(0), None);
            way.send(0, 1, sent);
            way.send(1_000, 1_001, sent);
            for number in order {
                let start = 2 + number as i64 * 3;
                way.send(start, start + 1, sent);
                prop_assert!(way.holes.len() <= MAX_HOLES);
            }
        }

        /// Whatever is sent again and acknowledged in which order: as in a list in which each
        /// segment is marked.
        #[test]
        fn what_was_sent_again_shows_no_round_trip(
            steps in prop::collection::vec((0..4, 0_i64..60), 1..200),
        ) {
            let (mut way, sent) = (Way::default(), (Timestamp::from_nanos(0), None));
            let (mut marks, mut acked) = (Vec::new(), 0);
            for (kind, number) in steps {
                let number = number.min(marks.len() as i64);
                match kind {
                    0 | 1 => {
                        way.send(marks.len() as i64, marks.len() as i64 + 1, sent);
                        marks.push(true);
                    }
                    2 if number < marks.len() as i64 => {
                        way.send(number, number + 1, sent);
                        marks[number as usize..].fill(false);
                    }
                    _ => {
                        let is_shown = way.acknowledge(number, sent.0).is_some();
                        let is_once = || marks[number as usize - 1];
                        prop_assert_eq!(is_shown, number > acked && is_once());
                        acked = acked.max(number);
                    }
                }
                prop_assert!(way.again.len() <= way.outstanding.len());
            }
        }
    }
}
