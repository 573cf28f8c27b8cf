//! Bytes of a message that got through, and bytes that were dropped.

use core::time::Duration;

use super::Side;
use crate::observed::time::Timestamp;

/// Time resolution of the passed and dropped bytes of a path.
const SLOT: Duration = Duration::from_millis(2);

/// Bytes of a message that got through, by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops {
    /// The sender of the message.
    pub sender: Side,
    /// Slots in time order, by the observation point's timestamps.
    pub slots: Vec<DropSlot>,
    /// Bytes that arrived directly after others, without spacing.
    pub at_once: u64,
    /// All bytes whose arrival time is known.
    pub timed: u64,
    /// True if the segments waited in a queue on the path.
    pub has_queue: bool,
    /// Payload of a full segment.
    pub mss: u32,
    /// Minimum round trip between the ends.
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
    /// Returns the number of the slot that contains an instant.
    pub fn number(at: Timestamp) -> i64 {
        at.as_nanos().div_euclid(SLOT.as_nanos() as i64)
    }

    /// Returns the time from the start of one slot to the start of the slot `slots` after it.
    pub fn span(slots: i64) -> Duration {
        SLOT * u32::try_from(slots).unwrap_or(u32::MAX)
    }
}
