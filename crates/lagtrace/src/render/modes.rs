//! The peaks of the latency distribution and their causes.

use lagtrace_core::report::{LatencyMode, Report};

use super::page::{Page, Tone};
use super::table::{Align, Content, Table, dim, plain};
use super::{place, quantity, words};

/// Width of a full bar, in columns.
const BAR: usize = 16;

/// Writes the modes if there are several.
pub(super) fn write(page: &mut Page, report: &Report) {
    let modes = &report.exchanges.modes;
    if modes.len() < 2 {
        return;
    }
    page.heading("Peaks of the latency");
    let examples = modes.iter().flat_map(|mode| &mode.exemplars);
    let mut table = Table::new(&[
        (Align::Right, "share"),
        (Align::Bar(BAR), ""),
        (Align::Right, "answer in"),
        (Align::Left, "because of"),
        (Align::Right, &format!("example {}", place::title(examples))),
    ]);
    for mode in modes {
        table.row(vec![
            plain(quantity::share(mode.share)),
            (Tone::Plain, Content::Share(mode.share)),
            plain(range(mode)),
            plain(because(mode)),
            dim(example(mode)),
        ]);
    }
    page.table(2, &table);
}

fn range(mode: &LatencyMode) -> String {
    let (low, high) = (
        quantity::duration(mode.low_ns),
        quantity::duration(mode.high_ns),
    );
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => low,
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}–{high}"),
        _ => format!("{low}–{high}"),
    }
}

/// Returns the causes of a mode, or else its longest wait.
fn because(mode: &LatencyMode) -> String {
    match (mode.causes.as_slice(), mode.waits.first()) {
        ([], Some(wait)) => format!("{}: {}", words::owner(wait.owner), words::wait(wait.kind)),
        ([], None) => String::new(),
        (causes, _) => words::list(causes),
    }
}

fn example(mode: &LatencyMode) -> String {
    mode.exemplars.first().map(place::place).unwrap_or_default()
}
