//! The state of a connection when an exchange is closed.

use crate::attribution::Before;
use crate::attribution::effort::Effort;
use crate::attribution::packet::Span;
use crate::attribution::packet_record::PacketRecord;
use crate::connection::View;
use crate::exchange::Side;
use crate::observed::time::Timestamp;

/// State of the connection when an exchange is closed.
pub(super) struct Around<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) packets: &'a [PacketRecord],
    pub(super) torn: &'a [(Side, Span)],
    /// End of the response for which the exchange had to wait.
    pub(super) behind: Option<Timestamp>,
    pub(super) before: Before,
    /// The end of the client's bytes that the server acknowledged.
    pub(super) request_acked: u64,
    /// True if it is unknown which side owes an answer.
    pub(super) is_unread: bool,
    /// Time of the server's FIN, if the server closed first.
    pub(super) left_by_server: Option<Timestamp>,
    /// The client's bytes before this offset belong to no later request; 0 if they may.
    pub(super) next_request: u64,
    /// The number of the connection's packets that may still be looked at.
    pub(super) effort: &'a Effort,
}

impl<'a> Around<'a> {
    pub(super) fn packets_from(&self, begin: Timestamp) -> &'a [PacketRecord] {
        let is_before = |packet: &PacketRecord| packet.at < begin;
        // Usually the first packet is the exchange's own, because no older exchange is open.
        let first = if self.packets.first().is_some_and(is_before) {
            self.packets.partition_point(is_before)
        } else {
            0
        };
        self.packets.get(first..).unwrap_or_default()
    }
}
