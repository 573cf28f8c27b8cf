//! The clock of lagtrace's own timestamps.

use lagtrace_core::observed::time::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Number of readings of the offset between the clocks; the reading that took the least time is
/// used.
const READINGS: usize = 8;

/// `CLOCK_MONOTONIC` plus its offset to `CLOCK_REALTIME`, which is read only once.
///
/// The timestamps can be compared with the kernel's packet timestamps, and do not jump when the
/// realtime clock is set. Both clocks are slewed in the same way, so the offset stays correct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    offset_ns: i64,
}

impl Clock {
    /// Reads the offset between the clocks.
    pub(crate) fn new() -> Self {
        let offset_ns = (0..READINGS)
            .map(|_| {
                let before = nanos(clock_gettime(ClockId::Monotonic));
                let real = nanos(clock_gettime(ClockId::Realtime));
                let after = nanos(clock_gettime(ClockId::Monotonic));
                (after - before, real - (before + (after - before) / 2))
            })
            .min()
            .map_or(0, |(_, offset)| offset);
        Self { offset_ns }
    }

    /// Returns the offset in ns that is added to `CLOCK_MONOTONIC` to obtain `CLOCK_REALTIME`.
    #[cfg(feature = "live")]
    pub(crate) fn offset(&self) -> i64 {
        self.offset_ns
    }

    /// Returns the time at which `CLOCK_MONOTONIC` showed `nanos`.
    #[cfg(any(feature = "live", feature = "fuzzing"))]
    pub(crate) fn of_monotonic(&self, nanos: u64) -> Timestamp {
        let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
        Timestamp::from_nanos(nanos.saturating_add(self.offset_ns))
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(nanos(clock_gettime(ClockId::Monotonic)) + self.offset_ns)
    }
}

fn nanos(time: Timespec) -> i64 {
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stands_on_the_realtime_clock_and_never_goes_back() {
        let clock = Clock::new();
        let real = nanos(clock_gettime(ClockId::Realtime));
        let first = clock.now();
        let second = clock.now();
        assert!(first <= second);
        assert!((first.as_nanos() - real).abs() < 1_000_000_000);
    }
}
