//! An exchange in the making.

use super::Ending;
use super::http2::Multiplexed;
use crate::connection::View;
use crate::connection::half::{Arrival, Span};
use crate::connection::repeats::Need;
use crate::connection::setup::Setup;
use crate::exchange::{Closing, Exchange, FirstRecord, Outcome, Particulars, Side, Signs};
use crate::handshake::Handshake;
use crate::http::{Fields, RequestLine};
use crate::mark::{Mark, Pace};
use crate::tile::{Before, Spare, Tiling, Trace, tile};
use crate::time::Timestamp;

/// A request that was seen, and what came of it so far.
#[derive(Debug)]
pub(super) struct Draft {
    ordinal: u32,
    pub(super) begin: Timestamp,
    first_number: u64,
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
            multiplexed: None,
            signs: Signs::default(),
            expects_at: None,
            interim: None,
            cut_short: None,
            fields: Fields::default(),
            is_revocation: false,
            aside: None,
            first_record: None,
        }
    }

    /// The server's bytes up to `end` are no response, unless nothing else comes.
    pub(super) fn put_aside(&mut self, start: u64, end: u64, mark: &Mark) {
        let start = match (self.aside, self.response.end > self.response.start) {
            (Some((span, ..)), _) => span.start,
            (None, true) => self.response.start.min(start),
            (None, false) => start,
        };
        self.aside = Some((Span { start, end }, mark.at, mark.number));
        self.response = Span { start: end, end };
        self.first_record = None;
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
    fn is_redirect(&self) -> bool {
        matches!(self.status, Some(301 | 302 | 303 | 307 | 308))
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
        self.end = at;
        self.last_number = number;
    }

    /// By turns a response is whole when the turn passes.
    pub(super) fn complete_turn(&mut self) {
        if let Some((span, at, number)) = self.aside.filter(|_| !self.has_response()) {
            self.extend_turn(span, at, number);
        }
        if self.response.end > self.response.start {
            self.outcome = Some(Outcome::Complete(None));
        }
    }

    /// Its boundaries cannot be told.
    pub(super) fn cut(&mut self) {
        self.outcome = Some(Outcome::Cut);
    }

    /// The connection ended before the response did.
    pub(super) fn give_up(&mut self, ending: Option<Ending>) {
        let Some((by, at, is_reset)) = ending else {
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

    /// Where a sender's retransmissions are seen, a response ends when the last
    /// of its bytes that had to be was sent: the copy before was lost behind
    /// this point.
    fn extend_by_repeats(&mut self, view: &View<'_>, marks: &[Mark]) {
        let is_near_server = matches!(
            (view.to_server().floor(), view.to_client().floor()),
            (Some(server), Some(client)) if server <= client
        );
        let is_complete = matches!(self.outcome, Some(Outcome::Complete(_)));
        if !is_near_server || !is_complete || !view.has_repeats(Side::Server) {
            return;
        }
        for mark in marks.iter().filter(|mark| mark.by == Side::Server) {
            let is_ours = mark.data.is_some_and(|data| {
                data.arrival == Arrival::Repeat
                    && data.need != Need::Spurious
                    && data.span.start < self.response.end
                    && data.span.end > self.response.start
            });
            if is_ours && mark.at > self.end {
                self.end = mark.at;
                self.last_number = mark.number;
            }
        }
    }

    /// Closes and tiles it.
    pub(super) fn close(
        mut self,
        around: Around<'_>,
        setup: &mut Setup,
        handshake: Option<Box<Handshake>>,
        spare: &mut Spare,
    ) -> Exchange {
        let view = around.view;
        let outcome = match self.outcome.unwrap_or(Outcome::Cut) {
            Outcome::Complete(None) if self.is_error => Outcome::Failed,
            outcome => outcome,
        };
        let marks = around.marks_from(self.begin);
        self.extend_by_repeats(view, marks);
        let trace = self.trace(&around, marks);
        let mut tiling = match outcome {
            Outcome::Cut => Tiling::default(),
            _ => tile(&trace, spare),
        };
        if let Some(multiplexed) = &self.multiplexed {
            tiling.hold_back(&multiplexed.held);
        }
        Exchange {
            client: view.client(),
            server: view.server(),
            point: view.point,
            ordinal: self.ordinal,
            begin: trace.begin,
            end: trace.end,
            outcome,
            waits: tiling.waits,
            holds: tiling.holds,
            recoveries: tiling.recoveries,
            deliveries: tiling.deliveries,
            disorder: tiling.disorder,
            travel: tiling.travel,
            narrow: tiling.narrow,
            drops: tiling.drops,
            packing: tiling.packing,
            harmless_delay: tiling.harmless_delay,
            first_packet: self.first_number,
            last_packet: self.last_number,
            response_bytes: self.response.end - self.response.start,
            least_trip: trace.to_server.floor(),
            setup: setup.charge(self.begin, handshake.as_deref()),
            is_revocation: self.is_revocation,
            first_record: self.first_record.map(|span| first_record(&trace, span)),
            handshake,
            closing: Closing {
                client_asked: self.client_asked,
                server_asked: self.server_asked || view.is_left_by_server(),
            },
            signs: Signs {
                idle: around.before.ended.map(|end| trace.begin.since(end)),
                is_request_acked: around.request_acked >= self.request.end,
                ..self.signs
            },
            particulars: Particulars {
                expectation: tiling.expectation,
                close_wait: tiling.close_wait,
                missing_bytes: self.cut_short.map_or(0, |(_, missing)| missing),
                target: self.line.as_ref().map_or(0, |line| line.fingerprint),
                redirect: self.fields.location.filter(|_| self.is_redirect()),
                is_encoded_on_the_fly: self.fields.is_encoded_on_the_fly,
            },
            request: self.line.map(|line| line.text),
        }
    }

    fn trace<'a>(&self, around: &Around<'a>, marks: &'a [Mark]) -> Trace<'a> {
        Trace {
            marks,
            begin: self.begin,
            end: self.end.max(self.begin),
            request: self.request,
            response: self.response,
            torn: around.torn,
            behind: around.behind,
            ends_with_fin: self.ends_with_fin,
            expects_at: self.expects_at,
            interim: self.interim,
            to_server: around.view.to_server(),
            to_client: around.view.to_client(),
            pipes: around.view.pipes(),
            before: around.before,
        }
    }
}

/// What of a connection an exchange is closed with.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) marks: &'a [Mark],
    pub(super) torn: &'a [(Side, Span)],
    /// When the response ended that it was behind.
    pub(super) behind: Option<Timestamp>,
    pub(super) before: Before,
    /// How far the server acknowledged the client's bytes.
    pub(super) request_acked: u64,
}

impl<'a> Around<'a> {
    fn marks_from(&self, begin: Timestamp) -> &'a [Mark] {
        let first = self.marks.partition_point(|mark| mark.at < begin);
        self.marks.get(first..).unwrap_or_default()
    }
}

/// How long the response's first record was on its way.
fn first_record(trace: &Trace<'_>, span: Span) -> FirstRecord {
    let pace = Pace::of(trace.marks, Side::Server, span, trace.end);
    FirstRecord {
        bytes: span.end - span.start,
        took: pace.took,
        longest_gap: pace.longest_gap,
        round_trip: trace.whole_round_trip(),
    }
}
