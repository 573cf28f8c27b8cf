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
    /// Nanoseconds that the time namespace of this process adds to the kernel's own
    /// `CLOCK_MONOTONIC`.
    #[cfg(any(feature = "live", feature = "fuzzing"))]
    added_ns: i64,
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
        Self {
            offset_ns,
            #[cfg(any(feature = "live", feature = "fuzzing"))]
            added_ns: added_by_namespace(),
        }
    }

    /// Returns the offset in ns that is added to the kernel's own `CLOCK_MONOTONIC`
    /// (`ktime_get_ns()`) to obtain `CLOCK_REALTIME`.
    #[cfg(any(feature = "live", feature = "fuzzing"))]
    pub(crate) fn offset_in_kernel(&self) -> i64 {
        self.offset_ns.saturating_add(self.added_ns)
    }

    /// Returns the time at which the kernel's own `CLOCK_MONOTONIC` showed `nanos`.
    #[cfg(any(feature = "live", feature = "fuzzing"))]
    pub(crate) fn of_kernel(&self, nanos: u64) -> Timestamp {
        let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
        Timestamp::from_nanos(nanos.saturating_add(self.offset_in_kernel()))
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(nanos(clock_gettime(ClockId::Monotonic)) + self.offset_ns)
    }
}

/// Returns the nanoseconds that the time namespace of this process adds to `CLOCK_MONOTONIC`
/// (`time_namespaces(7)`); 0 if the kernel has no such namespaces (before 5.6).
#[cfg(any(feature = "live", feature = "fuzzing"))]
fn added_by_namespace() -> i64 {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets");
    offsets.ok().and_then(|text| added(&text)).unwrap_or(0)
}

/// Parses lines such as `monotonic 86400 0`: seconds and nanoseconds.
#[cfg(any(feature = "live", feature = "fuzzing"))]
fn added(offsets: &str) -> Option<i64> {
    let mut lines = offsets.lines();
    let line = lines.find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
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
    fn a_time_namespace_tells_what_it_adds() {
        let text = "monotonic       -86400         7\nboottime           300         0\n";
        assert_eq!(added(text), Some(-86_399_999_999_993));
        assert_eq!(added("boottime 1 0\n"), None);
        assert_eq!(added("monotonic 99999999999999 0\n"), None);
    }

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
