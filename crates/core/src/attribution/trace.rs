//! Input from which an exchange is tiled.

use core::cell::OnceCell;
use core::time::Duration;

use super::{Before, LEAST_TIMEOUT};
use crate::attribution::packet::{Arrival, Pipe, Span};
use crate::attribution::packet_record::{Data, PacketRecord, serialization};
use crate::attribution::rtt::{LEAST_ERROR, RoundTrip};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{PairingDoubts, PerSide, Side};
use crate::observed::packet::PacketTime;
use crate::observed::segment::hops;
use crate::observed::tcp::TCP_INIT_CWND;
use crate::observed::time::Timestamp;

/// The packets of an exchange and the state of the connection around them.
#[derive(Debug)]
pub(crate) struct Trace<'a> {
    /// The packets from the exchange's first one on; may extend past its end.
    pub(crate) packets: &'a [PacketRecord],
    pub(crate) begin: Timestamp,
    pub(crate) end: Timestamp,
    /// The request's bytes in the client's stream.
    pub(crate) request: Span,
    /// The response's bytes in the server's stream.
    pub(crate) response: Span,
    /// Stretches that the capture missed, by sender.
    pub(crate) torn: &'a [(Side, Span)],
    /// End of an earlier response on this connection, if this request was sent before that end.
    pub(crate) behind: Option<Timestamp>,
    pub(crate) after: After,
    pub(crate) permission: Permission,
    /// The round trip from the observation point to each side.
    pub(crate) trips: PerSide<RoundTrip>,
    /// Properties of each side as a sender.
    pub(crate) pipes: PerSide<Pipe>,
    /// Serialization time of a full segment of each side, once it was asked for.
    pub(crate) serialization: PerSide<OnceCell<Duration>>,
    pub(crate) before: Before,
    /// True for a side that retransmitted its SYN or SYN/ACK.
    pub(crate) repeated_syn: PerSide<bool>,
    /// Reasons why the response may not answer the request.
    pub(crate) doubts: PairingDoubts,
}

/// The bytes and the FIN that follow the exchange's messages on the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    /// True if the response lasts until the server's FIN.
    pub(crate) ends_with_fin: bool,
    /// The client's bytes before this offset belong to no later request; 0 if they may.
    pub(crate) next_request: u64,
    /// Number of bytes that the server has sent, as its sequence numbers show, and that did not come.
    pub(crate) lost_of_server: u64,
}

/// The permission that a client waits for before it sends the body (`Expect: 100-continue`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Permission {
    /// End of the request's head, if it asks for permission.
    pub(crate) expects_at: Option<u64>,
    /// The packet with the first interim response.
    pub(crate) interim: Option<PacketTime>,
}

impl Trace<'_> {
    pub(super) fn round_trip(&self, to: Side) -> RoundTrip {
        *self.trips.get(to)
    }

    /// Returns the round trip between the ends, as far as it is known.
    pub(super) fn whole_trip(&self) -> Duration {
        let trips = [self.trips.client.floor(), self.trips.server.floor()];
        trips.into_iter().flatten().sum()
    }

    pub(super) fn pipe(&self, sender: Side) -> &Pipe {
        self.pipes.get(sender)
    }

    pub(super) fn serialization(&self, sender: Side) -> Duration {
        let known = self.serialization.get(sender);
        *known.get_or_init(|| serialization(self.packets, sender))
    }

    /// Returns the number of segments with which `sender`, whose first data is `first`, may begin:
    /// one if its SYN or SYN/ACK was lost (RFC 5681 §3.1; on Linux only if it was lost twice,
    /// `tcp_init_transfer()` in `net/ipv4/tcp_input.c`).
    pub(super) fn initial_window(&self, sender: Side, first: Data) -> u64 {
        let is_begin = self.pipe(sender).has_start && first.span.start == 0;
        if is_begin && *self.repeated_syn.get(sender) {
            1
        } else {
            TCP_INIT_CWND
        }
    }

    /// Returns the minimum round trip between the ends.
    pub(crate) fn whole_round_trip(&self) -> Option<Duration> {
        Some(self.trips.server.floor()? + self.trips.client.floor()?)
    }

    pub(super) fn span(&self, sender: Side) -> Span {
        match sender {
            Side::Client => self.request,
            Side::Server => self.response,
        }
    }

    /// Returns the packets between `before` and the one at `index`.
    pub(super) fn between(&self, before: &PacketRecord, index: usize) -> &[PacketRecord] {
        let packets = self.packets.get(..index).unwrap_or_default();
        // Packets with the same time may be in a different order than in the capture.
        let start = packets.partition_point(|m| m.at < before.at);
        let rest = packets.get(start..).unwrap_or_default();
        let is_it = |m: &PacketRecord| m.number == before.number;
        let after = rest.iter().position(is_it).map_or(0, |place| place + 1);
        rest.get(after..).unwrap_or_default()
    }

    /// Returns kind and owner of a pause of the program at `sender`.
    pub(super) fn pause_of(&self, sender: Side) -> (WaitKind, Owner) {
        match sender {
            // It is unknown whether the server owed a response.
            _ if self.doubts.is_unread => (WaitKind::Unknown, Owner::Unknown),
            Side::Client => (WaitKind::RequestPause, Owner::Client),
            Side::Server if self.doubts.is_rest_unasked => (WaitKind::Unknown, Owner::Unknown),
            // The path delayed the request, and may have delayed the response too.
            Side::Server if self.is_request_overdue() => (WaitKind::Unknown, Owner::Unknown),
            Side::Server => (WaitKind::ServerPause, Owner::Server),
        }
    }

    /// Returns true if the observation point is nearer to `side` than to its peer: that side's
    /// losses happen after the point, so both copies of a retransmitted segment are seen.
    pub(super) fn is_near(&self, side: Side) -> bool {
        let (own, peer) = (
            self.round_trip(side).floor(),
            self.round_trip(side.peer()).floor(),
        );
        matches!((own, peer), (Some(own), Some(peer)) if own <= peer)
    }

    /// Returns true if no router is between the observation point and `side`: its packets have an
    /// initial time to live. What passes the point then arrives at that host.
    pub(super) fn is_beside(&self, side: Side) -> bool {
        let mut packets = self.packets.iter().filter(|packet| packet.by == side);
        packets.all(|packet| hops(packet.ttl) == 0)
    }

    /// Returns true if the client's request, as seen at the client, is overdue: the client
    /// retransmitted it on a timer, having received nothing until then, and an answer came sooner
    /// than possible for that copy. The first copy, or the server's reply to it, was in transit for
    /// that long, and the time at which the server received it is unknown.
    pub(super) fn is_request_overdue(&self) -> bool {
        if !self.pipe(Side::Client).has_repeats || !self.is_near(Side::Client) {
            return false;
        }
        let has_part = |packet: &PacketRecord, span: Span| {
            let is_ours = |data: &Data| data.span.start < span.end && data.span.end > span.start;
            packet.data.filter(is_ours)
        };
        let asks = |packet: &PacketRecord| {
            let data = has_part(packet, self.request);
            data.filter(|_| packet.by == Side::Client)
        };
        let is_repeat = |packet: &&PacketRecord| {
            asks(packet).is_some_and(|data| data.arrival == Arrival::Repeat)
        };
        let is_answer = |packet: &&PacketRecord| {
            packet.by == Side::Server && has_part(packet, self.response).is_some()
        };
        let (Some(repeat), Some(answer), Some(propagation)) = (
            self.packets.iter().find(is_repeat),
            self.packets.iter().find(is_answer),
            self.trips.server.floor(),
        ) else {
            return false;
        };
        let before = || self.packets.iter().filter(|packet| packet.at < repeat.at);
        let is_word =
            |packet: &PacketRecord| packet.by == Side::Server && packet.ack > self.request.start;
        let asked = before().rev().find(|packet| asks(packet).is_some());
        let is_by_timer = asked.is_some_and(|asked| repeat.at.since(asked.at) >= LEAST_TIMEOUT);
        let is_to_first = answer.at.since(repeat.at) + LEAST_ERROR < propagation * 7 / 8;
        is_by_timer && is_to_first && !before().any(is_word)
    }

    pub(super) fn is_torn(&self, sender: Side, from: u64, to: u64) -> bool {
        self.torn
            .iter()
            .any(|&(side, span)| side == sender && span.start < to && span.end > from)
    }
}
