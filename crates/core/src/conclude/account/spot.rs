//! The places at which unclaimed time can be located.

use crate::exchange::wait::{Owner, WaitKind};
use crate::registry::Id;
use crate::report::Booking;
use crate::service::{Ledger, TimePlace};

use super::Booked;

/// A place with the claim that reports its unclaimed time.
pub(super) struct Spot {
    pub(super) id: Id,
    pub(super) culprit: Owner,
    /// The place within exchanges; `None` for connection setup, which is before the exchanges.
    pub(super) place: Option<TimePlace>,
}

pub(super) const SPOTS: [Spot; 6] = [
    Spot {
        id: Id::TimeInServer,
        culprit: Owner::Server,
        place: Some(TimePlace::Server),
    },
    Spot {
        id: Id::TimeInClient,
        culprit: Owner::Client,
        place: Some(TimePlace::Client),
    },
    Spot {
        id: Id::TimeOnPath,
        culprit: Owner::Path,
        place: Some(TimePlace::Path),
    },
    Spot {
        id: Id::TimeUnknown,
        culprit: Owner::Unknown,
        place: Some(TimePlace::Unknown),
    },
    Spot {
        id: Id::TimeInResolver,
        culprit: Owner::Resolver,
        place: None,
    },
    Spot {
        id: Id::TimeInSetup,
        culprit: Owner::Unknown,
        place: None,
    },
];

impl Spot {
    pub(super) fn bookings<'a>(&self, booked: &'a Booked<'_>) -> Vec<&'a Booking> {
        let is_lookup = |booking: &&Booking| booking.kind == WaitKind::Resolve;
        let account = &booked.account;
        match (self.place, self.culprit) {
            (Some(place), _) => {
                let bookings = account.exchanges.iter();
                bookings
                    .filter(|b| TimePlace::of(b.kind, b.owner) == place)
                    .collect()
            }
            (None, Owner::Resolver) => account.setups.iter().filter(is_lookup).collect(),
            (None, _) => account.setups.iter().filter(|b| !is_lookup(b)).collect(),
        }
    }

    /// Returns the owner of the time. For connection setup, this is the owner of the largest
    /// booking.
    pub(super) fn culprit(&self, bookings: &[&Booking]) -> Owner {
        let most = bookings.iter().max_by_key(|booking| booking.unclaimed_ns);
        match self.place {
            Some(_) => self.culprit,
            None => most.map_or(self.culprit, |booking| booking.owner),
        }
    }

    /// Returns the number of requests that share the time or, for connection setup, the number of
    /// connections.
    pub(super) fn count(&self, ledger: &Ledger) -> u64 {
        match self.place {
            Some(_) => ledger.latency.all.count(),
            None => ledger.setups.count,
        }
    }
}
