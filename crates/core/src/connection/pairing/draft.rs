//! An exchange in progress.

use super::Ending;
use super::http2::Multiplexed;
use crate::attribution::packet::Span;
use crate::exchange::{Outcome, Side, Signs};
use crate::observed::time::Timestamp;
use crate::protocol::http::{Fields, RequestLine};

/// A request that was seen, and its response so far.
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
    /// True if the response lasts until the end of the connection.
    pub(super) ends_with_fin: bool,
    /// True if an earlier response was still outstanding when the request began.
    pub(super) was_behind: bool,
    /// True if the capture missed a part of the request.
    pub(super) is_request_torn: bool,
    /// True if the response reports that the request failed.
    pub(super) is_error: bool,
    /// The end of the response bytes that the capture missed, until later ones come (paired by
    /// turns).
    pub(super) torn_until: Option<u64>,
    /// True if the capture ended within the response.
    pub(super) is_broken_off: bool,
    /// The exchange's HTTP/2 state, if it is an HTTP/2 stream.
    pub(super) multiplexed: Option<Box<Multiplexed>>,
    pub(super) signs: Signs,
    /// End of the request's head, if it announced its body with `Expect: 100-continue`.
    pub(super) expects_at: Option<u64>,
    /// Time and packet number of the first interim response.
    pub(super) interim: Option<(Timestamp, u64)>,
    /// The time at which the server ended the connection, and the number of bytes by which the
    /// response fell short of its announced length.
    pub(super) cut_short: Option<(Timestamp, u64)>,
    /// The fields of the response's head other than framing.
    pub(super) fields: Fields,
    /// True if a certificate's validity depends on the response.
    pub(super) is_revocation: bool,
    /// Records of the server that do not seem to be a response: their span, and the time and packet
    /// of the last one's end.
    aside: Option<(Span, Timestamp, u64)>,
    /// The first TLS record of the response, if TLS is used.
    pub(super) first_record: Option<Span>,
    /// True if the first segment was sent to a closed window.
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

    /// Sets the server's bytes up to `end` aside: they are not a response, unless nothing else
    /// comes.
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

    /// Sets the beginning of the response, up to `end`, aside, because it belongs to no response.
    pub(super) fn put_begin_aside(&mut self, end: u64) {
        self.put_aside(self.response.start, end, self.end, self.last_number);
    }

    /// Returns true if the record that ends at `end` was set aside.
    pub(super) fn is_aside(&self, end: u64) -> bool {
        self.aside.is_some_and(|(span, ..)| end <= span.end)
    }

    pub(super) fn is_head_request(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.is_head)
    }

    /// Returns true for a 1xx response, which the final one follows (RFC 9110 §15.2).
    pub(super) fn is_interim(&self) -> bool {
        matches!(self.status, Some(100 | 102..200))
    }

    /// Returns true for a status that redirects the client (RFC 9110 §15.4).
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

    /// Returns true if response bytes were seen (paired by turns).
    pub(super) fn has_response(&self) -> bool {
        self.outcome.is_some() || self.response.end > self.response.start
    }

    /// Completes the response with its last byte.
    pub(super) fn complete(&mut self, offset: u64, at: Timestamp, number: u64) {
        self.response.end = offset.max(self.response.start);
        self.end = at;
        self.last_number = number;
        self.outcome = Some(Outcome::Complete(self.status));
    }

    /// Takes in more response bytes, when pairing by turns.
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

    /// Completes the response at the end of its turn, when pairing by turns.
    pub(super) fn complete_turn(&mut self) {
        if let Some((span, at, number)) = self.aside.filter(|_| !self.has_response()) {
            self.extend_turn(span, at, number);
        }
        if self.torn_until.is_some() {
            // The capture missed its end.
            self.cut();
        } else if self.response.end > self.response.start {
            self.outcome = Some(Outcome::Complete(self.status));
        }
    }

    /// Cuts the exchange, because its boundaries are unknown.
    pub(super) fn cut(&mut self) {
        self.outcome = Some(Outcome::Cut);
    }

    /// Ends an exchange whose connection ended before its response did.
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
