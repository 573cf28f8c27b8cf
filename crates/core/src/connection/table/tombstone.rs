//! Remains of connections that ended.

use crate::connection::Connection;
use crate::observed::event::PointId;
use crate::observed::flow::{FlowKey, PerDirection};
use crate::observed::segment::{Segment, TcpFlags};

/// The facts that distinguish a late segment of an ended connection from a new connection.
#[derive(Debug)]
pub(super) struct Tombstone {
    pub(super) id: u64,
    pub(super) hash: u64,
    point: PointId,
    flow: FlowKey,
    /// Initial sequence number of each direction.
    begins: PerDirection<Option<u32>>,
}

impl Tombstone {
    pub(super) fn new(id: u64, hash: u64, connection: &Connection) -> Self {
        let (point, flow) = connection.key();
        Self {
            id,
            hash,
            point,
            flow,
            begins: PerDirection::of(|direction| connection.begin_of(direction)),
        }
    }

    pub(super) fn is_at(&self, point: PointId, flow: &FlowKey) -> bool {
        self.point == point && self.flow == *flow
    }

    /// Returns true if this SYN opens another connection with the same 5-tuple; another answer to
    /// the connection's own SYN does not.
    pub(super) fn is_succeeded_by(&self, segment: &Segment) -> bool {
        let begin = |direction| *self.begins.get(direction);
        let is_answer = segment.flags.contains(TcpFlags::SYN.with(TcpFlags::ACK))
            && begin(segment.direction.reverse()) == Some(segment.ack);
        segment.flags.contains(TcpFlags::SYN)
            && begin(segment.direction) != Some(segment.seq.wrapping_add(1))
            && !is_answer
    }
}
