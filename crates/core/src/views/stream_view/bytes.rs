//! The bytes of both directions in stream order, turn by turn.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::observed::flow::{Direction, PerDirection};
use crate::observed::segment::{Segment, TcpFlags};

/// Maximum number of bytes kept of one connection, with what its turns and holes take besides.
const MAX_BYTES: usize = 64 << 20;
/// The memory of a turn or of a hole besides the bytes, in bytes: a list that grows to twice its
/// size has it, and the allocation of a turn's own bytes.
const BESIDE: usize = 128;
/// Maximum number of segments that are held until earlier bytes arrive.
const MAX_WAITING: usize = 1 << 16;

/// Puts the bytes of a connection in stream order.
#[derive(Debug, Default)]
pub struct Bytes {
    ways: PerDirection<Way>,
    turns: Vec<Turn>,
    kept: usize,
    is_cut: bool,
}

/// Bytes that one end sent before the other end sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Direction of the bytes.
    pub direction: Direction,
    /// Number of the packet with which the turn began.
    pub packet: u64,
    /// The bytes themselves.
    pub bytes: Vec<u8>,
    /// Holes in the capture: the index in `bytes` at which bytes are missing, and their number.
    pub missing: Vec<(usize, u64)>,
}

#[derive(Debug, Default)]
struct Way {
    /// The sequence number of the stream's first byte.
    base: Option<u32>,
    /// Position of the next byte expected.
    next: i64,
    /// Segments ahead of bytes that have not arrived, by position: length on the wire, captured
    /// bytes, and packet number.
    waiting: BTreeMap<i64, (i64, Vec<u8>, u64)>,
}

impl Bytes {
    /// Processes the connection's next segment and the captured part of its payload.
    pub fn observe_segment(&mut self, segment: &Segment, payload: &[u8]) {
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let (own, peer) = self.ways.both_mut(segment.direction);
        let base = *own
            .base
            .get_or_insert(segment.seq.wrapping_add(u32::from(is_syn)));
        // Bytes that the peer acknowledged were sent, even if the capture missed them.
        if segment.flags.contains(TcpFlags::ACK)
            && !is_syn
            && let Some(base) = peer.base
        {
            let acked = peer.position(base, segment.ack);
            self.flush(segment.direction.reverse(), acked);
        }
        if segment.payload_len == 0 || is_syn {
            return;
        }
        let own = self.ways.get_mut(segment.direction);
        let start = own.position(base, segment.seq);
        let len = i64::from(segment.payload_len);
        let is_known = start + len <= own.next;
        let is_full = own.waiting.len() >= MAX_WAITING || self.kept + payload.len() > MAX_BYTES;
        if is_known || is_full {
            self.is_cut |= is_full && !is_known;
            return;
        }
        if let Entry::Vacant(place) = own.waiting.entry(start) {
            self.kept += payload.len();
            place.insert((len, payload.to_vec(), segment.number));
        }
        self.flush(segment.direction, i64::MIN);
    }

    /// Returns the turns, and true if the connection has more bytes than could be kept.
    pub fn finish(mut self) -> (Vec<Turn>, bool) {
        for direction in [Direction::Forward, Direction::Backward] {
            self.flush(direction, i64::MAX);
        }
        (self.turns, self.is_cut)
    }

    /// Adds the bytes that are in order to the turns. Bytes before `seen` are added even if there
    /// are holes among them.
    fn flush(&mut self, direction: Direction, seen: i64) {
        let own = self.ways.get_mut(direction);
        while let Some(first) = own.waiting.first_entry() {
            let start = *first.key();
            if start > own.next && start >= seen {
                return;
            }
            let (len, bytes, packet) = first.remove();
            let hole = start - own.next;
            let known = usize::try_from(-hole).unwrap_or_default();
            let fresh = bytes.get(known..).unwrap_or_default();
            let end = start + len;
            let cut = (end - own.next.max(start)) - fresh.len() as i64;
            own.next = own.next.max(end);
            let is_same = self
                .turns
                .last()
                .is_some_and(|turn| turn.direction == direction);
            if !is_same {
                self.kept += BESIDE;
                self.turns.push(Turn {
                    direction,
                    packet,
                    bytes: Vec::new(),
                    missing: Vec::new(),
                });
            }
            if let Some(turn) = self.turns.last_mut() {
                let holes = turn.missing.len();
                turn.miss(hole);
                turn.bytes.extend_from_slice(fresh);
                turn.miss(cut);
                self.kept += (turn.missing.len() - holes) * BESIDE;
            }
        }
    }
}

impl Turn {
    fn miss(&mut self, count: i64) {
        if let Ok(count @ 1..) = u64::try_from(count) {
            self.missing.push((self.bytes.len(), count));
        }
    }
}

impl Way {
    /// Returns the position of a sequence number in the stream.
    fn position(&self, base: u32, seq: u32) -> i64 {
        let next = base.wrapping_add(self.next as u32);
        self.next + i64::from(seq.wrapping_sub(next) as i32)
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::observed::event::PointId;
    use crate::observed::flow::{Endpoint, FlowKey, Transport};
    use crate::observed::segment::{IpFacts, TcpOptions};
    use crate::observed::time::Timestamp;

    /// A turn: true if the client sent it, its text, and its holes.
    type Said = (bool, String, Vec<(usize, u64)>);

    /// Returns the turns of segments: true if the client sent it, its sequence number, its
    /// acknowledgement number, its text, and its length on the wire if that is more.
    fn run(segments: &[(bool, u32, u32, &str, u32)]) -> Vec<Said> {
        let end = |last, port| Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let (client, server) = (end(1, 4000), end(2, 80));
        let mut bytes = Bytes::default();
        let mut up = Direction::Forward;
        for (number, &(is_client, seq, ack, text, len)) in (1..).zip(segments) {
            let (from, to) = if is_client {
                (client, server)
            } else {
                (server, client)
            };
            let (flow, direction) = FlowKey::new(Transport::Tcp, from, to);
            if is_client {
                up = direction;
            }
            let segment = Segment {
                at: Timestamp::default(),
                number,
                point: PointId(0),
                flow,
                direction,
                seq,
                ack,
                flags: TcpFlags::ACK,
                window: 0,
                payload_len: len.max(text.len() as u32),
                options: TcpOptions::default(),
                ip: IpFacts::default(),
            };
            bytes.observe_segment(&segment, text.as_bytes());
        }
        let text = |turn: Turn| {
            let text = String::from_utf8_lossy(&turn.bytes).into_owned();
            (turn.direction == up, text, turn.missing)
        };
        bytes.finish().0.into_iter().map(text).collect()
    }

    #[test]
    fn bytes_come_in_order_once_across_the_end_of_the_numbers() {
        let low = u32::MAX - 2;
        let turns = run(&[
            (true, low, 1, "abc", 0),
            (true, low.wrapping_add(5), 1, "fg", 0),
            (true, low, 1, "abc", 0),
            (true, low.wrapping_add(2), 1, "cde", 0),
            (false, 1, low.wrapping_add(7), "ok", 0),
        ]);
        let said = |up, text: &str| (up, text.to_owned(), Vec::new());
        assert_eq!(turns, [said(true, "abcdefg"), said(false, "ok")]);
    }

    #[test]
    fn what_the_capture_misses_is_counted_where_it_was() {
        let turns = run(&[
            (false, 1, 1, "head", 0),
            (false, 9, 1, "tail", 6),
            (true, 1, 15, "next", 0),
        ]);
        let whole = ("headtail".to_owned(), vec![(4, 4), (8, 2)]);
        assert_eq!(turns[0], (false, whole.0, whole.1));
        assert_eq!(turns[1], (true, "next".to_owned(), Vec::new()));
    }

    fn segment(direction: Direction, seq: u32, payload_len: u32) -> Segment {
        let end = |port| Endpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let mut segment = Segment::sent(end(80), end(4000), Timestamp::default());
        (segment.direction, segment.seq, segment.payload_len) = (direction, seq, payload_len);
        segment.flags = TcpFlags::PSH;
        segment
    }

    /// Feeds segments in order of which nothing was captured, from one end or from both by turns, and
    /// returns the memory of turns and holes.
    fn memory(ends: u32) -> usize {
        let mut bytes = Bytes::default();
        for number in 0..1_000_000 {
            let ways = [Direction::Forward, Direction::Backward];
            let direction = ways[(number % ends) as usize];
            bytes.observe_segment(&segment(direction, number / ends, 1), &[]);
        }
        let (turns, is_cut) = bytes.finish();
        assert!(is_cut);
        let holes: usize = turns.iter().map(|turn| turn.missing.capacity()).sum();
        turns.capacity() * size_of::<Turn>() + holes * size_of::<(usize, u64)>()
    }

    #[test]
    fn turns_and_holes_without_bytes_count_against_the_limit() {
        for ends in [1, 2] {
            assert!(memory(ends) <= MAX_BYTES, "{ends} ends");
        }
    }

    #[test]
    fn a_segment_that_comes_again_before_its_time_counts_once() {
        let mut bytes = Bytes::default();
        bytes.observe_segment(&segment(Direction::Forward, 0, 1), b"a");
        let before = bytes.kept;
        for _ in 0..100 {
            bytes.observe_segment(&segment(Direction::Forward, 9, 1), b"b");
        }
        assert_eq!(bytes.kept, before + 1);
    }
}
