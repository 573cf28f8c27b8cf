//! Time that no cause explains.

use lagtrace_core::report::Report;

use super::page::{Page, Tone};

/// Maximum number of findings that only locate unexplained time in the opening.
const PLACES: usize = 3;

/// Writes a line for each finding that only locates unexplained time.
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
