//! The first screen of a report: the facts that a person needs to act. Its first line is the verdict.
//!
//! A page draws no conclusions: it keeps the order of the report. No sentence is cut: if there is
//! not enough room, whole parts are left out, the least important first, and remarks that are left
//! out are counted.

use lagtrace_core::report::{Finding, Report};
use lagtrace_core::views::compare::Comparison;

use super::page::{Page, Tone};
use super::{
    Length, Style, comparison as comparing, groups, healthy, quantity, verdict, waits, words,
};

mod besides;
mod cause;
mod room;

use besides::Line;
use room::Room;

/// Maximum number of lines of a page on a healthy service, and of a brief page.
const FEW: usize = 12;
/// Maximum number of lines of a page without a finding that leaves something open.
const OPEN: usize = 20;
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
        0 if style.length != Length::Brief && !healthy::is_healthy(report) => OPEN,
        0 => FEW,
        findings => most(findings, style),
    };
    let (besides, kept) = besides::lines(report, style.length);
    let title = (findings > 0).then_some("Also");
    fitted(style, most, (besides.len(), kept), |page, room| {
        opening(page, report, room);
        besides::write(page, title, &besides, room.remarks);
        closing(page, report, room);
    })
}

/// Renders a comparison on one screen, or in brief.
pub(super) fn comparison(comparison: &Comparison, style: &Style) -> String {
    let mut lines: Vec<Line> = comparing::in_lines(comparison).collect();
    let kept = lines.len();
    lines.extend(besides::remarks(&comparison.remarks));
    let most = most(comparison.findings.len(), style);
    let title = Some("Findings and notes");
    fitted(style, most, (lines.len(), kept), |page, room| {
        comparing::briefly(page, comparison, room.has_context);
        besides::write(page, title, &lines, room.remarks);
        if !page.is_brief() {
            page.blank();
        }
        more(page, None);
    })
}

/// Returns the maximum number of lines of a page with that many findings.
fn most(findings: usize, style: &Style) -> usize {
    match style.length {
        Length::Brief => FEW,
        _ => MANY.min(ONE + EACH * findings.saturating_sub(1)),
    }
}

/// Renders a page with at most `most` lines by `write`, with fewer and fewer parts until it fits.
/// The first `kept` of the `remarks` are the last to be left out.
fn fitted(
    style: &Style,
    most: usize,
    (remarks, kept): (usize, usize),
    write: impl Fn(&mut Page, &Room),
) -> String {
    let mut room = Room::of(style.length, remarks);
    loop {
        let mut page = Page::bounded(style);
        write(&mut page, &room);
        match room.less(kept) {
            Some(less) if page.lines() > most => room = less,
            _ => return page.finish(),
        }
    }
}

/// Writes the verdict, where the time went, and the first finding.
fn opening(page: &mut Page, report: &Report, room: &Room) {
    if let Some(text) = healthy::interruption(report) {
        page.paragraph(0, Tone::Caution, &text);
    }
    let groups = groups::groups(report);
    let Some(group @ [first, ..]) = groups.first().map(Vec::as_slice) else {
        return without_cause(page, report, room);
    };
    verdict::briefly(page, group, report);
    if page.is_brief() {
        return cause::brief(page, first, report, room);
    }
    waits::by_owner(page, report);
    healthy::measured(page, report);
    cause::write(page, first, report, room);
}

/// Writes what was measured, and the first finding that only locates unexplained time.
fn without_cause(page: &mut Page, report: &Report, room: &Room) {
    healthy::briefly(page, report);
    match report.places().next() {
        Some(place) if page.is_brief() => cause::brief_place(page, place),
        Some(place) => {
            waits::by_owner(page, report);
            cause::place(page, place, room);
        }
        None if room.has_context => time(page, report),
        None => {}
    }
}

/// Writes a line on the owners of the time.
fn time(page: &mut Page, report: &Report) {
    if let Some(time) = waits::in_a_line(&report.exchanges) {
        page.paragraph(2, Tone::Plain, &words::sentence(&time));
    }
}

/// Writes the subject of the report, and how to see more.
fn closing(page: &mut Page, report: &Report, room: &Room) {
    if !page.is_brief() {
        if !report.findings.is_empty() {
            page.blank();
        }
        page.paragraph(0, Tone::Dim, &subject(report));
    }
    more(page, report.causes().next().filter(|_| room.has_pointer));
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
    page.paragraph(0, Tone::Dim, &text);
}
