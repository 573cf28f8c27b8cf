//! Errors with which a server refuses a connection before any request, such as a limit of
//! connections.

use super::{Draft, Intake, Pairing};
use crate::attribution::packet_record::{Data, PacketKey};
use crate::connection::{View, is_progress};
use crate::exchange::{Outcome, Side};
use crate::protocol::Protocol;

impl Pairing {
    /// Reads the server's first bytes. If they refuse the connection, they answer its first request.
    /// If the client has not even sent one, opening the connection counts as a request.
    pub(super) fn take_refusal(
        &mut self,
        packet: &PacketKey,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
    ) {
        let is_next = packet.by == Side::Server && is_progress(data.arrival);
        if !is_next || core::mem::replace(&mut self.protocol.has_answered, true) {
            return;
        }
        let is_first = view.pipes().server.has_start;
        let Some(error) = Protocol::refusal(payload).filter(|_| is_first) else {
            return;
        };
        if self.next.ordinal == 0 {
            self.begin(0, packet.time());
        }
        self.protocol.intake = Intake::Refused;
        let is_open = |draft: &&mut Draft| draft.ordinal == 0 && draft.is_awaited();
        if let Some(draft) = self.open.iter_mut().find(is_open) {
            draft.response = data.span;
            draft.response_head.error = Some(error);
            draft.signs.has_response = true;
            draft.last = packet.time();
            draft.outcome = Some(Outcome::Complete(None));
            self.streams_ended(1);
        }
    }
}
