//! Materiality of unclaimed time.

use core::time::Duration;

use super::spot::Spot;
use super::{Booked, sum};
use crate::cause::evidence::{MATERIAL_SHARE, MATERIAL_TIME, REPEATS};
use crate::cause::tally::nanos;
use crate::histogram::Distribution;
use crate::service::{Ledger, Place};

/// The mean time, weighted by itself, from which on unclaimed time matters although most
/// requests have none of it: whoever comes at any instant meets waits of this length.
const STALL: Duration = Duration::from_millis(10);
/// The part of a place's time below which what is left over belongs to its findings.
const REST: f64 = 0.1;
/// The part of the time of all services below which a place is lost among them.
const OF_ALL: f64 = 0.01;

/// Returns true if the unclaimed time of this place is to be told, beside `whole`
/// nanoseconds of all services.
pub(super) fn is_told(spot: &Spot, booked: &Booked<'_>, whole: u128) -> bool {
    let unclaimed = sum(spot.bookings(booked).into_iter(), |b| b.unclaimed_ns);
    unclaimed as f64 >= whole as f64 * OF_ALL && is_material(spot, booked)
}

/// Returns true if what nobody claims of this place would better the mean, the tail or
/// the waits that a request meets at any instant by a material share and time.
fn is_material(spot: &Spot, booked: &Booked<'_>) -> bool {
    let ledger = &booked.service.ledger;
    let bookings = spot.bookings(booked);
    let unclaimed = sum(bookings.iter().copied(), |b| b.unclaimed_ns) as f64;
    let all = sum(bookings.iter().copied(), |b| b.booked_ns) as f64;
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
    // Of what findings claim most, the rest is their inaccuracy.
    if unclaimed < all * REST {
        return false;
    }
    let times = ledger.places.of(place);
    let least = match place {
        Place::Path => least_trip(ledger).unwrap_or_default(),
        _ => Duration::ZERO,
    };
    if is_much && weighted(times, least) >= STALL {
        return true;
    }
    is_tail(ledger, times, least, unclaimed / all.max(1.0))
}

/// Returns true if the 99th percentile would fall by a material share and time without
/// the `unclaimed` part of these `times`, in enough requests to speak of one.
fn is_tail(ledger: &Ledger, times: &Distribution, least: Duration, unclaimed: f64) -> bool {
    let count = ledger.latency.count();
    if count < REPEATS * 100 {
        return false;
    }
    let p99 = ledger.latency.quantile(0.99).unwrap_or_default();
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

/// The mean of the times beyond `least`, each weighted by its own length.
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

/// The least round trip between the ends: of a handshake, else of an exchange.
pub(super) fn least_trip(ledger: &Ledger) -> Option<Duration> {
    let of_exchange = || ledger.places.of(Place::Path).min();
    ledger.round_trip.or_else(of_exchange)
}
