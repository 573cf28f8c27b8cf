//! `path-distance`: a note, because distance cannot be removed.

use super::evidence::{human, percent};
use super::{Case, Conclusion, Id};
use crate::exchange::wait::WaitKind;
use crate::report::Remark;
use crate::route::worth::{MATERIAL_SHARE, NOTABLE};

/// Looks at the time spent travelling.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _other: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let Some(trip) = case.round_trip().filter(|&trip| trip >= NOTABLE) else {
            return Conclusion::Nothing;
        };
        let travelling = case.ledger.shares.exchanges.of(WaitKind::RoundTrip);
        let share = travelling as f64 / case.ledger.total().max(1) as f64;
        if share < MATERIAL_SHARE {
            return Conclusion::Nothing;
        }
        Conclusion::Note(Remark {
            id: Id::PathDistance.to_string(),
            text: format!(
                "{}: the ends are {} apart (round trip). Each request needs one round trip, a \
                 fresh connection one more: {} of all request time is distance. Only fewer round \
                 trips or a nearer server shorten that.",
                case.endpoint,
                human(trip),
                percent(share)
            ),
        })
    }
}
