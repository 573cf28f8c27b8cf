//! The table of the stages that make up requests.

use lagtrace_core::report::Stage;

use crate::render::page::Tone;
use crate::render::quantity;
use crate::render::table::{Align, Content, Table, plain};

/// Width of a full bar, in columns.
const BAR: usize = 24;

/// Returns the table of the stages that took any time. Each has its share of the total and its
/// meaning.
pub(super) fn table(stages: &[Stage], meanings: &[(&str, &str)]) -> Table {
    let mean = |stage: &Stage| stage.time_ns.mean as f64;
    let all: f64 = stages.iter().map(mean).sum();
    let mut table = Table::new(&[
        (Align::Left, ""),
        (Align::Right, "p50"),
        (Align::Right, "p99"),
        (Align::Right, "mean"),
        (Align::Bar(BAR), ""),
        (Align::Left, ""),
    ]);
    for stage in stages.iter().filter(|stage| stage.time_ns.max > 0) {
        let meaning = meanings.iter().find(|(name, _)| *name == stage.name);
        table.row(vec![
            plain(stage.name.clone()),
            plain(quantity::duration(stage.time_ns.p50)),
            plain(quantity::duration(stage.time_ns.p99)),
            plain(quantity::duration(stage.time_ns.mean)),
            (Tone::Plain, Content::Share(mean(stage) / all.max(1.0))),
            plain(meaning.map_or("", |(_, meaning)| meaning)),
        ]);
    }
    table
}
