//! Bytes that a sender has in flight at a time, and how a loss changes them.

use core::time::Duration;

use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::Timestamp;

/// Maximum number of round trips after which a window still counts as one of a slow start.
const MAX_DOUBLINGS: u8 = 6;

/// The bytes that a sender sends before it waits for the receiver; they reflect its congestion
/// window at any observation point.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    last: Option<Timestamp>,
    bytes: u64,
    /// The maximum in flight if nothing had been lost: the maximum seen, doubled with each wait
    /// after a loss (RFC 5681 §3.1, slow start).
    most: u64,
    doublings: u8,
    /// True if a loss has reduced the window and it has not recovered.
    is_cut: bool,
}

impl Flight {
    /// Takes in bytes that pass at `at`; `trip` is the whole round trip, and `idle` is true if
    /// everything sent before had been acknowledged. Returns true if these bytes are the first
    /// after a wait that only the reduced window explains.
    pub(crate) fn add_bytes(
        &mut self,
        at: Timestamp,
        bytes: u64,
        trip: Duration,
        idle: bool,
    ) -> bool {
        let gap = self
            .last
            .replace(at)
            .map_or(Duration::ZERO, |last| at.since(last));
        if gap * 2 < trip || trip.is_zero() {
            self.bytes += bytes;
            self.grow();
            return false;
        }
        // After an idle period of one timeout a sender restarts with a small window in any case
        // (`tcp_slow_start_after_idle`).
        self.is_cut &= !(idle && gap >= TCP_RTO_MIN);
        let is_held = self.is_cut && self.bytes < self.most;
        if is_held && self.doublings < MAX_DOUBLINGS {
            self.doublings += 1;
            self.most = self.most.saturating_mul(2);
        }
        self.bytes = bytes;
        is_held
    }

    /// Returns the time of the last bytes.
    pub(crate) fn last(&self) -> Option<Timestamp> {
        self.last
    }

    /// Returns true if what passes at `at` comes too soon after the preceding bytes for a loss in
    /// between to have been noticed; `trip` is the whole round trip.
    pub(crate) fn is_too_soon(&self, at: Timestamp, trip: Duration) -> bool {
        self.last.is_some_and(|last| at.since(last) < trip * 7 / 8)
    }

    /// Records a loss: the segment that passes at `at` is a retransmission, or shows that one is
    /// needed.
    pub(crate) fn cut(&mut self, at: Timestamp) {
        self.last = Some(at);
        self.is_cut = true;
    }

    fn grow(&mut self) {
        if self.bytes >= self.most {
            self.most = self.bytes;
            self.is_cut = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_after_a_loss_are_the_losss_until_the_window_is_as_before() {
        let trip = Duration::from_millis(20);
        let mut flight = Flight::default();
        let take = |flight: &mut Flight, ms: i64, bytes, idle| {
            flight.add_bytes(Timestamp::from_nanos(ms * 1_000_000), bytes, trip, idle)
        };
        assert!(!take(&mut flight, 0, 10_000, true));
        assert!(!take(&mut flight, 20, 1_000, false), "no loss yet");
        flight.cut(Timestamp::from_nanos(20_000_000));
        assert!(take(&mut flight, 40, 2_000, false));
        assert!(take(&mut flight, 60, 30_000, false), "after 2,000 bytes");
        assert!(!take(&mut flight, 61, 10_000, false));
        assert!(!take(&mut flight, 81, 1_000, false), "it has grown back");
        flight.cut(Timestamp::from_nanos(81_000_000));
        assert!(!take(&mut flight, 400, 1_000, true), "idle in between");
    }
}
