//! What workers hand to the collector.

use core::time::Duration;

use lagtrace_core::observed::event::{RequestFailure, StageTimes};
use lagtrace_core::observed::flow::FlowKey;
use lagtrace_core::observed::time::Timestamp;

use crate::tls::TlsFault;
use crate::tls::secure::Secured;

/// One request that ended, one way or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Its lane.
    pub(super) lane: usize,
    /// Its connection's group.
    pub(super) group: u16,
    /// How many requests it stands for: 1, but for those that were never sent.
    pub(super) count: u64,
    /// Its connection; `None` before one existed.
    pub(super) flow: Option<FlowKey>,
    /// Which request on its connection, from 0.
    pub(super) ordinal: u32,
    /// When it was to start: in closed loop the same as `sent`.
    pub(super) due: Timestamp,
    /// When `send` was called, or `connect` where it was never sent; `None` if
    /// no connection was free for it.
    pub(super) sent: Option<Timestamp>,
    /// Which of the plan's URLs it asked for, from 0.
    pub(super) part: u16,
    /// When the first response byte was read.
    pub(super) first_byte: Option<Timestamp>,
    /// When its last byte was read, or it was given up.
    pub(super) ended: Timestamp,
    /// Longest time between two reads.
    pub(super) longest_gap: Duration,
    /// Time to connect, the TLS handshake included, for the first request of a
    /// connection.
    pub(super) setup: Option<Duration>,
    /// Its status or failure.
    pub(super) outcome: Result<u16, RequestFailure>,
    /// Bytes of the response read.
    pub(super) received_bytes: u64,
}

/// A connection that opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// Its lane.
    pub(super) lane: usize,
    /// Its group.
    pub(super) group: u16,
    /// Its 5-tuple, where the kernel told it.
    pub(super) flow: Option<FlowKey>,
    /// When its handshakes were done.
    pub(super) at: Timestamp,
    /// Its TLS handshake, if it had one.
    pub(super) tls: Option<Secured>,
}

/// What one worker saw since its last batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Requests that ended, in order.
    pub(super) records: Vec<Record>,
    /// Connections that opened, in order.
    pub(super) opened: Vec<Opened>,
    /// Connections that could not be made, and the last reason.
    pub(super) failed_connects: Option<(u64, RequestFailure)>,
    /// Where the time of some went, by lane and when they were due; `None`
    /// where that could not be told.
    pub(super) stages: Vec<(usize, Timestamp, Option<StageTimes>)>,
    /// The first thing that went wrong within TLS.
    pub(super) tls_fault: Option<TlsFault>,
}

impl Batch {
    /// Whether there is nothing to hand over.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.opened.is_empty() && self.failed_connects.is_none()
    }

    /// Counts a connection that could not be made.
    pub(super) fn note_failed_connect(&mut self, failure: RequestFailure) {
        let count = self.failed_connects.map_or(0, |(count, _)| count);
        self.failed_connects = Some((count + 1, failure));
    }
}
