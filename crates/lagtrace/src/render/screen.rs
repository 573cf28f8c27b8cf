//! The first screen of a report: what a person needs to act.
//!
//! Nothing is judged here: what comes first is what the report has first. Where all of it has
//! no room, paragraphs are cut, those that matter least first, and then the last remarks give
//! way to their number.

use lagtrace_core::compare::Comparison;
use lagtrace_core::report::{Finding, Report};

use super::page::{Page, Tone};
use super::{
    Length, Style, comparison as comparing, groups, healthy, quantity, verdict, waits, words,
};

mod besides;
mod cause;

use besides::Line;

/// Lines of a page without a finding, and of a brief one.
const FEW: usize = 12;
/// Lines of a page with one finding.
const ONE: usize = 40;
/// Lines that each further finding adds.
const EACH: usize = 5;
/// Lines of a page with many findings.
const MANY: usize = 60;

/// Lines that paragraphs may take.
#[derive(Clone, Copy)]
struct Room {
    /// The reason, the changes and what to expect.
    text: usize,
    /// A piece of evidence.
    evidence: usize,
    /// A line on something else.
    besides: usize,
}

impl Room {
    const fn new(text: usize, evidence: usize, besides: usize) -> Self {
        Self {
            text,
            evidence,
            besides,
        }
    }
}

/// As many lines as each takes, and ever fewer.
const ROOMS: [Room; 9] = [
    Room::new(usize::MAX, usize::MAX, 2),
    Room::new(usize::MAX, usize::MAX, 1),
    Room::new(usize::MAX, 3, 1),
    Room::new(4, 3, 1),
    Room::new(4, 2, 1),
    Room::new(3, 2, 1),
    Room::new(2, 2, 1),
    Room::new(2, 1, 1),
    Room::new(1, 1, 1),
];

/// The report on a screen, or in brief.
pub(super) fn text(report: &Report, style: &Style) -> String {
    let findings = groups::groups(report).len() + report.places().count();
    let most = match findings {
        0 => FEW,
        findings => most(findings, style),
    };
    let head = |page: &mut Page, room: Room| opening(page, room, report);
    let foot = |page: &mut Page| closing(page, report);
    let besides = besides::lines(report, style.length);
    let title = (findings > 0).then_some("Also");
    fitted(style, most, head, (title, &besides), foot)
}

/// The comparison on a screen, or in brief.
pub(super) fn comparison(comparison: &Comparison, style: &Style) -> String {
    let head = |page: &mut Page, _| comparing::briefly(page, comparison);
    let foot = |page: &mut Page| {
        page.blank();
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

/// The lines of a page that shows so many findings.
fn most(findings: usize, style: &Style) -> usize {
    match style.length {
        Length::Brief => FEW,
        _ => MANY.min(ONE + EACH * findings.saturating_sub(1)),
    }
}

/// The first page that keeps to `most` lines, of those with ever less room for paragraphs,
/// and then ever fewer lines on what else there is.
fn fitted(
    style: &Style,
    most: usize,
    head: impl Fn(&mut Page, Room),
    (title, besides): (Option<&str>, &[Line]),
    foot: impl Fn(&mut Page),
) -> String {
    let [.., least] = ROOMS;
    let all = ROOMS.map(|room| (room, besides.len()));
    let fewer = (0..besides.len()).rev().map(|shown| (least, shown));
    let mut text = String::new();
    for (room, shown) in all.into_iter().chain(fewer) {
        let mut page = Page::bounded(style, room.text);
        head(&mut page, room);
        page.cut_after(room.besides);
        besides::write(&mut page, title, besides, shown);
        page.cut_after(room.text);
        foot(&mut page);
        let fits = page.lines() <= most;
        text = page.finish();
        if fits {
            break;
        }
    }
    text
}

/// Writes the verdict, where the time went, and the first finding.
fn opening(page: &mut Page, room: Room, report: &Report) {
    let groups = groups::groups(report);
    let Some((group, first)) = groups
        .first()
        .and_then(|group| Some((group, *group.first()?)))
    else {
        return without_cause(page, report);
    };
    verdict::briefly(page, group, report);
    if page.is_brief() {
        return cause::brief(page, first, report);
    }
    waits::by_owner(page, &report.exchanges);
    healthy::measured(page, &report.exchanges);
    cause::write(page, room, first, &report.exchanges);
}

/// Writes what was measured, and the first place of time that no cause explains.
fn without_cause(page: &mut Page, report: &Report) {
    healthy::briefly(page, report);
    match report.places().next() {
        Some(place) if page.is_brief() => cause::brief_place(page, place),
        Some(place) => {
            waits::by_owner(page, &report.exchanges);
            cause::place(page, place);
        }
        None => time(page, report),
    }
}

/// Writes the owners of the time in a line.
fn time(page: &mut Page, report: &Report) {
    if let Some(time) = waits::in_a_line(&report.exchanges) {
        page.paragraph(2, Tone::Plain, &words::sentence(&time));
    }
}

/// Writes what the report is of and how to see more.
fn closing(page: &mut Page, report: &Report) {
    if !page.is_brief() {
        if !report.findings.is_empty() {
            page.blank();
        }
        page.paragraph(0, Tone::Dim, &subject(report));
    }
    more(page, report.causes().next());
}

/// The command and its subject, when, and how many packets: `lagtrace analyze slow.pcap ·
/// 2026-11-22T03:18:31Z · 642 packets`.
fn subject(report: &Report) -> String {
    let mut parts = vec![format!("lagtrace {} {}", report.command, report.subject)];
    if let Some((second, _)) = report.started.split_once('.') {
        parts.push(format!("{second}Z"));
    }
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
