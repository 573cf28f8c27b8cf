//! The opening when nothing was found: claims no more than was measured.

use lagtrace_core::report::{Exchanges, LayerState, Report};
use lagtrace_core::wait::WaitKind;

use super::page::{Page, Tone};
use super::{quantity, words};

/// Requests below which the tail is not known.
const FEW: u64 = 1_000;
/// Part of the time that may stay unexplained without a word.
const UNEXPLAINED: f64 = 0.01;
/// From here on it is what the page is about.
const MUCH: f64 = 0.1;

/// Writes what was looked at, and what was not.
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
    layers(page, report);
    for limit in limits(report) {
        page.paragraph(2, Tone::Plain, &limit);
    }
}

/// The share of the time that no wait explains.
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

/// What else narrows the claim.
fn limits(report: &Report) -> Vec<String> {
    let exchanges = &report.exchanges;
    let mut limits = Vec::new();
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
