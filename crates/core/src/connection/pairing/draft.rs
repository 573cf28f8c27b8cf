//! An exchange in the making.

use super::Ending;
use super::http2::Multiplexed;
use crate::attribution::packet::Span;
use crate::exchange::{Outcome, Side, Signs};
use crate::observed::time::Timestamp;
use crate::protocol::http::{Fields, RequestLine};

/// A request that was seen, and what came of it so far.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) ordinal: u32,
    pub(super) begin: Timestamp,
    pub(super) first_number: u64,
    pub(super) request: Span,
    pub(super) response: Span,
    pub(super) end: Timestamp,
    pub(super) last_number: u64,
    pub(super) outcome: Option<Outcome>,
    pub(super) line: Option<RequestLine>,
    pub(super) status: Option<u16>,
    pub(super) client_asked: bool,
    pub(super) server_asked: bool,
    /// Its response's end is the connection's.
    pub(super) ends_with_fin: bool,
    /// An earlier response was still due when it began.
    pub(super) was_behind: bool,
    /// The capture missed some of its request.
    pub(super) is_request_torn: bool,
    /// The response says that the request failed.
    pub(super) is_error: bool,
    /// The end of bytes of its response that the capture missed, until later ones come
    /// (by turns).
    pub(super) torn_until: Option<u64>,
    /// True if the capture ended within its response.
    pub(super) is_broken_off: bool,
    /// Its part in HTTP/2, if it is such.
    pub(super) multiplexed: Option<Box<Multiplexed>>,
    pub(super) signs: Signs,
    /// Where the request's head ends, if it announced its body with
    /// `Expect: 100-continue`.
    pub(super) expects_at: Option<u64>,
    /// When and as which packet the first interim response came.
    pub(super) interim: Option<(Timestamp, u64)>,
    /// The server ended the connection at this instant, so many bytes short of
    /// what its response had announced.
    pub(super) cut_short: Option<(Timestamp, u64)>,
    /// What the response's head said besides its framing.
    pub(super) fields: Fields,
    /// Its response is what a certificate's validity rests on.
    pub(super) is_revocation: bool,
    /// Records of the server that seem to be no response: where they lie, and
    /// when and in which packet the last ended.
    aside: Option<(Span, Timestamp, u64)>,
    /// The first record of its response, if it is in records.
    pub(super) first_record: Option<Span>,
    /// True if its first segment was sent to a closed window.
    pub(super) begins_shut_out: bool,
}

impl Draft {
    pub(super) fn new(
        ordinal: u32,
        offset: u64,
        begin: Timestamp,
        number: u64,
        was_behind: bool,
    ) -> Self {
        Self {
            ordinal,
            begin,
            first_number: number,
            request: Span {
                start: offset,
                end: offset,
            },
            response: Span { start: 0, end: 0 },
            end: begin,
            last_number: number,
            outcome: None,
            line: None,
            status: None,
            client_asked: false,
            server_asked: false,
            ends_with_fin: false,
            was_behind,
            is_request_torn: false,
            is_error: false,
            torn_until: None,
            is_broken_off: false,
            multiplexed: None,
            signs: Signs::default(),
            expects_at: None,
            interim: None,
            cut_short: None,
            fields: Fields::default(),
            is_revocation: false,
            aside: None,
            first_record: None,
            begins_shut_out: false,
        }
    }

    /// The server's bytes up to `end` are no response, unless nothing else comes.
    pub(super) fn put_aside(&mut self, start: u64, end: u64, at: Timestamp, number: u64) {
        let start = match (self.aside, self.response.end > self.response.start) {
            (Some((span, ..)), _) => span.start,
            (None, true) => self.response.start.min(start),
            (None, false) => start,
        };
        self.aside = Some((Span { start, end }, at, number));
        self.response = Span { start: end, end };
        self.first_record = None;
    }

    /// Puts the begin of the response, up to `end`, aside: it belongs to no response.
    pub(super) fn put_begin_aside(&mut self, end: u64) {
        self.put_aside(self.response.start, end, self.end, self.last_number);
    }

    /// Whether the record that ends there was put aside.
    pub(super) fn is_aside(&self, end: u64) -> bool {
        self.aside.is_some_and(|(span, ..)| end <= span.end)
    }

    pub(super) fn is_head_request(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.is_head)
    }

    /// A 1xx response: the real one follows (RFC 9110 §15.2).
    pub(super) fn is_interim(&self) -> bool {
        matches!(self.status, Some(100 | 102..200))
    }

    /// A status that sends the client elsewhere (RFC 9110 §15.4).
    pub(super) fn is_redirect(&self) -> bool {
        matches!(self.status, Some(301 | 302 | 303 | 307 | 308))
    }

    /// Starts the request over at these bytes.
    pub(super) fn begin_again(&mut self, offset: u64, at: Timestamp, number: u64) {
        let end = offset.max(self.request.end);
        self.request = Span { start: offset, end };
        (self.begin, self.end) = (at, at);
        (self.first_number, self.last_number) = (number, number);
        self.signs.request_repeats = 0;
    }

    /// Whether response bytes were seen (by turns).
    pub(super) fn has_response(&self) -> bool {
        self.outcome.is_some() || self.response.end > self.response.start
    }

    /// The response's last byte came.
    pub(super) fn complete(&mut self, offset: u64, at: Timestamp, number: u64) {
        self.response.end = offset.max(self.response.start);
        self.end = at;
        self.last_number = number;
        self.outcome = Some(Outcome::Complete(self.status));
    }

    /// More response bytes, by turns.
    pub(super) fn extend_turn(&mut self, span: Span, at: Timestamp, number: u64) {
        if self.response.end == self.response.start {
            self.response = span;
        }
        self.signs.has_response = true;
        self.response.start = self.response.start.min(span.start);
        self.response.end = self.response.end.max(span.end);
        self.torn_until = self.torn_until.filter(|&until| span.end <= until);
        self.end = at;
        self.last_number = number;
    }

    /// By turns a response is whole when the turn passes.
    pub(super) fn complete_turn(&mut self) {
        if let Some((span, at, number)) = self.aside.filter(|_| !self.has_response()) {
            self.extend_turn(span, at, number);
        }
        if self.torn_until.is_some() {
            // Its end was missed.
            self.cut();
        } else if self.response.end > self.response.start {
            self.outcome = Some(Outcome::Complete(self.status));
        }
    }

    /// Its boundaries cannot be told.
    pub(super) fn cut(&mut self) {
        self.outcome = Some(Outcome::Cut);
    }

    /// The connection ended before the response did.
    pub(super) fn give_up(&mut self, ending: Option<Ending>) {
        let Some((by, at, is_reset)) = ending else {
            self.signs.is_left_waiting = true;
            self.cut();
            return;
        };
        self.end = self
            .cut_short
            .map_or(at, |(finished, _)| finished)
            .max(self.begin);
        self.ends_with_fin |= self.cut_short.is_some();
        self.signs.ended_by = by;
        self.outcome = Some(match (by, is_reset) {
            (Some(Side::Client), _) if !self.server_asked => Outcome::TimedOut,
            (_, true) => Outcome::Reset,
            _ => Outcome::Closed,
        });
    }
}
