//! The exchanges of each connection in order, and the gaps between them.

use core::time::Duration;

use super::Case;
use crate::service::timeline::Moment;

/// Maximum gap between a response and a request that waited only for that response.
pub(super) const AT_ONCE: Duration = Duration::from_millis(2);

/// Returns the exchanges of all connections that directly followed each other; holes of the capture
/// separate sequences.
pub(super) fn sequences<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a [Moment]> {
    case.rhythm
        .by_client()
        .chunk_by(|a, b| a.client == b.client && b.ordinal == a.ordinal + 1)
}

/// Returns the round-trip time between the ends, as far as it is known.
pub(super) fn round_trip(case: &Case<'_>) -> Duration {
    case.round_trip().unwrap_or_default()
}

/// Returns the time from the response's arrival at the client to its next request.
pub(super) fn idle(case: &Case<'_>, before: &Moment, next: &Moment) -> Duration {
    let to_client = round_trip(case).saturating_sub(before.to_server);
    next.begin.since(before.end).saturating_sub(to_client)
}

/// Returns true if a client that waits this long waited only for the response.
pub(super) fn is_at_once(case: &Case<'_>, idle: Duration) -> bool {
    idle <= AT_ONCE.max(round_trip(case) / 10)
}
