//! gRPC's messages on a stream. A call may send any number of them in each direction whenever there
//! is something to send, so between two of them nothing is due.

use super::Pairing;
use crate::attribution::Stretch;
use crate::attribution::packet_record::PacketKey;
use crate::connection::pairing::Draft;
use crate::exchange::{PerSide, Side};
use crate::observed::time::Timestamp;
use crate::protocol::http2::{FrameHeader, GrpcMessages};

/// Maximum number of stretches between messages that are remembered for a stream.
const MAX_RESTS: usize = 1024;
/// Minimum number of messages in one direction of a call that streams.
const STREAMED: u32 = 2;

/// The messages of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Talk {
    messages: GrpcMessages,
    /// The end of the latest message, if nothing followed it yet.
    rests_since: Option<Timestamp>,
}

impl Pairing {
    /// Takes in a frame of a message or of trailers: it ends a rest if it begins a further message,
    /// or if the sender ends its side after several.
    pub(super) fn grpc_frame(
        &mut self,
        by: Side,
        frame: FrameHeader,
        first: Option<[u8; 5]>,
        packet: &PacketKey,
    ) {
        let Some(multiplexed) = self
            .stream(frame.stream)
            .and_then(|draft| draft.multiplexed.as_deref_mut())
        else {
            return;
        };
        let Some(talk) = multiplexed.messages.as_mut().map(|talks| talks.get_mut(by)) else {
            return;
        };
        if frame.is_data() {
            talk.messages.frame(frame.length, first);
        }
        let is_further = talk.messages.count >= STREAMED;
        let rested = talk.rests_since.take().filter(|_| is_further);
        if talk.messages.is_between() {
            talk.rests_since = Some(packet.at);
        }
        if let Some(from) = rested.filter(|_| multiplexed.rests.len() < MAX_RESTS) {
            let until = packet.at;
            multiplexed.rests.push(Stretch { from, until, by });
        }
    }
}

impl Draft {
    /// Returns true if the parts of the exchange's messages are sent when there is something to
    /// send.
    pub(in super::super) fn is_stream(&self) -> bool {
        let talks = self
            .multiplexed
            .as_deref()
            .and_then(|own| own.messages.as_ref());
        let has_several = |talk: &Talk| talk.messages.count >= STREAMED;
        let is_talk = talks.is_some_and(|talks: &PerSide<Talk>| {
            has_several(talks.get(Side::Client)) || has_several(talks.get(Side::Server))
        });
        self.response_head.fields.is_stream || is_talk
    }
}
