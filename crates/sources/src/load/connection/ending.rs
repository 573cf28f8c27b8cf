//! The end of requests and connections, and the backoff before the next attempt.

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;

use super::in_flight::InFlight;
use super::{Connection, State};
use crate::load::mix::Start;
use crate::load::record::Record;

/// Backoff after the first failure in a row. Each further failure doubles it.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);
/// Maximum backoff before connecting again.
const MAX_BACKOFF: Duration = Duration::from_millis(500);

impl Connection {
    /// Ends all requests in flight with `failure`, and appends their records to `failed`.
    pub(in crate::load) fn fail(
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

    /// Removes and returns the oldest request in flight, which this connection will not answer.
    pub(in crate::load) fn take_back(&mut self) -> Option<Start> {
        let request = self.in_flight.pop_front();
        request.as_ref().map(InFlight::start)
    }

    /// Returns the record of a request that was never sent because its connection could not be
    /// opened.
    pub(in crate::load) fn record_unsent(
        &mut self,
        now: Timestamp,
        (since, start): (Timestamp, Start),
        failure: RequestFailure,
    ) -> Record {
        self.record(InFlight::unsent(since, start), now, Err(failure))
    }

    /// Returns the backoff before the next attempt. It is zero after a success.
    pub(in crate::load) fn backoff(&self) -> Duration {
        match self.failures_in_a_row {
            0 => Duration::ZERO,
            failures => (FIRST_BACKOFF * (1 << (failures - 1).min(6))).min(MAX_BACKOFF),
        }
    }

    /// Returns the failure if, at `now`, connecting or a request has taken longer than `timeout`.
    pub(in crate::load) fn overdue(
        &self,
        now: Timestamp,
        timeout: Duration,
    ) -> Option<RequestFailure> {
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

    pub(super) fn record(
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
            part: in_flight.part,
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
