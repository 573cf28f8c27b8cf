//! The records that workers hand to the collector.

use core::time::Duration;

use lagtrace_core::observed::event::{RequestFailure, StageTimes};
use lagtrace_core::observed::flow::FlowKey;
use lagtrace_core::observed::time::Timestamp;

use crate::tls::TlsFault;
use crate::tls::secure::Secured;

/// A request that ended, with a response or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Lane of the request.
    pub(super) lane: usize,
    /// Group of its connection.
    pub(super) group: u16,
    /// Number of requests that the record stands for: 1, except for requests that were never sent.
    pub(super) count: u64,
    /// 5-tuple of the connection; `None` if there was no connection yet.
    pub(super) flow: Option<FlowKey>,
    /// Number of the request on its connection, from 0.
    pub(super) ordinal: u32,
    /// Intended start: in closed loop the same as `sent`.
    pub(super) due: Timestamp,
    /// Time of the call of `send`, or of `connect` if the request was never sent; `None` if no
    /// connection was free.
    pub(super) sent: Option<Timestamp>,
    /// Index of the requested URL among the plan's URLs, from 0.
    pub(super) part: u16,
    /// Time at which the first response byte was read.
    pub(super) first_byte: Option<Timestamp>,
    /// Time at which the last byte was read, or the request was given up.
    pub(super) ended: Timestamp,
    /// Maximum time between two reads.
    pub(super) longest_gap: Duration,
    /// Time to connect, including the TLS handshake; only for the first request on a connection.
    pub(super) setup: Option<Duration>,
    /// Status or failure.
    pub(super) outcome: Result<u16, RequestFailure>,
    /// Bytes of the response read.
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
    /// TLS handshake, if there was one.
    pub(super) tls: Option<Secured>,
}

/// Everything that one worker observed since its last batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Requests that ended, in the order of their ends.
    pub(super) records: Vec<Record>,
    /// Connections that were opened, in order.
    pub(super) opened: Vec<Opened>,
    /// Number of connections that could not be opened, and the last reason.
    pub(super) failed_connects: Option<(u64, RequestFailure)>,
    /// Stage times of the timestamped requests, with lane and intended start; `None` if the times
    /// are unknown.
    pub(super) stages: Vec<(usize, Timestamp, Option<StageTimes>)>,
    /// First failure within TLS.
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
