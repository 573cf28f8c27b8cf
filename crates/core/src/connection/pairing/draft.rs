//! An exchange in the making.

use super::Ending;
use crate::connection::View;
use crate::connection::half::Span;
use crate::connection::setup::Setup;
use crate::exchange::{Closing, Exchange, Outcome, Side, Signs};
use crate::http::RequestLine;
use crate::mark::Mark;
use crate::tile::{Tiling, Trace, tile};
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
    pub(super) signs: Signs,
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
            signs: Signs::default(),
        }
    }

    pub(super) fn is_head_request(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.method == "HEAD")
    }

    /// A 1xx response: the real one follows (RFC 9110 §15.2).
    pub(super) fn is_interim(&self) -> bool {
        matches!(self.status, Some(100 | 102..200))
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
        self.end = at.max(self.begin);
        self.signs.ended_by = by;
        self.outcome = Some(match (by, is_reset) {
            (Some(Side::Client), _) if !self.server_asked => Outcome::TimedOut,
            (_, true) => Outcome::Reset,
            _ => Outcome::Closed,
        });
    }

    /// Closes and tiles it.
    pub(super) fn close(
        self,
        view: &View,
        marks: &[Mark],
        torn: &[(Side, Span)],
        behind: Option<Timestamp>,
        setup: &mut Setup,
    ) -> Exchange {
        let outcome = self.outcome.unwrap_or(Outcome::Cut);
        let first = marks.partition_point(|mark| mark.at < self.begin);
        let trace = Trace {
            marks: marks.get(first..).unwrap_or_default(),
            begin: self.begin,
            end: self.end.max(self.begin),
            request: self.request,
            response: self.response,
            torn,
            behind,
            ends_with_fin: self.ends_with_fin,
            to_server: view.to_server,
            to_client: view.to_client,
        };
        let tiling = if outcome == Outcome::Cut {
            Tiling::default()
        } else {
            tile(&trace)
        };
        Exchange {
            client: view.client,
            server: view.server,
            point: view.point,
            ordinal: self.ordinal,
            begin: self.begin,
            end: trace.end,
            outcome,
            request: self
                .line
                .map(|line| format!("{} {}", line.method, line.target)),
            waits: tiling.waits,
            holds: tiling.holds,
            recoveries: tiling.recoveries,
            harmless_delay: tiling.harmless_delay,
            first_packet: self.first_number,
            last_packet: self.last_number,
            response_bytes: self.response.end - self.response.start,
            least_trip: view.to_server.floor(),
            setup: setup.charge(self.begin),
            closing: Closing {
                client_asked: self.client_asked,
                server_asked: self.server_asked || (view.server_finished && !view.client_finished),
            },
            signs: self.signs,
        }
    }
}
