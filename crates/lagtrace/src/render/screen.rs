//! The first screen of a report: the facts that a person needs to act.
//!
//! A page draws no conclusions: it keeps the order of the report. If there is not enough room, the
//! longest paragraphs are cut, those of additional remarks first. If that is not enough, the last
//! remarks are replaced by their number.

use lagtrace_core::report::{Finding, Report};
use lagtrace_core::views::compare::Comparison;

use super::page::{Page, Tone, Weight};
use super::{
    Length, Style, comparison as comparing, groups, healthy, quantity, verdict, waits, words,
};

mod besides;
mod cause;

use besides::Line;

/// Maximum number of lines of a page without a finding, and of a brief page.
const FEW: usize = 12;
/// Maximum number of lines of a page with one finding.
const ONE: usize = 40;
/// Number of lines that each further finding adds to the maximum.
const EACH: usize = 5;
/// Maximum number of lines of a page with many findings.
const MANY: usize = 60;

/// Renders a report on one screen, or in brief.
pub(super) fn text(report: &Report, style: &Style) -> String {
    let findings = groups::groups(report).len() + report.places().count();
    let most = match findings {
        0 => FEW,
        findings => most(findings, style),
    };
    let head = |page: &mut Page| opening(page, report);
    let foot = |page: &mut Page| closing(page, report);
    let besides = besides::lines(report, style.length);
    let title = (findings > 0).then_some("Also");
    fitted(style, most, head, (title, &besides), foot)
}

/// Renders a comparison on one screen, or in brief.
pub(super) fn comparison(comparison: &Comparison, style: &Style) -> String {
    let head = |page: &mut Page| comparing::briefly(page, comparison);
    let foot = |page: &mut Page| {
        if !page.is_brief() {
            page.blank();
        }
        more(page, None);
    };
    let mut lines: Vec<_> = comparing::in_lines(comparison).collect();
    lines.extend(besides::remarks(&comparison.remarks));
    let most = most(comparison.findings.len(), style);
    fitted(
        style,
        most,
        head,
        (Some("Findings and notes"), &lines),
        foot,
    )
}

/// Returns the maximum number of lines of a page with that many findings.
fn most(findings: usize, style: &Style) -> usize {
    match style.length {
        Length::Brief => FEW,
        _ => MANY.min(ONE + EACH * findings.saturating_sub(1)),
    }
}

/// Renders a page with at most `most` lines. First, paragraphs are cut line by line. If each has a
/// single line left, the lines in `besides` are left out, the last one first.
fn fitted(
    style: &Style,
    most: usize,
    head: impl Fn(&mut Page),
    (title, besides): (Option<&str>, &[Line]),
    foot: impl Fn(&mut Page),
) -> String {
    let mut cuts = Vec::new();
    let mut shown = besides.len();
    loop {
        let mut page = Page::bounded(style, &cuts);
        head(&mut page);
        besides::write(&mut page, title, besides, shown);
        foot(&mut page);
        match page.longest() {
            _ if page.lines() <= most => return page.finish(),
            Some((at, lines)) => {
                cuts.resize(cuts.len().max(at + 1), usize::MAX);
                cuts[at] = lines - 1;
            }
            None if shown > 0 => shown -= 1,
            None => return page.finish(),
        }
    }
}

/// Writes the verdict, where the time went, and the first finding.
fn opening(page: &mut Page, report: &Report) {
    let groups = groups::groups(report);
    let Some(group @ [first, ..]) = groups.first().map(Vec::as_slice) else {
        return without_cause(page, report);
    };
    verdict::briefly(page, group, report);
    if page.is_brief() {
        return cause::brief(page, first, report);
    }
    waits::by_owner(page, report);
    healthy::measured(page, &report.exchanges);
    cause::write(page, first, report);
}

/// Writes what was measured, and the first finding that only locates unexplained time.
fn without_cause(page: &mut Page, report: &Report) {
    healthy::briefly(page, report);
    match report.places().next() {
        Some(place) if page.is_brief() => cause::brief_place(page, place),
        Some(place) => {
            waits::by_owner(page, report);
            cause::place(page, place);
        }
        None => time(page, report),
    }
}

/// Writes a line on the owners of the time.
fn time(page: &mut Page, report: &Report) {
    if let Some(time) = waits::in_a_line(&report.exchanges) {
        page.paragraph(2, Tone::Plain, &words::sentence(&time));
    }
}

/// Writes the subject of the report, and how to see more.
fn closing(page: &mut Page, report: &Report) {
    if !page.is_brief() {
        if !report.findings.is_empty() {
            page.blank();
        }
        let subject = subject(report);
        page.weighing(Weight::Minor, |page| page.paragraph(0, Tone::Dim, &subject));
    }
    more(page, report.causes().next());
}

/// Returns command, subject, start time and number of packets: `lagtrace analyze slow.pcap ·
/// 2026-11-22T03:18:31Z · 642 packets`.
fn subject(report: &Report) -> String {
    let mut parts = vec![format!("lagtrace {} {}", report.command, report.subject)];
    match report.started.split_once('.') {
        Some((second, _)) => parts.push(format!("{second}Z")),
        None => parts.push(report.started.clone()),
    }
    parts.retain(|part| !part.is_empty());
    if let Some(capture) = &report.capture {
        parts.push(quantity::counted(capture.packets, "packet", "packets"));
    }
    parts.join(" · ")
}

fn more(page: &mut Page, first: Option<&Finding>) {
    let mut text = "-v shows everything".to_owned();
    if let Some(first) = first {
        text.push_str(&format!(
            "; more on this cause: lagtrace explain {}",
            first.cause
        ));
    }
    page.weighing(Weight::Major, |page| page.paragraph(0, Tone::Dim, &text));
}
