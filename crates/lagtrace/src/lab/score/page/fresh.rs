//! The outcome of making recordings for a score: recordings that could not be made, scenarios that
//! were drawn again, and the folder with wrongly diagnosed recordings.

use crate::lab::score::case::Case;
use crate::lab::score::fresh::Refused;
use crate::lab::score::sum::Score;
use crate::render::page::{Page, Tone};
use crate::render::quantity;

/// Maximum number of scenarios listed as drawn again.
const MOST_REDRAWN: usize = 12;

/// Writes the sections on refused, redrawn and kept recordings.
pub(super) fn write(page: &mut Page, score: &Score) {
    refused(page, &score.refused);
    redrawn(page, score);
    kept(page, score);
}

/// Writes the scenarios that could not be recorded at all.
fn refused(page: &mut Page, refused: &[Refused]) {
    if !refused.is_empty() {
        page.heading("Not recorded");
    }
    for one in refused {
        let name = format!("{}:", one.scenario);
        let spans = [(Tone::Strong, &*name), (Tone::Plain, &*one.reason)];
        page.item(2, "✗", Tone::Bad, &spans);
    }
}

/// Writes the number of recordings drawn again because the proof rejected them, and the scenarios
/// that were often drawn again.
fn redrawn(page: &mut Page, score: &Score) {
    if score.redrawn.is_empty() {
        return;
    }
    page.heading("Recorded again, because the proof was missing");
    let times = quantity::counted(score.redrawn.len() as u64, "time", "times");
    page.paragraph(2, Tone::Plain, &format!("{times} in all."));
    for (last, count) in score.often_redrawn().into_iter().take(MOST_REDRAWN) {
        let name = format!(
            "{}, {}:",
            last.scenario,
            quantity::counted(count as u64, "time", "times")
        );
        let said = last.describe();
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Strong, &name), (Tone::Plain, &said)],
        );
    }
}

/// Writes the folder with the wrongly diagnosed recordings.
fn kept(page: &mut Page, score: &Score) {
    let is_wrong = score.cases.iter().any(Case::is_wrong);
    if let Some(folder) = score.kept.as_ref().filter(|_| is_wrong) {
        page.heading("Kept");
        let text = format!("diagnosed wrongly: {}", folder.display());
        page.paragraph(2, Tone::Plain, &text);
    }
}
