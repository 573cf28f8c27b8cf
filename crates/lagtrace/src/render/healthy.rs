//! The opening of a report without findings, which claims no more than was measured.

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::report::{Exchanges, Finding, LayerState, Report, Shape};

use super::page::{Page, Tone, Weight};
use super::percentiles::{ROWS, value};
use super::{quantity, verdict, words};

/// Names of the figures in the summary line of the latency.
const IN_A_LINE: [&str; 4] = ["mean", "p50", "p99", "max"];
/// Number of requests below which the tail of the latency is not known.
const FEW: u64 = 1_000;
/// Share of the time that may stay unexplained without being mentioned.
const UNEXPLAINED: f64 = 0.01;
/// Unexplained share of the time above which the opening says so.
const MUCH: f64 = 0.1;

/// Writes the opening, the layers that were and were not measured, and the limits of the claim.
pub(super) fn write(page: &mut Page, report: &Report) {
    page.spans(0, &[opening(report)]);
    let exchanges = &report.exchanges;
    let failed = failed(exchanges);
    if exchanges.count > 0 || failed > 0 {
        page.paragraph(2, Tone::Plain, &figures(exchanges, failed));
    }
    verdict::places(page, report);
    layers(page, report);
    for limit in limits(report) {
        page.paragraph(2, Tone::Plain, &limit);
    }
}

/// Writes the opening in brief, with the figures of the requests and the cleared layers.
pub(super) fn briefly(page: &mut Page, report: &Report) {
    page.weighing(Weight::Major, |page| page.spans(0, &[opening(report)]));
    measured(page, &report.exchanges);
    if let Some(cleared) = cleared(report) {
        page.paragraph(2, Tone::Plain, &cleared);
    }
}

/// Writes the summary line of all requests: latency and failures.
pub(super) fn measured(page: &mut Page, exchanges: &Exchanges) {
    let failed = failed(exchanges);
    let figures = ROWS.iter().filter(|(name, ..)| IN_A_LINE.contains(name));
    let figures = figures.filter_map(|&row| {
        let value = value(&exchanges.latency_ns, row)?;
        Some(format!("{} {value}", row.0))
    });
    let figures: Vec<String> = figures.collect();
    if exchanges.count > 0 {
        let count = quantity::counted(exchanges.count, "request", "requests");
        let text = format!(
            "{count}: {}. {}",
            figures.join(", "),
            failures(exchanges, failed)
        );
        page.paragraph(2, Tone::Plain, &text);
    } else if failed > 0 {
        page.paragraph(2, Tone::Plain, &failures(exchanges, failed));
    }
}

/// Returns sentences on the time left to gain, and on the limits of the claim: too few
/// requests, exchanges cut by the capture.
pub(super) fn margin(report: &Report) -> Vec<String> {
    let unclaimed = unexplained_of_each(report).map(|(each, share)| {
        format!("Unexplained: {each} per request on average ({share} of the request time).")
    });
    let few = few(report).filter(|_| report.causes().next().is_none());
    let rest: Vec<_> = few.into_iter().chain(cut(report)).collect();
    let rest = (!rest.is_empty()).then(|| rest.join(" "));
    unclaimed.into_iter().chain(rest).collect()
}

fn failed(exchanges: &Exchanges) -> u64 {
    exchanges.errors.saturating_add(exchanges.timeouts)
}

fn opening(report: &Report) -> (Tone, &'static str) {
    let exchanges = &report.exchanges;
    match (exchanges.count, failed(exchanges)) {
        (0, 0) => (
            Tone::Caution,
            "No request was measured, so its time is not known.",
        ),
        (0, _) => (Tone::Bad, "No request succeeded, and no cause was found."),
        (_, 0) if unexplained(exchanges) > MUCH => (
            Tone::Caution,
            "No cause was found, and much of the request time could not be explained.",
        ),
        (_, 0) if report.places().next().is_some() => located(report),
        (_, 0) if has_suspects(report) => (
            Tone::Caution,
            "No cause was found, and not every layer could be ruled out.",
        ),
        (_, 0) => (
            Tone::Good,
            "Nothing found: the measurements show no avoidable delay.",
        ),
        _ => (
            Tone::Caution,
            "Nothing found in the requests that succeeded, but some failed.",
        ),
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
            "No fault was found: most of the request time is the server's own, about the same in \
             each request.",
        )
    } else {
        (
            Tone::Caution,
            "No cause was found, but some time is unexplained; where it passed is shown below.",
        )
    }
}

/// Returns a sentence on the upper bound of the time to be gained per request.
fn at_most(report: &Report) -> Option<String> {
    let (each, share) = unexplained_of_each(report)?;
    Some(format!(
        "At most {each} per request could be saved on average ({share} of the request time); the \
         rest is network transit and transmission.",
    ))
}

/// Returns the mean unclaimed time per request, and its share; `None` if nothing was booked,
/// or if places of unexplained time are named, which say it.
fn unexplained_of_each(report: &Report) -> Option<(String, String)> {
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
    let share = unclaimed as f64 / booked as f64;
    Some((
        quantity::duration(unclaimed / count),
        quantity::share(share),
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
    let failures = failures(exchanges, failed);
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

fn failures(exchanges: &Exchanges, failed: u64) -> String {
    match failed {
        0 => "None failed.".to_owned(),
        _ => format!(
            "{} failed, {}.",
            quantity::count(failed),
            quantity::counted(exchanges.timeouts, "by timeout", "by timeout")
        ),
    }
}

/// Returns the names of the layers in a state.
fn of(report: &Report, state: LayerState) -> Vec<&str> {
    let layers = report.layers.iter().filter(|layer| layer.state == state);
    layers.map(|layer| layer.layer.as_str()).collect()
}

fn cleared(report: &Report) -> Option<String> {
    let cleared = of(report, LayerState::Cleared);
    (!cleared.is_empty()).then(|| format!("Ruled out: {}.", words::list(&cleared)))
}

fn layers(page: &mut Page, report: &Report) {
    if let Some(cleared) = cleared(report) {
        page.paragraph(2, Tone::Plain, &cleared);
    }
    let suspected = of(report, LayerState::Suspected);
    if !suspected.is_empty() {
        let text = format!(
            "Not ruled out: {}. See \"Layer by layer\" below.",
            words::list(&suspected)
        );
        page.spans(2, &[(Tone::Caution, &text)]);
    }
    let open = of(report, LayerState::NotMeasured);
    if !open.is_empty() {
        let text = format!(
            "Not measured: {}. A cause that shows only there cannot be found.",
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
    limits.extend(few(report));
    let unknown = unexplained(exchanges);
    if unknown > UNEXPLAINED {
        limits.push(format!(
            "{} of the request time could not be explained.",
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
            "The capture dropped {}.",
            quantity::counted(lost, "packet", "packets")
        ));
    }
    limits.extend(cut(report));
    limits
}

fn few(report: &Report) -> Option<String> {
    let count = report.exchanges.count;
    (1..FEW).contains(&count).then(|| {
        format!(
            "{} are too few to show the tail of the latency.",
            quantity::counted(count, "request is", "requests are")
        )
    })
}

fn cut(report: &Report) -> Option<String> {
    let cut = report.exchanges.cut;
    (cut > 0).then(|| {
        format!(
            "{} left out: not completely in the capture.",
            quantity::counted(cut, "request was", "requests were")
        )
    })
}
