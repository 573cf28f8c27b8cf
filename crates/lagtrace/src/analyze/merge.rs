//! One capture or several, read in time order.
//!
//! Files that begin where another one ends are pieces of one capture, as
//! `tcpdump -C` or `dumpcap -b` leave them, in whatever order they are named:
//! they count as seen at one point, their packets numbered on. Files that
//! overlap in time are captures of their own.

use std::time::Duration;

use lagtrace_core::decode::Packet;
use lagtrace_core::event::PointId;
use lagtrace_core::time::Timestamp;
use lagtrace_sources::capture::{FileCapture, Packets};

/// How many packets of a file are read ahead while others are due.
const AHEAD: usize = 1024;
/// Packets of several files that are handed on at once,
const BATCH: usize = 4096;
/// and the bytes of payload beyond which they are.
const BATCH_BYTES: usize = 1 << 19;
/// Stamps of several processors' packets may be out of order by this much
/// where one file ends and the next begins.
const DISORDER: Duration = Duration::from_millis(1);

/// The packets of one file or several, each up to a number of segments of TCP,
/// in time order across captures that are each in time order.
pub(super) enum Merged<'a> {
    /// Nothing to be merged with: no need to look at times.
    One(&'a mut FileCapture, u64),
    Several(Lanes<'a>),
}

impl<'a> Merged<'a> {
    /// At most `limit` segments of each capture, and what else bears on flows
    /// between them.
    pub(super) fn new(captures: &'a mut [FileCapture], limit: u64) -> Self {
        match captures {
            [only] => Self::One(only, limit),
            _ => Self::Several(Lanes::new(captures, limit)),
        }
    }

    /// Reads the next packets in place of those in `packets`; none at the end.
    pub(super) fn next(&mut self, packets: &mut Packets) {
        match self {
            Self::One(capture, left) => *left -= capture.next_packets(packets, *left),
            Self::Several(lanes) => {
                packets.clear();
                while packets.len() < BATCH && packets.bytes() < BATCH_BYTES && lanes.take(packets)
                {
                }
            }
        }
    }
}

/// All files: those to come by when they begin, those under way, those over.
pub(super) struct Lanes<'a> {
    /// The next one last.
    to_come: Vec<Lane<'a>>,
    under_way: Vec<Lane<'a>>,
    /// Ended, and continued by none so far.
    over: Vec<Lane<'a>>,
}

/// One file and what was read of it ahead of its time.
struct Lane<'a> {
    capture: &'a mut FileCapture,
    ahead: Packets,
    next: usize,
    left: u64,
    /// The time of the last packet handed on.
    last: Timestamp,
    /// Which point its first one is, on its own and as a piece.
    points: (u16, u16),
    /// Packets of the pieces before it.
    numbers: u64,
}

impl<'a> Lanes<'a> {
    fn new(captures: &'a mut [FileCapture], limit: u64) -> Self {
        let mut to_come: Vec<Lane<'a>> = captures
            .iter_mut()
            .map(|capture| Lane::new(capture, limit))
            .collect();
        to_come.sort_by_cached_key(|lane| std::cmp::Reverse(lane.head()));
        Self {
            to_come,
            under_way: Vec::new(),
            over: Vec::new(),
        }
    }

    /// Hands on the packet that is due; whether there was one.
    fn take(&mut self, into: &mut Packets) -> bool {
        let due = (0..self.under_way.len()).min_by_key(|&index| self.head_of(index));
        let at = due.map(|index| self.head_of(index));
        let first = self.to_come.last().map(Lane::head);
        if first.is_some_and(|first| at.is_none_or(|at| first < at)) {
            self.begin();
            return true;
        }
        let Some(index) = due else { return false };
        let Some(lane) = self.under_way.get_mut(index) else {
            return false;
        };
        lane.take(into);
        if !lane.refill() {
            self.over.push(self.under_way.remove(index));
        }
        true
    }

    fn head_of(&self, index: usize) -> Timestamp {
        self.under_way.get(index).map_or(Timestamp::MAX, Lane::head)
    }

    /// The next file begins: it goes on with the one that ended last before.
    fn begin(&mut self) {
        let Some(mut lane) = self.to_come.pop() else {
            return;
        };
        let begin = lane.head() + DISORDER;
        let before = (0..self.over.len())
            .filter(|&index| self.over.get(index).is_some_and(|over| over.last <= begin))
            .max_by_key(|&index| self.over.get(index).map(|over| over.last));
        if let Some(before) = before.map(|index| self.over.remove(index)) {
            lane.points.1 = before.points.1;
            lane.numbers = before.numbers + before.capture.summary().packets;
        }
        if lane.ahead.len() > 0 {
            self.under_way.push(lane);
        }
    }
}

impl<'a> Lane<'a> {
    fn new(capture: &'a mut FileCapture, limit: u64) -> Self {
        let PointId(point) = capture.point();
        let mut lane = Self {
            capture,
            ahead: Packets::default(),
            next: 0,
            left: limit,
            last: Timestamp::MIN,
            points: (point, point),
            numbers: 0,
        };
        // The first packet says when it is due; the rest can wait.
        lane.read(1);
        lane
    }

    /// When the next packet was seen; the end of time where there is none.
    fn head(&self) -> Timestamp {
        let packet = self.ahead.at(self.next);
        let at = packet.map(|(packet, _)| time_of(packet).unwrap_or(self.last));
        at.unwrap_or(Timestamp::MAX)
    }

    fn take(&mut self, into: &mut Packets) {
        let Some((packet, payload)) = self.ahead.at(self.next) else {
            return;
        };
        self.next += 1;
        self.last = self.last.max(time_of(packet).unwrap_or(self.last));
        let (own, shown) = self.points;
        let points = |PointId(id): PointId| PointId(id - own + shown);
        into.push(&moved(*packet, points, self.numbers), payload);
    }

    /// Reads on if all that was read is gone; whether there is a packet.
    fn refill(&mut self) -> bool {
        if self.next == self.ahead.len() {
            self.ahead.clear();
            self.next = 0;
            self.read(AHEAD);
        }
        self.ahead.len() > 0
    }

    fn read(&mut self, count: usize) {
        while self.left > 0 && self.ahead.len() < count {
            match self.capture.next_packet() {
                Some(packet) => {
                    self.left -= u64::from(matches!(packet, Packet::Tcp(..)));
                    self.ahead.push(&packet, payload_of(&packet));
                }
                None => self.left = 0,
            }
        }
    }
}

/// When a packet was seen; `None` for what bears on no flow.
fn time_of(packet: &Packet<'_>) -> Option<Timestamp> {
    match packet {
        Packet::Tcp(segment, _) => Some(segment.at),
        Packet::Udp(header, _) => Some(header.at),
        Packet::Icmp(error) => Some(error.at),
        Packet::Neighbour(step) => Some(step.at),
        Packet::Other => None,
    }
}

fn payload_of<'a>(packet: &Packet<'a>) -> &'a [u8] {
    match packet {
        Packet::Tcp(_, payload) | Packet::Udp(_, payload) => payload,
        Packet::Icmp(_) | Packet::Neighbour(_) | Packet::Other => &[],
    }
}

/// The packet as another capture's: seen at another point, numbered on.
fn moved<'a>(
    mut packet: Packet<'a>,
    points: impl Fn(PointId) -> PointId,
    numbers: u64,
) -> Packet<'a> {
    let (point, number) = match &mut packet {
        Packet::Tcp(segment, _) => (&mut segment.point, &mut segment.number),
        Packet::Udp(header, _) => (&mut header.point, &mut header.number),
        Packet::Icmp(error) => (&mut error.point, &mut error.number),
        Packet::Neighbour(step) => (&mut step.point, &mut step.number),
        Packet::Other => return packet,
    };
    *point = points(*point);
    *number += numbers;
    packet
}
