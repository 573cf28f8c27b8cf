//! The successive exchanges of each connection, and the gaps between them.

use core::time::Duration;

use super::Case;
use crate::service::timeline::Moment;

/// Maximum gap between a response and a request that waited only for this response.
pub(super) const AT_ONCE: Duration = Duration::from_millis(2);

/// Returns the runs of successive exchanges of all connections. A hole in the capture ends a run.
pub(super) fn sequences<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a [Moment]> {
    case.rhythm
        .by_client()
        .chunk_by(|a, b| a.client == b.client && b.ordinal == a.ordinal + 1)
}

/// Returns the round-trip time between the ends; zero if it is not known.
pub(super) fn round_trip(case: &Case<'_>) -> Duration {
    case.round_trip().unwrap_or_default()
}

/// Returns the time for which the client was idle: from the arrival of the response to the next
/// request.
pub(super) fn idle(case: &Case<'_>, before: &Moment, next: &Moment) -> Duration {
    let to_client = round_trip(case).saturating_sub(before.path.to_server);
    next.begin.since(before.end).saturating_sub(to_client)
}

/// Returns true if the client was idle for so short a time that it waited only for the response.
pub(super) fn is_at_once(case: &Case<'_>, idle: Duration) -> bool {
    idle <= AT_ONCE.max(round_trip(case) / 10)
}
