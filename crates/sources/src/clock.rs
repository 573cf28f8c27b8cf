//! The time of our own stamps.

use lagtrace_core::observed::time::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// How often the offset between the clocks is read; the tightest reading counts.
const READINGS: usize = 8;

/// `CLOCK_MONOTONIC` moved onto `CLOCK_REALTIME` once.
///
/// Its stamps can be set beside kernel stamps of packets, and never jump when
/// the realtime clock is set. Both clocks are slewed alike, so they stay together.
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

    /// What was to be added to `CLOCK_MONOTONIC` for `CLOCK_REALTIME`, in ns.
    #[cfg(feature = "live")]
    pub(crate) fn offset(&self) -> i64 {
        self.offset_ns
    }

    /// The instant at which `CLOCK_MONOTONIC` showed `nanos`.
    #[cfg(feature = "live")]
    pub(crate) fn of_monotonic(&self, nanos: u64) -> Timestamp {
        let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
        Timestamp::from_nanos(nanos.saturating_add(self.offset_ns))
    }

    /// This instant.
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
