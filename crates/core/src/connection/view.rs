//! The view that pairing has of a connection.

use super::half::Half;
use crate::attribution::packet::Pipe;
use crate::attribution::rtt::RoundTrip;
use crate::exchange::{PerSide, Side};
use crate::observed::event::PointId;
use crate::observed::flow::{Direction, Endpoint, FlowKey, PerDirection};
use crate::observed::time::Timestamp;

/// The facts about a connection that pairing needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    flow: &'a FlowKey,
    pub(crate) point: PointId,
    client: Direction,
    request: &'a Half,
    response: &'a Half,
}

impl<'a> View<'a> {
    /// Returns the view of a connection whose two directions are `halves`.
    pub(super) fn of(
        flow: &'a FlowKey,
        point: PointId,
        client: Option<Direction>,
        halves: &'a PerDirection<Half>,
    ) -> Self {
        let client = client.unwrap_or(Direction::Forward);
        Self {
            flow,
            point,
            client,
            request: halves.get(client),
            response: halves.get(client.reverse()),
        }
    }

    pub(crate) fn client(&self) -> Endpoint {
        self.flow.source(self.client)
    }

    pub(crate) fn server(&self) -> Endpoint {
        self.flow.destination(self.client)
    }

    /// Returns TCP's sequence number of a byte of one side's stream; `None` if no byte of it was
    /// seen.
    pub(crate) fn sequence_number(self, by: Side, offset: u64) -> Option<u32> {
        let half = match by {
            Side::Client => self.request,
            Side::Server => self.response,
        };
        Some(half.sequence.base()?.wrapping_add(offset as u32))
    }

    /// Returns true if the beginning of one side's stream is known.
    pub(crate) fn has_start(self, by: Side) -> bool {
        match by {
            Side::Client => self.request.sequence.has_start(),
            Side::Server => self.response.sequence.has_start(),
        }
    }

    /// Returns the number of bytes that the server has sent, as its sequence numbers show, and that
    /// neither came here nor were acknowledged.
    pub(crate) fn lost_of_server(self) -> u64 {
        self.response.sequence.lost()
    }

    /// Returns the round trip from the point to the server.
    pub(crate) fn to_server(self) -> &'a RoundTrip {
        self.trip(self.request)
    }

    /// Returns the round trip from the point to the client.
    pub(crate) fn to_client(self) -> &'a RoundTrip {
        self.trip(self.response)
    }

    /// Returns the round trip from the point to each side.
    pub(crate) fn trips(self) -> PerSide<RoundTrip> {
        PerSide {
            client: *self.to_client(),
            server: *self.to_server(),
        }
    }

    /// Returns the round trip to the sender of `half`. Within one host it is zero, unless replies
    /// show otherwise: there is no path to measure.
    fn trip(self, half: &'a Half) -> &'a RoundTrip {
        static NONE: RoundTrip = RoundTrip::none();
        let is_untold = !half.to_peer.is_told() && half.to_peer.floor().is_some();
        if is_untold && self.flow.is_within_host() {
            &NONE
        } else {
            &half.to_peer
        }
    }

    /// Returns true if any of one side's data was retransmitted so far.
    pub(crate) fn has_repeats(&self, sender: Side) -> bool {
        match sender {
            Side::Client => self.request.repeats.has_any(),
            Side::Server => self.response.repeats.has_any(),
        }
    }

    /// Returns the time of the server's last data so far.
    pub(crate) fn server_sent_at(&self) -> Option<Timestamp> {
        self.response.flight.last()
    }

    /// Returns the properties of each side as a sender.
    pub(crate) fn pipes(&self) -> PerSide<Pipe> {
        PerSide {
            client: self.request.pipe(self.response),
            server: self.response.pipe(self.request),
        }
    }
}
