//! What watching the kernel showed.

use lagtrace_core::report::{Report, Watch, WatchedService};

use crate::render::page::{Page, Tone};
use crate::render::{quantity, stages};

/// What each stage is, by its name.
const MEANINGS: [(&str, &str); 4] = [
    ("unread", "arrived, and not yet read by the program"),
    ("program", "from its first read to its last write"),
    ("held", "written, and held by Nagle's algorithm"),
    ("sending", "written, and waiting for windows or pacing"),
];

/// Writes it; nothing where nothing was watched.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(watch) = &report.watch else { return };
    page.heading("In the kernel");
    page.paragraph(2, Tone::Plain, &all(watch));
    for service in watch.services.iter().filter(|service| service.turns > 0) {
        page.blank();
        page.paragraph(2, Tone::Plain, &one(service));
        page.table(2, &stages::table(&service.stages, &MEANINGS));
    }
}

fn all(watch: &Watch) -> String {
    let latency = &watch.latency_ns;
    if latency.count == 0 {
        return match watch.connections {
            0 => "No connection was seen to be used.".to_owned(),
            many => format!(
                "{} were used, and no request on them was answered.",
                quantity::counted(many, "connection", "connections")
            ),
        };
    }
    let mut text = format!(
        "{} on {}: p50 {}, p99 {}, at most {}, from the first byte that arrived to the last that \
         left.",
        quantity::counted(latency.count, "request", "requests"),
        quantity::counted(watch.connections, "connection", "connections"),
        quantity::duration(latency.p50),
        quantity::duration(latency.p99),
        quantity::duration(latency.max),
    );
    if let Some(cost) = watch.cost_ns {
        text += &format!(
            " Watching took {} of processor time.",
            quantity::duration(cost)
        );
    }
    text
}

fn one(service: &WatchedService) -> String {
    let programs = match service.programs.is_empty() {
        true => String::new(),
        false => format!(", read by {}", service.programs.join(", ")),
    };
    format!(
        "{}{programs}: {} looked at one by one.",
        service.service,
        quantity::counted(service.turns, "request", "requests"),
    )
}
