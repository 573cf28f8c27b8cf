//! The opening of a report without findings, which claims no more than was measured.

use lagtrace_core::report::{Booking, Caveat, Exchanges, LayerState, OverallResult, Report};

use super::page::{Page, Tone, Weight};
use super::percentiles::{ROWS, value};
use super::{quantity, unexplained, words};

/// Minimum share of requests in all booked time without a mention of connection setup.
const MOSTLY_REQUESTS: f64 = 0.999;
/// Names of the figures in the summary line of the latency.
const IN_A_LINE: [&str; 4] = ["mean", "p50", "p99", "max"];

/// Writes the opening, the layers that were and were not measured, and the limits of the claim.
pub(super) fn write(page: &mut Page, report: &Report) {
    page.spans(0, &[opening(report)]);
    let exchanges = &report.exchanges;
    let failed = failed(exchanges);
    if exchanges.count > 0 || failed > 0 {
        page.paragraph(2, Tone::Plain, &figures(exchanges, failed));
    }
    unexplained::write(page, report);
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
    if let Some(text) = in_a_line(exchanges) {
        page.paragraph(2, Tone::Plain, &text);
    }
}

/// Returns the summary line of all requests; `None` if there was none.
fn in_a_line(exchanges: &Exchanges) -> Option<String> {
    let failed = failed(exchanges);
    let figures = ROWS.iter().filter(|(name, ..)| IN_A_LINE.contains(name));
    let figures = figures.filter_map(|&row| {
        let value = value(&exchanges.latency_ns, row)?;
        Some(format!("{} {value}", row.0))
    });
    let figures: Vec<String> = figures.collect();
    if exchanges.count > 0 {
        let count = quantity::counted(exchanges.count, "request", "requests");
        return Some(format!(
            "{count}: {}. {}",
            figures.join(", "),
            failures(exchanges, failed)
        ));
    }
    (failed > 0).then(|| failures(exchanges, failed))
}

/// Returns sentences on the time that could still be saved, and on the limits of the claim: too few
/// requests, exchanges cut by the capture.
pub(super) fn margin(report: &Report) -> Vec<String> {
    let has_cause = report.causes().next().is_some();
    let another = if has_cause { "another " } else { "" };
    let unclaimed = unclaimed_of_each(report).map(|(each, share)| {
        format!(
            "No cause was found for {another}{each} per request on average, too little for a \
             finding ({share})."
        )
    });
    let rest = caveats(report, |caveat| match caveat {
        Caveat::FewRequests => !has_cause,
        Caveat::RequestsCut | Caveat::CapturedPartDiffers => true,
        Caveat::UnexplainedTime | Caveat::PacketsDropped => false,
    });
    unclaimed.into_iter().chain(rest).collect()
}

fn failed(exchanges: &Exchanges) -> u64 {
    exchanges.errors.saturating_add(exchanges.timeouts)
}

/// Returns the words for the overall result, if no cause was found.
pub(super) fn opening(report: &Report) -> (Tone, &'static str) {
    let result = report.overall.as_ref().map(|overall| overall.result);
    match result.unwrap_or(OverallResult::NoRequest) {
        OverallResult::NoRequest => (
            Tone::Caution,
            "No request was measured, so its time is not known.",
        ),
        OverallResult::AllFailed => (Tone::Bad, "No request succeeded, and no cause was found."),
        OverallResult::Unexplained => (
            Tone::Caution,
            "No cause was found, and much of the request time could not be explained.",
        ),
        OverallResult::ServersOwnTime => (
            Tone::Good,
            "No fault was found: most of the request time is the server's own, about the same in \
             each request.",
        ),
        OverallResult::Located => (
            Tone::Caution,
            "No cause was found, but some time is unexplained; where it passed is shown below.",
        ),
        OverallResult::Suspected => (
            Tone::Caution,
            "No cause was found, and not every layer could be ruled out.",
        ),
        OverallResult::SomeFailed => (
            Tone::Caution,
            "Nothing found in the requests that succeeded, but some failed.",
        ),
        OverallResult::NothingFound | OverallResult::CauseFound => (
            Tone::Good,
            "Nothing found: the measurements show no delay worth removing.",
        ),
    }
}

/// Returns a sentence on the most time per request that could be saved.
fn at_most(report: &Report) -> Option<String> {
    let (each, share) = unclaimed_of_each(report)?;
    Some(format!(
        "At most {each} per request could be saved on average ({share}); the rest is \
         network transit and transmission.",
    ))
}

/// Returns the mean unclaimed time per request, and its share of all time, connection setup
/// included, if there is any.
fn unclaimed_of_each(report: &Report) -> Option<(String, String)> {
    let unclaimed = report.overall.as_ref()?.unclaimed?;
    if unclaimed.each_ns == 0 {
        return None;
    }
    let requests = share_of_requests(report);
    let share = quantity::share(unclaimed.share * requests);
    let base = if requests < MOSTLY_REQUESTS {
        "all time including connection setup"
    } else {
        "all request time"
    };
    let share = format!("{share} of {base}");
    Some((quantity::duration(unclaimed.each_ns), share))
}

/// Returns the share of the requests in all booked time; the rest is connection setup.
fn share_of_requests(report: &Report) -> f64 {
    let sum = |bookings: &[Booking]| -> f64 { bookings.iter().map(|b| b.booked_ns as f64).sum() };
    let within: f64 = report.account.iter().map(|one| sum(&one.exchanges)).sum();
    let before: f64 = report.account.iter().map(|one| sum(&one.setups)).sum();
    within / (within + before).max(1.0)
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

/// Returns the number of requests, and of those that failed; `None` if there were none.
pub(super) fn counted(exchanges: &Exchanges) -> Option<String> {
    let failed = failed(exchanges);
    let failures = || failures(exchanges, failed);
    if exchanges.count > 0 {
        let count = quantity::counted(exchanges.count, "request", "requests");
        return Some(format!("{count}. {}", failures()));
    }
    (failed > 0).then(failures)
}

fn failures(exchanges: &Exchanges, failed: u64) -> String {
    match failed {
        0 => "None failed.".to_owned(),
        _ => format!(
            "{} failed{}.",
            quantity::count(failed),
            gave_up(exchanges, failed)
        ),
    }
}

/// Returns words for the requests that the client did not wait for: our own ones have a timeout,
/// and in a capture the client closed the connection before the response was whole.
fn gave_up(exchanges: &Exchanges, failed: u64) -> String {
    let how = match exchanges.measured_by.as_str() {
        "packets" => "given up by the client",
        _ => "by timeout",
    };
    match exchanges.timeouts {
        0 => String::new(),
        1 if failed == 1 => format!(", {how}"),
        2 if failed == 2 => format!(", both {how}"),
        all if all == failed => format!(", all {how}"),
        given_up => format!(", {} of them {how}", quantity::count(given_up)),
    }
}

/// Returns the names of the layers in a state.
fn of(report: &Report, state: LayerState) -> Vec<&str> {
    let layers = report.layers.iter().filter(|layer| layer.state == state);
    layers.map(|layer| layer.layer.as_str()).collect()
}

fn cleared(report: &Report) -> Option<String> {
    let cleared = of(report, LayerState::Cleared);
    (!cleared.is_empty()).then(|| format!("No fault in: {}.", words::list(&cleared)))
}

fn layers(page: &mut Page, report: &Report) {
    for (tone, text) in measured_layers(report) {
        page.spans(2, &[(tone, &text)]);
    }
}

/// Returns sentences on the layers that were cleared, were not, and were not measured.
pub(super) fn measured_layers(report: &Report) -> Vec<(Tone, String)> {
    let cleared = cleared(report).map(|text| (Tone::Plain, text));
    let mut lines: Vec<_> = cleared.into_iter().collect();
    let suspected = of(report, LayerState::Suspected);
    if !suspected.is_empty() {
        let text = format!(
            "Not ruled out: {}. See \"Layer by layer\" below.",
            words::list(&suspected)
        );
        lines.push((Tone::Caution, text));
    }
    let open = of(report, LayerState::NotMeasured);
    if !open.is_empty() {
        let text = format!(
            "Not measured: {}. Causes that appear only there cannot be found.",
            words::list(&open)
        );
        lines.push((Tone::Caution, text));
    }
    lines
}

/// Returns sentences on the limits of the claim: few requests, unexplained time, lost packets,
/// exchanges cut by the capture.
pub(super) fn limits(report: &Report) -> Vec<String> {
    let mut limits: Vec<String> = at_most(report).into_iter().collect();
    limits.extend(caveats(report, |_| true));
    limits
}

/// Returns the sentence on a load of which the captured packets explain only a part.
fn captured_part(report: &Report) -> String {
    let load = report.load.as_ref();
    let Some((load, part)) = load.and_then(|load| Some((load, load.captured_part?))) else {
        return String::new();
    };
    format!(
        "Outside the captured part of the load, requests took {} on average instead of {}, and the \
         packets do not show why. A longer `--duration` captures more of the load.",
        quantity::duration(load.latency_ns.mean),
        quantity::duration(part.mean_ns),
    )
}

/// Returns sentences on the caveats of the report that are `wanted`.
fn caveats(report: &Report, wanted: impl Fn(Caveat) -> bool) -> impl Iterator<Item = String> {
    let overall = report.overall.iter();
    let caveats = overall.flat_map(|overall| overall.caveats.iter().map(move |c| (*c, overall)));
    let exchanges = &report.exchanges;
    let dropped = report.capture.as_ref().and_then(|c| c.dropped);
    caveats
        .filter(move |(caveat, _)| wanted(*caveat))
        .map(move |(caveat, overall)| match caveat {
            Caveat::FewRequests => format!(
                "{} too few to show the tail of the latency.",
                quantity::counted(exchanges.count, "request is", "requests are")
            ),
            Caveat::UnexplainedTime => format!(
                "{} of the request time could not be explained.",
                quantity::share(overall.unexplained_share)
            ),
            Caveat::PacketsDropped => format!(
                "The capture dropped {}.",
                quantity::counted(dropped.unwrap_or_default(), "packet", "packets")
            ),
            Caveat::RequestsCut => format!(
                "{} left out, because {}.",
                quantity::counted(exchanges.cut, "request was", "requests were"),
                match report.capture {
                    Some(_) => "the capture does not show a complete request and response",
                    None => {
                        "the load ended before their responses were complete (a longer \
                         `--duration` shows them)"
                    }
                }
            ),
            Caveat::CapturedPartDiffers => captured_part(report),
        })
}
