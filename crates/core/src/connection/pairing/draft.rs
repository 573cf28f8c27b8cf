//! An exchange in progress.

use core::time::Duration;

use super::Ending;
use super::http2::Multiplexed;
use crate::attribution::Permission;
use crate::attribution::packet::Span;
use crate::connection::empty_span;
use crate::exchange::{Closing, Outcome, ReplyError, Side, Signs};
use crate::observed::packet::PacketTime;
use crate::observed::time::Timestamp;
use crate::protocol::http::{Fields, Head, RequestLine};

/// Minimum time after which servers close idle connections: a second, the unit in which they are
/// configured.
const SOONEST_IDLE_CLOSE: Duration = Duration::from_millis(900);

/// A request that was seen, and its response so far.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) ordinal: u32,
    /// The packet with which the exchange began.
    pub(super) first: PacketTime,
    /// The packet with which the exchange ends, so far.
    pub(super) last: PacketTime,
    pub(super) request: Span,
    pub(super) response: Span,
    pub(super) outcome: Option<Outcome>,
    pub(super) request_head: RequestHead,
    pub(super) response_head: ResponseHead,
    /// The sides whose message asked to close the connection.
    pub(super) closing: Closing,
    pub(super) fin: ResponseFin,
    pub(super) torn: TornResponse,
    /// The exchange's HTTP/2 state, if it is an HTTP/2 stream.
    pub(super) multiplexed: Option<Box<Multiplexed>>,
    pub(super) signs: Signs,
    pub(super) records: ResponseRecords,
    pub(super) beginning: Beginning,
}

/// The head of a request.
#[derive(Debug, Default)]
pub(super) struct RequestHead {
    pub(super) line: Option<RequestLine>,
    pub(super) permission: Permission,
}

/// The head of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseHead {
    pub(super) status: Option<u16>,
    /// The outcome of a gRPC call, from its trailers.
    pub(super) grpc_status: Option<u8>,
    /// Time of the first bytes of an HTTP/1 response.
    pub(super) began: Option<Timestamp>,
    /// The error that the response reports, in a protocol other than HTTP.
    pub(super) error: Option<ReplyError>,
    /// True if a certificate's validity depends on the response.
    pub(super) is_revocation: bool,
    /// The fields other than framing.
    pub(super) fields: Fields,
    /// True if the head was read to its end.
    is_read: bool,
}

/// The FINs that concern a response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseFin {
    /// True if the response lasts until the end of the connection.
    pub(super) is_end: bool,
    /// The time at which the server ended the connection, and the number of bytes by which the
    /// response fell short of its announced length.
    pub(super) cut_short: Option<(Timestamp, u64)>,
    /// The time at which the client closed, if it never acknowledged all of the response.
    pub(super) left_unheard: Option<Timestamp>,
}

/// The parts of a response that the capture missed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TornResponse {
    /// The end of the bytes that the capture missed, until later ones come (paired by turns).
    pub(super) until: Option<u64>,
    /// True if the capture ended within the response.
    pub(super) is_broken_off: bool,
}

/// TLS records of the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseRecords {
    /// Records that do not seem to be a response: their span, and the packet with the last one's
    /// end.
    aside: Option<(Span, PacketTime)>,
    /// The first record of the response.
    pub(super) first: Option<Span>,
}

/// The circumstances in which the first segment was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// True if an earlier response was still outstanding.
    pub(super) was_behind: bool,
    /// True if the receiver's window was closed.
    pub(super) is_shut_out: bool,
    /// True if the segment followed directly what the server had sent unasked: it may be an answer
    /// rather than a request.
    pub(super) is_reply: bool,
}

impl Draft {
    /// Returns the memory that the exchange takes besides itself, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let multiplexed = self.multiplexed.as_deref();
        super::BESIDE_DRAFT + multiplexed.map_or(0, Multiplexed::held_bytes)
    }

    pub(super) fn new(ordinal: u32, offset: u64, first: PacketTime, beginning: Beginning) -> Self {
        Self {
            ordinal,
            first,
            last: first,
            request: empty_span(offset),
            response: empty_span(0),
            outcome: None,
            request_head: RequestHead::default(),
            response_head: ResponseHead::default(),
            closing: Closing::default(),
            fin: ResponseFin::default(),
            torn: TornResponse::default(),
            multiplexed: None,
            signs: Signs::default(),
            records: ResponseRecords::default(),
            beginning,
        }
    }

    /// Sets the server's bytes up to `end` aside: they are not a response, unless nothing else
    /// comes.
    pub(super) fn put_aside(&mut self, start: u64, end: u64, packet: PacketTime) {
        let start = match (self.records.aside, self.response.end > self.response.start) {
            (Some((span, _)), _) => span.start,
            (None, true) => self.response.start.min(start),
            (None, false) => start,
        };
        self.records.aside = Some((Span { start, end }, packet));
        self.response = empty_span(end);
        self.records.first = None;
    }

    /// Sets the beginning of the response, up to `end`, aside, because it belongs to no response.
    pub(super) fn put_begin_aside(&mut self, end: u64) {
        self.put_aside(self.response.start, end, self.last);
    }

    /// Returns true if server's records were set aside.
    pub(super) fn has_aside(&self) -> bool {
        self.records.aside.is_some()
    }

    /// Returns true if the record that ends at `end` was set aside.
    pub(super) fn is_aside(&self, end: u64) -> bool {
        self.records.aside.is_some_and(|(span, _)| end <= span.end)
    }

    pub(super) fn is_head_request(&self) -> bool {
        self.request_head
            .line
            .as_ref()
            .is_some_and(|line| line.is_head)
    }

    /// Returns true if the head of an HTTP/1.x request was read.
    pub(super) fn is_http_request(&self) -> bool {
        let line = self.request_head.line.as_ref();
        line.is_some_and(|line| line.fingerprint != 0)
    }

    /// Returns true for a 1xx response, which the final one follows (RFC 9110 §15.2).
    pub(super) fn is_interim(&self) -> bool {
        matches!(self.response_head.status, Some(100 | 102..200))
    }

    /// Returns true for a status that redirects the client (RFC 9110 §15.4).
    pub(super) fn is_redirect(&self) -> bool {
        matches!(self.response_head.status, Some(301 | 302 | 303 | 307 | 308))
    }

    /// Starts the request over at these bytes. What the server sent before does not answer it.
    pub(super) fn begin_again(&mut self, offset: u64, packet: PacketTime) {
        let end = offset.max(self.request.end);
        self.request = Span { start: offset, end };
        self.records = ResponseRecords::default();
        (self.first, self.last) = (packet, packet);
        self.signs.request_repeats = 0;
    }

    /// Returns true if response bytes were seen (paired by turns).
    pub(super) fn has_response(&self) -> bool {
        self.outcome.is_some() || self.response.end > self.response.start
    }

    /// Takes in the head of an HTTP/1.x request, or of one in a similar protocol, which ends at
    /// `offset`.
    pub(super) fn take_request_head(&mut self, offset: u64, head: Head) {
        self.closing.client_asked = head.asks_to_close;
        self.closing.is_told = true;
        self.request_head.permission.expects_at = head.fields.expects_continue.then_some(offset);
        self.request_head.line = head.request;
    }

    /// Returns who announced the end of the connection. If the server `left_first`, its response need
    /// not be read for that.
    pub(super) fn announced(&self, left_first: bool) -> Closing {
        let Closing {
            client_asked,
            server_asked,
            is_told,
        } = self.closing;
        let server_asked = server_asked || left_first;
        let is_known = self.response_head.is_read || client_asked || server_asked;
        Closing {
            client_asked,
            server_asked,
            is_told: self.multiplexed.is_some() || (is_told && is_known),
        }
    }

    /// Begins the response at `offset`.
    pub(super) fn begin_response(&mut self, offset: u64, at: Timestamp) {
        self.response = empty_span(offset);
        self.response_head.began = Some(at);
        self.signs.has_response = true;
    }

    /// Takes in the head of an HTTP/1.x response, or of one in a similar protocol.
    pub(super) fn take_response_head(&mut self, head: &Head) {
        self.response_head.status = head.status;
        self.response_head.error = self.response_head.error.or(head.error);
        self.response_head.fields = head.fields;
        self.response_head.is_read = true;
        self.closing.server_asked |= head.asks_to_close;
        self.response_head.is_revocation |= head.is_revocation;
    }

    /// Ends the response at `offset`; `torn`: the capture missed its end. An interim one permits the
    /// rest of the request.
    pub(super) fn end_response(&mut self, offset: u64, packet: PacketTime, torn: bool) {
        if torn {
            self.cut();
        } else if self.is_interim() {
            self.response_head.status = None;
            let permission = &mut self.request_head.permission;
            permission.interim = permission.interim.or(Some(packet));
        } else {
            self.complete(offset, packet);
        }
    }

    /// Completes the response with its last byte.
    pub(super) fn complete(&mut self, offset: u64, packet: PacketTime) {
        self.response.end = offset.max(self.response.start);
        self.last = packet;
        self.outcome = Some(Outcome::Complete(self.response_head.status));
    }

    /// Takes in more response bytes, when pairing by turns.
    pub(super) fn extend_turn(&mut self, span: Span, packet: PacketTime) {
        if self.response.end == self.response.start {
            self.response = span;
        }
        self.signs.has_response = true;
        self.response.start = self.response.start.min(span.start);
        self.response.end = self.response.end.max(span.end);
        self.torn.until = self.torn.until.filter(|&until| span.end <= until);
        self.last = packet;
    }

    /// Returns true if a FIN at `fin` belongs to the exchange, because it follows soon. After a
    /// longer time the server closes an idle connection, which it had kept for more requests.
    pub(super) fn closes_at_once(&self, fin: Timestamp) -> bool {
        fin.since(self.last.at) < SOONEST_IDLE_CLOSE
    }

    /// Completes the response at the end of its turn, when pairing by turns.
    pub(super) fn complete_turn(&mut self) {
        if let Some((span, packet)) = self.records.aside.filter(|_| !self.has_response()) {
            self.extend_turn(span, packet);
        }
        if self.torn.until.is_some() {
            // The capture missed its end.
            self.cut();
        } else if self.response.end > self.response.start {
            self.outcome = Some(Outcome::Complete(self.response_head.status));
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
        let finished = self.fin.cut_short.map(|(finished, _)| finished);
        self.last.at = finished.unwrap_or(at).max(self.first.at);
        self.fin.is_end |= self.fin.cut_short.is_some();
        self.signs.ended_by = by;
        self.outcome = Some(match (by, is_reset) {
            // The client did not tire of waiting: TLS was refused.
            (Some(Side::Client), _) if self.signs.tls.alert.is_some() => Outcome::Closed,
            (Some(Side::Client), _) if !self.closing.server_asked => Outcome::TimedOut,
            (_, true) => Outcome::Reset,
            _ => Outcome::Closed,
        });
    }
}
