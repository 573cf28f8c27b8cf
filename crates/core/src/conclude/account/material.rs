//! Thresholds above which unclaimed time matters.

use core::time::Duration;

use super::spot::Spot;
use super::{Booked, sum};
use crate::cause::evidence::{MATERIAL_SHARE, MATERIAL_TIME, REPEATS};
use crate::exchange::wait::WaitKind;
use crate::observed::time::nanos;
use crate::service::{Ledger, TimePlace};
use crate::stats::histogram::Distribution;

/// Minimum length of rare waits that matter although most requests have none. It is compared with
/// the mean of the waits weighted by length, which is the wait that a request at a random instant
/// meets.
const STALL: Duration = Duration::from_millis(10);
/// Minimum unclaimed share of a place's avoidable time. A smaller share is taken as inaccuracy of
/// the claims.
const REST: f64 = 0.1;
/// A place is reported only if its unclaimed time is at least this share of the time of all
/// services.
const OF_ALL: f64 = 0.01;
/// Below this mean time, and below this share of the time of its service, unexplained time is no
/// claim, but a remark.
pub(in crate::conclude) const NOTICED: Duration = Duration::from_millis(10);
pub(in crate::conclude) const NOTICED_SHARE: f64 = 1.0 / 3.0;

/// Returns true if the unclaimed time of this place is to be reported. `whole` is the time of all
/// services in nanoseconds.
pub(super) fn is_told(spot: &Spot, booked: &Booked<'_>, whole: u128) -> bool {
    let unclaimed = sum(spot.bookings(booked).into_iter(), |b| b.unclaimed_ns);
    unclaimed as f64 >= whole as f64 * OF_ALL
        && is_material(spot, booked)
        && is_noticed(spot, booked, unclaimed)
}

/// Returns true if a user notices the unclaimed time of this place: it is long, much, or a wait
/// that requests meet at times is long. A server's own work is much of the time wherever the path is
/// short, so only its length counts.
fn is_noticed(spot: &Spot, booked: &Booked<'_>, unclaimed: u64) -> bool {
    let ledger = &booked.service.ledger;
    let count = booked.scaled(spot.count(ledger)).max(1);
    let is_stall = |place| weighted(ledger.places.of(place), least(spot, booked)) >= STALL;
    unclaimed / count >= nanos(NOTICED)
        || (spot.place != Some(TimePlace::Server)
            && unclaimed as f64 >= booked.total() as f64 * NOTICED_SHARE)
        || spot.place.is_some_and(is_stall)
}

/// Returns true if the unclaimed time of this place matters: without it, the mean, the 99th
/// percentile, or the wait at a random instant would improve by a material share and time.
fn is_material(spot: &Spot, booked: &Booked<'_>) -> bool {
    let ledger = &booked.service.ledger;
    let bookings = spot.bookings(booked);
    let unclaimed = sum(bookings.iter().copied(), |b| b.unclaimed_ns) as f64;
    let claimed = sum(bookings.iter().copied(), |b| b.claimed_ns) as f64;
    let total = booked.total().max(1) as f64;
    let count = booked.scaled(spot.count(ledger)).max(1) as f64;
    let is_long = unclaimed / count >= nanos(MATERIAL_TIME) as f64;
    let is_much = unclaimed >= total * MATERIAL_SHARE;
    if is_much && is_long {
        return true;
    }
    let Some(place) = spot.place else {
        return false;
    };
    // If claims take nearly all of the time, the rest is their inaccuracy.
    if unclaimed < (claimed + unclaimed) * REST {
        return false;
    }
    let times = ledger.places.of(place);
    let least = least(spot, booked);
    if is_much && weighted(times, least) >= STALL {
        return true;
    }
    let all = sum(bookings.iter().copied(), |b| b.booked_ns) as f64;
    is_tail(ledger, times, least, unclaimed / all.max(1.0))
}

/// Returns the mean time of a request at this place that is inherent. In a capture at the server,
/// most of each round trip is outside the exchanges. Only the part within the exchanges is inherent
/// here.
fn least(spot: &Spot, booked: &Booked<'_>) -> Duration {
    if spot.place != Some(TimePlace::Path) {
        return Duration::ZERO;
    }
    let bookings = spot.bookings(booked).into_iter();
    let trips = bookings.filter(|b| b.kind == WaitKind::RoundTrip);
    let count = booked.scaled(spot.count(&booked.service.ledger)).max(1);
    Duration::from_nanos(sum(trips, |b| b.inherent_ns) / count)
}

/// Returns true if the `unclaimed` part (0 to 1) of `times` matters to the tail: without it, the
/// 99th percentile of the latency would fall by a material share and time. At least `REPEATS` × 100
/// requests are needed for a tail.
fn is_tail(ledger: &Ledger, times: &Distribution, least: Duration, unclaimed: f64) -> bool {
    let count = ledger.latency.all.count();
    if count < REPEATS * 100 {
        return false;
    }
    let p99 = ledger.latency.all.quantile(0.99).unwrap_or_default();
    let rank = 1.0 - (count as f64 * 0.01) / times.count().max(1) as f64;
    if rank <= 0.0 {
        return false;
    }
    let tail = times.quantile(rank).unwrap_or_default();
    let gain = tail
        .saturating_sub(least)
        .mul_f64(unclaimed.clamp(0.0, 1.0));
    gain >= MATERIAL_TIME && gain.as_secs_f64() >= p99.as_secs_f64() * MATERIAL_SHARE
}

/// Returns the mean of the times beyond `least`, weighted by their length.
fn weighted(times: &Distribution, least: Duration) -> Duration {
    let least = nanos(least);
    let (mut sum, mut squares) = (0.0, 0.0);
    for (time, count) in times.buckets() {
        let beyond = time.saturating_sub(least) as f64;
        sum += beyond * count as f64;
        squares += beyond * beyond * count as f64;
    }
    if sum > 0.0 {
        Duration::from_nanos((squares / sum) as u64)
    } else {
        Duration::ZERO
    }
}

/// Returns the minimum round-trip time between the ends: from the handshakes or, without one, from
/// the exchanges and the FINs.
pub(super) fn least_trip(ledger: &Ledger) -> Option<Duration> {
    let of_exchange = ledger.places.of(TimePlace::Path).min();
    let least = || of_exchange.into_iter().chain(ledger.trips.fin).min();
    ledger.trips.handshake.or_else(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::service::Service;
    use crate::conclude::account::spot::SPOTS;
    use crate::exchange::wait::Owner;
    use crate::facts::Hosts;
    use crate::observed::flow::Endpoint;

    /// Returns true if time on the path is reported for 36 requests captured at the server, 25 ms
    /// away from the client. One request stalls for `stop`, six wait for `slow_start`, and the
    /// server takes `thinking` in total to answer.
    fn is_told_of(stop: u64, slow_start: u64, thinking: u64) -> bool {
        let mut service = Service::default();
        let ledger = &mut service.ledger;
        let ms = Duration::from_millis;
        for request in 0..36 {
            let start = if request < 6 { slow_start } else { 0 };
            ledger.latency.all.record(ms(start + 1));
            ledger
                .places
                .note(TimePlace::Path, Duration::from_micros(7));
        }
        ledger.places.note(TimePlace::Path, ms(stop));
        ledger.trips.handshake = Some(ms(25));
        ledger.slow_start = ms(6 * slow_start);
        let mut book =
            |kind, owner, ms: u64| ledger.shares.exchanges.count((kind, owner), ms * 1_000_000);
        book(WaitKind::CongestionWindow, Owner::Server, 6 * slow_start);
        book(WaitKind::Recovery, Owner::Path, stop);
        book(WaitKind::ServerThink, Owner::Server, thinking);
        let server = Endpoint::new([10, 0, 0, 2].into(), 80);
        let mut booked = Booked::new(server, &service, 1.0, 0, &Hosts::default());
        booked.allocate(&[]);
        let [_, _, on_path, ..] = &SPOTS;
        is_told(on_path, &booked, booked.total())
    }

    #[test]
    fn beside_the_server_a_stop_is_held_against_what_the_exchanges_hold_of_the_path() {
        assert!(is_told_of(24, 49, 3));
        assert!(is_told_of(24, 0, 3), "without a slow start");
        assert!(!is_told_of(8, 0, 3), "too short to be met");
        assert!(!is_told_of(24, 49, 300), "too small a part");
        assert!(!is_told_of(0, 49, 3), "slow start alone");
    }
}
