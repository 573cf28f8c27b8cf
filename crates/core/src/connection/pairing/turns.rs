//! Messages paired by turns: a run of client bytes, then the run of server bytes that follows.

use core::time::Duration;

use super::{Draft, LEAST_READ, Pairing};
use crate::attribution::packet::{Arrival, Span};
use crate::attribution::packet_record::{Data, PacketKey};
use crate::connection::{View, is_progress};
use crate::exchange::Side;
use crate::observed::time::Timestamp;
use crate::protocol::Protocol;
use crate::protocol::http::{self, Role};

/// Maximum time in which a program or a kernel continues once it may send.
pub(super) const LULL: Duration = Duration::from_millis(3);
/// Pause of a server after which its next data is as likely a new message as the rest of the
/// previous one: a program that pushes events pauses until the next event.
pub(super) const PUSHED: Duration = Duration::from_secs(1);
/// Maximum number of parts of one message that come after pauses; any more are separate messages.
const MOST_PARTS: u8 = 8;

impl Pairing {
    /// Finishes the turn: when pairing by turns, a response is complete when the next turn begins.
    pub(super) fn finish_turn(&mut self) {
        if let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) {
            draft.complete_turn();
        }
    }

    /// Takes in data paired by turns, and reads its first bytes if the protocol is known.
    pub(super) fn spoken_turn(
        &mut self,
        packet: &PacketKey,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
    ) {
        if self.protocol.is_unread {
            self.read_late(packet.by, payload);
        }
        // A protocol that is parsed shows which bytes belong together.
        let is_read = self
            .protocol
            .identified
            .is_some_and(|spoken| spoken != Protocol::Answered);
        let is_apart = !is_read && is_apart(packet, data, view);
        let Some(protocol) = self.protocol.identified else {
            self.count_apart(packet.by, is_apart);
            return self.turn_data(packet, data, is_apart && self.protocol.is_unread, view);
        };
        let begins = self.open.back().is_none_or(Draft::has_response);
        let line = protocol.asks(payload);
        let says_nothing = protocol.has_silent_requests() && line.is_none() && !payload.is_empty();
        let is_unanswered = says_nothing || protocol.waits_for_news(payload);
        if packet.by == Side::Client && begins && is_unanswered {
            return self.finish_turn();
        }
        self.turn_data(packet, data, is_apart, view);
        let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) else {
            return;
        };
        match packet.by {
            Side::Client if begins => draft.request_head.line = line,
            Side::Server if draft.response.start == data.span.start => {
                let error = protocol.error(payload);
                draft.response_head.error = draft.response_head.error.or(error);
                draft.response_head.status =
                    draft.response_head.status.or(protocol.status(payload));
            }
            _ => {}
        }
    }

    /// Records a hole in the capture. A hole in the client's bytes may hide a request; a hole
    /// within a response hides none, because the client's bytes are complete.
    pub(super) fn turn_torn(&mut self, by: Side, span: Span) {
        let last = self.open.back_mut().filter(|draft| draft.is_awaited());
        match last.filter(|draft| by == Side::Server && draft.has_response()) {
            Some(draft) => draft.torn.until = Some(span.end),
            None => self.cut_awaited(),
        }
    }

    /// Recognizes HTTP by a later head if the capture began in the middle.
    fn read_late(&mut self, by: Side, payload: &[u8]) {
        let role = match by {
            Side::Client => Role::Request,
            Side::Server => Role::Response,
        };
        if payload.len() >= LEAST_READ && http::begins_message(role, payload) {
            (self.protocol.identified, self.protocol.is_unread) = (Some(Protocol::Http), false);
        }
    }

    /// Follows turns under TLS, if nothing else shows the protocol.
    pub(super) fn veiled_turn(&mut self, packet: &PacketKey, data: Data, view: &View<'_>) {
        if !is_progress(data.arrival) {
            return;
        }
        let is_apart = is_apart(packet, data, view);
        self.count_apart(packet.by, is_apart);
        let has_response = self.open.back().is_some_and(Draft::has_response);
        if !is_apart || packet.by != Side::Server || !has_response {
            return;
        }
        if self.protocol.is_unread {
            self.finish_turn();
        } else if packet.idle > PUSHED
            && let Some(draft) = self.open.back_mut()
        {
            draft.signs.doubts.is_crossed = true;
        }
    }

    /// Counts segments after pauses, if no bytes can be read: a side that repeatedly continues
    /// after a pause before the other side sends anything is streaming, and then neither side owes
    /// an answer.
    fn count_apart(&mut self, by: Side, is_apart: bool) {
        let has_response = self.open.back().is_none_or(Draft::has_response);
        match (by, has_response) {
            (Side::Client, true) => self.turn.apart = 0,
            (Side::Client, false) | (Side::Server, true) => {
                self.turn.apart = self.turn.apart.saturating_add(u8::from(is_apart));
            }
            // A response may come slowly.
            (Side::Server, false) => {}
        }
        self.protocol.is_unread |= self.turn.apart >= MOST_PARTS;
    }

    /// Takes in data paired by turns; `is_apart` is true if the data does not continue the data
    /// before it. It is unknown whether a message without an answer expected one, and data that
    /// follows a response after a pause answers nothing.
    fn turn_data(&mut self, packet: &PacketKey, data: Data, is_apart: bool, view: &View<'_>) {
        if !is_progress(data.arrival) {
            return;
        }
        let has_response = self.open.back().is_none_or(Draft::has_response);
        match packet.by {
            Side::Client => {
                let has_crossed = core::mem::take(&mut self.turn.has_crossed);
                if has_response {
                    self.finish_turn();
                    let is_early = self.is_early(packet);
                    self.begin(data.span.start, packet.time());
                    self.note_crossing(is_early);
                    self.note_reply(packet.at, view);
                }
                if let Some(draft) = self.open.back_mut() {
                    if (is_apart || has_crossed) && !has_response {
                        draft.begin_again(data.span.start, packet.time());
                    }
                    draft.request.end = draft.request.end.max(data.span.end);
                }
            }
            Side::Server if self.crosses(packet, Some(data.span)) => {}
            Side::Server if is_apart && has_response => {
                self.turn.has_pushed |= packet.idle > PUSHED;
                self.turn.is_unasked = true;
                self.doubt_end(packet);
                self.finish_turn();
            }
            Side::Server => {
                self.doubt_response(packet);
                match self.open.back_mut().filter(|draft| draft.is_awaited()) {
                    Some(draft) => draft.extend_turn(data.span, packet.time()),
                    None => self.turn.is_unasked = true,
                }
            }
        }
    }

    /// Records that the request which just began at `at` may answer what the server sent unasked: it
    /// followed directly.
    pub(super) fn note_reply(&mut self, at: Timestamp, view: &View<'_>) {
        let limit = view.to_client().floor().unwrap_or_default() + LULL;
        let is_direct = view
            .server_sent_at()
            .is_some_and(|sent| at.since(sent) <= limit);
        // Known protocols say which side asks.
        let is_known = self.protocol.identified.is_some();
        let is_reply = core::mem::take(&mut self.turn.is_unasked) && is_direct && !is_known;
        if let Some(draft) = self.open.back_mut() {
            draft.beginning.is_reply = is_reply;
        }
    }

    /// Doubts that the server's data answers the open request, if it comes after a long pause and
    /// the server also sends what nobody asks for: then the server may be asking, and the client
    /// answering. Data that continues a response after such a pause may be the server's question
    /// too.
    pub(super) fn doubt_response(&mut self, packet: &PacketKey) {
        let (has_pushed, is_late) = (self.turn.has_pushed, packet.idle > PUSHED);
        let was_unasked = self.turn.is_unasked;
        let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) else {
            return;
        };
        let is_unasked = if draft.has_response() {
            is_late || was_unasked
        } else {
            let is_unasked = is_late && (has_pushed || draft.beginning.is_reply);
            draft.signs.doubts.is_unasked |= is_unasked;
            is_unasked
        };
        self.turn.is_unasked = is_unasked;
    }

    /// Doubts that the response has ended before the server's data, which follows after a pause: it may
    /// be the rest of it. After a longer pause it is a message of its own.
    fn doubt_end(&mut self, packet: &PacketKey) {
        let may_continue = self.protocol.is_unread && packet.idle <= PUSHED;
        if let Some(draft) = self.open.back_mut().filter(|_| may_continue) {
            let idle = u32::try_from(packet.idle.as_micros()).unwrap_or(u32::MAX);
            let paused = &mut draft.signs.doubts.paused_us;
            *paused = paused.saturating_add(idle);
        }
    }

    /// Returns true if the server sent this before it had received the whole open request. Such data
    /// is not its response, because a response acknowledges the request it answers; only known
    /// protocols show that a request is answered early. `answer` is the data if it may answer what
    /// came before: then the request begins after that. If it happens more often than a server's
    /// greeting explains, both sides send independently.
    pub(super) fn crosses(&mut self, packet: &PacketKey, answer: Option<Span>) -> bool {
        let is_known = self.protocol.identified.is_some();
        let last = self.open.back().filter(|draft| draft.is_awaited());
        let Some(draft) = last.filter(|draft| !draft.has_response()) else {
            return false;
        };
        let (request, is_first) = (draft.request, draft.ordinal == 0);
        let (is_whole, is_none) = (packet.ack >= request.end, packet.ack <= request.start);
        let is_part = !is_whole && !is_none && !is_known;
        let rest = self.first_sent(packet.ack).filter(|_| is_part);
        if let Some(draft) = self.open.back_mut() {
            draft.signs.doubts.is_crossed |= !is_whole && !is_first;
            if let Some((rest, answer)) = rest.zip(answer) {
                draft.begin_again(packet.ack, rest);
                draft.put_aside(answer.start, answer.end, packet.time());
            }
        }
        self.turn.has_crossed |= is_none && !is_first;
        is_none || is_part
    }

    /// Returns true if the client sent this before it had received the whole previous response.
    pub(super) fn is_early(&self, packet: &PacketKey) -> bool {
        let before = self.open.back();
        before.is_some_and(|draft| draft.has_response() && packet.ack < draft.response.end)
    }

    pub(super) fn note_crossing(&mut self, is_crossed: bool) {
        if let Some(draft) = self.open.back_mut() {
            draft.signs.doubts.is_crossed |= is_crossed;
        }
    }
}

/// Returns true if `packet` comes too long after the preceding segment to have been released by the
/// peer: an acknowledgement or a window update would have passed here at most a round trip earlier.
/// A segment that repairs a loss has waited for the repair.
pub(super) fn is_apart(packet: &PacketKey, data: Data, view: &View<'_>) -> bool {
    let trips = [view.to_client().floor(), view.to_server().floor()];
    let limit = LULL + trips.into_iter().flatten().sum::<Duration>() * 2;
    data.arrival == Arrival::InOrder && !packet.is_after_gap && packet.idle > limit
}
