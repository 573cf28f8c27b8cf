//! One connection of a lane: bytes and instants in, records out, no I/O.
//!
//! It may have several requests under way at once, and each has its own times:
//! pipelined ones are answered in their order (RFC 9112 §9.3.2), those of
//! HTTP/2 in any.

use std::collections::VecDeque;
use std::sync::Arc;

use core::time::Duration;

use lagtrace_core::event::RequestFailure;
use lagtrace_core::flow::FlowKey;
use lagtrace_core::time::Timestamp;

use super::http2::{self, Request, Session};
use super::record::Record;
use crate::http::{Progress, ResponseReader};

/// Wait after the first failure in a row; doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);
/// Longest wait before a connection is tried again.
const MAX_BACKOFF: Duration = Duration::from_millis(500);
/// How often in a row each of the requests that may be under way is asked
/// again where a server turns them away: before its settings are known, more
/// may be asked than it allows.
const MAX_TURNED_AWAY: usize = 4;

/// A connection, in whatever state, and its requests in flight.
#[derive(Debug)]
pub(super) struct Connection {
    /// The lane it belongs to.
    pub(super) lane: usize,
    /// Its group within the lane.
    pub(super) group: u16,
    /// Whether it waits in its lane's queue for something to do.
    pub(super) is_idle: bool,
    /// When it may go on; `None` when nothing but events moves it.
    pub(super) wakes_at: Option<Timestamp>,
    state: State,
    /// Requests under way, the oldest first.
    in_flight: VecDeque<InFlight>,
    /// How many may be under way at once.
    at_once: usize,
    speech: Speech,
    /// Requests that the server says it never looked at.
    unseen: Vec<InFlight>,
    /// How many of those there were since a response came.
    turned_away: usize,
    flow: Option<FlowKey>,
    /// Requests sent on the present connection.
    requests: u32,
    /// Time to connect, until a request has reported it.
    setup: Option<Duration>,
    failures_in_a_row: u32,
}

/// What is spoken on a connection.
#[derive(Clone, Debug)]
pub(super) enum Dialect {
    /// HTTP/1.1.
    Http1 {
        /// Whether responses have no body whatever they say.
        is_head_request: bool,
    },
    /// HTTP/2, asking this.
    Http2(Arc<Request>),
}

/// How far that is.
#[derive(Debug)]
enum Speech {
    Http1(ResponseReader),
    Http2 {
        request: Arc<Request>,
        session: Option<Box<Session>>,
        /// Whether the server takes no further requests.
        leaves: bool,
    },
}

impl Speech {
    fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Http1 { is_head_request } => Self::Http1(ResponseReader::new(is_head_request)),
            Dialect::Http2(request) => Self::Http2 {
                request,
                session: None,
                leaves: false,
            },
        }
    }

    fn reset(&mut self) {
        match self {
            Self::Http1(reader) => reader.reset(),
            Self::Http2 {
                session, leaves, ..
            } => (*session, *leaves) = (None, false),
        }
    }
}

#[derive(Debug)]
enum State {
    Closed,
    Connecting {
        since: Timestamp,
        /// The intended start of the request that waits for it.
        due: Option<Timestamp>,
        /// When TCP's handshake was over and that of TLS began.
        secures_since: Option<Timestamp>,
    },
    Open,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    due: Timestamp,
    sent: Timestamp,
    first_byte: Option<Timestamp>,
    last_read: Timestamp,
    longest_gap: Duration,
    received_bytes: u64,
    /// Whether its `send` was called.
    is_sent: bool,
    /// Its stream; 0 in HTTP/1.1.
    stream: u32,
}

/// What bytes from the peer led to, besides the records of whole responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The connection goes on.
    Open,
    /// It carries no further request and answers none of those under way.
    Over,
    /// No response, or bytes nobody asked for: the connection is of no use.
    Garbage,
    /// The server looks at no request, however often it is asked.
    TurnedAway,
}

impl Connection {
    /// A closed connection of `lane`, `at_once` of whose requests may be under way.
    pub(super) fn new(lane: usize, group: u16, dialect: Dialect, at_once: usize) -> Self {
        Self {
            lane,
            group,
            is_idle: false,
            wakes_at: None,
            state: State::Closed,
            in_flight: VecDeque::new(),
            at_once: at_once.max(1),
            speech: Speech::new(dialect),
            unseen: Vec::new(),
            turned_away: 0,
            flow: None,
            requests: 0,
            setup: None,
            failures_in_a_row: 0,
        }
    }

    /// Whether a request can be sent at once.
    pub(super) fn has_room(&self) -> bool {
        let most = match &self.speech {
            Speech::Http1(_) => self.at_once,
            Speech::Http2 { leaves: true, .. } => 0,
            Speech::Http2 { session, .. } => session.as_ref().map_or(0, |session| {
                let is_usable = usize::from(!session.is_used_up());
                session.most_streams().min(self.at_once) * is_usable
            }),
        };
        matches!(self.state, State::Open) && self.in_flight.len() < most
    }

    /// Moves what the protocol itself wants to send to the end of `to`.
    pub(super) fn take_output(&mut self, to: &mut Vec<u8>) {
        if let Speech::Http2 {
            session: Some(session),
            ..
        } = &mut self.speech
        {
            session.take_output(to);
        }
    }

    /// The intended starts of requests that the server never looked at.
    pub(super) fn take_unseen(&mut self) -> Vec<Timestamp> {
        let unseen = core::mem::take(&mut self.unseen);
        unseen.into_iter().map(|request| request.due).collect()
    }

    /// Requests under way.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether it is closed and nothing is under way.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Requests under way or waiting for it to open.
    pub(super) fn pending(&self) -> usize {
        let waits = matches!(self.state, State::Connecting { due: Some(_), .. });
        self.in_flight.len() + usize::from(waits)
    }

    /// Since when it is connecting; `None` when it is not.
    pub(super) fn connecting_since(&self) -> Option<Timestamp> {
        match self.state {
            State::Connecting { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Whether it served no request since it was opened.
    pub(super) fn is_unused(&self) -> bool {
        self.requests == 0
    }

    /// `connect` is called at `now`, for a request that was due at `due` or for none.
    pub(super) fn connect(&mut self, now: Timestamp, due: Option<Timestamp>) {
        self.state = State::Connecting {
            since: now,
            due,
            secures_since: None,
        };
        self.speech.reset();
        self.flow = None;
        self.requests = 0;
        self.setup = None;
    }

    /// TCP's handshake is done, that of TLS begins.
    pub(super) fn secures(&mut self, now: Timestamp, flow: Option<FlowKey>) {
        if let State::Connecting { secures_since, .. } = &mut self.state {
            *secures_since = Some(now);
            self.flow = flow;
        }
    }

    /// The connection's flow, once there is one.
    pub(super) fn flow(&self) -> Option<FlowKey> {
        self.flow
    }

    /// What a failure means now: within a TLS handshake it is one of TLS.
    pub(super) fn meaning_of(&self, failure: RequestFailure) -> RequestFailure {
        let secures = matches!(
            self.state,
            State::Connecting {
                secures_since: Some(_),
                ..
            }
        );
        match failure {
            RequestFailure::Reset | RequestFailure::Closed if secures => RequestFailure::Tls,
            _ => failure,
        }
    }

    /// The handshakes are done: the intended start of the request that waits.
    pub(super) fn opened(&mut self, now: Timestamp, flow: Option<FlowKey>) -> Option<Timestamp> {
        let State::Connecting { since, due, .. } = self.state else {
            return None;
        };
        self.state = State::Open;
        if let Speech::Http2 {
            request, session, ..
        } = &mut self.speech
        {
            *session = Some(Box::new(Session::new(Arc::clone(request))));
        }
        self.flow = flow;
        self.setup = Some(now.since(since));
        due
    }

    /// `send` is called at `now` for a request that was due at `due`.
    pub(super) fn send(&mut self, now: Timestamp, due: Timestamp) {
        self.in_flight.push_back(InFlight {
            due,
            sent: now,
            first_byte: None,
            last_read: now,
            longest_gap: Duration::ZERO,
            received_bytes: 0,
            is_sent: false,
            stream: 0,
        });
    }

    /// `send` is in fact called at `now`, for the oldest that was not sent yet.
    pub(super) fn sent(&mut self, now: Timestamp, is_open_loop: bool) {
        let mut waiting = self.in_flight.iter_mut().filter(|request| !request.is_sent);
        if let Some(in_flight) = waiting.next() {
            (in_flight.sent, in_flight.last_read) = (now, now);
            in_flight.is_sent = true;
            if let Speech::Http2 {
                session: Some(session),
                ..
            } = &mut self.speech
            {
                in_flight.stream = session.ask();
            }
            if !is_open_loop {
                in_flight.due = now;
            }
        }
    }

    /// Takes bytes that were read at `now`; the records of what they complete
    /// are appended to `done`.
    pub(super) fn received(
        &mut self,
        now: Timestamp,
        bytes: &[u8],
        done: &mut Vec<Record>,
    ) -> Received {
        match self.speech {
            Speech::Http1(_) => self.received_in_order(now, bytes, done),
            Speech::Http2 { .. } => self.received_by_stream(now, bytes, done),
        }
    }

    fn received_by_stream(
        &mut self,
        now: Timestamp,
        bytes: &[u8],
        done: &mut Vec<Record>,
    ) -> Received {
        let mut events = Vec::new();
        let Speech::Http2 {
            session: Some(session),
            ..
        } = &mut self.speech
        else {
            return Received::Garbage;
        };
        let fed = session.feed(bytes, &mut events);
        for event in events {
            self.happened(now, event, done);
        }
        if fed.is_err() {
            return Received::Garbage;
        }
        self.turned_away += self.unseen.len();
        if !self.unseen.is_empty() && self.turned_away > MAX_TURNED_AWAY * self.at_once {
            self.in_flight.extend(self.unseen.drain(..));
            return Received::TurnedAway;
        }
        let leaves = matches!(self.speech, Speech::Http2 { leaves: true, .. });
        match leaves && self.in_flight.is_empty() {
            true => Received::Over,
            false => Received::Open,
        }
    }

    fn happened(&mut self, now: Timestamp, event: http2::Event, done: &mut Vec<Record>) {
        use http2::Event;
        let (id, outcome) = match event {
            Event::Bytes(id, count) => {
                let of_stream = |request: &&mut InFlight| request.stream == id;
                if let Some(request) = self.in_flight.iter_mut().find(of_stream) {
                    request.note_read(now);
                    request.received_bytes += count;
                }
                return;
            }
            Event::Leaves(last) => {
                if let Speech::Http2 { leaves, .. } = &mut self.speech {
                    *leaves = true;
                }
                let unseen = &mut self.unseen;
                self.in_flight.retain(|request| {
                    let is_seen = request.stream <= last;
                    unseen.extend((!is_seen).then_some(*request));
                    is_seen
                });
                return;
            }
            Event::Unseen(id) => (id, None),
            Event::Done(id, status) => (id, Some(Ok(status))),
            Event::Reset(id) => (id, Some(Err(RequestFailure::Reset))),
        };
        let at = self
            .in_flight
            .iter()
            .position(|request| request.stream == id);
        let Some(request) = at.and_then(|at| self.in_flight.remove(at)) else {
            return;
        };
        match outcome {
            None => self.unseen.push(request),
            Some(outcome) => {
                if outcome.is_ok() {
                    (self.failures_in_a_row, self.turned_away) = (0, 0);
                }
                let record = self.record(request, now, outcome);
                done.push(record);
            }
        }
    }

    /// Gives up the streams that have taken longer than `timeout` at `now`,
    /// while the others go on; false where that cannot be.
    pub(super) fn cancel_overdue(
        &mut self,
        now: Timestamp,
        timeout: Duration,
        failed: &mut Vec<Record>,
    ) -> bool {
        while let Some(oldest) = self.in_flight.front().copied() {
            if now.since(oldest.sent) < timeout {
                break;
            }
            let Speech::Http2 {
                session: Some(session),
                ..
            } = &mut self.speech
            else {
                return false;
            };
            session.cancel(oldest.stream);
            self.in_flight.pop_front();
            failed.push(self.record(oldest, now, Err(RequestFailure::Timeout)));
        }
        true
    }

    fn received_in_order(
        &mut self,
        now: Timestamp,
        bytes: &[u8],
        done: &mut Vec<Record>,
    ) -> Received {
        let (mut rest, before) = (bytes, done.len());
        while !rest.is_empty() {
            let Some(in_flight) = self.in_flight.front_mut() else {
                // What follows a response that nothing was asked after belongs
                // to nothing.
                let was_asked = done.len() > before;
                return if was_asked {
                    Received::Over
                } else {
                    Received::Garbage
                };
            };
            let Speech::Http1(reader) = &mut self.speech else {
                return Received::Garbage;
            };
            in_flight.note_read(now);
            let progress = reader.feed(rest);
            let used = match progress {
                Ok(Progress::Complete { used, .. }) => used,
                _ => rest.len(),
            };
            in_flight.received_bytes += used as u64;
            let head = match progress {
                Ok(Progress::Complete { head, .. }) => head,
                Ok(Progress::More) => return Received::Open,
                Err(_) => return Received::Garbage,
            };
            self.failures_in_a_row = 0;
            if let Some(in_flight) = self.in_flight.pop_front() {
                let record = self.record(in_flight, now, Ok(head.status));
                done.push(record);
            }
            rest = rest.get(used..).unwrap_or_default();
            if !head.keeps_alive {
                return Received::Over;
            }
        }
        Received::Open
    }

    /// The peer closed properly at `now`: the record of a response that this
    /// completes.
    pub(super) fn peer_closed(&mut self, now: Timestamp) -> Result<Option<Record>, RequestFailure> {
        if self.in_flight.is_empty() {
            return Ok(None);
        }
        let Speech::Http1(reader) = &mut self.speech else {
            return Err(RequestFailure::Closed);
        };
        match reader.close() {
            Ok(Some(head)) => {
                self.failures_in_a_row = 0;
                let answered = self.in_flight.pop_front();
                Ok(answered.map(|in_flight| self.record(in_flight, now, Ok(head.status))))
            }
            Ok(None) => Err(RequestFailure::Closed),
            Err(_) => Err(RequestFailure::NotHttp),
        }
    }

    /// Gives up what is under way; the records of the requests that this fails
    /// are appended to `failed`.
    pub(super) fn fail(
        &mut self,
        now: Timestamp,
        failure: RequestFailure,
        failed: &mut Vec<Record>,
    ) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        if let State::Connecting {
            since,
            due: Some(due),
            ..
        } = self.state
        {
            self.in_flight.push_back(InFlight::unsent(since, due));
        }
        self.state = State::Closed;
        while let Some(in_flight) = self.in_flight.pop_front() {
            let record = self.record(in_flight, now, Err(failure));
            failed.push(record);
        }
    }

    /// Takes back a request that will not be answered here: its intended start.
    pub(super) fn take_back(&mut self) -> Option<Timestamp> {
        self.in_flight.pop_front().map(|request| request.due)
    }

    /// The record of a request that found no connection.
    pub(super) fn record_unsent(
        &mut self,
        now: Timestamp,
        (since, due): (Timestamp, Timestamp),
        failure: RequestFailure,
    ) -> Record {
        self.record(InFlight::unsent(since, due), now, Err(failure))
    }

    /// The connection is closed by us.
    pub(super) fn close(&mut self) {
        self.state = State::Closed;
    }

    /// How long to wait before the next try; zero after a success.
    pub(super) fn backoff(&self) -> Duration {
        match self.failures_in_a_row {
            0 => Duration::ZERO,
            failures => (FIRST_BACKOFF * (1 << (failures - 1).min(6))).min(MAX_BACKOFF),
        }
    }

    /// What has taken longer than `timeout` at `now`.
    pub(super) fn overdue(&self, now: Timestamp, timeout: Duration) -> Option<RequestFailure> {
        match &self.state {
            State::Connecting {
                since,
                secures_since,
                ..
            } if now.since(*since) >= timeout => Some(match secures_since {
                Some(_) => RequestFailure::TlsTimeout,
                None => RequestFailure::ConnectTimeout,
            }),
            State::Connecting { .. } => None,
            _ => {
                let oldest = self.in_flight.front()?;
                let is_over = now.since(oldest.sent) >= timeout;
                is_over.then_some(RequestFailure::Timeout)
            }
        }
    }

    fn record(
        &mut self,
        in_flight: InFlight,
        ended: Timestamp,
        outcome: Result<u16, RequestFailure>,
    ) -> Record {
        let ordinal = self.requests;
        self.requests = self.requests.saturating_add(1);
        Record {
            lane: self.lane,
            group: self.group,
            count: 1,
            flow: self.flow,
            ordinal,
            due: in_flight.due,
            sent: Some(in_flight.sent),
            first_byte: in_flight.first_byte,
            ended,
            longest_gap: in_flight.longest_gap,
            setup: self.setup.take(),
            outcome,
            received_bytes: in_flight.received_bytes,
        }
    }
}

impl InFlight {
    fn unsent(since: Timestamp, due: Timestamp) -> Self {
        Self {
            due,
            sent: since,
            first_byte: None,
            last_read: since,
            longest_gap: Duration::ZERO,
            received_bytes: 0,
            is_sent: true,
            stream: 0,
        }
    }

    fn note_read(&mut self, now: Timestamp) {
        if self.first_byte.is_none() {
            self.first_byte = Some(now);
        } else {
            self.longest_gap = self.longest_gap.max(now.since(self.last_read));
        }
        self.last_read = now;
    }
}

#[cfg(test)]
mod tests;
