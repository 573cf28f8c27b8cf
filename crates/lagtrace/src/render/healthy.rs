//! The opening of a letter without findings, which claims no more than was measured.

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::report::{Exchanges, Finding, LayerState, Report, Shape};

use super::page::{Page, Tone};
use super::{quantity, verdict, words};

/// Number of requests below which the tail of the latency is not known.
const FEW: u64 = 1_000;
/// Share of the time that may stay unexplained without being mentioned.
const UNEXPLAINED: f64 = 0.01;
/// Unexplained share of the time above which the opening says so.
const MUCH: f64 = 0.1;

/// Writes the opening, the layers that were and were not measured, and the limits of the claim.
pub(super) fn write(page: &mut Page, report: &Report) {
    let exchanges = &report.exchanges;
    let failed = exchanges.errors.saturating_add(exchanges.timeouts);
    let (tone, opening) = match (exchanges.count, failed) {
        (0, 0) => (
            Tone::Caution,
            "No request was measured: nothing can be said about its time.",
        ),
        (0, _) => (
            Tone::Bad,
            "No request succeeded, and no cause was found for that.",
        ),
        (_, 0) if unexplained(exchanges) > MUCH => (
            Tone::Caution,
            "No cause was found, and much of the time could not be explained.",
        ),
        (_, 0) if report.places().next().is_some() => located(report),
        (_, 0) if has_suspects(report) => (
            Tone::Caution,
            "No cause was found, and not every layer could be cleared.",
        ),
        (_, 0) => (
            Tone::Good,
            "Nothing found: no removable delay shows in what was measured.",
        ),
        _ => (
            Tone::Caution,
            "Nothing found in the requests that succeeded, but some failed.",
        ),
    };
    page.spans(0, &[(tone, opening)]);
    if exchanges.count > 0 || failed > 0 {
        page.paragraph(2, Tone::Plain, &figures(exchanges, failed));
    }
    verdict::places(page, report);
    layers(page, report);
    for limit in limits(report) {
        page.paragraph(2, Tone::Plain, &limit);
    }
}

/// Returns the opening for time whose place is known, but not its cause.
fn located(report: &Report) -> (Tone, &'static str) {
    let mut places = report.places();
    let is_own_work = |place: &Finding| {
        let shape = place.location.as_ref().and_then(|location| location.shape);
        place.culprit == Owner::Server && shape == Some(Shape::Constant)
    };
    if places.all(is_own_work) {
        (
            Tone::Good,
            "No fault was found: most of the time is the server's own, about as much in each request.",
        )
    } else {
        (
            Tone::Caution,
            "No cause was found, only where time goes that nothing explains.",
        )
    }
}

/// Returns the upper bound of the time to be gained per request: the mean unclaimed
/// time; `None` if nothing was booked, or places of unexplained time are named.
fn at_most(report: &Report) -> Option<String> {
    let bookings = report.account.iter().flat_map(|account| &account.exchanges);
    let (mut unclaimed, mut booked) = (0_u64, 0_u64);
    for booking in bookings {
        unclaimed = unclaimed.saturating_add(booking.unclaimed_ns);
        booked = booked.saturating_add(booking.booked_ns);
    }
    let count = report.exchanges.waits_of;
    if booked == 0 || count == 0 || report.places().next().is_some() {
        return None;
    }
    Some(format!(
        "At most {} of each request could be gained on average, {} of the time: the rest is travel \
         and transmission.",
        quantity::duration(unclaimed / count),
        quantity::share(unclaimed as f64 / booked as f64),
    ))
}

/// Returns the share of the time that no known wait explains.
fn unexplained(exchanges: &Exchanges) -> f64 {
    let unknown = exchanges.waits.iter();
    let unknown = unknown.filter(|wait| wait.kind == WaitKind::Unknown);
    unknown.map(|wait| wait.share).sum()
}

fn has_suspects(report: &Report) -> bool {
    let mut layers = report.layers.iter();
    layers.any(|layer| layer.state == LayerState::Suspected)
}

fn figures(exchanges: &Exchanges, failed: u64) -> String {
    let failures = match failed {
        0 => "None failed.".to_owned(),
        _ => format!(
            "{} failed, thereof {}.",
            quantity::count(failed),
            quantity::counted(exchanges.timeouts, "by timeout", "by timeout")
        ),
    };
    if exchanges.count == 0 {
        return failures;
    }
    let latency = &exchanges.latency_ns;
    format!(
        "{} took {} on average; half of them at most {}, 99 % at most {}, the slowest {}. {failures}",
        quantity::counted(exchanges.count, "request", "requests"),
        quantity::duration(latency.mean),
        quantity::duration(latency.p50),
        quantity::duration(latency.p99),
        quantity::duration(latency.max),
    )
}

fn layers(page: &mut Page, report: &Report) {
    let of = |state| -> Vec<&str> {
        let layers = report.layers.iter().filter(|layer| layer.state == state);
        layers.map(|layer| layer.layer.as_str()).collect()
    };
    let cleared = of(LayerState::Cleared);
    if !cleared.is_empty() {
        page.paragraph(
            2,
            Tone::Plain,
            &format!("Cleared: {}.", words::list(&cleared)),
        );
    }
    let suspected = of(LayerState::Suspected);
    if !suspected.is_empty() {
        let text = format!(
            "Not cleared: {}. See \"Layer by layer\" below.",
            words::list(&suspected)
        );
        page.spans(2, &[(Tone::Caution, &text)]);
    }
    let open = of(LayerState::NotMeasured);
    if !open.is_empty() {
        let text = format!(
            "Not measured: {}. What lies only there could not have been found.",
            words::list(&open)
        );
        page.spans(2, &[(Tone::Caution, &text)]);
    }
}

/// Returns sentences on further limits of the claim: few requests, unexplained time,
/// lost packets, exchanges cut by the capture.
fn limits(report: &Report) -> Vec<String> {
    let exchanges = &report.exchanges;
    let mut limits: Vec<String> = at_most(report).into_iter().collect();
    if (1..FEW).contains(&exchanges.count) {
        limits.push(format!(
            "{} too few to know the slow tail.",
            quantity::counted(exchanges.count, "request is", "requests are")
        ));
    }
    let unknown = unexplained(exchanges);
    if unknown > UNEXPLAINED {
        limits.push(format!(
            "{} of the time could not be explained.",
            quantity::share(unknown)
        ));
    }
    let lost = report
        .capture
        .as_ref()
        .and_then(|c| c.dropped)
        .unwrap_or_default();
    if lost > 0 {
        limits.push(format!(
            "The capture lost {}.",
            quantity::counted(lost, "packet", "packets")
        ));
    }
    if exchanges.cut > 0 {
        limits.push(format!(
            "{} cut by the capture and left out.",
            quantity::counted(exchanges.cut, "request was", "requests were")
        ));
    }
    limits
}
