//! A score as text: recordings, confusion matrix, totals.

use lagtrace_core::registry::Id;

use crate::lab::score::case::{Case, Kind, Verdict};
use crate::lab::score::sum::{Confused, Score, Together, Totals};

use crate::render::Style;
use crate::render::page::{Block, Page, Tone};
use crate::render::quantity;
use crate::render::table::{Align, Cell, Table, cell, dim, plain};

mod fresh;
mod matrix;

/// Renders a score as text: recordings, confusion matrix, totals.
pub(crate) fn text(score: &Score, style: &Style) -> String {
    let mut page = Page::new(style);
    write(&mut page, score);
    page.finish()
}

/// Returns the blocks of a score's text, with all recordings.
pub(crate) fn blocks(score: &Score) -> Vec<Block> {
    let mut page = Page::recording();
    write(&mut page, score);
    page.into_blocks()
}

/// Writes the recordings (if verbose), the confusion matrix, the totals and the wrong diagnoses.
fn write(page: &mut Page, score: &Score) {
    opening(page, score);
    if !score.cases.is_empty() {
        if page.is_verbose() {
            page.heading("Recordings");
            page.table(2, &recordings(&score.cases));
        }
        matrix::write(page, &score.confusion);
        page.heading("Totals");
        page.table(2, &totals(&score.totals));
        page.paragraph(2, Tone::Plain, &together(&score.together));
        score.totals.iter().for_each(|totals| worst(page, totals));
        wrong(page, &score.cases);
    }
    fresh::write(page, score);
}

/// Writes what a score says of all its recordings.
pub(super) fn summary(page: &mut Page, confusion: &[Confused], all: &Together) {
    matrix::write(page, confusion);
    page.heading("Totals");
    page.paragraph(2, Tone::Plain, &together(all));
}

fn opening(page: &mut Page, score: &Score) {
    let of = score.cases.len() as u64;
    let wrong = score.cases.iter().filter(|case| case.is_wrong()).count() as u64;
    let each = quantity::counted(of, "diagnosis", "diagnoses");
    if let Some(seed) = score.seed {
        page.paragraph(0, Tone::Dim, &format!("Parameters drawn from seed {seed}."));
    }
    match wrong {
        0 if of == 0 => page.paragraph(0, Tone::Bad, "Nothing was scored."),
        0 => page.spans(
            0,
            &[
                (Tone::Good, "Nothing is wrong"),
                (Tone::Plain, &format!("in {each}.")),
            ],
        ),
        _ => {
            let text = format!("{} of {each}", quantity::count(wrong));
            let are = if wrong == 1 {
                "is wrong."
            } else {
                "are wrong."
            };
            page.spans(0, &[(Tone::Bad, &text), (Tone::Bad, are)]);
        }
    }
}

fn recordings(cases: &[Case]) -> Table {
    let mut table = Table::new(&[
        (Align::Left, ""),
        (Align::Name, "recording"),
        (Align::Left, "end"),
        (Align::Left, "expected"),
        (Align::Left, "found"),
        (Align::Right, "unknown"),
        (Align::Right, "cost off"),
    ]);
    let mut last = None;
    for case in cases {
        let is_same = last.replace(&case.recording) == Some(&case.recording);
        let cost = case.cost.as_ref();
        table.row(vec![
            mark(case),
            plain(if is_same { "" } else { &case.recording }),
            plain(case.end.name()),
            if is_same { plain("") } else { expected(case) },
            found(case),
            plain(case.unknown_share.map_or("–".to_owned(), quantity::share)),
            plain(cost.map_or(String::new(), |cost| off(cost.error))),
        ]);
    }
    table
}

fn mark(case: &Case) -> Cell {
    match (case.is_wrong(), case.verdict) {
        (false, Verdict::LeftAlone) if case.kind == Kind::Hidden => dim("–"),
        (false, _) => cell(Tone::Good, "✓"),
        // The cause is right, but another part of the diagnosis is wrong.
        (true, Verdict::Right) => cell(Tone::Caution, "!"),
        (true, _) => cell(Tone::Bad, "✗"),
    }
}

/// Returns the cause expected first; "that" if the recording is named after this cause, or
/// "healthy".
fn expected(case: &Case) -> Cell {
    match case.expected_first().map(Id::as_str) {
        None => dim("healthy"),
        Some(cause) if case.recording.starts_with(cause) => dim("that"),
        Some(cause) if case.kind == Kind::Hidden => dim(cause),
        Some(cause) => plain(cause),
    }
}

/// Returns the cause found first ("that" if it is the expected one), and other reported causes that
/// are not true.
fn found(case: &Case) -> Cell {
    let Some(first) = case.found.first() else {
        let tone = if case.verdict == Verdict::Missed {
            Tone::Bad
        } else {
            Tone::Dim
        };
        return cell(tone, "nothing");
    };
    let head = match case.verdict {
        Verdict::WrongCulprit => &format!("that ({})", crate::render::words::owner(first.culprit)),
        Verdict::Right => "that",
        _ => first.cause.as_str(),
    };
    let others = case.accused.iter().filter(|cause| **cause != first.cause);
    let others = others.map(|cause| cause.as_str());
    let all: Vec<_> = std::iter::once(head).chain(others).collect();
    let tone = if case.is_wrong() {
        Tone::Bad
    } else {
        Tone::Dim
    };
    cell(tone, all.join(", "))
}

/// Formats a signed fraction in percent.
fn off(error: f64) -> String {
    let percent = (error * 100.0).round();
    let sign = match percent {
        p if p < 0.0 => "−",
        p if p > 0.0 => "+",
        _ => "±",
    };
    format!("{sign}{:.0} %", percent.abs())
}

/// Formats a count of a total, with its share.
fn of(count: usize, of: usize) -> String {
    match of {
        0 => "–".to_owned(),
        _ => {
            let share = quantity::share(count as f64 / of as f64);
            format!("{count} of {of} ({share})")
        }
    }
}

fn totals(totals: &[Totals]) -> Table {
    let mut columns = vec![(Align::Left, "")];
    columns.extend(totals.iter().map(|one| (Align::Right, one.end.name())));
    let mut table = Table::new(&columns);
    let figures: Vec<_> = totals.iter().map(figures).collect();
    for (n, (name, _)) in figures.first().into_iter().flatten().enumerate() {
        let mut row = vec![plain(*name)];
        row.extend(figures.iter().filter_map(|one| Some(plain(&one.get(n)?.1))));
        table.row(row);
    }
    table
}

/// Returns a sentence with the results of all diagnoses together.
fn together(all: &Together) -> String {
    format!(
        "In total: right cause first in {}, right owner in {}, no finding in {}; healthy \
         recordings accused with a strong or proven verdict: {}.",
        of(all.first_right, all.known),
        of(all.owner_right, all.known),
        all.silent,
        of(all.firmly_accused, all.healthy),
    )
}

/// Returns the totals of one end, each with its name.
fn figures(t: &Totals) -> Vec<(&'static str, String)> {
    let mut figures = vec![
        ("faults: the right cause first", of(t.first_right, t.known)),
        ("  and the right culprit", of(t.culprit_right, t.known)),
        (
            "  wrong findings in addition or instead",
            of(t.known_accused, t.known),
        ),
        (
            "healthy and near misses: accused",
            of(t.healthy_accused, t.healthy),
        ),
        (
            "faults hidden from this end: wrong findings",
            of(t.hidden_accused, t.hidden),
        ),
        (
            "  of them, a candidate names the fault",
            of(t.candidates.named, t.candidates.of),
        ),
        (
            "  and ranks it first",
            of(t.candidates.first, t.candidates.of),
        ),
    ];
    if let Some(unknown) = &t.unknown_share {
        figures.push(("unexplained time: mean", quantity::share(unknown.mean)));
        figures.push(("  90th percentile", quantity::share(unknown.p90)));
        figures.push(("  most", quantity::share(unknown.worst)));
    }
    if let Some(error) = &t.cost_error {
        figures.push((
            "cost against the clients' clocks: median error",
            quantity::share(error.median),
        ));
        figures.push(("  within 10 %", of(error.close, error.of)));
        figures.push(("  most", quantity::share(error.worst)));
    }
    figures
}

/// Writes the recordings with the worst results.
fn worst(page: &mut Page, totals: &Totals) {
    let unknown = totals
        .unknown_share
        .as_ref()
        .filter(|share| share.worst > 0.0);
    let unknown = unknown.map(|share| format!("most time unexplained in {}", share.worst_in));
    let cost = totals.cost_error.as_ref();
    let cost = cost.map(|error| format!("largest error of the cost in {}", error.worst_in));
    let told: Vec<_> = unknown.into_iter().chain(cost).collect();
    if !told.is_empty() {
        let text = format!("{}: {}", totals.end.name(), told.join(", "));
        page.paragraph(2, Tone::Dim, &text);
    }
}

/// Writes the wrong diagnoses by name, with false accusations first.
fn wrong(page: &mut Page, cases: &[Case]) {
    for (title, kind) in [
        ("Healthy, and accused", Kind::Healthy),
        ("Faults diagnosed wrongly", Kind::Known),
        ("Hidden from this end, and diagnosed wrongly", Kind::Hidden),
    ] {
        let wrong: Vec<_> = cases
            .iter()
            .filter(|c| c.kind == kind && c.is_wrong())
            .collect();
        if wrong.is_empty() {
            continue;
        }
        page.heading(title);
        for case in wrong {
            let name = format!("{}, {}:", case.recording, case.end.name());
            let said = said(case);
            page.item(
                2,
                "✗",
                Tone::Bad,
                &[(Tone::Strong, &name), (Tone::Plain, &said)],
            );
            if let Some(drawn) = &case.drawn {
                page.paragraph(4, Tone::Dim, drawn);
            }
        }
    }
}

fn said(case: &Case) -> String {
    if !case.misses.is_empty() {
        return case.misses.join("; ");
    }
    let first = case
        .found
        .first()
        .map_or("nothing", |found| found.cause.as_str());
    format!("found first: {first}")
}
