//! The FINs of a connection: what they end, and what still comes after them.
//!
//! A client that has sent everything may read on (a half-closed connection, RFC 9293 §3.6), and
//! lost bytes at the end are retransmitted after the FIN.

use super::{Ending, Mode, Pairing};
use crate::attribution::packet::Arrival;
use crate::connection::is_progress;
use crate::exchange::Side;
use crate::observed::packet::PacketTime;
use crate::observed::time::Timestamp;

/// The FINs of a connection.
#[derive(Debug, Default)]
pub(super) struct Fins {
    /// Time of the client's FIN, if the client closed first.
    left: Option<Timestamp>,
    /// True if the client acknowledged data after its FIN: it has sent everything, but still reads.
    is_half_closed: bool,
    /// The end of the server's bytes.
    end: Option<u64>,
    /// Time of the server's FIN, if the server closed first.
    left_by_server: Option<Timestamp>,
    /// Time of the server's FIN or of its last byte, until it is known what they end.
    last_word: Option<Timestamp>,
    /// The end of the connection, while some bytes still have to be acknowledged.
    pub(super) ending: Option<Ending>,
}

impl Fins {
    /// Returns the time of the first FIN.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.left.into_iter().chain(self.left_by_server).min()
    }

    /// Returns the time when the client gave up: it closed first, and nothing shows that it still
    /// reads.
    pub(super) fn given_up(&self) -> Option<Timestamp> {
        self.left.filter(|_| !self.is_half_closed)
    }
}

impl Pairing {
    /// Takes in a FIN, which ends a body that lasts until the connection closes. `end` is the end
    /// of its sender's bytes.
    pub(crate) fn fin(&mut self, by: Side, at: Timestamp, end: u64) {
        let fins = self.fins.get_or_insert_default();
        if by == Side::Client {
            if fins.end.is_none() {
                fins.left.get_or_insert(at);
            }
            return;
        }
        if fins.end.is_none() && fins.left.is_none() {
            fins.left_by_server = Some(at);
        }
        fins.end.get_or_insert(end);
        fins.last_word = Some(at).filter(|_| self.protocol.mode == Mode::Http);
        let (request_acked, left) = (self.acked.requests, fins.left);
        // The end of a response that is paired by turns is not known until the next turn.
        let is_by_turns = matches!(self.protocol.mode, Mode::Turns | Mode::Tls(_));
        if let Some(draft) = self.open.iter_mut().find(|draft| draft.is_awaited()) {
            let was_over = is_by_turns && draft.has_response() && !draft.closes_at_once(at);
            draft.closing.server_asked |= left.is_none() && !was_over;
            // The FIN was sent before the request arrived.
            draft.signs.was_closing |= request_acked < draft.request.end;
        }
        self.end_body();
    }

    /// Records that both sides have sent their FIN, the last one at `ending`: the connection is
    /// over once all bytes are acknowledged.
    pub(crate) fn end_once_acked(&mut self, ending: Ending) {
        let fins = self.fins.get_or_insert_default();
        fins.ending.get_or_insert(ending);
    }

    /// Returns true if only acknowledgements and retransmissions are still to come.
    pub(crate) fn awaits_last_acks(&self) -> bool {
        let fins = self.fins.as_ref();
        fins.is_some_and(|fins| fins.ending.is_some())
    }

    /// Returns the time at which the server closed the connection; `None` if it did not, or if the
    /// client had closed before.
    pub(super) fn left_by_server(&self) -> Option<Timestamp> {
        self.fins.as_ref()?.left_by_server
    }

    /// Returns true if the server's FIN was seen.
    pub(super) fn has_fin(&self) -> bool {
        let fins = self.fins.as_ref();
        fins.is_some_and(|fins| fins.end.is_some())
    }

    /// Takes in data of the server after a FIN: a client that closed first still reads it, or it
    /// was lost before.
    #[cold]
    pub(super) fn data_behind_fin(&mut self, at: Timestamp, arrival: Arrival) {
        let last = self.fins.as_mut().and_then(|fins| fins.last_word.as_mut());
        if let Some(last) = last.filter(|_| is_progress(arrival)) {
            *last = at.max(*last);
            self.end_body();
        }
    }

    /// Takes in the client's acknowledgement of more data after a FIN. An acknowledgement of only
    /// the server's FIN does not count, because then everything is over. If the client's program
    /// had closed the connection, its kernel would reset it instead (RFC 9293 §3.10.7.4, Linux
    /// `tcp_rcv_state_process()`), so the program still reads.
    #[cold]
    pub(super) fn heard_behind_fin(&mut self) {
        let Some(fins) = &mut self.fins else {
            return;
        };
        if fins.given_up().is_some() {
            fins.is_half_closed = true;
            self.end_body();
        }
    }

    /// Ends a response with the server's FIN, if all bytes before the FIN have arrived.
    fn end_body(&mut self) {
        let position = self.streams.responses.position();
        let Some(fins) = &mut self.fins else {
            return;
        };
        // If the client closes first, it has given up: the server's FIN shows nothing more.
        let is_whole = fins.end.is_some_and(|end| position >= end) && fins.given_up().is_none();
        let Some(at) = fins.last_word.take_if(|_| is_whole) else {
            return;
        };
        let messages = &self.streams.responses.messages;
        // Bytes are missing only if the capture has everything that was sent.
        let missing = messages.awaited_bytes();
        let missing = missing.filter(|_| fins.end == Some(position));
        let is_close_delimited = messages.ends_with_connection();
        let Some(draft) = self.open.iter_mut().find(|draft| draft.is_awaited()) else {
            return;
        };
        if let Some(missing) = missing {
            draft.fin.cut_short = Some((at, missing));
            draft.response.end = position.max(draft.response.start);
        }
        if is_close_delimited {
            let number = draft.last.number;
            draft.complete(position, PacketTime { at, number });
            draft.fin.is_end = true;
            self.streams_ended(1);
        }
    }
}
