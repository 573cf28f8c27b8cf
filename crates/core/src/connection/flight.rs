//! Bytes that a sender puts on the way at a time, and what a loss makes of them.

use core::time::Duration;

use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::Timestamp;

/// The most round trips after which a window is still one of a slow start.
const MAX_DOUBLINGS: u8 = 6;

/// The bytes that a sender sends before it waits for the receiver: its
/// congestion window shows in them wherever one looks from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    last: Option<Timestamp>,
    bytes: u64,
    /// The most at a time but for losses: what was seen, and doubled with each
    /// wait that a loss brought (RFC 5681 §3.1, slow start).
    most: u64,
    doublings: u8,
    /// True if a loss has cut the window, and it has not grown back.
    is_cut: bool,
}

impl Flight {
    /// Takes in bytes that pass at `at`, `trip` being the whole round trip and `idle` whether
    /// everything sent before had been acknowledged. Returns true if they were the first after a
    /// wait that only the cut window explains.
    pub(crate) fn take(&mut self, at: Timestamp, bytes: u64, trip: Duration, idle: bool) -> bool {
        let gap = self
            .last
            .replace(at)
            .map_or(Duration::ZERO, |last| at.since(last));
        if gap * 2 < trip || trip.is_zero() {
            self.bytes += bytes;
            self.grow();
            return false;
        }
        // After a rest of one timeout a sender begins anew with a small window, whatever was before
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

    /// Returns true if what passes at `at` comes too soon after what came before for a loss between
    /// to have been noticed, `trip` being the whole round trip.
    pub(crate) fn is_too_soon(&self, at: Timestamp, trip: Duration) -> bool {
        self.last.is_some_and(|last| at.since(last) < trip * 7 / 8)
    }

    /// Notes that bytes had to be sent again, or that what passes at `at` shows that they must.
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
            flight.take(Timestamp::from_nanos(ms * 1_000_000), bytes, trip, idle)
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
