//! Reading of one or several captures in time order.
//!
//! Files that continue where another one ends are pieces of one capture, as `tcpdump -C` or
//! `dumpcap -b` create them. The order in which they are named does not matter: they count as seen
//! at one point, and their packets are numbered consecutively. Files that overlap in time, or that
//! do not continue another file, are separate captures.

use lagtrace_core::decode::pieces::{OpenFlows, are_named_alike, may_follow};
use lagtrace_core::decode::{Packet, Sieve};
use lagtrace_core::observed::event::Note;
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::time::Timestamp;
use lagtrace_sources::capture::{FileCapture, Packets};

use super::pieces::Assumed;
use crate::conclusion;

/// Number of packets that are read ahead from each file, so that packets of several files can be
/// returned in time order.
const AHEAD: usize = 1024;
/// Maximum number of packets of several files that are returned in one batch.
const BATCH: usize = 4096;
/// Number of payload bytes at which a batch of packets of several files is returned, even if it has
/// few packets.
const BATCH_BYTES: usize = 1 << 19;

/// The packets of one or several files, up to a number of TCP segments per file. Packets are in
/// time order across captures, provided that each capture is in time order.
pub(super) enum Merged<'a> {
    /// A single capture, for which no times need to be compared.
    One(&'a mut FileCapture, u64),
    Several(Lanes<'a>),
}

impl<'a> Merged<'a> {
    /// Returns at most `limit` segments of each capture, and the other flow-related packets between
    /// them.
    pub(super) fn new(captures: &'a mut [FileCapture], limit: u64) -> Self {
        match captures {
            [only] => Self::One(only, limit),
            _ => Self::Several(Lanes::new(captures, limit)),
        }
    }

    /// Returns notes on the assumptions made about consecutive files.
    pub(super) fn notes(&self) -> Vec<Note> {
        match self {
            Self::One(..) => Vec::new(),
            Self::Several(lanes) => lanes.assumed.notes(),
        }
    }

    /// Replaces `packets` with the next packets that the sieve does not exclude. Several files are
    /// read whole: that one continues another shows in all its flows.
    pub(super) fn next_sifted(&mut self, packets: &mut Packets, sieve: &Sieve) {
        match self {
            Self::One(capture, u64::MAX) => {
                capture.next_sifted(packets, sieve);
            }
            _ => self.next(packets),
        }
    }

    /// Replaces `packets` with the next packets; leaves it empty at the end.
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

/// All files: those not started, in order of their beginnings, those being read, and those that
/// have ended.
pub(super) struct Lanes<'a> {
    /// The files not started, the next one last.
    to_come: Vec<Lane<'a>>,
    under_way: Vec<Lane<'a>>,
    /// The files that have ended and have no continuation so far.
    over: Vec<Lane<'a>>,
    assumed: Assumed,
}

/// A file and the packets that were read ahead.
struct Lane<'a> {
    capture: &'a mut FileCapture,
    ahead: Packets,
    next: usize,
    left: u64,
    /// The time of the last packet returned.
    last: Timestamp,
    /// The observation point of the file's first interface: as a separate capture, and as a piece.
    points: (u16, u16),
    /// The number of packets in the preceding pieces.
    numbers: u64,
    /// The file's flows, from which a continuation is recognized.
    flows: OpenFlows,
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
            assumed: Assumed::default(),
        }
    }

    /// Adds the next packet in time order to `into`; returns false if there is none.
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
        // The flows are needed only if a later file may continue this one.
        lane.take(into, !self.to_come.is_empty());
        if !lane.refill() {
            self.over.push(self.under_way.remove(index));
        }
        true
    }

    fn head_of(&self, index: usize) -> Timestamp {
        self.under_way.get(index).map_or(Timestamp::MAX, Lane::head)
    }

    /// Starts the next file, as the continuation of an ended file if it is one.
    fn begin(&mut self) {
        let Some(mut lane) = self.to_come.pop() else {
            return;
        };
        if lane.ahead.is_empty() {
            return;
        }
        let begin = lane.head();
        lane.read(AHEAD);
        let is_before = |index: &usize| {
            let over = self.over.get(*index);
            over.is_some_and(|over| may_follow(over.last, begin))
        };
        let mut before: Vec<usize> = (0..self.over.len()).filter(is_before).collect();
        before.sort_by_key(|&index| {
            self.over
                .get(index)
                .map(|over| std::cmp::Reverse(over.last))
        });
        let continued = before.iter().find(|&&index| {
            self.over
                .get(index)
                .is_some_and(|over| lane.continues(over))
        });
        if !before.is_empty() {
            let name = lane.capture.summary().name;
            self.assumed.tell(&name, continued.is_some());
        }
        if let Some(before) = continued.map(|&index| self.over.remove(index)) {
            lane.points.1 = before.points.1;
            lane.numbers = before.numbers + before.capture.summary().packets;
        }
        self.under_way.push(lane);
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
            flows: OpenFlows::new(conclusion::seed()),
        };
        // The first packet shows when the file begins. The others are read later.
        lane.read(1);
        lane
    }

    /// Returns the time of the next packet; the maximum time if there is none.
    fn head(&self) -> Timestamp {
        let packet = self.ahead.at(self.next);
        let at = packet.map(|(packet, _)| packet.at().unwrap_or(self.last));
        at.unwrap_or(Timestamp::MAX)
    }

    /// Returns true if the file is the next piece of the capture that `before` belongs to.
    fn continues(&self, before: &Self) -> bool {
        let (one, other) = (before.capture.summary().name, self.capture.summary().name);
        let links = before.capture.link().zip(self.capture.link());
        links.is_none_or(|(one, other)| one == other)
            && (self
                .ahead
                .segments()
                .any(|(s, _)| before.flows.continue_with(s))
                || are_named_alike(&one, &other, self.head().since(before.last)))
    }

    fn take(&mut self, into: &mut Packets, keeps_flows: bool) {
        let Some((packet, payload)) = self.ahead.at(self.next) else {
            return;
        };
        if let (Packet::Tcp(segment, _), true) = (packet, keeps_flows) {
            self.flows.observe_segment(segment);
        }
        self.next += 1;
        self.last = self.last.max(packet.at().unwrap_or(self.last));
        let (own, shown) = self.points;
        let points = |PointId(id): PointId| PointId(id - own + shown);
        into.push(&moved(*packet, points, self.numbers), payload);
    }

    /// Reads more packets if none are left; returns true if there is a packet.
    fn refill(&mut self) -> bool {
        if self.next == self.ahead.len() {
            self.ahead.clear();
            self.next = 0;
            self.read(AHEAD);
        }
        !self.ahead.is_empty()
    }

    fn read(&mut self, count: usize) {
        while self.left > 0 && self.ahead.len() < count {
            match self.capture.next_packet() {
                Some(packet) => {
                    self.left -= u64::from(matches!(packet, Packet::Tcp(..)));
                    self.ahead.push(&packet, packet.payload());
                }
                None => self.left = 0,
            }
        }
    }
}

/// Returns the packet with the observation point and the packet number that it has in the whole
/// capture.
fn moved<'a>(
    mut packet: Packet<'a>,
    points: impl Fn(PointId) -> PointId,
    numbers: u64,
) -> Packet<'a> {
    let (point, number) = match &mut packet {
        Packet::Tcp(segment, _) => (&mut segment.point, &mut segment.number),
        Packet::Udp(header, _) => (&mut header.point, &mut header.number),
        Packet::Icmp(error) => (&mut error.point, &mut error.number),
        Packet::Echo(echo) => (&mut echo.point, &mut echo.number),
        Packet::Neighbour(step) => (&mut step.point, &mut step.number),
        Packet::Other => return packet,
    };
    *point = points(*point);
    *number += numbers;
    packet
}
