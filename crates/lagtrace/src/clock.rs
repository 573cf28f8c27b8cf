//! Times of the realtime clock, as text.

use std::time::Instant;

use lagtrace_core::observed::time::Timestamp;

/// A clock that begins with the realtime clock, and goes on when that one is set: for times that are
/// compared with those of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SteadyClock {
    begin: Instant,
    at: Timestamp,
}

impl SteadyClock {
    pub(crate) fn new() -> Self {
        let (begin, at) = (Instant::now(), now());
        Self { begin, at }
    }

    pub(crate) fn now(self) -> Timestamp {
        self.at + self.begin.elapsed()
    }
}

/// Returns the current time of the realtime clock.
pub(crate) fn now() -> Timestamp {
    let nanos = jiff::Timestamp::now().as_nanosecond();
    Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Returns a time as RFC 3339 in UTC; the current one for `None`.
pub(crate) fn started(nanos: Option<i64>) -> String {
    nanos
        .and_then(|nanos| jiff::Timestamp::from_nanosecond(nanos.into()).ok())
        .unwrap_or_else(jiff::Timestamp::now)
        .to_string()
}

/// Returns a time as RFC 3339 in UTC, always with six digits of microseconds.
pub(crate) fn moment(nanos: i64) -> String {
    let at = jiff::Timestamp::from_nanosecond(nanos.into());
    at.map_or_else(|_| started(Some(nanos)), |at| format!("{at:.6}"))
}
