//! The remarks of a report.

use lagtrace_core::report::Remark;

use super::page::{Page, Tone};
use super::words;

/// Writes the remarks; nothing if there are none.
pub(super) fn write(page: &mut Page, remarks: &[Remark]) {
    if remarks.is_empty() {
        return;
    }
    page.heading("Notes");
    for remark in remarks {
        let text = words::sentence(&remark.text);
        page.item(2, "•", Tone::Dim, &[(Tone::Plain, &text)]);
    }
}
