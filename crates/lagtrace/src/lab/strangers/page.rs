//! The runs as text: a table, and what is not right.

use std::fmt::Write as _;

use super::StrangersScore;
use super::judge::{JudgedRun, Judgement};
use crate::render::Style;
use crate::render::page::{Page, Tone};
use crate::render::table::{Align, Table, plain};

/// Renders the score as text.
pub(super) fn text(score: &StrangersScore, style: &Style) -> String {
    let mut page = Page::new(style);
    page.heading("Runs");
    page.table(2, &totals(score));
    if !score.refused.is_empty() {
        page.heading("Not recorded");
        for (seed, reason) in &score.refused {
            page.paragraph(2, Tone::Plain, &format!("{seed}: {reason}"));
        }
    }
    let wrong: Vec<&JudgedRun> = score.cases.iter().filter(|case| !case.is_right()).collect();
    if !wrong.is_empty() {
        page.heading("Not right");
        for case in wrong {
            page.paragraph(2, Tone::Plain, &line(case));
        }
    }
    page.finish()
}

fn totals(score: &StrangersScore) -> Table {
    let cases = &score.cases;
    let with = |verdict: Judgement| cases.iter().filter(|case| case.verdict == verdict).count();
    let faulty = cases.iter().filter(|case| {
        !matches!(
            case.verdict,
            Judgement::LeftAlone | Judgement::Accused | Judgement::Open
        )
    });
    let faulty = faulty.count();
    let healthy = cases.iter().filter(|case| case.is_healthy).count();
    let accused = cases
        .iter()
        .filter(|case| case.is_healthy && !case.accused.is_empty());
    let falsely = cases
        .iter()
        .filter(|case| !case.is_healthy && !case.accused.is_empty());
    let sentences: usize = cases.iter().map(|case| case.sentences.len()).sum();
    let untrue: usize = cases.iter().map(|case| case.untrue().count()).sum();
    let unsure = cases.iter().filter(|case| case.is_unsure_of_pairs());
    let unsure: usize = unsure.map(|case| case.untrue().count()).sum();
    let costs = || {
        cases
            .iter()
            .flat_map(|case| &case.sentences)
            .filter(|one| one.is_cost())
    };
    let near = costs().filter(|one| one.is_true()).count();
    let mut table = Table::new(&[
        (Align::Left, ""),
        (Align::Right, "runs"),
        (Align::Right, "of"),
    ]);
    let mut row = |what: &str, number: usize, of: usize| {
        table.row(vec![
            plain(what),
            plain(number.to_string()),
            plain(of.to_string()),
        ]);
    };
    row("a fault matters", faulty, cases.len());
    row("right cause first", with(Judgement::Right), faulty);
    row(
        "right cause, wrong owner",
        with(Judgement::WrongOwner),
        faulty,
    );
    row("right place only", with(Judgement::PlaceOnly), faulty);
    row("wrong place only", with(Judgement::WrongPlace), faulty);
    row("silent", with(Judgement::Silent), faulty);
    row("a cheaper fault first", with(Judgement::Cheaper), faulty);
    row("wrong cause first", with(Judgement::Wrong), faulty);
    row("fault on the verge", with(Judgement::Open), cases.len());
    row("healthy, accused", accused.count(), healthy);
    row(
        "faulty, another cause accused too",
        falsely.count(),
        cases.len() - healthy,
    );
    row("untrue sentences", untrue, sentences);
    row("  in reports that doubt their pairs", unsure, untrue);
    row("costs within 10 % or 1 ms", near, costs().count());
    table
}

/// Describes a run that is not right in one paragraph.
fn line(case: &JudgedRun) -> String {
    let mut text = format!("{}: {:?}. {}.", case.seed, case.verdict, case.traffic);
    let parts = case.truth.iter().filter(|(_, cost, _)| *cost >= 0.05);
    let parts: Vec<String> = parts
        .map(|(name, cost, is_fault)| {
            format!("{}{name} {cost:.2}", if *is_fault { "*" } else { "" })
        })
        .collect();
    write!(text, " True, in ms per request: {}.", parts.join(", ")).ok();
    let found: Vec<String> = case
        .found
        .iter()
        .map(|(cause, owner, sureness, cost)| {
            format!("{cause} ({owner:?}, {sureness:?}) {cost:.2}")
        })
        .collect();
    write!(text, " Found: {}.", found.join(", ")).ok();
    if !case.caveats.is_empty() {
        write!(text, " Caveats: {:?}.", case.caveats).ok();
    }
    if !case.accused.is_empty() {
        let accused: Vec<&str> = case.accused.iter().map(|cause| cause.as_str()).collect();
        write!(text, " Accused: {}.", accused.join(", ")).ok();
    }
    for sentence in case.untrue() {
        let unit = if sentence.tolerance >= 1e5 { 1e6 } else { 1.0 };
        let [said, low, high] = [sentence.said, sentence.low, sentence.high].map(|n| n / unit);
        write!(
            text,
            " Untrue: {} {said:.2}, true {low:.2} to {high:.2}.",
            sentence.what
        )
        .ok();
    }
    text
}
