//! The opening of a report without findings, which claims no more than was measured.

use lagtrace_core::report::{
    Booking, Caveat, Exchanges, Figures, LayerState, OverallResult, Remark, Report,
};

use super::page::{Page, Tone};
use super::percentiles::{ROWS, value};
use super::{capacity, quantity, unexplained, words};

/// Names of the figures in the summary line of the latency.
const IN_A_LINE: [&str; 4] = ["mean", "p50", "p99", "max"];

/// Writes the opening, the layers that were and were not measured, and the limits of the claim.
pub(super) fn write(page: &mut Page, report: &Report) {
    open(page, report);
    let exchanges = &report.exchanges;
    let failed = failed(exchanges);
    if exchanges.count > 0 || failed > 0 {
        page.paragraph(2, Tone::Plain, &figures(report));
    }
    unexplained::write(page, report);
    carried(page, report);
    layers(page, report);
    for limit in limits(report) {
        page.paragraph(2, Tone::Plain, &limit);
    }
}

/// Writes what the service carries, and how many requests were sent.
pub(super) fn carried(page: &mut Page, report: &Report) {
    for line in capacity::lines(report) {
        page.paragraph(2, Tone::Plain, &line);
    }
}

/// Writes the opening in brief, with the figures of the requests and the cleared layers.
pub(super) fn briefly(page: &mut Page, report: &Report) {
    open(page, report);
    measured(page, report);
    if let Some(cleared) = cleared(report) {
        page.paragraph(2, Tone::Plain, &cleared);
    }
}

/// Writes the summary line of all requests: latency and failures.
pub(super) fn measured(page: &mut Page, report: &Report) {
    if let Some(text) = in_a_line(report) {
        page.paragraph(2, Tone::Plain, &text);
    }
}

/// Returns the summary line of all requests; `None` if there was none.
fn in_a_line(report: &Report) -> Option<String> {
    let latency = latency(report);
    let figures = ROWS.iter().filter(|(name, ..)| IN_A_LINE.contains(name));
    let figures = figures.filter_map(|&row| Some(format!("{} {}", row.0, value(latency, row)?)));
    let count = count(report);
    if count > 0 {
        let count = quantity::counted(count, "request", "requests");
        let figures: Vec<String> = figures.collect();
        return Some(format!(
            "{count}: {}. {}",
            figures.join(", "),
            failures(report)
        ));
    }
    (failed(&report.exchanges) > 0).then(|| failures(report))
}

/// Returns the latency of all requests. At high rates, a watch times most of them in the kernel only,
/// and the exchanges are those that were examined in detail.
pub(super) fn latency(report: &Report) -> &Figures {
    timed_in_kernel(report).unwrap_or(&report.exchanges.latency_ns)
}

fn count(report: &Report) -> u64 {
    timed_in_kernel(report).map_or(report.exchanges.count, |latency| latency.count)
}

fn timed_in_kernel(report: &Report) -> Option<&Figures> {
    let watch = report.watch.as_ref();
    let watch = watch.filter(|watch| report.command == "watch" && watch.sampled_share < 1.0)?;
    Some(&watch.latency_ns).filter(|latency| latency.count > report.exchanges.count)
}

/// Returns sentences on the time that could still be saved, and on the limits of the claim: too few
/// requests, exchanges cut by the capture.
pub(super) fn margin(report: &Report) -> Vec<String> {
    let has_cause = report.causes().next().is_some();
    let unclaimed = unclaimed_of_each(report).map(|(each, share)| {
        format!("No finding explains {each} of each request ({share} of the time).")
    });
    let rest = caveats(report, |caveat| match caveat {
        Caveat::FewRequests => !has_cause,
        Caveat::RequestsCut => true,
        _ => false,
    });
    unclaimed.into_iter().chain(rest).collect()
}

/// Returns the sentence on what the evidence does not cover, which leaves the verdict open.
pub(super) fn uncovered(report: &Report) -> Vec<String> {
    caveats(report, |caveat| caveat == Caveat::CapturedPartDiffers).collect()
}

fn failed(exchanges: &Exchanges) -> u64 {
    exchanges.errors.saturating_add(exchanges.timeouts)
}

/// Writes the words for the overall result, unless the page has begun with it.
fn open(page: &mut Page, report: &Report) {
    let is_said = interruption(report).is_some() && !has_measured(report);
    if !is_said {
        let (tone, text) = opening(report);
        page.spans(0, &[(tone, &text)]);
    }
}

/// Returns the sentence with which the page of an interrupted run begins.
pub(super) fn interruption(report: &Report) -> Option<String> {
    report
        .overall
        .as_ref()
        .filter(|overall| overall.is_interrupted)?;
    let after = quantity::duration(report.took_ns.unwrap_or_default());
    let requests = report.exchanges.count;
    Some(match (has_measured(report), requests) {
        (true, 0) => {
            format!("Interrupted after {after}: the report covers what was seen until then.")
        }
        (true, _) => format!(
            "Interrupted after {after}: the report covers the {} until then.",
            quantity::counted(requests, "request", "requests")
        ),
        // Only levels of load before the one at which delay is judged were run.
        (false, _) if report.sent.is_some() => {
            format!("Interrupted after {after}, before the delay of requests was measured.")
        }
        (false, _) => format!("Interrupted after {after}: nothing was measured."),
    })
}

/// Returns true if the verdict is that the service has no avoidable delay.
pub(super) fn is_healthy(report: &Report) -> bool {
    let result = report.overall.as_ref().map(|overall| overall.result);
    matches!(
        result,
        Some(
            OverallResult::NothingFound
                | OverallResult::CauseFound
                | OverallResult::Saturated
                | OverallResult::ServersOwnTime
        )
    )
}

/// Returns true if a remark says that this host is short of processors.
fn is_short_of_processors(report: &Report) -> bool {
    let mut notes = report.notes.iter();
    notes.any(|note| note.id == Remark::SHORT_OF_PROCESSORS)
}

/// Returns the sentence on a service that computes, and carries less than the asked load.
fn saturated(report: &Report) -> String {
    let rate = report
        .capacity
        .as_ref()
        .map_or(0.0, |capacity| capacity.rate);
    format!(
        "Saturated by this load: the service works for most of a request's time, and carries {}/s.",
        quantity::count(rate.round() as u64)
    )
}

/// Returns true if a remark says that the service works for most of the time of its requests.
fn computes(report: &Report) -> bool {
    let mut notes = report.notes.iter();
    notes.any(|note| note.id == Remark::COMPUTES)
}

/// Returns true if there is a request or a finding.
fn has_measured(report: &Report) -> bool {
    let exchanges = &report.exchanges;
    exchanges.count > 0 || failed(exchanges) > 0 || !report.findings.is_empty()
}

/// Returns the sentence on a run that met no request.
fn no_request(report: &Report) -> String {
    let during = report.took_ns.map_or_else(String::new, |took| {
        format!(" in {}", quantity::duration(took))
    });
    match (report.command.as_str(), report.subject.strip_prefix(':')) {
        ("watch", Some(port)) => format!("No request came to port {port}{during}."),
        ("watch", None) => format!("No request came to {}{during}.", report.subject),
        ("diagnose", _) => format!("No request was answered{during}."),
        _ => "No request was measured, so no time is known.".to_owned(),
    }
}

/// Returns the sentence on what leaves open whether there is a delay.
fn not_judged(report: &Report) -> String {
    let caveats = report.overall.iter().flat_map(|overall| &overall.caveats);
    let open: Vec<&str> = caveats.filter_map(|&caveat| open_clause(caveat)).collect();
    format!("No cause was found, but {}.", open.join("; "))
}

/// Returns the sentence on requests that failed beside others that succeeded.
fn some_failed(exchanges: &Exchanges) -> String {
    let failed = failed(exchanges);
    let all = failed.saturating_add(exchanges.count);
    format!(
        "{} of {} failed, and no cause was found.",
        quantity::count(failed),
        quantity::counted(all, "request", "requests")
    )
}

/// Returns what a caveat leaves open, as a clause.
fn open_clause(caveat: Caveat) -> Option<&'static str> {
    match caveat {
        Caveat::LookupsWaited => Some("lookups waited that no connection followed"),
        Caveat::UpgradeNotRead => {
            Some("what followed a change of the protocol (status 101) was not read")
        }
        Caveat::TurnsOverlapped => {
            Some("both ends send at any time, so it is not certain what answers what")
        }
        Caveat::OwedUnknown => Some(
            "most of the time passed in silence, and the protocol, which is not decoded, does not show \
             which end owed the other an answer, if any did",
        ),
        Caveat::TransferAssumed => {
            Some("most of the time is transfer, which is only assumed to be needed")
        }
        Caveat::DistanceAssumed => Some(
            "neither a handshake nor a bare acknowledgement shows how far away the server is, so what \
             counts as network transit may be its program's time",
        ),
        Caveat::EndsUnknown => Some(
            "more data followed many answers after a pause, and the protocol, which is not decoded, \
             does not show whether it belonged to them",
        ),
        Caveat::FewRequests
        | Caveat::UnexplainedTime
        | Caveat::PacketsDropped
        | Caveat::RequestsCut
        | Caveat::CapturedPartDiffers => None,
    }
}

/// Returns the words for the overall result, if no cause was found.
pub(super) fn opening(report: &Report) -> (Tone, String) {
    let result = report.overall.as_ref().map(|overall| overall.result);
    let (tone, text) = match result.unwrap_or(OverallResult::NoRequest) {
        OverallResult::NoRequest => return (Tone::Caution, no_request(report)),
        OverallResult::Interrupted => (Tone::Caution, "No cause was found until then."),
        OverallResult::AllFailed => (Tone::Bad, "No request succeeded, and no cause was found."),
        OverallResult::OnlyRedirects => (
            Tone::Caution,
            "Only redirects were measured, not what they lead to: -L follows them.",
        ),
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
        OverallResult::NotJudged => return (Tone::Caution, not_judged(report)),
        OverallResult::Suspected => (
            Tone::Caution,
            "No cause was found, and not every layer could be ruled out.",
        ),
        OverallResult::SomeFailed => return (Tone::Bad, some_failed(&report.exchanges)),
        OverallResult::NothingFound | OverallResult::CauseFound | OverallResult::Saturated
            if is_short_of_processors(report) =>
        {
            (
                Tone::Caution,
                "Healthy, but this host is short of processors.",
            )
        }
        OverallResult::Saturated if computes(report) => {
            return (Tone::Good, saturated(report));
        }
        OverallResult::Saturated => (
            Tone::Good,
            "Healthy: the service has no avoidable delay at a load that it carries.",
        ),
        OverallResult::NothingFound | OverallResult::CauseFound => (
            Tone::Good,
            "Healthy: the measurements show no delay worth removing.",
        ),
    };
    (tone, text.to_owned())
}

/// Returns a sentence on the time that stays unexplained.
fn at_most(report: &Report) -> Option<String> {
    let (each, share) = unclaimed_of_each(report)?;
    Some(format!(
        "{each} of each request ({share}) stay unexplained; the rest is network transit and \
         transmission.",
    ))
}

/// Returns the mean unclaimed time per request, and its share of all time, if there is any.
fn unclaimed_of_each(report: &Report) -> Option<(String, String)> {
    let unclaimed = report.overall.as_ref()?.unclaimed?;
    if unclaimed.each_ns == 0 {
        return None;
    }
    let requests = share_of_requests(report);
    let share = quantity::share(unclaimed.share * requests);
    Some((quantity::duration(unclaimed.each_ns), share))
}

/// Returns the share of the requests in all booked time; the rest is connection setup.
fn share_of_requests(report: &Report) -> f64 {
    let sum = |bookings: &[Booking]| -> f64 { bookings.iter().map(|b| b.booked_ns as f64).sum() };
    let within: f64 = report.account.iter().map(|one| sum(&one.exchanges)).sum();
    let before: f64 = report.account.iter().map(|one| sum(&one.setups)).sum();
    within / (within + before).max(1.0)
}

fn figures(report: &Report) -> String {
    let (latency, failures) = (latency(report), failures(report));
    let count = count(report);
    if count == 0 {
        return failures;
    }
    format!(
        "{} took {} on average; half of them at most {}, 99 % at most {}, the slowest {}. {failures}",
        quantity::counted(count, "request", "requests"),
        quantity::duration(latency.mean),
        quantity::duration(latency.p50),
        quantity::duration(latency.p99),
        quantity::duration(latency.max),
    )
}

/// Returns the number of requests, and of those that failed; `None` if there were none.
pub(super) fn counted(report: &Report) -> Option<String> {
    let count = count(report);
    if count > 0 {
        let count = quantity::counted(count, "request", "requests");
        return Some(format!("{count}. {}", failures(report)));
    }
    (failed(&report.exchanges) > 0).then(|| failures(report))
}

/// Returns a sentence on the requests that failed, among those that were examined.
fn failures(report: &Report) -> String {
    let (exchanges, failed) = (&report.exchanges, failed(&report.exchanges));
    let examined = timed_in_kernel(report).map(|_| {
        let count = quantity::count(exchanges.count.saturating_add(failed));
        format!("{count} of them were examined in detail: ")
    });
    let text = match (failed, &examined) {
        (0, None) => "None failed".to_owned(),
        (0, Some(_)) => "none failed".to_owned(),
        _ => format!(
            "{} failed{}",
            quantity::count(failed),
            gave_up(exchanges, failed)
        ),
    };
    format!("{}{text}.", examined.unwrap_or_default())
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
            open => words::sentence(&words::capitalized(open_clause(open).unwrap_or_default())),
        })
}
