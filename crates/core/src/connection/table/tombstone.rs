//! Remains of connections that ended.

use crate::connection::Connection;
use crate::observed::event::PointId;
use crate::observed::flow::{Direction, FlowKey};
use crate::observed::segment::{Segment, TcpFlags};

/// The facts that distinguish a late segment of an ended connection from a new connection.
#[derive(Debug)]
pub(super) struct Tombstone {
    pub(super) id: u64,
    pub(super) hash: u64,
    point: PointId,
    flow: FlowKey,
    /// Initial sequence numbers, forward and backward.
    begins: [Option<u32>; 2],
}

impl Tombstone {
    pub(super) fn new(id: u64, hash: u64, connection: &Connection) -> Self {
        let (point, flow) = connection.key();
        let begins = [Direction::Forward, Direction::Backward];
        Self {
            id,
            hash,
            point,
            flow,
            begins: begins.map(|direction| connection.begin_of(direction)),
        }
    }

    pub(super) fn is_at(&self, point: PointId, flow: &FlowKey) -> bool {
        self.point == point && self.flow == *flow
    }

    /// Returns true if this SYN opens another connection with the same 5-tuple; another answer to
    /// the connection's own SYN does not.
    pub(super) fn is_succeeded_by(&self, segment: &Segment) -> bool {
        let slot = usize::from(segment.direction == Direction::Backward);
        let begin = |slot: usize| self.begins.get(slot).copied().flatten();
        let is_answer = segment.flags.contains(TcpFlags::SYN.with(TcpFlags::ACK))
            && begin(1 - slot) == Some(segment.ack);
        segment.flags.contains(TcpFlags::SYN)
            && begin(slot) != Some(segment.seq.wrapping_add(1))
            && !is_answer
    }
}
