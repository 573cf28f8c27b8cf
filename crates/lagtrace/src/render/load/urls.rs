//! The responses and failures of each URL of a load run.

use lagtrace_core::report::LoadRun;

use crate::render::latency::statuses;
use crate::render::page::{Page, Tone};
use crate::render::quantity;
use crate::render::table::{Align, Table, cell, dim, plain};

/// Writes a table row for each URL; nothing if there was only one.
pub(super) fn write(page: &mut Page, load: &LoadRun) {
    if load.urls.is_empty() {
        return;
    }
    page.heading("URLs");
    let mut table = Table::new(&[
        (Align::Right, "weight"),
        (Align::Right, "responses"),
        (Align::Right, "failed"),
        (Align::Right, "p50"),
        (Align::Right, "p99"),
        (Align::Left, "outcomes"),
        (Align::Left, ""),
    ]);
    for url in &load.urls {
        let tone = match url.failed {
            0 => Tone::Plain,
            _ => Tone::Bad,
        };
        let time = |nanos| match url.latency_ns.count {
            0 => dim("–"),
            _ => plain(quantity::duration(nanos)),
        };
        table.row(vec![
            plain(quantity::count(url.weight.into())),
            plain(quantity::count(url.responses)),
            cell(tone, quantity::count(url.failed)),
            time(url.latency_ns.p50),
            time(url.latency_ns.p99),
            plain(statuses(&url.outcomes)),
            plain(url.url.clone()),
        ]);
    }
    page.table(2, &table);
}
