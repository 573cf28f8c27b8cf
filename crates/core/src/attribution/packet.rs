//! Properties of one packet, as its connection shows them.

use core::time::Duration;

/// Maximum timeout of a sender that has not measured the path yet.
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of times that this timeout doubles before the sender gives up.
const MOST_DOUBLED: u16 = 6;

/// Relation of a data segment to what was seen before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The next bytes.
    InOrder,
    /// Bytes after some that were not seen.
    PastHole,
    /// Bytes that were missing before.
    Fill,
    /// Bytes that were seen before and sent again.
    Repeat,
    /// A segment that was seen before: the path or the capture duplicated it.
    Copy,
    /// A keep-alive probe: one byte before the next (RFC 1122 §4.2.3.6).
    KeepAlive,
}

/// A stretch of a direction's bytes: stream offsets, the SYN not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The position of a segment among those of its sender that arrived before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// An unknown position.
    #[default]
    Untold,
    /// A segment sent after all segments that arrived before it.
    Newer,
    /// A segment sent before one that arrived before it: overtaken on the path, or a copy.
    Older,
}

/// A segment's selective acknowledgement (SACK, RFC 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reports {
    /// True if data is missing before data that arrived.
    pub(crate) hole: bool,
    /// True if data arrived twice (D-SACK, RFC 2883), and the segment answers the second copy.
    pub(crate) answers_copy: bool,
}

/// The need for a transmission of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Need {
    /// The bytes were not sent before, or the previous copy was lost.
    #[default]
    Needed,
    /// The necessity is not known yet.
    Pending,
    /// An earlier copy arrived.
    Spurious,
    /// Unknown, because the capture lacks what would show it.
    Untold,
}

/// Time in queues, accurate to a tick of the sender's clock. Small, because every packet has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) possible_ns: u64,
    pub(crate) known_ns: u64,
}

impl Queued {
    /// Returns the time in queues that is certain; zero where the sender's tick is not known yet.
    #[inline]
    pub(crate) fn known(self) -> Duration {
        Duration::from_nanos(self.known_ns)
    }

    /// Returns the time in queues if the sender's tick is a millisecond, as for nearly all senders,
    /// and no tick was missed.
    #[inline]
    pub(crate) fn possible(self) -> Duration {
        Duration::from_nanos(self.possible_ns)
    }
}

/// Properties of a sender's direction that tiling needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pipe {
    /// Payload of a full segment.
    pub(crate) mss: u32,
    /// True if both SYNs were seen, so that a full segment's payload is not only assumed.
    pub(crate) is_agreed: bool,
    /// True if the segments of both ends carry timestamps, which the other end echoes.
    pub(crate) has_timestamps: bool,
    /// True if offset 0 is the stream's true beginning.
    pub(crate) has_start: bool,
    /// True if the sender's timestamps are known to count milliseconds, so that a queue before the
    /// observation point would show.
    pub(crate) has_clock: bool,
    /// True if the sender numbers its segments, so that a loss before the observation point shows.
    pub(crate) is_numbered: bool,
    /// True if any of the sender's data was retransmitted so far.
    pub(crate) has_repeats: bool,
    /// True if any of the sender's data was lost so far, before the observation point or after it.
    /// A loss before that point shows when a retransmission fills the gap.
    pub(crate) has_losses: bool,
}

/// Returns the maximum time after which a sender retransmits if `skipped` copies were lost: its
/// timer is initially three seconds (RFC 1122 §4.2.3.1) and doubles each time.
pub(crate) fn longest_repair(skipped: u16) -> Duration {
    FIRST_TIMEOUT * ((1 << skipped.clamp(1, MOST_DOUBLED)) - 1)
}
