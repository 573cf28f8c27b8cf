//! A connection of a lane, without I/O: its functions receive bytes and timestamps and return
//! records.
//!
//! Several requests can be in flight, each with its own times. Pipelined requests are answered in
//! order (RFC 9112 §9.3.2), and HTTP/2 requests in any order.

mod ending;
mod in_flight;
mod reading;
mod speech;

use std::collections::VecDeque;
use std::sync::Arc;

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::flow::FlowKey;
use lagtrace_core::observed::time::Timestamp;

use super::mix::Start;
use crate::http2::Session;
use in_flight::InFlight;
pub(super) use speech::Dialect;
use speech::Speech;

/// A connection in any state, with its requests in flight.
#[derive(Debug)]
pub(super) struct Connection {
    /// The lane that the connection belongs to.
    pub(super) lane: usize,
    /// The number of the connection's group within the lane.
    pub(super) group: u16,
    /// True if the connection waits in its lane's queue for a request.
    pub(super) is_idle: bool,
    /// Time at which the connection may continue; `None` if it waits for a socket event.
    pub(super) wakes_at: Option<Timestamp>,
    state: State,
    /// Requests in flight, the oldest first.
    in_flight: VecDeque<InFlight>,
    /// Maximum number of requests in flight.
    at_once: usize,
    speech: Speech,
    /// Requests that the server reports as not processed.
    unseen: Vec<InFlight>,
    /// Number of requests that the server reported as not processed since the last response.
    turned_away: usize,
    flow: Option<FlowKey>,
    /// Number of requests sent since the connection was opened.
    requests: u32,
    /// Time that connecting took; `None` after a request has reported it.
    setup: Option<Duration>,
    failures_in_a_row: u32,
}

#[derive(Debug)]
enum State {
    Closed,
    Connecting {
        since: Timestamp,
        /// The request that waits until the connection is open.
        due: Option<Start>,
        /// Time at which the TCP handshake completed and the TLS handshake began.
        secures_since: Option<Timestamp>,
    },
    Open,
}

/// The effect of received bytes on the connection. Complete responses are recorded separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The connection stays open.
    Open,
    /// The connection carries no further requests, and those in flight get no answer.
    Over,
    /// The bytes are not a response, or belong to no request. The connection cannot be used any
    /// more.
    Garbage,
    /// The server rejects every request, no matter how often it is sent again.
    TurnedAway,
}

impl Connection {
    /// Creates a closed connection of `lane`, with at most `at_once` requests in flight.
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

    /// Returns true if a request can be sent immediately.
    pub(super) fn has_room(&self) -> bool {
        let most = match &self.speech {
            Speech::Http1(..) => self.at_once,
            Speech::Http2 { leaves: true, .. } => 0,
            Speech::Http2 { session, .. } => session.as_ref().map_or(0, |session| {
                let is_usable = usize::from(!session.is_used_up());
                session.most_streams().min(self.at_once) * is_usable
            }),
        };
        matches!(self.state, State::Open) && self.in_flight.len() < most
    }

    /// Moves the protocol's own output, such as acknowledgements, to the end of `to`.
    pub(super) fn take_output(&mut self, to: &mut Vec<u8>) {
        if let Speech::Http2 {
            session: Some(session),
            ..
        } = &mut self.speech
        {
            session.take_output(to);
        }
    }

    /// Removes and returns the requests that the server reported as not processed.
    pub(super) fn take_unseen(&mut self) -> Vec<Start> {
        let unseen = core::mem::take(&mut self.unseen);
        unseen.iter().map(InFlight::start).collect()
    }

    /// Returns the number of requests in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns true if the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Returns the number of requests in flight or waiting for the connection to open.
    pub(super) fn pending(&self) -> usize {
        let waits = matches!(self.state, State::Connecting { due: Some(_), .. });
        self.in_flight.len() + usize::from(waits)
    }

    /// Returns the time at which opening the connection began; `None` if it is not being opened.
    pub(super) fn connecting_since(&self) -> Option<Timestamp> {
        match self.state {
            State::Connecting { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Returns true if no request was sent since the connection was opened.
    pub(super) fn is_unused(&self) -> bool {
        self.requests == 0
    }

    /// Records that `connect` is called at `now`. `due` is the request that waits for the
    /// connection, if there is one.
    pub(super) fn connect(&mut self, now: Timestamp, due: Option<Start>) {
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

    /// Records that the TCP handshake is complete and the TLS handshake begins.
    pub(super) fn secures(&mut self, now: Timestamp, flow: Option<FlowKey>) {
        if let State::Connecting { secures_since, .. } = &mut self.state {
            *secures_since = Some(now);
            self.flow = flow;
        }
    }

    /// Returns the flow of the connection; `None` before the flow is known.
    pub(super) fn flow(&self) -> Option<FlowKey> {
        self.flow
    }

    /// Returns the failure to report for `failure` in the current state. During a TLS handshake,
    /// `failure` is reported as a TLS failure.
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

    /// Records that the handshakes are complete. Returns the request that waited for the
    /// connection.
    pub(super) fn opened(&mut self, now: Timestamp, flow: Option<FlowKey>) -> Option<Start> {
        let State::Connecting { since, due, .. } = self.state else {
            return None;
        };
        self.state = State::Open;
        if let Speech::Http2 {
            requests, session, ..
        } = &mut self.speech
        {
            *session = Some(Box::new(Session::new(Arc::clone(requests))));
        }
        self.flow = flow;
        self.setup = Some(now.since(since));
        due
    }

    /// Returns the part of the oldest unsent request. A part is the index of a URL in the plan.
    pub(super) fn part_to_send(&self) -> u16 {
        let mut waiting = self.in_flight.iter().filter(|request| !request.is_sent);
        waiting.next().map_or(0, |request| request.part)
    }

    /// Returns the cookies for a request of this part; `None` if there are none.
    pub(super) fn cookies(&self, part: u16) -> Option<String> {
        match &self.speech {
            Speech::Http1(_, Some(jar)) => jar.field(part),
            _ => None,
        }
    }

    /// Records that `send` is called at `now` for the request `start`.
    pub(super) fn send(&mut self, now: Timestamp, start: Start) {
        self.in_flight.push_back(InFlight {
            due: start.due,
            part: start.part,
            sent: now,
            first_byte: None,
            last_read: now,
            longest_gap: Duration::ZERO,
            received_bytes: 0,
            is_sent: false,
            stream: 0,
        });
    }

    /// Records that `send` is called at `now` for the oldest unsent request.
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
                in_flight.stream = session.ask(in_flight.part);
            }
            if !is_open_loop {
                in_flight.due = now;
            }
        }
    }

    /// Records that this side closes the connection.
    pub(super) fn close(&mut self) {
        self.state = State::Closed;
    }
}

#[cfg(test)]
mod tests;
