//! `path-distance`: a note and not a claim, because distance cannot be removed.

use super::evidence::{human, percent};
use super::{Case, Conclusion, Id};
use crate::exchange::wait::WaitKind;
use crate::report::Remark;
use crate::route::worth::{MATERIAL_SHARE, WORTH_TRACING};
use crate::stats::Merge;

/// Watches the time that requests spend on the path.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let Some(trip) = case.round_trip().filter(|&trip| trip >= WORTH_TRACING) else {
            return Conclusion::Nothing;
        };
        let travelling = case.ledger.shares.exchanges.of(WaitKind::RoundTrip);
        let share = travelling as f64 / case.ledger.total().max(1) as f64;
        if share < MATERIAL_SHARE {
            return Conclusion::Nothing;
        }
        // If only whole answers came back, the server's own time may be in the trip.
        let assumed = case.ledger.doubtful.assumed_trips;
        let bound = if u128::from(assumed) * 2 > u128::from(travelling) {
            ", at most: only answers of its program show it"
        } else {
            ""
        };
        Conclusion::Note(Remark {
            id: Id::PathDistance.to_string(),
            text: format!(
                "{}: the round trip between the ends takes {}{bound}. Each request needs one round \
                 trip, and a new connection one more: this is {} of all request time. Only fewer \
                 round trips or a nearer server reduce it.",
                case.endpoint,
                human(trip),
                percent(share)
            ),
        })
    }
}
