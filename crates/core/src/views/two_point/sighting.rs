//! A packet as one capture saw it.

use super::TELLING;
use crate::observed::flow::{Direction, FlowKey, PerDirection};
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// A flow of one capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct SightedFlow {
    pub(super) key: FlowKey,
    /// The direction in which the client sends.
    client: Option<Direction>,
    /// The bytes that were seen in each direction.
    ways: PerDirection<Way>,
}

/// The bytes that were seen in one direction.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The last sequence number, and its position in the stream.
    last: Option<(u32, i64)>,
    /// End of the bytes sent so far.
    sent: i64,
}

/// A packet of one capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub(super) at: Timestamp,
    /// Position of the packet's first byte in its direction's stream, relative to the first byte
    /// that this capture saw.
    pub(super) position: i64,
    pub(super) flow: u32,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) len: u32,
    pub(super) stamps: Option<(u32, u32)>,
    pub(super) ip_id: Option<u16>,
    pub(super) flags: u8,
    pub(super) direction: Direction,
    /// True if the packet's bytes had already been sent, as far as this capture shows.
    pub(super) is_repeat: bool,
}

impl SightedFlow {
    pub(super) fn new(segment: &Segment) -> Self {
        Self {
            key: segment.flow,
            client: None,
            ways: PerDirection::of(|_| Way {
                last: None,
                sent: i64::MIN,
            }),
        }
    }

    /// Processes the flow's next segment. Returns its position in the stream, and true if its bytes
    /// had already been sent.
    pub(super) fn observe_segment(&mut self, segment: &Segment) -> (i64, bool) {
        if segment.flags.contains(TcpFlags::SYN) {
            let is_reply = segment.flags.contains(TcpFlags::ACK);
            self.client = Some(if is_reply {
                segment.direction.reverse()
            } else {
                segment.direction
            });
        }
        let way = self.ways.get_mut(segment.direction);
        let position = way.last.map_or(0, |(seq, position)| {
            position + i64::from(segment.seq.wrapping_sub(seq) as i32)
        });
        way.last = Some((segment.seq, position));
        let end = position + i64::from(segment.sequence_len());
        let is_repeat = end > position && end <= way.sent;
        way.sent = end.max(way.sent);
        (position, is_repeat)
    }

    /// Returns the direction in which the client sends. The handshake shows it; without a
    /// handshake, the client is the end with the higher port.
    pub(super) fn client(&self) -> Direction {
        let (low, high) = self.key.ends();
        self.client.unwrap_or(if low.port > high.port {
            Direction::Forward
        } else {
            Direction::Backward
        })
    }
}

impl Sighting {
    pub(super) fn new(segment: &Segment, flow: u32, (position, is_repeat): (i64, bool)) -> Self {
        Self {
            at: segment.at,
            position,
            flow,
            seq: segment.seq,
            ack: segment.ack,
            len: segment.payload_len,
            stamps: segment.options.timestamps,
            ip_id: segment.ip.id.filter(|&id| id != 0),
            flags: segment.flags.0,
            direction: segment.direction,
            is_repeat,
        }
    }

    pub(super) fn has_data(&self) -> bool {
        self.len > 0
    }

    /// Returns true if the packet takes sequence space and is therefore retransmitted when lost.
    pub(super) fn is_reliable(&self) -> bool {
        self.has_data() || self.flags & (TcpFlags::SYN.0 | TcpFlags::FIN.0) != 0
    }

    /// Returns the fields that do not change on the path, even if segments are split or joined.
    /// Splitting and joining change only lengths, and FIN and PSH of the first segment.
    pub(super) fn key(&self) -> MatchKey {
        MatchKey {
            seq: self.seq,
            ack: self.ack,
            stamps: self.stamps,
            flags: self.flags & TELLING & if self.has_data() { TcpFlags::SYN.0 } else { !0 },
            has_data: self.has_data(),
        }
    }
}

/// The fields by which packets are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MatchKey {
    seq: u32,
    ack: u32,
    stamps: Option<(u32, u32)>,
    flags: u8,
    has_data: bool,
}
