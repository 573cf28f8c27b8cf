//! The packets of an example between client and server.

use std::collections::VecDeque;

use super::wanted::WantedExample;
use crate::conclude::packets_filter;
use crate::observed::segment::{Segment, TcpFlags};
use crate::report::{Ladder, LadderGap, LadderPacket};
use crate::views::tracker::SegmentEffect;

/// Numbers of packets shown at the beginning and at the end of a ladder, and on each side of the
/// end of a gap. With [`GAPS`], they are at most 200.
const ENDS: usize = 50;
const AROUND: usize = 25;
/// Number of gaps around whose ends packets are shown, the longest ones.
const GAPS: usize = 2;
/// Number of packets of a connection before an exchange that belong to its ladder, if they are all:
/// the handshakes of TCP and TLS.
pub(super) const EARLY: usize = 16;

/// A ladder while its packets are collected.
#[derive(Debug)]
pub(super) struct LadderDraft {
    pub(super) wanted: WantedExample,
    state: State,
    kept: Vec<LadderPacket>,
    /// The latest packets, which are shown if the ladder or a gap ends soon.
    recent: VecDeque<LadderPacket>,
    /// Ends of gaps after the start of the exchange, the next one last.
    gap_ends: Vec<i64>,
    /// Number of packets that still belong to the end of a gap.
    due: usize,
    /// Number of packets left out since the last one that is shown.
    skipped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Before,
    Within,
    Complete,
}

impl LadderDraft {
    pub(super) fn new(wanted: WantedExample) -> Self {
        let end = |gap: &LadderGap| gap.at_ns.saturating_add(gap.duration_ns);
        let ends = wanted.gaps.iter().take(GAPS).map(end);
        let mut gap_ends: Vec<i64> = ends
            .map(|end| i64::try_from(end).unwrap_or(i64::MAX))
            .collect();
        gap_ends.sort_unstable_by(|one, other| other.cmp(one));
        Self {
            wanted,
            state: State::Before,
            kept: Vec::new(),
            recent: VecDeque::new(),
            gap_ends,
            due: 0,
            skipped: 0,
        }
    }

    pub(super) fn is_begun(&self) -> bool {
        self.state != State::Before
    }

    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Adds a packet of the connection, if it belongs to the ladder. `early` are the packets before
    /// it, if they are all of the connection so far.
    pub(super) fn add(&mut self, segment: &Segment, packet: &LadderPacket, early: &[LadderPacket]) {
        match self.state {
            State::Before if self.wanted.begins_with(segment) => {
                self.state = State::Within;
                early.iter().for_each(|packet| self.put(packet));
                self.put(packet);
            }
            State::Within => {
                self.put(packet);
                // The first packet after the end shows that the response arrived.
                if segment.at > self.wanted.end() {
                    self.state = State::Complete;
                }
            }
            State::Before | State::Complete => {}
        }
    }

    fn put(&mut self, packet: &LadderPacket) {
        let mut packet = packet.clone();
        packet.at_ns = packet.at_ns.saturating_sub(self.wanted.start_ns());
        while self.gap_ends.pop_if(|end| *end <= packet.at_ns).is_some() {
            self.show_recent(AROUND);
            self.due = AROUND;
        }
        let is_first = self.kept.len() < ENDS && self.recent.is_empty();
        if is_first || self.due > 0 {
            self.due = self.due.saturating_sub(1);
            self.show(packet);
            return;
        }
        self.recent.push_back(packet);
        if self.recent.len() > ENDS {
            self.recent.pop_front();
            self.skipped += 1;
        }
    }

    fn show(&mut self, mut packet: LadderPacket) {
        packet.left_out = core::mem::take(&mut self.skipped);
        self.kept.push(packet);
    }

    /// Shows the latest packets, at most this number.
    fn show_recent(&mut self, most: usize) {
        while self.recent.len() > most {
            self.recent.pop_front();
            self.skipped += 1;
        }
        for packet in core::mem::take(&mut self.recent) {
            self.show(packet);
        }
    }

    /// Returns the ladder; `None` if its exchange was not found.
    pub(super) fn finish(mut self) -> Option<Ladder> {
        self.show_recent(ENDS);
        let numbers = self.kept.iter().map(|packet| packet.number);
        let (first, last) = (numbers.clone().min()?, numbers.max()?);
        let exchange = &self.wanted.exchange;
        let filter = packets_filter(exchange, first, last);
        let filter = filter.filter(|_| exchange.first_packet.is_some());
        Some(Ladder {
            cause: self.wanted.cause,
            client: exchange.client.clone(),
            server: exchange.server.clone(),
            start_ns: exchange.start_ns,
            latency_ns: exchange.latency_ns,
            left_out: self.kept.iter().map(|packet| packet.left_out).sum(),
            display_filter: filter.unwrap_or_default(),
            gaps: self.wanted.gaps,
            packets: self.kept,
        })
    }
}

/// Returns the packet of a ladder, with the time since the epoch.
pub(super) fn packet(segment: &Segment, step: &SegmentEffect, from_client: bool) -> LadderPacket {
    LadderPacket {
        number: segment.number,
        at_ns: segment.at.as_nanos(),
        from_client,
        flags: flags(segment.flags),
        seq: step.seq,
        ack: step.ack,
        bytes: segment.payload_len.into(),
        window: step.window,
        is_retransmission: step.is_again,
        left_out: 0,
    }
}

/// Returns the flags as tcpdump prints them.
fn flags(flags: TcpFlags) -> String {
    const LETTERS: [(TcpFlags, char); 8] = [
        (TcpFlags::FIN, 'F'),
        (TcpFlags::SYN, 'S'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::ACK, '.'),
        (TcpFlags::URG, 'U'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
    ];
    let set = LETTERS.iter().filter(|(flag, _)| flags.contains(*flag));
    set.map(|(_, letter)| letter).collect()
}
