//! Time that a capture at the server shows only indirectly: the time before a request arrives at
//! the server, and the time after its response has left. In such a capture, this time is outside
//! the exchanges.

use core::time::Duration;

use crate::cause::Case;
use crate::cause::evidence::{MATERIAL_SHARE, MATERIAL_TIME, human, median};
use crate::claim::{Claim, Statement};
use crate::exchange::wait::Owner;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, counted};
use crate::service::TimePlace;
use crate::service::tally::Tally;

/// Time outside the exchanges at one place, without the time that claims take.
pub(super) struct Beyond {
    /// The late requests and their delays.
    tally: Tally,
    place: TimePlace,
    /// The minimum round-trip time.
    least: Duration,
    /// The time that no claim takes, in nanoseconds.
    pub(super) unclaimed: u64,
    /// The minimum round-trip time times the number of requests, in nanoseconds. This time is
    /// inherent.
    pub(super) ways: u64,
}

impl Beyond {
    /// Returns the time outside the exchanges of the case's service, by place.
    pub(super) fn all(case: &Case<'_>, claims: &[Claim]) -> Vec<Self> {
        let late = case.gathered.trips.late_outside().cloned();
        let timers = case.gathered.silences.timers();
        let tallies = [(TimePlace::Path, late), (TimePlace::Unknown, timers)];
        let known = tallies
            .into_iter()
            .filter_map(|(p, tally)| Some((p, tally?)));
        known
            .filter_map(|(place, tally)| Self::of(place, tally, case, claims))
            .collect()
    }

    /// Returns the time at one place, if it matters to the client. The costs of `claims` are
    /// subtracted.
    fn of(place: TimePlace, tally: Tally, case: &Case<'_>, claims: &[Claim]) -> Option<Self> {
        let own = claims.iter().filter(|claim| claim.at == case.endpoint);
        // Claims on the server claim time within the exchanges.
        let claims = own.filter(|claim| claim.culprit != Owner::Server);
        let claimed = claims.fold(0, |sum: u64, claim| {
            sum.saturating_add(claim.time.cost.likely)
        });
        let count = case.ledger.counts.count.max(1);
        let least = case.round_trip().unwrap_or_default();
        let ways = nanos(least).saturating_mul(count);
        let late = case.weigh(tally.cost.likely);
        let whole = case
            .ledger
            .total()
            .saturating_add(ways)
            .saturating_add(late);
        let unclaimed = late.saturating_sub(claimed);
        let is_long = Duration::from_nanos(unclaimed / count) >= MATERIAL_TIME;
        let is_much = unclaimed as f64 >= whole as f64 * MATERIAL_SHARE;
        (is_long && is_much).then_some(Self {
            tally,
            place,
            least,
            unclaimed,
            ways,
        })
    }

    /// Returns the evidence for this time.
    pub(super) fn evidence(&self) -> Statement {
        let (count, by) = (self.tally.affected, median(&self.tally.saved));
        let text = match self.place {
            TimePlace::Path => format!(
                "{}, or the ACKs of their responses, arrived {by} (median) later than the minimum \
                 round trip explains; the client's timestamps show that this time passed on the \
                 path",
                counted(count, "request", "requests"),
            ),
            _ => format!(
                "{} came after a silence of {by} (median), as long as the retransmission timeout \
                 on a path with a round trip of {}; the clients' packets carry no IP \
                 identifications that would show whether earlier copies were lost",
                counted(count, "request", "requests"),
                human(self.least),
            ),
        };
        Statement::fits(EvidenceKind::Wire, text)
            .count(self.tally.affected)
            .median(&self.tally.saved)
    }

    pub(super) fn is_in(&self, place: Option<TimePlace>) -> bool {
        Some(self.place) == place
    }

    /// Returns the number of late requests.
    pub(super) fn affected(&self) -> u64 {
        self.tally.affected
    }
}
