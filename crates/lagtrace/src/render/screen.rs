//! The first screen of a report: what a person needs to act.
//!
//! Nothing is judged here: what comes first is what the report has first. What has no room is
//! shortened from the end of each paragraph, and then the last remarks give way to their number.

use lagtrace_core::compare::Comparison;
use lagtrace_core::report::{Finding, Report};

use super::page::{Page, Tone};
use super::{Length, Style, comparison as comparing, groups, healthy, verdict, waits, words};

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
/// Lines of a paragraph: as many as it takes, or ever fewer.
const PARAGRAPH: [usize; 5] = [usize::MAX, 4, 3, 2, 1];

/// The report on a screen, or in brief.
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

/// The comparison on a screen, or in brief.
pub(super) fn comparison(comparison: &Comparison, style: &Style) -> String {
    let head = |page: &mut Page| comparing::briefly(page, comparison);
    let foot = |page: &mut Page| more(page, None);
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

/// The first page that keeps to `most` lines: with all said at length, with paragraphs cut
/// shorter and shorter, and with ever fewer of the remarks.
fn fitted(
    style: &Style,
    most: usize,
    head: impl Fn(&mut Page),
    (title, besides): (Option<&str>, &[Line]),
    foot: impl Fn(&mut Page),
) -> String {
    let all = PARAGRAPH.map(|lines| (lines, besides.len()));
    let fewer = (0..besides.len()).rev().map(|shown| (1, shown));
    let mut text = String::new();
    for (lines, shown) in all.into_iter().chain(fewer) {
        let mut page = Page::bounded(style, lines);
        head(&mut page);
        besides::write(&mut page, title, besides, shown);
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
fn opening(page: &mut Page, report: &Report) {
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
    cause::write(page, first, &report.exchanges);
}

/// Writes what was measured, and the first place of time that no cause explains.
fn without_cause(page: &mut Page, report: &Report) {
    healthy::briefly(page, report);
    let place = report.places().next();
    match place.filter(|_| !page.is_brief()) {
        Some(place) => {
            waits::by_owner(page, &report.exchanges);
            cause::place(page, place);
        }
        None => {
            let time = waits::in_a_line(&report.exchanges);
            let time = time.map(|time| words::sentence(&time));
            time.into_iter()
                .for_each(|time| page.paragraph(2, Tone::Plain, &time));
            place
                .into_iter()
                .for_each(|place| cause::brief_place(page, place));
        }
    }
}

/// Writes what the report is of and how to see more.
fn closing(page: &mut Page, report: &Report) {
    if !page.is_brief() {
        page.blank();
        page.paragraph(0, Tone::Dim, &verdict::subject(report));
    }
    more(page, report.causes().next());
}

fn more(page: &mut Page, first: Option<&Finding>) {
    let mut text = match page.is_brief() {
        true => "More: without --brief; all: -v".to_owned(),
        false => "All there is: -v".to_owned(),
    };
    if let Some(first) = first {
        text.push_str(&format!(
            "; about this cause: lagtrace explain {}",
            first.cause
        ));
    }
    page.paragraph(0, Tone::Dim, &words::sentence(&text));
}
