//! What got through of a message, and what was dropped.

use core::time::Duration;

use super::Side;
use crate::observed::time::Timestamp;

/// How finely the account of a path is kept.
const SLOT: Duration = Duration::from_millis(2);

/// What of one message got through when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops {
    /// Whose message.
    pub sender: Side,
    /// In time order, as the observation point stamps them.
    pub slots: Vec<DropSlot>,
    /// Bytes that arrived right behind others, with nothing that spaced them …
    pub at_once: u64,
    /// … of so many.
    pub timed: u64,
    /// Whether its segments waited in a queue on their way.
    pub has_queue: bool,
    /// Payload of a full segment.
    pub mss: u32,
    /// The least round trip from end to end.
    pub round_trip: Duration,
}

/// Two milliseconds of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropSlot {
    /// Which since the epoch.
    pub number: i64,
    /// Bytes that got through.
    pub passed: u64,
    /// Bytes that did not.
    pub lost: u64,
}

impl DropSlot {
    /// The slot that an instant falls into.
    pub fn number(at: Timestamp) -> i64 {
        at.as_nanos().div_euclid(SLOT.as_nanos() as i64)
    }

    /// From the beginning of a slot to that of another so many later.
    pub fn span(slots: i64) -> Duration {
        SLOT * u32::try_from(slots).unwrap_or(u32::MAX)
    }
}
