//! Pairs requests with responses on one connection.
//!
//! HTTP/1.x is read where it can be; anything else is paired by turns: a run
//! of client bytes and the run of server bytes that follows; so is HTTP whose
//! heads the capture cut off. A hole in the capture cuts the exchanges it
//! touches and never shifts the pairing.

mod draft;
mod flights;
mod http2;
mod tls;

use std::collections::VecDeque;

use draft::Draft;

use super::half::{Arrival, Span};
use super::repeats::Need;
use super::setup::Setup;
use super::stream::Stream;
use super::{View, empty_span, is_progress};
use crate::exchange::{Exchange, Foreign, Outcome, Side};
use crate::handshake::Handshake;
use crate::http::Role;
use crate::mark::{Data, Mark, Marks};
use crate::protocol::{Parser, Protocol, Step};
use crate::tile::Before;
use crate::time::Timestamp;

/// Exchanges open at once on one connection at most (pipelining).
const MAX_OPEN: usize = 1024;
/// Capture holes remembered.
const MAX_TORN: usize = 64;

/// The exchanges of one connection.
#[derive(Debug)]
pub(crate) struct Pairing {
    mode: Mode,
    requests: Stream,
    responses: Stream,
    marks: Marks,
    open: VecDeque<Draft>,
    next_ordinal: u32,
    torn: Vec<(Side, Span)>,
    /// When the last response ended.
    last_end: Option<Timestamp>,
    /// Most of the server's bytes in flight at once, in responses large enough
    /// to tell.
    most_in_flight: u64,
    /// What the server's congestion window would be by now without rests.
    kept_window: u64,
    /// How far each side acknowledged the server's bytes.
    response_acked: u64,
    /// How far the server acknowledged the client's.
    request_acked: u64,
    /// The server's FIN was seen.
    has_fin: bool,
    /// The client's FIN, if it came first.
    left: Option<Timestamp>,
    /// A response is in progress whose request was not seen.
    is_orphaned: bool,
    /// What is spoken by turns.
    spoken: Option<Protocol>,
    /// Its flow control, where it is HTTP/2.
    multiplex: Option<Box<http2::Multiplex>>,
    /// What its TLS has come to, where there is any.
    tls: Option<Box<tls::Conversation>>,
    /// A TLS handshake that no exchange bears yet.
    handshake: Option<Box<Handshake>>,
}

/// How messages are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Undecided,
    /// By what parsers of requests and of responses in their order say.
    Http,
    Http2,
    Tls,
    Turns,
}

/// How a connection ended: by whom, when, and whether by a reset.
pub(crate) type Ending = (Option<Side>, Timestamp, bool);

impl Default for Pairing {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            requests: Stream::new(Role::Request),
            responses: Stream::new(Role::Response),
            marks: Marks::default(),
            open: VecDeque::new(),
            next_ordinal: 0,
            torn: Vec::new(),
            last_end: None,
            most_in_flight: 0,
            kept_window: 0,
            response_acked: 0,
            request_acked: 0,
            has_fin: false,
            left: None,
            is_orphaned: false,
            spoken: None,
            multiplex: None,
            tls: None,
            handshake: None,
        }
    }
}

impl Pairing {
    /// Remembers a segment for tiling.
    pub(crate) fn mark(&mut self, mark: Mark) {
        self.marks.push(mark);
    }

    /// Notes whether packet `number` had to be sent.
    pub(crate) fn resolve(&mut self, number: u64, need: Need) {
        self.marks.resolve(number, need);
    }

    /// Takes in a data segment that was just marked.
    pub(crate) fn data(&mut self, by: Side, mark: Mark, data: Data, payload: &[u8], view: &View) {
        if matches!(
            data.arrival,
            Arrival::KeepAlive | Arrival::Repeat | Arrival::Copy
        ) {
            if by == Side::Client && data.arrival == Arrival::Repeat {
                self.repeated(data.span);
            }
            return;
        }
        if self.mode == Mode::Undecided {
            if by == Side::Server {
                if let Some(protocol) = Protocol::of_server(payload) {
                    (self.mode, self.spoken) = (Mode::Turns, Some(protocol));
                }
                return;
            }
            match Protocol::of_client(payload) {
                Some(Protocol::Http) => self.mode = Mode::Http,
                Some(Protocol::Http2) => self.begin_http2(),
                Some(Protocol::Tls) => self.begin_tls(payload),
                Some(protocol @ (Protocol::Redis | Protocol::Postgres)) => {
                    self.mode = Mode::Http;
                    self.requests.speak(protocol, Role::Request);
                    self.responses.speak(protocol, Role::Response);
                }
                spoken => (self.mode, self.spoken) = (Mode::Turns, spoken),
            }
        }
        match self.mode {
            Mode::Http => self.http_data(by, mark, data, payload, view),
            Mode::Http2 => self.http2_data(by, mark, data, payload, view),
            Mode::Tls => self.tls_data(by, mark, data, payload, view),
            _ => self.spoken_turn(by, mark, data, payload),
        }
    }

    /// The client sent these bytes again.
    fn repeated(&mut self, span: Span) {
        let awaited = self.open.iter_mut().find(|draft| draft.is_awaited());
        if let Some(draft) = awaited.filter(|draft| span.end > draft.request.start) {
            draft.signs.request_repeats = draft.signs.request_repeats.saturating_add(1);
        }
    }

    /// The bytes of `span` passed the capture unseen.
    pub(crate) fn torn(&mut self, by: Side, span: Span, at: Timestamp) {
        if self.torn.len() == MAX_TORN {
            self.torn.remove(0);
        }
        self.torn.push((by, span));
        match self.mode {
            Mode::Http => {}
            Mode::Undecided => return,
            // Where the turn ended, or whether another began, is not known.
            Mode::Turns => return self.cut_awaited(),
            Mode::Http2 => return self.http2_torn(by, span),
            Mode::Tls => return self.tls_torn(by, span),
        }
        let steps = self.read(by, |stream, on| stream.skip(span, on));
        for (offset, step) in steps {
            self.step(by, offset, step, at, 0, true);
        }
    }

    /// The peer of `sender` acknowledged its bytes up to `offset`.
    pub(crate) fn acknowledged(&mut self, sender: Side, offset: u64) {
        let acked = match sender {
            Side::Server => &mut self.response_acked,
            Side::Client => &mut self.request_acked,
        };
        *acked = offset.max(*acked);
    }

    /// A FIN: it ends a body that lasts until the connection closes.
    /// `end` is where its sender's bytes end.
    pub(crate) fn fin(&mut self, by: Side, at: Timestamp, end: u64) {
        if by == Side::Client {
            if !self.has_fin {
                self.left.get_or_insert(at);
            }
            return;
        }
        self.has_fin = true;
        let (request_acked, left) = (self.request_acked, self.left);
        let is_close_delimited = self.responses.messages.ends_with_connection();
        let position = self.responses.position();
        // Where the capture has all that was sent.
        let missing = self
            .responses
            .messages
            .awaited_bytes()
            .filter(|_| position == end);
        if let Some(draft) = self.open.iter_mut().find(|draft| draft.is_awaited()) {
            draft.server_asked |= left.is_none();
            // It was sent before the request came.
            draft.signs.was_closing |= request_acked < draft.request.end;
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

    /// No more will come: `None` because the capture ended.
    pub(crate) fn finish(&mut self, ending: Option<Ending>) {
        if matches!(self.mode, Mode::Turns | Mode::Tls) {
            self.finish_turn();
        }
        self.fail_handshake();
        // Who says first that it wants no more has given up, unless reset.
        let left = self.left.map(|at| (Some(Side::Client), at, false));
        let ending = match ending {
            Some((_, _, true)) => ending,
            _ => left.or(ending),
        };
        for draft in self.open.iter_mut().filter(|draft| draft.is_awaited()) {
            draft.give_up(ending);
        }
        self.response_acked = u64::MAX;
    }

    /// Whether no exchange is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Frees the memory.
    pub(crate) fn retire(&mut self) {
        self.marks.retire();
        self.requests.retire();
        self.responses.retire();
        self.torn = Vec::new();
        self.open = VecDeque::new();
        self.tls = None;
    }

    /// Tiles and hands out the exchanges that are closed.
    pub(crate) fn collect(&mut self, view: &View, setup: &mut Setup, into: &mut Vec<Exchange>) {
        while let Some(draft) = self.next_closed() {
            let behind = self.last_end.filter(|_| draft.was_behind);
            let request_end = draft.request.end;
            let before = Before {
                ended: self.last_end,
                flight: self.most_in_flight,
                kept: self.kept_window,
            };
            let mut exchange = draft.close(
                view,
                self.marks.as_slice(),
                &self.torn,
                (behind, before),
                setup,
                self.handshake.take(),
            );
            exchange.signs.idle = self.last_end.map(|end| exchange.begin.since(end));
            exchange.signs.is_request_acked = self.request_acked >= request_end;
            self.last_end = Some(exchange.end);
            for delivery in &exchange.deliveries {
                if delivery.sender == Side::Server {
                    self.most_in_flight = self.most_in_flight.max(delivery.most_in_flight);
                    // A window that is used doubles each round trip (RFC 5681 §3.1).
                    let grown = self.kept_window.saturating_mul(2);
                    self.kept_window = grown.max(delivery.most_in_flight);
                }
            }
            into.push(exchange);
        }
        let first = self.open.front().map(|front| front.begin);
        match first.or(self.handshake_begin()) {
            Some(begin) => self.marks.forget_before(begin),
            None => {
                self.marks.clear();
                self.torn.clear();
            }
        }
    }

    /// Takes out an exchange that is over: in their order, but for HTTP/2.
    fn next_closed(&mut self) -> Option<Draft> {
        let is_settled = |draft: &Draft| {
            draft.is_cut() || self.response_acked >= draft.response.end || self.open.len() > 1
        };
        let is_over = |draft: &Draft| !draft.is_awaited() && is_settled(draft);
        match self.mode {
            Mode::Http2 => {
                let at = self.open.iter().position(is_over)?;
                self.open.remove(at)
            }
            _ if is_over(self.open.front()?) => self.open.pop_front(),
            _ => None,
        }
    }

    fn http_data(&mut self, by: Side, mark: Mark, data: Data, payload: &[u8], view: &View) {
        let begins_request = by == Side::Client && self.requests.messages.may_resume(payload);
        let has_lost_thread = self.requests.messages.is_lost() || self.responses.messages.is_lost();
        if begins_request && has_lost_thread {
            self.resynchronise(data.span.start, mark.ack);
        }
        let steps = self.read(by, |stream, on| stream.take(data.span, payload, on));
        let is_cut = (payload.len() as u64) < data.span.end - data.span.start;
        if by == Side::Server && data.arrival == Arrival::InOrder && !is_cut {
            self.look_for_foreign(&steps, payload);
        }
        if is_cut && steps.iter().any(|(_, step)| *step == Step::Lost) {
            self.mode = Mode::Turns;
            return self.turn_data(by, mark, data);
        }
        for (offset, step) in steps {
            match self.mode {
                Mode::Http2 => self.http2_step(by, offset, step, mark, view),
                _ => self.step(by, offset, step, mark.at, mark.number, false),
            }
        }
        if by == Side::Server {
            if let Some(draft) = self.open.iter_mut().find(|draft| draft.is_awaited()) {
                draft.last_number = mark.number;
            }
        }
    }

    /// A response that does not begin as one.
    fn look_for_foreign(&mut self, steps: &[(u64, Step)], payload: &[u8]) {
        let is_lost = steps.iter().any(|(_, step)| *step == Step::Lost);
        if !is_lost || crate::http::begins_message(Role::Response, payload) || self.is_orphaned {
            return;
        }
        let is_tls = matches!(payload, [20..=23, 3, 0..=4, ..]);
        let foreign = if is_tls {
            Foreign::Tls
        } else {
            Foreign::Unknown
        };
        let is_due = |draft: &&mut Draft| draft.is_awaited() && draft.status.is_none();
        if let Some(draft) = self.open.iter_mut().find(is_due) {
            draft.signs.foreign = Some(foreign);
        }
    }

    fn cut_awaited(&mut self) {
        for draft in self.open.iter_mut().filter(|draft| draft.is_awaited()) {
            draft.cut();
        }
    }

    /// A request begins and nothing before it can be told apart.
    fn resynchronise(&mut self, request: u64, response: u64) {
        self.cut_awaited();
        self.is_orphaned = false;
        self.requests.restart(request);
        self.responses.restart(response);
    }

    /// Runs a stream and gathers its steps, telling it which responses have no body.
    fn read(
        &mut self,
        by: Side,
        run: impl FnOnce(&mut Stream, &mut dyn FnMut(&mut Parser, u64, Step)),
    ) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        let mut awaited = self
            .open
            .iter()
            .filter(|draft| draft.is_awaited())
            .map(|draft| draft.is_head_request());
        let mut has_no_body = awaited.next().unwrap_or(false);
        let mut changes_protocol = false;
        let mut on = |messages: &mut Parser, offset: u64, step: Step| {
            if by == Side::Server {
                match &step {
                    Step::Head(head) if head.status == Some(101) => {
                        changes_protocol = head.upgrades_to_http2;
                    }
                    // What follows a 101 is frames (RFC 7540 §3.2).
                    Step::Ended if changes_protocol => {
                        changes_protocol = false;
                        *messages = Protocol::Http2.parser(Role::Response);
                    }
                    Step::Head(_) if has_no_body => messages.no_body(),
                    Step::Ended => has_no_body = awaited.next().unwrap_or(false),
                    _ => {}
                }
            }
            steps.push((offset, step));
        };
        match by {
            Side::Client => run(&mut self.requests, &mut on),
            Side::Server => run(&mut self.responses, &mut on),
        }
        steps
    }

    fn step(&mut self, by: Side, offset: u64, step: Step, at: Timestamp, number: u64, torn: bool) {
        match by {
            Side::Client => self.request_step(offset, step, at, torn),
            Side::Server => self.response_step(offset, step, at, number, torn),
        }
    }

    fn request_step(&mut self, offset: u64, step: Step, at: Timestamp, torn: bool) {
        match step {
            Step::Began => {
                let (begin, number) = self.first_sent(offset).unwrap_or((at, 0));
                self.begin(offset, begin, number);
            }
            Step::Head(head) => {
                if let Some(draft) = self.open.back_mut() {
                    draft.client_asked = head.asks_to_close;
                    draft.expects_at = head.fields.expects_continue.then_some(offset);
                    draft.line = head.request;
                }
            }
            Step::Ended => {
                if let Some(draft) = self.open.back_mut() {
                    draft.request.end = offset;
                    draft.is_request_torn |= torn;
                }
            }
            Step::Lost => self.cut_awaited(),
            Step::NeedMore | Step::Http2(_) | Step::Tls(_) => {}
        }
    }

    fn response_step(&mut self, offset: u64, step: Step, at: Timestamp, number: u64, torn: bool) {
        if step == Step::Began {
            self.is_orphaned = !self.open.iter().any(Draft::is_awaited);
        }
        if self.is_orphaned {
            return;
        }
        let Some(draft) = self.open.iter_mut().find(|draft| draft.is_awaited()) else {
            return;
        };
        match step {
            Step::Began => {
                draft.response = empty_span(offset);
                draft.signs.has_response = true;
            }
            Step::Head(head) if head.status == Some(101) && head.upgrades_to_http2 => {
                self.upgrade_to_http2();
            }
            Step::Head(head) => {
                draft.status = head.status;
                draft.is_error |= head.is_error;
                draft.fields = head.fields;
                draft.server_asked |= head.asks_to_close;
                draft.is_revocation |= head.is_revocation;
            }
            Step::Ended if torn => draft.cut(),
            Step::Ended if draft.is_interim() => {
                draft.status = None;
                draft.interim = draft.interim.or(Some((at, number)));
            }
            Step::Ended => draft.complete(offset, at, number),
            Step::Lost => draft.cut(),
            Step::NeedMore | Step::Http2(_) | Step::Tls(_) => {}
        }
    }

    /// When and as which packet the client first sent the byte at `offset`.
    fn first_sent(&self, offset: u64) -> Option<(Timestamp, u64)> {
        let covers = |mark: &&Mark| {
            mark.by == Side::Client
                && mark
                    .data
                    .is_some_and(|d| d.span.start <= offset && d.span.end > offset)
        };
        self.marks
            .as_slice()
            .iter()
            .find(covers)
            .map(|mark| (mark.at, mark.number))
    }

    fn begin(&mut self, offset: u64, at: Timestamp, number: u64) {
        if self.open.len() >= MAX_OPEN {
            return;
        }
        let was_behind = self.open.iter().any(Draft::is_awaited);
        self.open.push_back(Draft::new(
            self.next_ordinal,
            offset,
            at,
            number,
            was_behind,
        ));
        if let Some(draft) = self.open.back_mut() {
            draft.signs.was_closing = self.has_fin;
        }
        self.next_ordinal = self.next_ordinal.saturating_add(1);
    }

    /// By turns a response is whole when the next turn begins.
    fn finish_turn(&mut self) {
        if let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) {
            draft.complete_turn();
        }
    }

    /// By turns, with what their first bytes say where the protocol is known.
    fn spoken_turn(&mut self, by: Side, mark: Mark, data: Data, payload: &[u8]) {
        let Some(protocol) = self.spoken else {
            return self.turn_data(by, mark, data);
        };
        let begins = self.open.back().is_none_or(Draft::has_response);
        let line = protocol.asks(payload);
        if by == Side::Client && begins && line.is_none() && !payload.is_empty() {
            return self.finish_turn();
        }
        self.turn_data(by, mark, data);
        let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) else {
            return;
        };
        match by {
            Side::Client if begins => draft.line = line,
            Side::Server if draft.response.start == data.span.start => {
                draft.is_error |= protocol.is_error(payload);
            }
            _ => {}
        }
    }

    fn turn_data(&mut self, by: Side, mark: Mark, data: Data) {
        if !is_progress(data.arrival) {
            return;
        }
        match by {
            Side::Client => {
                let is_new_turn = self.open.back().is_none_or(Draft::has_response);
                if is_new_turn {
                    self.finish_turn();
                    self.begin(data.span.start, mark.at, mark.number);
                }
                if let Some(draft) = self.open.back_mut() {
                    draft.request.end = draft.request.end.max(data.span.end);
                }
            }
            Side::Server => {
                if let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) {
                    draft.extend_turn(data.span, mark.at, mark.number);
                }
            }
        }
    }
}

impl Draft {
    /// Whether it still waits for its response's end.
    fn is_awaited(&self) -> bool {
        self.outcome.is_none()
    }

    fn is_cut(&self) -> bool {
        self.outcome == Some(Outcome::Cut)
    }
}
