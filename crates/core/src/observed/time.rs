//! Instants on named clocks.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant: nanoseconds since its clock's epoch.
///
/// Only sources create instants. The clock is named by the
/// [`Origin`](crate::observed::event::Origin) that is stored with the instant. An instant before
/// its clock's epoch is negative.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest instant that can be expressed.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest instant that can be expressed.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the instant `nanos` nanoseconds after the clock's epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the instant `seconds` and `nanos` after the epoch; saturates at the ends.
    pub const fn from_parts(seconds: i64, nanos: u32) -> Self {
        Self(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanos as i64),
        )
    }

    /// Returns the nanoseconds since the clock's epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Returns the time passed since `earlier`; zero if `earlier` is in fact later. The result is
    /// exact for any two instants.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// Returns the nanoseconds passed since `earlier`; zero if `earlier` is in fact later.
    #[inline]
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        if self.0 < earlier.0 {
            0
        } else {
            self.0.abs_diff(earlier.0)
        }
    }

    /// Returns the nanoseconds from `other` to `self`, negative if `other` is later.
    pub const fn signed_since(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(clamp_nanos(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(clamp_nanos(duration)))
    }
}

impl fmt::Display for Timestamp {
    /// Writes seconds with nine decimals, the usual form for captures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        write!(
            f,
            "{sign}{}.{:09}",
            nanos / 1_000_000_000,
            nanos % 1_000_000_000
        )
    }
}

/// The clock from which a timestamp was read.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ClockId {
    /// The `CLOCK_REALTIME` of this host: live captures, probes, load, samples.
    #[default]
    Realtime,
    /// The clock of a capture file, numbered in the order in which the files were given.
    File(u16),
}

fn clamp_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A linear relation of two clocks.
#[derive(Clone, Copy, Debug)]
pub struct ClockMap {
    /// The instant of the near clock to which `offset` refers.
    pub origin: Timestamp,
    /// The far clock's time minus the near clock's at `origin`, in nanoseconds.
    pub offset: f64,
    /// Nanoseconds that the far clock gains per nanosecond.
    pub drift: f64,
}

impl ClockMap {
    /// Converts a time of the far clock to the near clock.
    pub fn to_near(self, far: Timestamp) -> Timestamp {
        let since = far.signed_since(self.origin) as f64 - self.offset;
        let near = since / (1.0 + self.drift);
        Timestamp::from_nanos(self.origin.as_nanos().saturating_add(near.round() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_are_exact() {
        let whole = Timestamp::MAX.since(Timestamp::MIN);
        assert_eq!(whole, Duration::from_nanos(u64::MAX));
        assert_eq!(Timestamp::MIN + whole, Timestamp::MAX);
        assert_eq!(Timestamp::MAX - whole, Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(Timestamp::MAX + whole, Timestamp::MAX);
    }
}
