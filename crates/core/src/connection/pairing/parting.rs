//! What a FIN ends, and what still comes behind it.
//!
//! A client that has said all may read on (a half-closed connection, RFC 9293 §3.6), and
//! what was lost of the last bytes comes again behind the FIN that ends them.

use super::{Ending, Mode, Pairing};
use crate::connection::half::Arrival;
use crate::connection::is_progress;
use crate::exchange::Side;
use crate::time::Timestamp;

/// What the FINs of a connection said.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    /// The client's, if it came first.
    left: Option<Timestamp>,
    /// True if the client acknowledged data behind that: it has said all, and reads on.
    is_half_closed: bool,
    /// Where the server's bytes end.
    end: Option<u64>,
    /// When the server's FIN or the last of its bytes came, until it is known what they end.
    last_word: Option<Timestamp>,
    /// How the connection ended, while bytes are still to be acknowledged.
    pub(super) ending: Option<Ending>,
}

impl Farewell {
    /// When the client gave up: it left first, and nothing shows that it reads on.
    pub(super) fn given_up(&self) -> Option<Timestamp> {
        self.left.filter(|_| !self.is_half_closed)
    }
}

impl Pairing {
    /// A FIN: it ends a body that lasts until the connection closes.
    /// `end` is where its sender's bytes end.
    pub(crate) fn fin(&mut self, by: Side, at: Timestamp, end: u64) {
        let farewell = self.farewell.get_or_insert_default();
        if by == Side::Client {
            if farewell.end.is_none() {
                farewell.left.get_or_insert(at);
            }
            return;
        }
        farewell.end.get_or_insert(end);
        farewell.last_word = Some(at).filter(|_| self.mode == Mode::Http);
        let (request_acked, left) = (self.request_acked, farewell.left);
        if let Some(draft) = self.open.iter_mut().find(|draft| draft.is_awaited()) {
            draft.server_asked |= left.is_none();
            // It was sent before the request came.
            draft.signs.was_closing |= request_acked < draft.request.end;
        }
        self.end_body();
    }

    /// Both sides have sent their FIN, the last one at `ending`. It is over once all bytes
    /// are acknowledged.
    pub(crate) fn part(&mut self, ending: Ending) {
        let farewell = self.farewell.get_or_insert_default();
        farewell.ending.get_or_insert(ending);
    }

    /// Returns true if only acknowledgements, and what was lost, are still to come.
    pub(crate) fn is_parting(&self) -> bool {
        let farewell = self.farewell.as_ref();
        farewell.is_some_and(|fin| fin.ending.is_some())
    }

    /// Returns true if the server's FIN was seen.
    pub(super) fn has_fin(&self) -> bool {
        let farewell = self.farewell.as_ref();
        farewell.is_some_and(|fin| fin.end.is_some())
    }

    /// Data of the server came behind a FIN: what a client that left reads still, or what
    /// was lost before.
    #[cold]
    pub(super) fn data_behind_fin(&mut self, at: Timestamp, arrival: Arrival) {
        let last = self
            .farewell
            .as_mut()
            .and_then(|fin| fin.last_word.as_mut());
        if let Some(last) = last.filter(|_| is_progress(arrival)) {
            *last = at.max(*last);
            self.end_body();
        }
    }

    /// The client acknowledges up to `offset` behind a FIN. Where its program had closed the
    /// connection, its kernel would reset it instead (RFC 9293 §3.10.7.4, Linux
    /// `tcp_rcv_state_process()`): so there is still somebody who reads.
    #[cold]
    pub(super) fn heard_behind_fin(&mut self, offset: u64) {
        let before = self.response_acked;
        let Some(fin) = &mut self.farewell else {
            return;
        };
        let heard = fin.end.map_or(offset, |end| end.min(offset));
        if fin.given_up().is_some() && heard > before {
            fin.is_half_closed = true;
            self.end_body();
        }
    }

    /// Ends a response with the server's FIN, if all bytes before that are there.
    fn end_body(&mut self) {
        let position = self.responses.position();
        let Some(fin) = &mut self.farewell else {
            return;
        };
        // Who leaves first has given up: the server's end tells nothing after that.
        let is_whole = fin.end.is_some_and(|end| position >= end) && fin.given_up().is_none();
        let Some(at) = fin.last_word.take_if(|_| is_whole) else {
            return;
        };
        let messages = &self.responses.messages;
        // Where the capture has all that was sent.
        let missing = messages.awaited_bytes();
        let missing = missing.filter(|_| fin.end == Some(position));
        let is_close_delimited = messages.ends_with_connection();
        let Some(draft) = self.open.iter_mut().find(|draft| draft.is_awaited()) else {
            return;
        };
        if let Some(missing) = missing {
            draft.cut_short = Some((at, missing));
            draft.response.end = position.max(draft.response.start);
        }
        if is_close_delimited {
            draft.complete(position, at, draft.last_number);
            draft.ends_with_fin = true;
        }
    }
}
