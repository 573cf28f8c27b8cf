//! Claims that name only the place of time that no cause explains.

use core::time::Duration;

use super::beyond::Beyond;
use super::material::is_told;
use super::shape::{self, shape};
use super::spot::{SPOTS, Spot};
use super::{Booked, sum};
use crate::cause::Case;
use crate::cause::candidates;
use crate::cause::evidence::{self, human, percent};
use crate::cause::served;
use crate::claim::{Advice, Claim, Statement};
use crate::conclude::lookups::LONG_LOOKUP;
use crate::exchange::wait::{Owner, WaitKind};
use crate::registry::Id;
use crate::report::{Affected, Booking, EvidenceKind, Location, Remark, Shape, Verdict};
use crate::service::TimePlace;

/// Returns a claim for each place of a service whose unclaimed time matters. `whole` is the time
/// of all services in nanoseconds. `claims` are the other claims; the time outside exchanges
/// that they claim is left out.
pub(crate) fn locate(
    case: &Case<'_>,
    booked: &Booked<'_>,
    whole: u128,
    claims: &[Claim],
    certainty: impl Fn(&Claim) -> (Verdict, String),
) -> Vec<Claim> {
    let beyond = Beyond::all(case, claims);
    let beyond = |spot: &Spot| beyond.iter().find(|beyond| beyond.is_in(spot.place));
    let material = SPOTS.iter().filter(|spot| {
        beyond(spot).is_some()
            || is_told(spot, booked, whole)
                && !lacks_processor(spot, case, booked)
                && !is_work(spot, case)
                && !is_unowed(spot, booked)
    });
    let located = material.map(|spot| {
        let mut claim = claim(spot, case, booked, whole, beyond(spot));
        let (certainty, because) = certainty(&claim);
        if let Some(location) = claim.location.as_mut()
            && claim.culprit != Owner::Unknown
        {
            (location.certainty, location.because) = (certainty, because);
        }
        claim
    });
    located.collect()
}

/// Returns true if most of the unclaimed time at a server was a wait for a processor that others
/// used, so that its reason is known.
fn lacks_processor(spot: &Spot, case: &Case<'_>, booked: &Booked<'_>) -> bool {
    let unclaimed = sum(spot.bookings(booked).into_iter(), |b| b.unclaimed_ns);
    let count = booked.scaled(spot.count(&booked.service.ledger)).max(1);
    let each = Duration::from_nanos(unclaimed / count);
    spot.place == Some(TimePlace::Server) && served::lacks_processor(case, each)
}

/// Returns true if the time at a server is work of its program, as a remark says.
fn is_work(spot: &Spot, case: &Case<'_>) -> bool {
    spot.place == Some(TimePlace::Server) && served::computes(case).is_some()
}

/// Returns true if it is not known whether anybody waited: neither end sent anything, and the
/// protocol does not show which of them owed the other an answer.
fn is_unowed(spot: &Spot, booked: &Booked<'_>) -> bool {
    spot.place == Some(TimePlace::Unknown) && booked.service.ledger.is_unread()
}

/// Returns the remark on time of which it is not known whether anybody waited for it, if it matters.
pub(crate) fn owed_unknown(booked: &Booked<'_>, whole: u128) -> Option<Remark> {
    let spots = SPOTS.iter();
    let spot = spots.into_iter().find(|spot| is_unowed(spot, booked))?;
    let silent = sum(spot.bookings(booked).into_iter(), |b| b.unclaimed_ns);
    let text = format!(
        "{}: neither end sent anything for {} in total. Its protocol is not decoded, so it is not \
         known which end owed the other an answer in this time, if any did.",
        booked.at,
        human(Duration::from_nanos(silent)),
    );
    is_told(spot, booked, whole).then(|| Remark {
        id: Remark::OWED_UNKNOWN.to_owned(),
        text,
    })
}

/// Returns a claim on time whose place is not known. Its figures are not filled in yet.
pub(crate) fn unknown(case: &Case<'_>) -> Claim {
    let mut claim = evidence::bare_claim(Id::TimeUnknown, Owner::Unknown, case);
    "The latency changed, and no finding explains why".clone_into(&mut claim.text.title);
    claim.text.summary = format!(
        "An experiment changed the latency of requests to {}, and no finding explains it.",
        case.endpoint
    );
    claim
}

/// Returns the claim on a name of the run that took long to resolve. Each process that connects
/// resolves the name once, and no request's latency includes this time.
pub(crate) fn resolution(case: &Case<'_>) -> Option<Claim> {
    let mut resolutions = case.facts.resolutions.iter();
    let slow = resolutions.find(|one| one.failure.is_none() && one.took >= LONG_LOOKUP)?;
    let mut claim = evidence::bare_claim(Id::TimeInResolver, Owner::Resolver, case);
    claim.text.summary = format!(
        "Resolving {} took {} with this host's own resolver. Clients that do not have the name in \
         a cache wait for as long before their first request.",
        slow.name,
        human(slow.took)
    );
    let text = format!("getaddrinfo() took {}", human(slow.took));
    claim
        .evidence
        .push(Statement::fits(EvidenceKind::OwnSocket, text));
    claim.location = Some(Location {
        certainty: Verdict::Strong,
        because: "the resolution was timed".to_owned(),
        claimed_ns: 0,
        share: 0.0,
        shape: None,
    });
    claim.text.next = vec![Advice::new(
        "client",
        format!(
            "`dig +stats {}` at each resolver of /etc/resolv.conf, several times",
            slow.name
        ),
    )];
    Some(claim)
}

fn claim(
    spot: &Spot,
    case: &Case<'_>,
    booked: &Booked<'_>,
    whole: u128,
    beyond: Option<&Beyond>,
) -> Claim {
    let ledger = &booked.service.ledger;
    let bookings = spot.bookings(booked);
    let unclaimed = sum(bookings.iter().copied(), |b| b.unclaimed_ns);
    let count = booked.scaled(spot.count(ledger)).max(1);
    let (late, ways) = beyond.map_or((0, 0), |beyond| (beyond.unclaimed, beyond.ways));
    let cost = unclaimed.saturating_add(late);
    let mean = Duration::from_nanos(cost / count);
    let inside = spot.place.filter(|_| beyond.is_none());
    let shape = inside.and_then(|place| shape(case, ledger, place));
    let booked_share = unclaimed as f64 / whole.max(1) as f64;
    let whole = whole + u128::from(late) + u128::from(ways);
    let share = cost as f64 / whole.max(1) as f64;
    let mut claim = evidence::bare_claim(spot.id, spot.culprit(&bookings), case);
    claim.time.waits = kinds(&bookings);
    claim.time.cost.likely = cost;
    claim.time.cost.high = cost;
    claim.time.whole_ns = u64::try_from(whole).unwrap_or(u64::MAX);
    claim.affected = affected(spot, booked, count, beyond);
    claim.location = Some(Location {
        certainty: Verdict::Possible,
        because: "no evidence shows the place".to_owned(),
        claimed_ns: unclaimed,
        // Only booked time counts here, which is time within exchanges.
        share: booked_share,
        shape,
    });
    claim.text.summary = summary(spot, case, mean, share, shape);
    claim.evidence.extend(beyond.map(Beyond::evidence));
    if unclaimed > 0 {
        claim.evidence.push(within(spot, case, &bookings, count));
    }
    claim.evidence.extend(elsewhere(case, booked, spot));
    if spot.place == Some(TimePlace::Server) && case.has_packets {
        claim.candidates = candidates::of_server(case);
    }
    if spot.place.is_some() {
        claim.exemplars = ledger.latency.slowest.exemplars();
    }
    claim.text.next = next(spot, case);
    claim
}

fn affected(spot: &Spot, booked: &Booked<'_>, count: u64, beyond: Option<&Beyond>) -> Affected {
    let ledger = &booked.service.ledger;
    let inside = spot.place.map(|place| ledger.places.of(place).count());
    let times = beyond.map(Beyond::affected).or(inside);
    Affected {
        exchanges: times.map_or(count, |with| booked.scaled(with)),
        of: count,
    }
}

/// Returns the kinds of wait with unclaimed time, sorted by that time in descending order.
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
        (Some(TimePlace::Server), _) => "in the server",
        (Some(TimePlace::Client), _) => "in the client",
        (Some(TimePlace::Path), _) => "on the path between client and server",
        (Some(TimePlace::Unknown), _) => "at an unknown place",
        (None, Owner::Resolver) => "in name resolution",
        (None, _) => "before the first request, during connection setup",
    };
    let how = shape.map(shape::words).unwrap_or_default();
    let caveat = match spot.place {
        Some(TimePlace::Server | TimePlace::Client) => "; it may be necessary work",
        _ => "",
    };
    format!(
        "On average {} of each {each} to {} ({} of all time) was spent {place}{how}. No rule \
         explains this time{caveat}.",
        human(mean),
        case.endpoint,
        percent(share),
    )
}

/// Returns the evidence that lists, for each kind of wait at `spot`, the mean time that no cause
/// explains.
fn within(spot: &Spot, case: &Case<'_>, bookings: &[&Booking], count: u64) -> Statement {
    let mut list: Vec<_> = bookings.iter().filter(|b| b.unclaimed_ns > 0).collect();
    list.sort_by_key(|b| (core::cmp::Reverse(b.unclaimed_ns), b.kind));
    let parts: Vec<String> = list
        .iter()
        .map(|booking| {
            let mean = Duration::from_nanos(booking.unclaimed_ns / count.max(1));
            format!(
                "{} {}{}",
                in_words(spot, booking.kind),
                human(mean),
                of_sender(booking)
            )
        })
        .collect();
    let text = format!("its parts, on average: {}", parts.join(", "));
    Statement::fits(case.timed_by(), text).count(count)
}

/// Returns the name of a wait. During connection setup, a program waits within a TLS handshake.
fn in_words(spot: &Spot, kind: WaitKind) -> &'static str {
    match (spot.place, kind) {
        (None, WaitKind::RequestPause) => "the client's time within the TLS handshake",
        (None, WaitKind::ServerThink | WaitKind::ServerPause) => {
            "the server's time within the TLS handshake"
        }
        _ => kind.in_words(),
    }
}

/// Returns a remark on a wait for ACKs that are on the path, if the wait belongs to its sender.
fn of_sender(booking: &Booking) -> &'static str {
    match (TimePlace::of(booking.kind, booking.owner), booking.owner) {
        (TimePlace::Path, Owner::Server) => {
            " (the server waits for ACKs that are on the path; tables by owner count this time as \
             the server's)"
        }
        (TimePlace::Path, Owner::Client) => {
            " (the client waits for ACKs that are on the path; tables by owner count this time as \
             the client's)"
        }
        _ => "",
    }
}

/// Returns the evidence that lists the maximum time that each of the other places can have taken.
fn elsewhere(case: &Case<'_>, booked: &Booked<'_>, spot: &Spot) -> Option<Statement> {
    spot.place?;
    let ledger = &booked.service.ledger;
    let count = booked.scaled(ledger.latency.all.count()).max(1);
    let others = SPOTS
        .iter()
        .filter(|other| other.place.is_some() && other.id != spot.id);
    let parts = others.filter_map(|other| {
        let all = sum(other.bookings(booked).into_iter(), |b| b.booked_ns);
        let name = match other.place {
            Some(TimePlace::Server) => "the server",
            Some(TimePlace::Client) => "the client",
            Some(TimePlace::Path) => "the path",
            _ => "no known place",
        };
        let mean = Duration::from_nanos(all / count);
        (all > 0).then(|| format!("{name} {}", human(mean)))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return None;
    }
    let text = format!("other time, on average per request: {}", parts.join(", "));
    Some(Statement::fits(case.timed_by(), text))
}

/// Returns the next measurement that narrows the place or the cause down.
fn next(spot: &Spot, case: &Case<'_>) -> Vec<Advice> {
    let (address, port) = (case.endpoint, case.endpoint.port);
    let command = |place: &str, command: String| Advice::new(place, command);
    match (spot.place, spot.culprit) {
        (Some(TimePlace::Server), _) if served::is_asleep(case) => {
            vec![command("server", served::SLEEPERS.to_owned())]
        }
        (Some(TimePlace::Server), _) if case.facts.turns.tally.is_some() => vec![command(
            "server",
            "`perf record -g -p PID`, the program's own trace, and its log of queries and upstream \
             calls"
                .to_owned(),
        )],
        (Some(TimePlace::Server), _) => {
            vec![command(
                "server",
                format!("`sudo lagtrace watch -p {port} -d 30s`"),
            )]
        }
        (Some(TimePlace::Client), _) => vec![command(
            "client",
            format!(
                "`sudo lagtrace capture -i any -d 30s tcp port {port}` and a trace of the \
                     program's calls"
            ),
        )],
        (Some(TimePlace::Path), _) => vec![command(
            "client",
            format!("`sudo lagtrace route {address} -c 100`"),
        )],
        (None, Owner::Resolver) => vec![command(
            "client",
            "`dig +stats NAME @RESOLVER`, repeated; the resolver's own log".to_owned(),
        )],
        (None, _) => vec![command(
            "client",
            format!("`sudo lagtrace probe {address} -c 100`"),
        )],
        // Another capture shows no more than several do.
        (Some(TimePlace::Unknown), _) if case.facts.captures.len() > 1 => vec![command(
            "server",
            format!("`sudo lagtrace watch -p {port} -d 30s`"),
        )],
        (Some(TimePlace::Unknown), _) => vec![command(
            "both ends",
            format!(
                "`sudo lagtrace capture -i any -w END.pcap tcp port {port}` at each end, then \
                     `lagtrace analyze client.pcap server.pcap`"
            ),
        )],
    }
}
