//! Properties of one packet, as the connection that it belongs to shows them.

use core::time::Duration;

/// The longest timeout of a sender that knows nothing of the path yet.
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);
/// The most times that this timeout doubles before the sender gives up.
const MOST_DOUBLED: u16 = 6;

/// Relation of a data segment to what was seen before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The next bytes.
    InOrder,
    /// Bytes past some that were not seen.
    PastHole,
    /// Bytes that had been missing.
    Fill,
    /// Bytes seen before, sent again.
    Repeat,
    /// A segment seen before: the path or the capture doubled it.
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

/// The place of a segment among those of its sender that came here before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// An unknown place.
    #[default]
    Untold,
    /// A segment sent after all segments that came here before it.
    Newer,
    /// A segment sent before one that came here before it: overtaken on the way, or a copy.
    Older,
}

/// Necessity of sending bytes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Need {
    /// The bytes were not sent before, or the copy before was lost.
    #[default]
    Needed,
    /// The necessity is not known yet.
    Pending,
    /// An earlier copy arrived.
    Spurious,
    /// The capture misses what would have told.
    Untold,
}

/// Time in queues, off by a tick of the sender's. Small, because every mark
/// has one.
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

    /// Returns the time in queues if the sender's tick is a millisecond, as nearly all are, and
    /// none is missed.
    #[inline]
    pub(crate) fn possible(self) -> Duration {
        Duration::from_nanos(self.possible_ns)
    }
}

/// Properties of a sender that tiling needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pipe {
    /// Payload of a full segment.
    pub(crate) mss: u32,
    /// True if offset 0 is the stream's true beginning.
    pub(crate) has_start: bool,
    /// True if its stamps are known to count milliseconds, so that a queue before the point would
    /// show.
    pub(crate) has_clock: bool,
    /// True if it numbers its segments so that one lost before the point shows.
    pub(crate) is_numbered: bool,
    /// True if any of its data was sent again so far.
    pub(crate) has_repeats: bool,
    /// True if any of its data was lost so far, on this side of the point or beyond. Data
    /// lost before the point shows as data that fills a gap.
    pub(crate) has_losses: bool,
}

/// Returns the longest time that a sender waits before it repeats what `skipped` copies were lost
/// of: its timer is three seconds at first (RFC 1122 §4.2.3.1) and doubles each time.
pub(crate) fn longest_repair(skipped: u16) -> Duration {
    FIRST_TIMEOUT * ((1 << skipped.clamp(1, MOST_DOUBLED)) - 1)
}
