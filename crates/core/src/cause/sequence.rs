//! The exchanges of each connection in their order, and what lies between.

use core::time::Duration;

use super::Case;
use crate::service::timeline::Moment;

/// A request that follows a response sooner than this was only waiting for it.
pub(super) const AT_ONCE: Duration = Duration::from_millis(2);

/// The exchanges of all connections that followed each other, with none
/// missing: with holes of the capture they fall apart.
pub(super) fn sequences<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a [Moment]> {
    case.rhythm
        .by_client()
        .chunk_by(|a, b| a.client == b.client && b.ordinal == a.ordinal + 1)
}

/// The whole round trip between the ends, as far as it is known.
pub(super) fn round_trip(case: &Case<'_>) -> Duration {
    case.round_trip().unwrap_or_default()
}

/// From the response's arrival at the client to its next request.
pub(super) fn idle(case: &Case<'_>, before: &Moment, next: &Moment) -> Duration {
    let to_client = round_trip(case).saturating_sub(before.to_server);
    next.begin.since(before.end).saturating_sub(to_client)
}

/// Whether a client that waits so long was only waiting for the response.
pub(super) fn is_at_once(case: &Case<'_>, idle: Duration) -> bool {
    idle <= AT_ONCE.max(round_trip(case) / 10)
}
