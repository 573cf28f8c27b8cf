//! Kernel settings that limit live sockets.

use lagtrace_core::report::{Bearing, KernelLimit, Report};

use super::page::{Page, Tone};

/// Writes the limits that were reached, then those that were not, and then all others.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(first) = report.limits.first() else {
        return;
    };
    let place = match first.namespace {
        Some(id) => format!("Kernel limits (netns {id})"),
        None => "Kernel limits".to_owned(),
    };
    page.heading(&place);
    let of = |bearing| {
        let limits = report.limits.iter();
        limits.filter(move |limit| limit.bearing == bearing)
    };
    for limit in of(Bearing::Evidence) {
        page.item(2, "!", Tone::Bad, &[(Tone::Plain, &words(limit))]);
    }
    for limit in of(Bearing::Cleared) {
        page.item(2, "✓", Tone::Good, &[(Tone::Plain, &words(limit))]);
    }
    let rest: Vec<String> = of(Bearing::Shown).map(words).collect();
    page.paragraph(2, Tone::Dim, &rest.join(" · "));
}

fn words(limit: &KernelLimit) -> String {
    let text = limit.text.as_ref().map(|text| format!(": {text}"));
    format!("{} {}{}", limit.name, limit.value, text.unwrap_or_default())
}
