//! Bytes of a message that got through, and bytes that were dropped.

use core::time::Duration;

use super::Side;
use crate::observed::time::Timestamp;

/// The resolution in which the account of a path is kept.
const SLOT: Duration = Duration::from_millis(2);

/// Bytes of a message that got through, by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops {
    /// The sender of the message.
    pub sender: Side,
    /// Slots in time order, as the observation point stamps them.
    pub slots: Vec<DropSlot>,
    /// Bytes that arrived right behind others, with nothing that spaced them.
    pub at_once: u64,
    /// All bytes whose arrival was timed.
    pub timed: u64,
    /// True if the segments waited in a queue on their way.
    pub has_queue: bool,
    /// Payload of a full segment.
    pub mss: u32,
    /// Minimum round trip from end to end.
    pub round_trip: Duration,
}

/// Two milliseconds of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropSlot {
    /// Number of the slot since the epoch.
    pub number: i64,
    /// Number of bytes that got through.
    pub passed: u64,
    /// Number of bytes that did not get through.
    pub lost: u64,
}

impl DropSlot {
    /// Returns the number of the slot that an instant falls into.
    pub fn number(at: Timestamp) -> i64 {
        at.as_nanos().div_euclid(SLOT.as_nanos() as i64)
    }

    /// Returns the time from the beginning of a slot to that of the one `slots` later.
    pub fn span(slots: i64) -> Duration {
        SLOT * u32::try_from(slots).unwrap_or(u32::MAX)
    }
}
