//! The round trip from an observation point to one end and back.

use core::time::Duration;

/// Error assumed of a round trip that was seen once or never varied.
const LEAST_ERROR: Duration = Duration::from_micros(50);
/// Samples this far above the least are the peer's delay, not the path's.
const QUICK_FACTOR: u32 = 2;

/// An estimate of the path's part in replies.
///
/// The least reply time seen. It errs upward where the end never answered at
/// once, and misses what queues add at times: the error is the mean deviation
/// of the quick samples from the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    least: Option<Duration>,
    deviation: Duration,
}

impl RoundTrip {
    /// A reply to data, which the peer may have delayed.
    pub(crate) fn sample(&mut self, took: Duration) {
        let Some(least) = self.least else {
            self.least = Some(took);
            return;
        };
        if took < least {
            self.deviation = self.deviation.max((least - took) / 4);
            self.least = Some(took);
        } else if took <= least * QUICK_FACTOR {
            // RFC 6298 §2.3's gain for the mean deviation.
            self.deviation = (self.deviation * 3 + (took - least)) / 4;
        }
    }

    /// The path's round trip; `None` before any reply was timed.
    pub(crate) fn floor(&self) -> Option<Duration> {
        self.least
    }

    /// How far a single reply may stray from the floor without meaning anything.
    pub(crate) fn error(&self) -> Duration {
        self.deviation.max(LEAST_ERROR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_delayed_reply_moves_neither_floor_nor_error() {
        let mut trip = RoundTrip::default();
        for took in [8, 8, 48, 8, 52] {
            trip.sample(ms(took));
        }
        assert_eq!(trip.floor(), Some(ms(8)));
        assert_eq!(trip.error(), LEAST_ERROR);
    }

    #[test]
    fn jitter_shows_in_the_error() {
        let mut trip = RoundTrip::default();
        for took in [8, 10, 9, 11, 9, 10, 8, 12] {
            trip.sample(ms(took));
        }
        assert!(
            trip.error() > Duration::from_micros(500),
            "{:?}",
            trip.error()
        );
    }
}
