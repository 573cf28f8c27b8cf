//! The kernel counters that rose.

use lagtrace_core::report::Report;

use super::page::{Page, Tone};
use super::quantity;

/// Writes the counters that rose, one paragraph per side.
pub(super) fn write(page: &mut Page, report: &Report) {
    let mut sides: Vec<&str> = report.counters.iter().map(|c| c.side.as_str()).collect();
    sides.sort_unstable();
    sides.dedup();
    for side in sides {
        let moved: Vec<String> = report
            .counters
            .iter()
            .filter(|counter| counter.side == side && counter.change > 0)
            .map(|counter| format!("{}\u{a0}+{}", counter.name, quantity::count(counter.change)))
            .collect();
        if moved.is_empty() {
            continue;
        }
        page.heading(&title(side, &report.command));
        page.paragraph(2, Tone::Plain, &moved.join(" · "));
    }
}

fn title(side: &str, command: &str) -> String {
    match side {
        "both" if command == "sockets" => "Kernel counters since the first sample".to_owned(),
        "both" => "Kernel counters (client and server share this kernel)".to_owned(),
        side => format!("Kernel counters ({side})"),
    }
}
