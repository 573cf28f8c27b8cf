//! The account of time: what claims take of it, and the places of the remaining time.
//!
//! Each nanosecond of the exchanges, handshakes and lookups of a service is in one booking. A
//! claim takes up to its cost from the bookings of the waits that it lengthens. If several
//! claims count the same time, the first of them takes it. The remaining time is inherent if no
//! change removes it, and otherwise unexplained. If unexplained time matters, a separate claim
//! names its place.

mod beyond;
mod locate;
mod material;
mod shape;
mod spot;
mod tried;

use crate::cause::service::Service;
use crate::claim::Claim;
use crate::exchange::wait::{Owner, WaitKind};
use crate::facts::Hosts;
use crate::observed::flow::Endpoint;
use crate::registry::Id;
use crate::report::{Account, Booking, ClaimedTime, Location, Unit};
use crate::service::{Shares, TimePlace};
use crate::stats::Merge;

pub(super) use locate::{locate, owed_unknown, resolution, unknown};
pub(super) use material::{NOTICED, NOTICED_SHARE};
pub(super) use tried::tried;

/// The booking of the time for which a connection waited for an attempt at another address. It
/// includes the attempt's SYNs and the client's timeout after the last SYN.
const FALLBACK: (WaitKind, Owner) = (WaitKind::Recovery, Owner::Path);

/// A service with its account.
pub(super) struct Booked<'a> {
    pub(super) at: Endpoint,
    pub(super) service: &'a Service,
    /// Number of requests that each exchange of the ledger represents. It is more than 1 if the
    /// exchanges are a sample.
    pub(super) weight: f64,
    pub(super) account: Account,
}

impl<'a> Booked<'a> {
    /// Books the time of `service`, all of it unclaimed. `elsewhere` is left out: the time of
    /// attempts that connections to another service waited for, in nanoseconds. The other service
    /// books it.
    pub(super) fn new(
        endpoint: Endpoint,
        service: &'a Service,
        weight: f64,
        elsewhere: u64,
        hosts: &Hosts,
    ) -> Self {
        let ledger = &service.ledger;
        let mut setups = ledger.setups.waits.clone();
        setups.merge(ledger.shares.secured.clone());
        setups.merge(ledger.shares.resolving.clone());
        setups.take_off(FALLBACK, elsewhere);
        let (waited, _) = service.rules.ipv6_fallback.waited(hosts);
        if waited > 0 {
            setups.count(FALLBACK, waited);
        }
        let scaled = |count: u64| (count as f64 * weight).round() as u64;
        let account = Account {
            service: endpoint.to_string(),
            requests: scaled(ledger.latency.all.count()),
            connections: scaled(ledger.setups.count),
            exchanges: bookings(&ledger.shares.exchanges, weight),
            setups: bookings(&setups, weight),
        };
        Self {
            at: endpoint,
            service,
            weight,
            account,
        }
    }

    /// Returns the sum of the bookings, in nanoseconds. If timestamps are centuries apart, the sum
    /// exceeds 64 bits.
    pub(super) fn total(&self) -> u128 {
        let booked = self.bookings().map(|booking| u128::from(booking.booked_ns));
        booked.sum()
    }

    pub(super) fn bookings(&self) -> impl Iterator<Item = &Booking> {
        self.account.exchanges.iter().chain(&self.account.setups)
    }

    /// Lets the claims of this service take their cost one after the other, and returns the time
    /// that each took.
    fn allocate(&mut self, claims: &[Claim]) -> Vec<u64> {
        let taken = claims.iter().map(|claim| {
            if claim.at == self.at && is_booked(claim) {
                self.take_for(claim)
            } else {
                0
            }
        });
        let taken = taken.collect();
        self.set_inherent_aside();
        taken
    }

    /// Takes the cost of `claim` from the bookings, and returns the taken time. The waits that
    /// the claim lengthens are taken first, then related waits, because one delay may appear as
    /// several kinds of wait.
    fn take_for(&mut self, claim: &Claim) -> u64 {
        let mut want = claim.time.cost.likely;
        let mut got = 0;
        if claim.cause.cause().waits.is_empty() {
            got = self.take_setups_for(claim, &mut want);
            // A connection's setup may be claimed already, for example by a slow TLS handshake. The
            // claim on the number of connections must not claim the requests' time instead.
            if claim.time.cost.likely == 0 || claim.cause == Id::ConnectionNotReused {
                return got;
            }
        }
        let account = &mut self.account;
        let exchanges = &mut account.exchanges;
        let lengthened = |booking: &Booking| claim.time.waits.contains(&booking.kind);
        got += take(exchanges, claim, &mut want, lengthened);
        // Lost SYNs that were merged into a claim on losses have their time here.
        let is_before = |b: &Booking| lengthened(b) && b.owner == claim.culprit;
        got += take(&mut account.setups, claim, &mut want, is_before);
        let place = TimePlace::of(WaitKind::Unknown, claim.culprit);
        let is_near = |booking: &Booking| TimePlace::of(booking.kind, booking.owner) == place;
        got += take(exchanges, claim, &mut want, is_near);
        let is_unknown = |booking: &Booking| booking.owner == Owner::Unknown;
        got += take(exchanges, claim, &mut want, is_unknown);
        got += take(&mut account.setups, claim, &mut want, |_| true);
        got + take(exchanges, claim, &mut want, |_| true)
    }

    /// Takes the cost of a claim whose time lies before the exchanges.
    fn take_setups_for(&mut self, claim: &Claim, want: &mut u64) -> u64 {
        let account = &mut self.account;
        // All time of a failed attempt is lost, although the claim costs no request any time.
        if claim.time.cost.likely == 0 && claim.affected.exchanges > 0 {
            *want = u64::MAX;
        }
        // A handshake's round trip is inherent, so the other waits are taken first.
        let is_own = |b: &Booking| b.owner == claim.culprit && b.kind != WaitKind::Connect;
        let mut got = take(&mut account.setups, claim, want, is_own);
        // These waits include the time of a consequence that was merged into the claim.
        if claim.time.cost.likely > 0 {
            let merged = |booking: &Booking| claim.time.waits.contains(&booking.kind);
            got += take(&mut account.exchanges, claim, want, merged);
        }
        got + take(&mut account.setups, claim, want, |_| true)
    }

    /// Moves the time that no change removes from unclaimed to inherent.
    fn set_inherent_aside(&mut self) {
        let trips = self.least_trips();
        let handshakes = self
            .scaled(self.service.ledger.setups.latency.count())
            .saturating_mul(nanos(self.service.ledger.trips.handshake));
        let mut slow_start = self.scaled(nanos(Some(self.service.ledger.slow_start)));
        for booking in &mut self.account.exchanges {
            let inherent = match booking.kind {
                WaitKind::RequestTransfer
                | WaitKind::ResponseTransfer
                | WaitKind::BetweenMessages => u64::MAX,
                WaitKind::RoundTrip => trips,
                WaitKind::CongestionWindow | WaitKind::WindowFull => slow_start,
                _ => 0,
            };
            let set = set_aside(booking, inherent);
            if matches!(
                booking.kind,
                WaitKind::CongestionWindow | WaitKind::WindowFull
            ) {
                slow_start -= set;
            }
        }
        for booking in &mut self.account.setups {
            let inherent = match booking.kind {
                WaitKind::RequestTransfer | WaitKind::ResponseTransfer | WaitKind::RoundTrip => {
                    u64::MAX
                }
                WaitKind::Connect => handshakes,
                _ => 0,
            };
            set_aside(booking, inherent);
        }
        self.doubt_trips();
    }

    /// Removes the owner of time that may be the server's. Without a handshake, the exchanges alone
    /// do not bound the round trip. The time beyond the FINs' round trip may be the path's, or that
    /// of a server that is equally slow each time.
    fn doubt_trips(&mut self) {
        let ledger = &self.service.ledger;
        let of_exchange = ledger.places.of(TimePlace::Path).min();
        let (None, Some(fin_trip), Some(least)) =
            (ledger.trips.handshake, ledger.trips.fin, of_exchange)
        else {
            return;
        };
        if self.service.rules.gathered.trips.are_on_way(fin_trip) {
            return;
        }
        let count = self.scaled(ledger.latency.all.count());
        let doubtful = count.saturating_mul(nanos(Some(least.saturating_sub(fin_trip))));
        let exchanges = &mut self.account.exchanges;
        let is_trip = |b: &Booking| (b.kind, b.owner) == (WaitKind::RoundTrip, Owner::Path);
        if let Some(at) = exchanges.iter().position(is_trip) {
            let doubted = exchanges
                .get_mut(at)
                .and_then(|trips| take_out(trips, doubtful));
            exchanges.splice(at + 1..at + 1, doubted);
        }
    }

    /// Returns the minimum time that all exchanges spent on the path: one round trip for each.
    fn least_trips(&self) -> u64 {
        let ledger = &self.service.ledger;
        self.scaled(ledger.latency.all.count())
            .saturating_mul(nanos(material::least_trip(ledger)))
    }

    fn scaled(&self, count: u64) -> u64 {
        (count as f64 * self.weight).round() as u64
    }
}

fn nanos(duration: Option<core::time::Duration>) -> u64 {
    crate::observed::time::nanos(duration.unwrap_or_default())
}

fn bookings(shares: &Shares, weight: f64) -> Vec<Booking> {
    let booking = |((kind, owner), time): ((WaitKind, Owner), u64)| {
        let booked_ns = (time as f64 * weight).round() as u64;
        // Without scaling, the exact integer is kept; a float would round it.
        let booked_ns = if weight == 1.0 { time } else { booked_ns };
        Booking {
            kind,
            owner,
            booked_ns,
            inherent_ns: 0,
            claimed_ns: 0,
            unclaimed_ns: booked_ns,
            claims: Vec::new(),
        }
    };
    shares.sorted().into_iter().map(booking).collect()
}

/// Takes up to `want` of the unclaimed time from the bookings that `is_meant` selects, and returns
/// the taken time.
fn take(
    bookings: &mut [Booking],
    claim: &Claim,
    want: &mut u64,
    is_meant: impl Fn(&Booking) -> bool,
) -> u64 {
    let mut got = 0_u64;
    for booking in bookings.iter_mut().filter(|booking| is_meant(booking)) {
        let claimed_ns = booking.unclaimed_ns.min(*want);
        if claimed_ns == 0 {
            continue;
        }
        *want -= claimed_ns;
        got = got.saturating_add(claimed_ns);
        booking.unclaimed_ns -= claimed_ns;
        booking.claimed_ns += claimed_ns;
        booking.claims.push(ClaimedTime {
            cause: claim.cause,
            claimed_ns,
        });
    }
    got
}

/// Moves up to `at_most` of unclaimed time out of a booking into a new booking without an owner.
fn take_out(booking: &mut Booking, at_most: u64) -> Option<Booking> {
    let parted = booking.unclaimed_ns.min(at_most);
    booking.booked_ns -= parted;
    booking.unclaimed_ns -= parted;
    (parted > 0).then(|| Booking {
        kind: booking.kind,
        owner: Owner::Unknown,
        booked_ns: parted,
        inherent_ns: 0,
        claimed_ns: 0,
        unclaimed_ns: parted,
        claims: Vec::new(),
    })
}

fn set_aside(booking: &mut Booking, at_most: u64) -> u64 {
    let inherent = booking.unclaimed_ns.min(at_most);
    booking.inherent_ns += inherent;
    booking.unclaimed_ns -= inherent;
    inherent
}

/// Returns the sum of `of` over the bookings, in nanoseconds.
pub(super) fn sum<'a>(
    bookings: impl Iterator<Item = &'a Booking>,
    of: impl Fn(&Booking) -> u64,
) -> u64 {
    bookings.fold(0, |sum, booking| sum.saturating_add(of(booking)))
}

/// Lets all claims take their time. Records for each claim the place of its time and the
/// certainty of this place.
pub(super) fn settle(
    booked: &mut [Booked<'_>],
    claims: &mut [Claim],
    certainty: impl Fn(&Claim) -> (crate::report::Verdict, String),
) {
    let whole = whole(booked);
    let mut taken = vec![0_u64; claims.len()];
    for service in booked.iter_mut() {
        for (sum, got) in taken.iter_mut().zip(service.allocate(claims)) {
            *sum = sum.saturating_add(got);
        }
    }
    for (claim, claimed_ns) in claims.iter_mut().zip(taken) {
        let (sure, because) = certainty(claim);
        claim.location = Some(Location {
            certainty: sure,
            because,
            claimed_ns,
            share: claimed_ns as f64 / whole.max(1) as f64,
            shape: None,
        });
    }
}

/// Returns the weight of a claim in the ranking: the time that it takes or, if the account does
/// not book its time, its cost.
pub(super) fn weight(claim: &Claim, booked: &[Booked<'_>]) -> u64 {
    let has_account = booked.iter().any(|service| service.at == claim.at);
    match &claim.location {
        Some(location) if has_account && is_booked(claim) => location.claimed_ns,
        _ => claim.time.cost.likely,
    }
}

/// Returns true if the account books the time of `claim`. The account books exchanges and the
/// time before them, but neither transfers nor the time between exchanges.
fn is_booked(claim: &Claim) -> bool {
    claim.unit != Unit::Transfers && !claim.cause.cause().is_between_exchanges
}

/// Returns true if `claim` takes most of the time of its service's exchanges.
pub(super) fn claims_most(claim: &Claim, booked: &[Booked<'_>]) -> bool {
    let of_service = booked.iter().filter(|service| service.at == claim.at);
    let exchanges = of_service.flat_map(|service| &service.account.exchanges);
    let (mut claimed, mut whole) = (0_u128, 0_u128);
    for booking in exchanges {
        let claims = booking.claims.iter().filter(|c| c.cause == claim.cause);
        claimed += claims.map(|c| u128::from(c.claimed_ns)).sum::<u128>();
        whole += u128::from(booking.booked_ns);
    }
    claimed * 2 > whole
}

/// Returns the booked time of all services, in nanoseconds.
pub(super) fn whole(booked: &[Booked<'_>]) -> u128 {
    booked.iter().map(Booked::total).sum()
}
