//! Findings that say where time is that no cause explains.

use core::time::Duration;

use super::shape::{self, shape};
use super::{Booked, sum};
use crate::cause::candidates;
use crate::cause::evidence::{self, MATERIAL_SHARE, MATERIAL_TIME, REPEATS, human, percent};
use crate::cause::tally::nanos;
use crate::cause::{Case, Id};
use crate::conclude::layers::LONG_LOOKUP;
use crate::report::{
    Affected, Booking, Evidence, EvidenceKind, Finding, Fix, Location, Shape, Verdict,
};
use crate::service::{Ledger, Place};
use crate::wait::{Owner, WaitKind};

/// The mean time, weighted by itself, from which on unclaimed time matters although most
/// requests have none of it: whoever comes at any instant meets waits of this length.
const STALL: Duration = Duration::from_millis(10);
/// The part of a place's time below which what is left over belongs to its findings.
const REST: f64 = 0.1;

/// The part of the time of all services below which a place is lost among them.
const OF_ALL: f64 = 0.01;

/// A part of the account that one finding locates.
struct Spot {
    id: Id,
    culprit: Owner,
    /// The place within exchanges; `None` for what comes before them.
    place: Option<Place>,
}

const SPOTS: [Spot; 6] = [
    Spot {
        id: Id::TimeInServer,
        culprit: Owner::Server,
        place: Some(Place::Server),
    },
    Spot {
        id: Id::TimeInClient,
        culprit: Owner::Client,
        place: Some(Place::Client),
    },
    Spot {
        id: Id::TimeOnPath,
        culprit: Owner::Path,
        place: Some(Place::Path),
    },
    Spot {
        id: Id::TimeUnknown,
        culprit: Owner::Unknown,
        place: Some(Place::Unknown),
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
    fn bookings<'a>(&self, booked: &'a Booked<'_>) -> Vec<&'a Booking> {
        let is_lookup = |booking: &&Booking| booking.kind == WaitKind::Resolve;
        let account = &booked.account;
        match (self.place, self.culprit) {
            (Some(place), _) => {
                let bookings = account.exchanges.iter();
                bookings
                    .filter(|b| Place::of(b.kind, b.owner) == place)
                    .collect()
            }
            (None, Owner::Resolver) => account.setups.iter().filter(is_lookup).collect(),
            (None, _) => account.setups.iter().filter(|b| !is_lookup(b)).collect(),
        }
    }

    /// The owner of the time; while connections are made, the owner of most of it.
    fn culprit(&self, bookings: &[&Booking]) -> Owner {
        let most = bookings.iter().max_by_key(|booking| booking.unclaimed_ns);
        match self.place {
            Some(_) => self.culprit,
            None => most.map_or(self.culprit, |booking| booking.owner),
        }
    }

    /// The number of requests, or connections, that share the time.
    fn count(&self, ledger: &Ledger) -> u64 {
        match self.place {
            Some(_) => ledger.latency.count(),
            None => ledger.setups.count,
        }
    }
}

/// The finding for each place of a service whose unclaimed time matters, of `whole`
/// nanoseconds in all services.
pub(crate) fn locate(
    case: &Case<'_>,
    booked: &Booked<'_>,
    whole: u128,
    certainty: impl Fn(&Finding) -> (Verdict, String),
) -> Vec<Finding> {
    let is_seen = |spot: &&Spot| {
        let unclaimed = sum(spot.bookings(booked).into_iter(), |b| b.unclaimed_ns);
        unclaimed as f64 >= whole as f64 * OF_ALL
    };
    let material = SPOTS.iter().filter(is_seen);
    let material = material.filter(|spot| is_material(spot, booked));
    let located = material.map(|spot| {
        let mut finding = finding(spot, case, booked, whole);
        let (certainty, because) = certainty(&finding);
        if let Some(location) = finding.location.as_mut()
            && finding.culprit != Owner::Unknown
        {
            (location.certainty, location.because) = (certainty, because);
        }
        finding
    });
    located.collect()
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
fn is_tail(
    ledger: &Ledger,
    times: &crate::histogram::Distribution,
    least: Duration,
    unclaimed: f64,
) -> bool {
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
fn weighted(times: &crate::histogram::Distribution, least: Duration) -> Duration {
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

/// A finding for time whose place is not known, without any figure yet.
pub(crate) fn unknown(case: &Case<'_>) -> Finding {
    let mut finding = evidence::bare_finding(Id::TimeUnknown, Owner::Unknown, case);
    "Something changed the latency, and no finding says what".clone_into(&mut finding.title);
    finding.summary = format!(
        "An experiment changed how long requests to {} take, and no finding explains it.",
        case.endpoint
    );
    finding
}

/// The finding for a name of the run that took long to resolve: once for each process that
/// connects, in no request's latency.
pub(crate) fn resolution(case: &Case<'_>) -> Option<Finding> {
    let mut resolutions = case.facts.resolutions.iter();
    let slow = resolutions.find(|one| one.failure.is_none() && one.took >= LONG_LOOKUP)?;
    let mut finding = evidence::bare_finding(Id::TimeInResolver, Owner::Resolver, case);
    finding.summary = format!(
        "{} took {} to resolve, by this host's own resolver. Whoever has not got it in a cache \
         waits as long before the first request.",
        slow.name,
        human(slow.took)
    );
    let text = format!("getaddrinfo() took {}", human(slow.took));
    finding
        .evidence
        .push(Evidence::circumstance(EvidenceKind::OwnSocket, text));
    finding.location = Some(Location {
        certainty: Verdict::Strong,
        because: "the resolution was timed".to_owned(),
        claimed_ns: 0,
        share: 0.0,
        shape: None,
    });
    finding.next = vec![evidence::fix(
        "client",
        format!(
            "`dig +stats {}` at each resolver of /etc/resolv.conf, several times",
            slow.name
        ),
    )];
    Some(finding)
}

fn finding(spot: &Spot, case: &Case<'_>, booked: &Booked<'_>, whole: u128) -> Finding {
    let ledger = &booked.service.ledger;
    let bookings = spot.bookings(booked);
    let unclaimed = sum(bookings.iter().copied(), |b| b.unclaimed_ns);
    let count = booked.scaled(spot.count(ledger)).max(1);
    let mean = Duration::from_nanos(unclaimed / count);
    let shape = spot.place.and_then(|place| shape(case, ledger, place));
    let share = unclaimed as f64 / whole.max(1) as f64;
    let mut finding = evidence::bare_finding(spot.id, spot.culprit(&bookings), case);
    finding.waits = kinds(&bookings);
    finding.cost_ns = unclaimed;
    finding.cost_high_ns = unclaimed;
    finding.share = share.min(1.0);
    finding.affected = affected(spot, booked, count);
    finding.location = Some(Location {
        certainty: Verdict::Possible,
        because: "no witness tells the place".to_owned(),
        claimed_ns: unclaimed,
        share,
        shape,
    });
    finding.summary = summary(spot, case, mean, share, shape);
    finding.evidence.push(inside(case, &bookings, count));
    finding.evidence.extend(elsewhere(case, booked, spot));
    if spot.place == Some(Place::Server) && case.has_packets {
        finding.candidates = candidates::of_server(case);
    }
    if spot.place.is_some() {
        finding.exemplars = ledger.slowest.exemplars();
    }
    finding.next = next(spot, case);
    finding
}

fn affected(spot: &Spot, booked: &Booked<'_>, count: u64) -> Affected {
    let ledger = &booked.service.ledger;
    let times = spot.place.map(|place| ledger.places.of(place).count());
    Affected {
        exchanges: times.map_or(count, |with| booked.scaled(with)),
        of: count,
    }
}

/// The kinds of wait with unclaimed time, most first.
fn kinds(bookings: &[&Booking]) -> Vec<WaitKind> {
    let mut list: Vec<_> = bookings.iter().filter(|b| b.unclaimed_ns > 0).collect();
    list.sort_by_key(|b| (core::cmp::Reverse(b.unclaimed_ns), b.kind));
    let mut kinds = Vec::new();
    for booking in list {
        if !kinds.contains(&booking.kind) {
            kinds.push(booking.kind);
        }
    }
    kinds
}

fn summary(
    spot: &Spot,
    case: &Case<'_>,
    mean: Duration,
    share: f64,
    shape: Option<Shape>,
) -> String {
    let each = match spot.place {
        Some(_) => "request",
        None => "connection",
    };
    let place = match (spot.place, spot.culprit) {
        (Some(Place::Server), _) => "with the server",
        (Some(Place::Client), _) => "with the client",
        (Some(Place::Path), _) => "on the way between client and server",
        (Some(Place::Unknown), _) => "where these observations do not tell",
        (None, Owner::Resolver) => "with the resolver",
        (None, _) => "before the first request, while connections were made",
    };
    let how = shape.map(shape::words).unwrap_or_default();
    format!(
        "{} of each {each} to {} (mean), {} of all time, passed {place}{how}. No rule says why; \
         it may be work that has to be done.",
        human(mean),
        case.endpoint,
        percent(share),
    )
}

/// The waits that make up the time of the place.
fn inside(case: &Case<'_>, bookings: &[&Booking], count: u64) -> Evidence {
    let mut list: Vec<_> = bookings.iter().filter(|b| b.unclaimed_ns > 0).collect();
    list.sort_by_key(|b| (core::cmp::Reverse(b.unclaimed_ns), b.kind));
    let parts: Vec<String> = list
        .iter()
        .map(|booking| {
            let mean = Duration::from_nanos(booking.unclaimed_ns / count.max(1));
            format!("{} {}", human(mean), booking.kind.in_words())
        })
        .collect();
    let kind = if case.has_packets {
        EvidenceKind::Wire
    } else {
        EvidenceKind::OwnSocket
    };
    Evidence::circumstance(kind, parts.join(", ")).count(count)
}

/// The most time that each of the other places can have had.
fn elsewhere(case: &Case<'_>, booked: &Booked<'_>, spot: &Spot) -> Option<Evidence> {
    spot.place?;
    let ledger = &booked.service.ledger;
    let count = booked.scaled(ledger.latency.count()).max(1);
    let others = SPOTS
        .iter()
        .filter(|other| other.place.is_some() && other.id != spot.id);
    let parts = others.filter_map(|other| {
        let all = sum(other.bookings(booked).into_iter(), |b| b.booked_ns);
        let name = match other.place {
            Some(Place::Server) => "the server",
            Some(Place::Client) => "the client",
            Some(Place::Path) => "the path",
            _ => "no known place",
        };
        let mean = Duration::from_nanos(all / count);
        (all > 0).then(|| format!("{name} {}", human(mean)))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return None;
    }
    let kind = if case.has_packets {
        EvidenceKind::Wire
    } else {
        EvidenceKind::OwnSocket
    };
    let text = format!(
        "elsewhere, of each request on average: {}",
        parts.join(", ")
    );
    Some(Evidence::circumstance(kind, text))
}

/// The next measurement that would tell more.
fn next(spot: &Spot, case: &Case<'_>) -> Vec<Fix> {
    let (address, port) = (case.endpoint, case.endpoint.port);
    let command = |place: &str, command: String| evidence::fix(place, command);
    match (spot.place, spot.culprit) {
        (Some(Place::Server), _) if case.facts.turns.tally.is_some() => vec![command(
            "server",
            "`perf record -g -p PID`, the program's own trace, its log of queries and upstream calls"
                .to_owned(),
        )],
        (Some(Place::Server), _) => {
            vec![command("server", format!("`sudo lagtrace watch -p {port} -d 30s`"))]
        }
        (Some(Place::Client), _) => vec![command(
            "client",
            format!("`sudo lagtrace capture -i any -d 30s tcp port {port}` and a trace of the program's calls"),
        )],
        (Some(Place::Path), _) => vec![command(
            "client",
            format!("`sudo lagtrace route {address} -c 100`"),
        )],
        (None, Owner::Resolver) => vec![command(
            "client",
            "`dig +stats NAME @RESOLVER`, repeated; the resolver's own log".to_owned(),
        )],
        (None, _) => vec![command("client", format!("`sudo lagtrace probe {address} -c 100`"))],
        (Some(Place::Unknown), _) => vec![command(
            "both ends",
            format!("`sudo lagtrace capture -i any -w END.pcap tcp port {port}` at each end, then `lagtrace analyze client.pcap server.pcap`"),
        )],
    }
}
