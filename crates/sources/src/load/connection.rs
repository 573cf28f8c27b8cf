//! One connection of a lane: bytes and instants in, records out, no I/O.

use core::time::Duration;

use lagtrace_core::event::RequestFailure;
use lagtrace_core::flow::FlowKey;
use lagtrace_core::time::Timestamp;

use super::record::Record;
use crate::http::{Progress, ResponseReader};

/// Wait after the first failure in a row; doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);
/// Longest wait before a connection is tried again.
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// A connection, in whatever state, and its request in flight.
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
    reader: ResponseReader,
    flow: Option<FlowKey>,
    /// Requests sent on the present connection.
    requests: u32,
    /// Time to connect, until a request has reported it.
    setup: Option<Duration>,
    failures_in_a_row: u32,
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
    Busy(InFlight),
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    due: Timestamp,
    sent: Timestamp,
    first_byte: Option<Timestamp>,
    last_read: Timestamp,
    longest_gap: Duration,
    received_bytes: u64,
}

/// What bytes from the peer led to.
#[derive(Debug)]
pub(super) enum Received {
    /// The response goes on.
    More,
    /// The response is whole.
    Done {
        /// The request's record.
        record: Record,
        /// Whether the connection may carry another request.
        is_reusable: bool,
    },
    /// No response, or bytes nobody asked for: the connection is of no use.
    Garbage,
}

impl Connection {
    /// A closed connection of `lane`.
    pub(super) fn new(lane: usize, group: u16, is_head_request: bool) -> Self {
        Self {
            lane,
            group,
            is_idle: false,
            wakes_at: None,
            state: State::Closed,
            reader: ResponseReader::new(is_head_request),
            flow: None,
            requests: 0,
            setup: None,
            failures_in_a_row: 0,
        }
    }

    /// Whether a request can be sent at once.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whether it is closed and nothing is under way.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether a request of its own waits for it.
    pub(super) fn has_request(&self) -> bool {
        matches!(
            self.state,
            State::Busy(_) | State::Connecting { due: Some(_), .. }
        )
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
        self.reader.reset();
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
        self.flow = flow;
        self.setup = Some(now.since(since));
        due
    }

    /// `send` is called at `now` for a request that was due at `due`.
    pub(super) fn send(&mut self, now: Timestamp, due: Timestamp) {
        self.state = State::Busy(InFlight {
            due,
            sent: now,
            first_byte: None,
            last_read: now,
            longest_gap: Duration::ZERO,
            received_bytes: 0,
        });
    }

    /// `send` is in fact called at `now`.
    pub(super) fn sent(&mut self, now: Timestamp, is_open_loop: bool) {
        if let State::Busy(in_flight) = &mut self.state {
            (in_flight.sent, in_flight.last_read) = (now, now);
            if !is_open_loop {
                in_flight.due = now;
            }
        }
    }

    /// Takes bytes that were read at `now`.
    pub(super) fn received(&mut self, now: Timestamp, bytes: &[u8]) -> Received {
        let State::Busy(in_flight) = &mut self.state else {
            return Received::Garbage;
        };
        in_flight.note_read(now);
        let Ok(progress) = self.reader.feed(bytes) else {
            in_flight.received_bytes += bytes.len() as u64;
            return Received::Garbage;
        };
        let Progress::Complete { head, used } = progress else {
            in_flight.received_bytes += bytes.len() as u64;
            return Received::More;
        };
        in_flight.received_bytes += used as u64;
        let in_flight = *in_flight;
        self.state = State::Open;
        self.failures_in_a_row = 0;
        Received::Done {
            record: self.record(in_flight, now, Ok(head.status)),
            // What follows a response that nothing was asked after belongs to nothing.
            is_reusable: head.keeps_alive && used == bytes.len(),
        }
    }

    /// The peer closed properly at `now`: the record of a response that this
    /// completes.
    pub(super) fn peer_closed(&mut self, now: Timestamp) -> Result<Option<Record>, RequestFailure> {
        let State::Busy(in_flight) = self.state else {
            return Ok(None);
        };
        match self.reader.close() {
            Ok(Some(head)) => {
                self.state = State::Closed;
                self.failures_in_a_row = 0;
                Ok(Some(self.record(in_flight, now, Ok(head.status))))
            }
            Ok(None) => Err(RequestFailure::Closed),
            Err(_) => Err(RequestFailure::NotHttp),
        }
    }

    /// Gives up what is under way; the record of the request that this fails.
    pub(super) fn fail(&mut self, now: Timestamp, failure: RequestFailure) -> Option<Record> {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let in_flight = match self.state {
            State::Busy(in_flight) => in_flight,
            State::Connecting {
                since,
                due: Some(due),
                ..
            } => InFlight::unsent(since, due),
            _ => {
                self.state = State::Closed;
                return None;
            }
        };
        self.state = State::Closed;
        Some(self.record(in_flight, now, Err(failure)))
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
            State::Busy(in_flight) if now.since(in_flight.sent) >= timeout => {
                Some(RequestFailure::Timeout)
            }
            _ => None,
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
