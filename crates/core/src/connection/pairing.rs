//! Pairs requests with responses on one connection.
//!
//! HTTP/1.x is read where it can be; anything else is paired by turns: a run
//! of client bytes and the run of server bytes that follows; so is HTTP whose
//! heads the capture cut off. A hole in the capture cuts the exchanges it
//! touches and never shifts the pairing.

mod closing;
mod draft;
mod fins;
mod flights;
mod http2;
mod loose;
mod messages;
mod tls;
mod turns;

use core::time::Duration;
use std::collections::VecDeque;

use draft::Draft;
use fins::Fins;
use loose::Loose;
use messages::Steps;

use super::View;
use super::stream::Stream;
use crate::attribution::Spare;
use crate::attribution::mark::{Brief, Data, Mark, Marks, SpareMarks};
use crate::attribution::packet::Need;
use crate::attribution::packet::{Arrival, Span};
use crate::exchange::tls_handshake::Handshake;
use crate::exchange::{Exchange, Outcome, Side};
use crate::observed::time::Timestamp;
use crate::protocol::Protocol;
use crate::protocol::http::Role;

/// The most exchanges open at once on one connection (pipelining).
const MAX_OPEN: usize = 1024;
/// The time within which a client that ends its connection after its last data does not wait for an
/// answer.
const FAREWELL: Duration = Duration::from_millis(10);
/// The number of bytes in which a protocol that is read shows; fewer may be all that a capture kept
/// of one.
const LEAST_READ: usize = 8;
/// Maximum number of capture holes remembered.
const MAX_TORN: usize = 64;

/// Memory that is used again for the next segment and the next exchange.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    steps: Steps,
    spare: Spare,
    marks: SpareMarks,
}

impl Scratch {
    /// Takes back the memory of an exchange that is done with.
    pub(crate) fn take_back(&mut self, exchange: &mut Exchange) {
        self.spare.take_back(exchange);
    }
}

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
    /// Number of repetitions in closed exchanges that have since turned out to be unnecessary.
    taken_back: u32,
    /// End of the last response.
    last_end: Option<Timestamp>,
    /// Most of the server's bytes in flight at once, in responses large enough
    /// to tell.
    most_in_flight: u64,
    /// The congestion window that the server would have by now without rests.
    kept_window: u64,
    /// The end of the server's bytes that the client acknowledged.
    response_acked: u64,
    /// The end of the client's bytes that the server acknowledged.
    request_acked: u64,
    /// The FINs, once one was seen.
    fins: Option<Box<Fins>>,
    /// True while a response is in progress whose request was not seen.
    is_orphaned: bool,
    /// True if a device on the way reset it in the server's name.
    is_reset_on_way: bool,
    /// The protocol that is spoken by turns.
    spoken: Option<Protocol>,
    /// True if its protocol is not known although its bytes were seen, or it streams:
    /// then nothing says who owes whom an answer.
    is_unread: bool,
    /// True if too little of what the client first said was captured.
    is_unseen: bool,
    /// True if the server spoke since the client's last bytes, and had not heard of the request.
    has_crossed: bool,
    /// Segments of this turn that went on after a rest, under TLS and of bytes that are not read.
    apart: u32,
    /// The number of times that frames of HTTP/2 were lost since an exchange was read.
    frames_lost: u8,
    /// The connection's flow control, where it speaks HTTP/2.
    multiplex: Option<Box<http2::Multiplex>>,
    /// State of the connection's TLS, where there is any.
    tls: Option<Box<tls::Conversation>>,
    /// A TLS handshake that no exchange bears yet.
    handshake: Option<Box<Handshake>>,
    /// Bytes that no exchange holds, if there were any.
    loose: Option<Box<Loose>>,
}

/// The way in which messages are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Undecided,
    /// Messages as the parsers of requests and of responses in their order find them.
    Http,
    Http2,
    Tls,
    Turns,
}

/// The end of a connection: the side that ended it, the time, and whether it was a reset.
pub(crate) type Ending = (Option<Side>, Timestamp, bool);

impl Default for Pairing {
    fn default() -> Self {
        Self {
            taken_back: 0,
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
            fins: None,
            is_orphaned: false,
            is_reset_on_way: false,
            spoken: None,
            is_unread: false,
            is_unseen: false,
            has_crossed: false,
            apart: 0,
            frames_lost: 0,
            multiplex: None,
            tls: None,
            handshake: None,
            loose: None,
        }
    }
}

impl Pairing {
    /// Returns true if segments without payload too are part of an exchange that is open.
    #[inline]
    pub(crate) fn is_marking(&self) -> bool {
        self.needs_marks_from().is_some()
    }

    /// Remembers a segment for tiling.
    #[inline(always)]
    pub(crate) fn mark(&mut self, mark: Mark, scratch: &mut Scratch) {
        self.marks.push(mark, &mut scratch.marks);
    }

    /// Notes whether packet `number` had to be sent.
    pub(crate) fn resolve(&mut self, number: u64, need: Need) {
        let is_late = !self.marks.resolve(number, need);
        self.taken_back += u32::from(is_late && need == Need::Spurious);
    }

    /// Takes in a data segment that was just marked.
    pub(crate) fn data(
        &mut self,
        mark: &Brief,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
        scratch: &mut Scratch,
    ) {
        self.pair(mark, data, payload, view, scratch);
        self.take_loose(mark, data, view, scratch);
        if self.fins.is_some() && mark.by == Side::Server {
            self.data_behind_fin(mark.at, data.arrival);
        }
    }

    /// Finds the exchange that the segment belongs to.
    fn pair(
        &mut self,
        mark: &Brief,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
        scratch: &mut Scratch,
    ) {
        if matches!(
            data.arrival,
            Arrival::KeepAlive | Arrival::Repeat | Arrival::Copy
        ) {
            if mark.by == Side::Client && data.arrival == Arrival::Repeat {
                self.repeated(data.span);
            }
            return;
        }
        if self.mode == Mode::Undecided && !self.decide(mark.by, data.span, payload) {
            return;
        }
        match self.mode {
            Mode::Http => self.message_data(mark, data, payload, view, scratch),
            Mode::Http2 => self.framed_data(mark, data, payload, view, scratch),
            Mode::Tls => {
                self.veiled_turn(mark, data, view);
                self.framed_data(mark, data, payload, view, scratch);
            }
            Mode::Undecided | Mode::Turns => self.spoken_turn(mark, data, payload, view),
        }
    }

    /// Tells by its first bytes what a connection speaks; returns true if they are the client's,
    /// who asks.
    #[cold]
    fn decide(&mut self, by: Side, span: Span, payload: &[u8]) -> bool {
        if by == Side::Server {
            if let Some(protocol) = Protocol::of_server(payload) {
                (self.mode, self.spoken) = (Mode::Turns, Some(protocol));
            }
            return false;
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
            spoken => {
                (self.mode, self.spoken) = (Mode::Turns, spoken);
                let is_whole = payload.len() as u64 == span.end - span.start;
                let is_seen = is_whole || payload.len() >= LEAST_READ;
                self.is_unread = spoken.is_none() && is_seen;
                self.is_unseen = spoken.is_none() && !is_seen;
            }
        }
        true
    }

    /// Notes that the client sent these bytes again.
    fn repeated(&mut self, span: Span) {
        let awaited = self.open.iter_mut().find(|draft| draft.is_awaited());
        if let Some(draft) = awaited.filter(|draft| span.end > draft.request.start) {
            draft.signs.request_repeats = draft.signs.request_repeats.saturating_add(1);
        }
    }

    /// Notes that the bytes of `span` passed the capture unseen.
    pub(crate) fn torn(&mut self, by: Side, span: Span, at: Timestamp) {
        if self.torn.len() == MAX_TORN {
            self.torn.remove(0);
        }
        self.torn.push((by, span));
        match self.mode {
            Mode::Http => {}
            Mode::Undecided => return,
            Mode::Turns => return self.turn_torn(by, span),
            Mode::Http2 => return self.http2_torn(by, span),
            Mode::Tls => return self.tls_torn(by, span),
        }
        for (offset, step) in self.skip(by, span) {
            self.step(by, offset, step, at, 0, true);
        }
    }

    /// Notes that the peer of `sender` acknowledged its bytes up to `offset`.
    pub(crate) fn acknowledged(&mut self, sender: Side, offset: u64) {
        if self.fins.is_some() && sender == Side::Server {
            self.heard_behind_fin();
        }
        let acked = match sender {
            Side::Server => &mut self.response_acked,
            Side::Client => &mut self.request_acked,
        };
        *acked = offset.max(*acked);
    }

    /// Closes what is open as the capture ends: of a response in progress it is known how it began.
    ///
    /// By turns a response is whole when its turn passes: of one that the client has not
    /// even acknowledged nobody knows whether the server holds more. A connection's only
    /// exchange is taken as it is.
    pub(crate) fn capture_ended(&mut self) {
        if self.fins.is_some() {
            return;
        }
        match self.mode {
            Mode::Http => self.break_off(),
            Mode::Turns | Mode::Tls => {
                let acked = self.response_acked;
                let last = self.open.back_mut().filter(|draft| draft.is_awaited());
                let is_in_doubt = |draft: &Draft| draft.ordinal > 0 && draft.response.end > acked;
                if let Some(draft) = last.filter(|draft| is_in_doubt(draft)) {
                    draft.cut();
                }
            }
            Mode::Undecided | Mode::Http2 => {}
        }
    }

    /// Ends the response in progress with the last segment.
    fn break_off(&mut self) {
        let position = self.responses.position();
        let last = self
            .marks
            .as_slice()
            .last()
            .map(|mark| (mark.at, mark.number));
        let draft = self.open.iter_mut().find(|draft| draft.is_awaited());
        if let Some((draft, (at, number))) = draft.zip(last)
            && draft.signs.has_response
        {
            draft.complete(position, at, number);
            draft.cut();
            draft.is_broken_off = true;
        }
    }

    /// Finishes the connection's exchanges, as no more will come: `None` because the capture ended,
    /// if nothing ended it before.
    pub(crate) fn finish(&mut self, ending: Option<Ending>) {
        let fins = self.fins.as_mut();
        let ending = fins.and_then(|fin| fin.ending.take()).or(ending);
        if matches!(self.mode, Mode::Turns | Mode::Tls) {
            self.finish_turn();
        }
        self.fail_handshake();
        if let Some(loose) = &mut self.loose {
            loose.end();
        }
        // A client that sends the first FIN has given up, whatever the server does then; it may
        // reset what it has ended itself.
        let left = self.fins.as_ref().and_then(|fin| fin.given_up());
        let left = left.map(|at| (Some(Side::Client), at, false));
        let ending = match ending {
            Some((Some(Side::Client), _, true)) => ending,
            _ => left.or(ending),
        };
        self.drop_last_word(ending);
        let is_reset = ending.is_some_and(|(_, _, is_reset)| is_reset);
        for draft in self.open.iter_mut().filter(|draft| draft.is_awaited()) {
            draft.signs.is_reset_on_way = self.is_reset_on_way;
            // Nobody knows that it wanted an answer.
            draft.give_up(ending.filter(|_| is_reset || !self.is_unread));
        }
        self.response_acked = u64::MAX;
    }

    /// Notes that a device on the way resets the connection.
    pub(crate) fn was_reset_on_way(&mut self) {
        self.is_reset_on_way = true;
    }

    /// Drops what a client sends right before it ends the connection, where nothing reads it
    /// as a request: a farewell, which wants no answer.
    fn drop_last_word(&mut self, ending: Option<Ending>) {
        let Some((Some(Side::Client), at, _)) = ending else {
            return;
        };
        let marks = self.marks.as_slice().iter().rev();
        let mut said = marks.filter(|mark| mark.by == Side::Client && mark.data.is_some());
        let is_right_before = said.next().is_some_and(|mark| at.since(mark.at) < FAREWELL);
        let is_farewell = |draft: &Draft| draft.is_awaited() && !draft.has_response();
        let is_read = self.spoken == Some(Protocol::Http);
        if matches!(self.mode, Mode::Tls | Mode::Turns)
            && !is_read
            && is_right_before
            && self.open.back().is_some_and(is_farewell)
        {
            self.open.pop_back();
        }
    }

    /// Returns true if no exchange is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && !self.has_loose()
    }

    /// Frees the memory.
    pub(crate) fn retire(&mut self) {
        self.marks.retire();
        self.requests.retire();
        self.responses.retire();
        self.torn = Vec::new();
        self.open = VecDeque::new();
        self.tls = None;
        self.loose = None;
        self.fins = None;
    }

    fn cut_awaited(&mut self) {
        for draft in self.open.iter_mut().filter(|draft| draft.is_awaited()) {
            draft.cut();
        }
    }

    /// Returns time and packet number of the client's first segment with the byte at `offset`.
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
        if self.open.capacity() == 0 {
            // Most connections never carry more than one at a time.
            self.open.reserve_exact(1);
        }
        self.open.push_back(Draft::new(
            self.next_ordinal,
            offset,
            at,
            number,
            was_behind,
        ));
        let has_fin = self.has_fin();
        if let Some(draft) = self.open.back_mut() {
            draft.signs.was_closing = has_fin;
        }
        self.next_ordinal = self.next_ordinal.saturating_add(1);
    }
}

impl Draft {
    /// Returns true if it still waits for its response's end.
    fn is_awaited(&self) -> bool {
        self.outcome.is_none()
    }

    fn is_cut(&self) -> bool {
        self.outcome == Some(Outcome::Cut)
    }
}
