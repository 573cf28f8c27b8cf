//! The opening of the full report: each finding with its certainty, culprit and cost.

use std::net::IpAddr;

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::registry::LayerId;
use lagtrace_core::report::{Extent, Finding, Report, Unit, Verdict};

use super::page::{Page, Tone};
use super::{groups, healthy, quantity, unexplained, words};

/// Writes the verdict on each finding, or that there is no finding.
pub(super) fn write(page: &mut Page, report: &Report) {
    if let Some(text) = healthy::interruption(report) {
        page.paragraph(0, Tone::Caution, &text);
    }
    let groups = groups::groups(report);
    let is_only = groups.len() == 1;
    for (at, group) in groups.iter().enumerate() {
        let Some(finding) = group.first() else {
            continue;
        };
        let headline = headline(finding);
        let headline = spans(&headline);
        let indent = if is_only {
            page.spans(0, &headline);
            2
        } else {
            page.item(0, &format!("{}.", at + 1), Tone::Strong, &headline);
            3
        };
        say(page, indent, finding, report);
        if let Some(line) = groups::others(group) {
            page.paragraph(indent, Tone::Plain, &line);
        }
    }
    if groups.is_empty() {
        healthy::write(page, report);
    } else {
        unexplained::write(page, report);
        healthy::carried(page, report);
    }
    page.blank();
    page.paragraph(0, Tone::Dim, &subject(report));
}

/// Writes the first finding of a group in brief: title, certainty, culprit and cost.
pub(super) fn briefly(page: &mut Page, group: &[&Finding], report: &Report) {
    let Some(finding) = group.first() else { return };
    page.spans(0, &spans(&headline(finding)));
    let place = place(finding);
    let text = match extent(finding) {
        Some((extent, whom)) => {
            format!("{place}: {} {whom}.", each(&extent))
        }
        None => format!("Responsible: {}.", uncapitalized(&place)),
    };
    page.paragraph(2, Tone::Strong, &text);
    let others = groups::others(group);
    let longer = longer(finding, report).filter(|_| !page.is_brief());
    for line in others.into_iter().chain(longer) {
        page.paragraph(2, Tone::Plain, &line);
    }
}

/// Returns `text` with a small first letter.
fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

/// Returns a sentence on the finding with most of the time, if the first one is only possible and
/// has less: a cause that makes requests fail comes first, whatever time it costs.
fn longer(first: &Finding, report: &Report) -> Option<String> {
    let share = |finding: &Finding| finding.location.as_ref().map_or(0.0, |place| place.share);
    if first.verdict > Verdict::Possible {
        return None;
    }
    let mut longest = first;
    for finding in &report.findings {
        if share(finding) > share(longest) {
            longest = finding;
        }
    }
    (longest.cause != first.cause).then(|| {
        format!(
            "A larger part of the time ({}) is listed under \"Also\": {}.",
            quantity::share(longest.share),
            gist(longest)
        )
    })
}

/// Returns the culprit and the service: `Server 10.77.0.2:8080`.
fn place(finding: &Finding) -> String {
    let service = &finding.service;
    let owner = match finding.culprit {
        Owner::Client => "Client of",
        Owner::Server => "Server",
        Owner::Path => "Path to",
        Owner::Resolver => "Resolver for",
        Owner::Proxy => "Proxy at",
        Owner::Unknown => return format!("Owner unknown, {} {service}", kind(service)),
    };
    format!("{owner} {service}")
}

/// Returns a sentence on the evidence for a cause, and on what remains open.
pub(super) fn proof(finding: &Finding) -> String {
    let sentence = certainty(finding);
    if finding.verdict == Verdict::Proven || finding.cause.cause().says_only_where {
        return words::capitalized(&sentence);
    }
    if sentence.is_empty() {
        return "Not proven.".to_owned();
    }
    format!("Not proven: {sentence}")
}

/// Returns the words for the certainty of a finding, and their tone.
pub(super) fn sureness(finding: &Finding) -> (&'static str, Tone) {
    if finding.cause.cause().says_only_where {
        let location = finding.location.as_ref();
        let certainty = location.map_or(Verdict::Possible, |location| location.certainty);
        let words = words::place_only(finding.culprit, certainty);
        return (words, Tone::Caution);
    }
    words::verdict(finding.verdict)
}

/// Returns what a finding says, without a full stop: its title or, if it says only where time
/// passed, what its owner does in that time.
pub(super) fn gist(finding: &Finding) -> String {
    let manner = finding.cause.cause().manner;
    match finding.extent {
        Some(extent) if !manner.is_empty() => {
            manner.replace("{each}", &quantity::duration(extent.each_ns))
        }
        _ => finding.title.clone(),
    }
}

/// Returns the headline of a finding: the words for its certainty, and what it says.
pub(super) fn headline(finding: &Finding) -> [(Tone, String); 2] {
    let (word, tone) = sureness(finding);
    let gist = words::sentence(&gist(finding));
    [(tone, word.to_owned()), (Tone::Strong, gist)]
}

fn spans(texts: &[(Tone, String); 2]) -> [(Tone, &str); 2] {
    texts.each_ref().map(|(tone, text)| (*tone, text.as_str()))
}

fn say(page: &mut Page, indent: usize, finding: &Finding, report: &Report) {
    if let Some(cost) = whole_cost(finding, report) {
        page.paragraph(indent, Tone::Strong, &cost);
    }
    page.paragraph(indent, Tone::Plain, &responsible(finding));
}

/// Returns the sentences on the cost of a finding, if it costs time.
pub(super) fn whole_cost(finding: &Finding, report: &Report) -> Option<String> {
    let mut cost = cost(finding)?;
    cost.extend(of_all_services(finding, report));
    Some(cost)
}

/// Returns the sentences on who is responsible, how certain that is, and where the time passed.
pub(super) fn responsible(finding: &Finding) -> String {
    let text = format!(
        "{} {}",
        blame(finding),
        words::capitalized(&certainty(finding))
    );
    match whereabouts(finding) {
        Some(place) => format!("{text} {place}"),
        None => text,
    }
}

/// Returns the cost of a finding: `43.1 ms (mean) of each 43.6 ms request, 98 % of all request
/// time.`
fn cost(finding: &Finding) -> Option<String> {
    let (extent, whom) = extent(finding)?;
    Some(format!("{} {whom}.", each(&extent)))
}

/// Returns the mean cost per affected request, with its bounds if they are apart:
/// `18.3 ms (mean; between 17.2 ms and 20.1 ms)`. If the kernel timed the wait, its time is the cost.
fn each(extent: &Extent) -> String {
    let each = quantity::duration(extent.each_ns);
    match extent.range_ns.map(|range| range.map(quantity::duration)) {
        Some(_) if extent.is_timed_by_kernel => format!("{each} (mean, timed by the kernel)"),
        Some([low, high]) => format!("{each} (mean; between {low} and {high})"),
        None => format!("{each} (mean)"),
    }
}

/// Returns the extent of a finding, and words for it: the affected requests and the share of their
/// time, as in `of each 43.6 ms request, 98 % of all request time`. Returns `None` if the finding
/// costs no time.
fn extent(finding: &Finding) -> Option<(Extent, String)> {
    let extent = finding.extent?;
    let affected = finding.affected;
    let [one, many] = finding.unit.words();
    let of = quantity::counted(affected.of, one, many);
    let whom = match extent.whole_ns {
        Some(whole) => format!("of each {} request", quantity::duration(whole)),
        None if extent.concerns_all => format!("in each of {of}"),
        None => {
            let part = affected.exchanges as f64 / affected.of.max(1) as f64;
            format!(
                "in each affected {one} ({} of {of}, {})",
                quantity::count(affected.exchanges),
                quantity::share(part)
            )
        }
    };
    let share = quantity::share(finding.share);
    let whole = whole_time(finding);
    Some((extent, format!("{whom}, {share} of {whole}")))
}

/// Returns words for the time that a finding's share refers to.
pub(super) fn whole_time(finding: &Finding) -> String {
    let [one, _] = finding.unit.words();
    let is_of_requests = finding.unit.is_requests() || finding.unit == Unit::Connections;
    if !is_of_requests {
        format!("all {one} time")
    } else if is_between(finding) {
        "all request time including the waits between requests".to_owned()
    } else if includes_setup(finding) {
        "all request time including connection setup".to_owned()
    } else {
        "all request time".to_owned()
    }
}

/// Returns true if the finding's time lies between requests. It is in no request's latency, so the
/// finding's share refers to both.
pub(super) fn is_between(finding: &Finding) -> bool {
    finding.cause.cause().is_between_exchanges && finding.cost_ns > 0
}

/// Returns true if the finding's time lies before the requests, in name resolution or connection
/// setup. It is in no request's latency, so the finding's share refers to both.
pub(super) fn includes_setup(finding: &Finding) -> bool {
    let is_before = matches!(
        finding.cause.cause().layer,
        LayerId::Route | LayerId::Name | LayerId::Connection | LayerId::Tls
    );
    is_before && finding.cost_ns > 0
}

/// Returns the finding's share of the time of all services, if there are several and the time is in
/// their accounts.
fn of_all_services(finding: &Finding, report: &Report) -> Option<String> {
    let location = finding.location.as_ref()?;
    let share = quantity::share(location.share);
    (report.account.len() > 1 && location.claimed_ns > 0).then(|| {
        format!(
            " This is {share} of the time of all {} services together.",
            report.account.len()
        )
    })
}

fn blame(finding: &Finding) -> String {
    let whose = match finding.culprit {
        Owner::Client => "Responsible: the client",
        Owner::Server => "Responsible: the server",
        Owner::Path => "Responsible: the path between client and server",
        Owner::Resolver => "Responsible: the resolver",
        Owner::Proxy => "Responsible: a proxy in between",
        Owner::Unknown => "Responsible: not known",
    };
    if finding.service.is_empty() {
        format!("{whose}.")
    } else {
        format!("{whose} ({} {}).", kind(&finding.service), finding.service)
    }
}

/// Returns the kind of thing that a finding is about: a port of a host, or the host as a whole.
fn kind(service: &str) -> &'static str {
    let port = service
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>());
    let has_port = matches!(port, Some(Ok(_))) && service.parse::<IpAddr>().is_err();
    if has_port { "service" } else { "host" }
}

/// Returns a sentence on the location of the time, if it is more certain than the cause.
pub(super) fn whereabouts(finding: &Finding) -> Option<String> {
    let location = finding.location.as_ref()?;
    let because = &location.because;
    let is_surer = location.certainty > finding.verdict && finding.cost_ns > 0;
    is_surer.then(|| match location.certainty {
        Verdict::Proven => format!("Where the time passed is proven: {because}."),
        _ => format!("Where the time passed is well established: {because}."),
    })
}

fn certainty(finding: &Finding) -> String {
    let mut kinds: Vec<_> = finding
        .evidence
        .iter()
        .filter(|e| e.shows_mechanism)
        .map(|e| e.kind)
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds: Vec<&str> = kinds.into_iter().map(words::evidence).collect();
    let shown = words::list(&kinds);
    match finding.verdict {
        Verdict::Possible if finding.cause.cause().says_only_where => {
            "the evidence does not show the reason, and the time may be necessary work.".to_owned()
        }
        Verdict::Possible => {
            "this cause matches the evidence, but another one might too.".to_owned()
        }
        _ if shown.is_empty() => String::new(),
        Verdict::Strong => format!("this cause is shown only by {shown}. No similar cause fits."),
        Verdict::Proven => format!("shown by {shown}."),
    }
}

fn subject(report: &Report) -> String {
    let mut parts = vec![format!("lagtrace {} {}", report.command, report.subject)];
    if !report.started.is_empty() {
        parts.push(report.started.clone());
    }
    if report.exchanges.count > 0 {
        parts.push(quantity::counted(
            report.exchanges.count,
            "request",
            "requests",
        ));
    }
    if let Some(capture) = report
        .capture
        .as_ref()
        .filter(|capture| capture.packets > 0)
    {
        parts.push(quantity::counted(capture.packets, "packet", "packets"));
    }
    parts.join(" · ")
}
