//! The records that workers pass to the collector.

use core::time::Duration;

use lagtrace_core::observed::event::{RequestFailure, StageTimes};
use lagtrace_core::observed::flow::FlowKey;
use lagtrace_core::observed::time::Timestamp;

use crate::tls::TlsFault;
use crate::tls::secure::Secured;

/// A request that ended, with a response or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Lane of the request, by number.
    pub(super) lane: usize,
    /// Group of the request's connection.
    pub(super) group: u16,
    /// Number of requests that this record covers: 1, or more for requests that were never sent.
    pub(super) count: u64,
    /// 5-tuple of the connection; `None` if there was no connection yet.
    pub(super) flow: Option<FlowKey>,
    /// Number of the request on its connection, from 0.
    pub(super) ordinal: u32,
    /// Scheduled start; equals `sent` in closed loop.
    pub(super) due: Timestamp,
    /// Time when `send` was called. For a request that was never sent, the time when `connect` was
    /// called; `None` if no connection was free.
    pub(super) sent: Option<Timestamp>,
    /// Index of the URL in the plan, from 0.
    pub(super) part: u16,
    /// Time at which the first response byte was read.
    pub(super) first_byte: Option<Timestamp>,
    /// Time at which the last byte was read or the request was abandoned.
    pub(super) ended: Timestamp,
    /// Longest time between two reads of the response.
    pub(super) longest_gap: Duration,
    /// Time to connect, including the TLS handshake. Only set for the first request on a
    /// connection.
    pub(super) setup: Option<Duration>,
    /// HTTP status or failure.
    pub(super) outcome: Result<u16, RequestFailure>,
    /// Number of bytes read of the response.
    pub(super) received_bytes: u64,
}

/// A connection that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// Lane of the connection.
    pub(super) lane: usize,
    /// Group of the connection.
    pub(super) group: u16,
    /// 5-tuple, if the kernel reported it.
    pub(super) flow: Option<FlowKey>,
    /// Time at which the handshakes were complete.
    pub(super) at: Timestamp,
    /// Result of the TLS handshake, if there was one.
    pub(super) tls: Option<Secured>,
}

/// Everything that one worker observed since its last batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Requests that ended, in order of their end.
    pub(super) records: Vec<Record>,
    /// Connections that were opened, in order.
    pub(super) opened: Vec<Opened>,
    /// Number of connections that could not be opened, and the last failure.
    pub(super) failed_connects: Option<(u64, RequestFailure)>,
    /// Stage times of stamped requests, each with lane and scheduled start. The times are `None` if
    /// they are unknown.
    pub(super) stages: Vec<(usize, Timestamp, Option<StageTimes>)>,
    /// First failure in TLS.
    pub(super) tls_fault: Option<TlsFault>,
}

impl Batch {
    /// Returns true if the batch is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.opened.is_empty() && self.failed_connects.is_none()
    }

    /// Counts a connection that could not be opened.
    pub(super) fn note_failed_connect(&mut self, failure: RequestFailure) {
        let count = self.failed_connects.map_or(0, |(count, _)| count);
        self.failed_connects = Some((count + 1, failure));
    }
}
