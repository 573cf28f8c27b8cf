//! The part of the account that belongs to one layer.

use core::time::Duration;

use crate::cause::evidence::{MATERIAL_SHARE, MATERIAL_TIME, human, percent};
use crate::conclude::account::{NOTICED, NOTICED_SHARE};
use crate::exchange::wait::WaitKind;
use crate::registry::{Id, LayerId};
use crate::report::{Account, Booking};

/// The time of a layer's waits within exchanges, with the unexplained time.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerPart {
    /// Time that no change at the layer removes.
    inherent: u64,
    /// Time of the layer's own waits that is unexplained, or that findings of this layer claim.
    avoidable: u64,
    /// Time of waits of unknown kind that is unexplained, or that findings of this layer claim.
    /// These waits may belong to the layer.
    unknown: u64,
    /// Time that findings of other layers claim.
    foreign: u64,
    /// The finding that claims most of `foreign`, and its claim.
    claimant: Option<(u64, Id)>,
    /// Number of requests of all accounts.
    requests: u64,
    /// The time of all accounts, including connection setup.
    whole: u64,
    /// The part of `whole` that is not inherent.
    whole_avoidable: u64,
}

impl LayerPart {
    /// Returns the part of `accounts` that belongs to `layer`, whose waits are of these `kinds`.
    pub(super) fn of<'a>(
        accounts: impl Iterator<Item = &'a Account>,
        layer: LayerId,
        kinds: &[WaitKind],
    ) -> Self {
        let mut part = Self::default();
        for account in accounts {
            add(&mut part.requests, account.requests);
            for booking in account.exchanges.iter().chain(&account.setups) {
                add(&mut part.whole, booking.booked_ns);
                add(&mut part.whole_avoidable, booking.claimed_ns);
                add(&mut part.whole_avoidable, booking.unclaimed_ns);
            }
            let own = account.exchanges.iter();
            let own = own.filter(|b| kinds.contains(&b.kind) || b.kind == WaitKind::Unknown);
            own.for_each(|booking| part.add_booking(booking, layer));
        }
        part
    }

    fn add_booking(&mut self, booking: &Booking, layer: LayerId) {
        add(&mut self.inherent, booking.inherent_ns);
        let avoidable = match booking.kind {
            WaitKind::Unknown => &mut self.unknown,
            _ => &mut self.avoidable,
        };
        add(avoidable, booking.unclaimed_ns);
        for claim in &booking.claims {
            if claim.cause.cause().layer == layer {
                add(avoidable, claim.claimed_ns);
            } else {
                add(&mut self.foreign, claim.claimed_ns);
                let claim = Some((claim.claimed_ns, claim.cause));
                self.claimant = self.claimant.max(claim);
            }
        }
    }

    /// Returns true if the layer has more than half of the avoidable time of all layers, and that
    /// time is large enough to be noticed. Such a layer is not ruled out.
    pub(super) fn is_most(&self) -> bool {
        let avoidable = u128::from(self.avoidable);
        let (mean, share) = (self.mean(self.avoidable), self.share(self.avoidable));
        avoidable * 2 > u128::from(self.whole_avoidable)
            && mean >= MATERIAL_TIME
            && share >= MATERIAL_SHARE
            && (mean >= NOTICED || share >= NOTICED_SHARE)
    }

    /// Returns true if the layer's avoidable time is long, whatever its share: much of the time of a
    /// short request is the server's own work.
    pub(super) fn is_long(&self) -> bool {
        self.mean(self.avoidable) >= NOTICED
    }

    /// Returns true if the layer's waits took no time.
    pub(super) fn is_empty(&self) -> bool {
        self.own() == 0 && self.foreign == 0
    }

    /// Returns the maximum time that the layer's waits can have taken: `at most 1.66 ms per request
    /// (2.8 % of all time)`. The share is left out if the time is short, because it would be large
    /// for short requests.
    pub(super) fn words(&self) -> String {
        let own = self.own();
        let mut words = match self.mean(own) {
            _ if own == 0 => "no time".to_owned(),
            mean if mean < MATERIAL_TIME => {
                format!("at most {} per request, too little to matter", human(mean))
            }
            mean => {
                let share = percent(self.share(own));
                let inherent = if self.inherent > own / 2 {
                    ", most of it unavoidable"
                } else if mean < NOTICED {
                    ", little time however large its share"
                } else {
                    ""
                };
                format!(
                    "at most {} per request ({share} of all time){inherent}",
                    human(mean)
                )
            }
        };
        let foreign = self.mean(self.foreign);
        if let Some((_, cause)) = self.claimant.filter(|_| foreign >= MATERIAL_TIME) {
            let more = if own == 0 { "" } else { " more" };
            words.push_str(&format!(
                "; {}{more} per request belong to {cause}",
                human(foreign)
            ));
        }
        words
    }

    /// Returns the maximum time that the layer's waits can have taken, in nanoseconds.
    fn own(&self) -> u64 {
        let known = self.inherent.saturating_add(self.avoidable);
        known.saturating_add(self.unknown)
    }

    fn mean(&self, time: u64) -> Duration {
        Duration::from_nanos(time / self.requests.max(1))
    }

    fn share(&self, time: u64) -> f64 {
        time as f64 / self.whole.max(1) as f64
    }
}

fn add(sum: &mut u64, time: u64) {
    *sum = sum.saturating_add(time);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::wait::Owner;
    use crate::report::ClaimedTime;

    const MS: u64 = 1_000_000;

    /// Returns the server's part of the account of ten requests. All times are in milliseconds: the
    /// think time, the times that causes claim of it, and the inherent time on the network.
    fn part(thinking: u64, claims: &[(Id, u64)], transit: u64) -> LayerPart {
        let claimed: u64 = claims.iter().map(|(_, ms)| ms).sum();
        let claim = |&(cause, ms): &(Id, u64)| ClaimedTime {
            cause,
            claimed_ns: ms * MS,
        };
        let booking = |kind, owner, ms: u64, inherent: u64| Booking {
            kind,
            owner,
            booked_ns: ms * MS,
            inherent_ns: inherent * MS,
            claimed_ns: 0,
            unclaimed_ns: (ms - inherent) * MS,
            claims: Vec::new(),
        };
        let thought = Booking {
            claimed_ns: claimed * MS,
            unclaimed_ns: (thinking - claimed) * MS,
            claims: claims.iter().map(claim).collect(),
            ..booking(WaitKind::ServerThink, Owner::Server, thinking, 0)
        };
        let travel = booking(WaitKind::RoundTrip, Owner::Path, transit, transit);
        let account = Account {
            requests: 10,
            exchanges: vec![thought, travel],
            ..Account::default()
        };
        LayerPart::of(
            [&account].into_iter(),
            LayerId::Server,
            &[WaitKind::ServerThink],
        )
    }

    #[test]
    fn a_layer_with_most_of_the_avoidable_time_is_not_cleared() {
        assert!(part(100, &[], 100).is_most());
        assert!(part(100, &[(Id::ServerThink, 90)], 100).is_most());
        assert!(!part(9, &[], 0).is_most(), "too short");
        assert!(!part(20, &[], 1000).is_most(), "too small a part");
        let elsewhere = part(100, &[(Id::CorkHold, 90)], 0);
        assert!(!elsewhere.is_most(), "another layer's finding claims it");
    }

    #[test]
    fn a_layers_time_is_told_with_its_share_and_what_is_not_its_own() {
        assert_eq!(
            part(100, &[], 300).words(),
            "at most 10.0 ms per request (25 % of all time)"
        );
        assert_eq!(
            part(9, &[], 0).words(),
            "at most 900 µs per request, too little to matter"
        );
        assert_eq!(
            part(100, &[(Id::CorkHold, 100)], 0).words(),
            "no time; 10.0 ms per request belong to cork-hold"
        );
        assert!(part(0, &[], 100).is_empty());
    }
}
