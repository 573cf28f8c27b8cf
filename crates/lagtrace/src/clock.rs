//! Times of the realtime clock, as text.

use lagtrace_core::observed::time::Timestamp;

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
