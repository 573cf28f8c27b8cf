//! Time that no cause explains.

use lagtrace_core::report::Report;

use super::page::{Page, Tone};

/// Maximum number of places of unexplained time named in the opening.
const PLACES: usize = 3;

/// Writes a line for each place of time that no cause explains.
pub(super) fn write(page: &mut Page, report: &Report) {
    for place in report.places().take(PLACES) {
        page.spans(
            2,
            &[
                (Tone::Caution, "Unexplained:"),
                (Tone::Plain, &place.summary),
            ],
        );
    }
}
