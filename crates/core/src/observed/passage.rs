//! Passages: when which bytes of a connection passed which place of the answering end's host. The
//! kernel reports them for connections on which requests overtake each other (HTTP/2), where it
//! cannot tell which bytes belong to which request.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::{Program, ThreadTimes};
use crate::observed::time::Timestamp;

/// Consecutive bytes of one direction that passed a gate at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytePassage {
    /// The answering end.
    pub local: Endpoint,
    /// The requesting end.
    pub remote: Endpoint,
    /// The place that the bytes passed.
    pub gate: PassagePoint,
    /// The time at which they passed it.
    pub at: Timestamp,
    /// TCP's sequence number of the first byte.
    pub start: u32,
    /// TCP's sequence number of the byte after the last.
    pub end: u32,
}

/// A place that bytes pass in the host of the answering end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassagePoint {
    /// TCP received the bytes.
    Delivered {
        /// Time of their arrival, as in a [`RequestSpan`](super::kernel_span::RequestSpan).
        arrived: Timestamp,
        /// Time when the network stack took them up; `None` if that was not observed.
        entered: Option<Timestamp>,
    },
    /// The program had read the bytes.
    Read(Box<PassingThread>),
    /// The program had written the bytes.
    Written(Box<PassingThread>),
    /// TCP sent the bytes.
    Sent {
        /// Time for which Nagle's algorithm held the bytes; zero if it did not.
        held: Duration,
        /// True if something arrived between the write and the sending.
        after_arrival: bool,
    },
    /// The device's driver received the segment.
    Left {
        /// Time for which the segment waited in queueing disciplines, as in a
        /// [`Departure`](super::kernel_span::Departure).
        queued: Duration,
    },
}

/// The thread that read or wrote bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassingThread {
    /// The thread.
    pub program: Program,
    /// The times of the thread; `None` if they were not observed. Those from the first read to the
    /// last write are sums over the time for which the thread has been observed; their differences
    /// count.
    pub thread: Option<ThreadTimes>,
}

impl PassagePoint {
    /// The gates' numbers, in the order in which a request and its response pass them.
    pub(crate) const DELIVERED: usize = 0;
    pub(crate) const READ: usize = 1;
    pub(crate) const WRITTEN: usize = 2;
    pub(crate) const SENT: usize = 3;
    pub(crate) const LEFT: usize = 4;
    /// The number of gates.
    pub(crate) const COUNT: usize = 5;

    /// Returns the gate's number.
    pub(crate) fn place(&self) -> usize {
        match self {
            Self::Delivered { .. } => Self::DELIVERED,
            Self::Read(_) => Self::READ,
            Self::Written(_) => Self::WRITTEN,
            Self::Sent { .. } => Self::SENT,
            Self::Left { .. } => Self::LEFT,
        }
    }
}
