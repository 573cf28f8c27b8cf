//! Where requests' time went, by the kernel's stamps.

use lagtrace_core::report::{LoadRun, Stage};

use crate::render::page::{Page, Tone};
use crate::render::quantity;
use crate::render::table::{Align, Content, Table, plain};

/// Columns of a full bar.
const BAR: usize = 24;

/// What each stage is, by its name.
const MEANINGS: [(&str, &str); 7] = [
    ("for a connection", "due, and none was free"),
    ("own queue", "from send() to this host's device"),
    ("path", "the connection's least round trip"),
    ("unacknowledged", "more path, or acknowledged late"),
    ("server", "until the first byte of the response came"),
    ("response", "until its last byte came"),
    ("own wake-up", "until it was read"),
];

/// Writes the stages; nothing where they were not asked for.
pub(super) fn write(page: &mut Page, load: &LoadRun) {
    let Some(stages) = &load.stages else {
        return;
    };
    page.heading("Stages");
    let Some(largest) = &stages.largest else {
        let text = "The kernel stamped no request: nothing can be said of its stages.";
        return page.paragraph(2, Tone::Caution, text);
    };
    let mean = |stage: &Stage| stage.time_ns.mean as f64;
    let all: f64 = stages.stages.iter().map(mean).sum();
    let mut table = Table::new(&[
        (Align::Left, ""),
        (Align::Right, "p50"),
        (Align::Right, "p99"),
        (Align::Right, "mean"),
        (Align::Bar(BAR), ""),
        (Align::Left, ""),
    ]);
    for stage in stages.stages.iter().filter(|stage| stage.time_ns.max > 0) {
        let meaning = MEANINGS.iter().find(|(name, _)| *name == stage.name);
        let share = mean(stage) / all.max(1.0);
        table.row(vec![
            plain(stage.name.clone()),
            plain(quantity::duration(stage.time_ns.p50)),
            plain(quantity::duration(stage.time_ns.p99)),
            plain(quantity::duration(stage.time_ns.mean)),
            (Tone::Plain, Content::Share(share)),
            plain(meaning.map_or("", |(_, meaning)| meaning)),
        ]);
    }
    page.table(2, &table);
    let text = format!(
        "Most of the time went to: {largest}. By the kernel's stamps of {}; {} of them {} \
         acknowledged before the response came, and where that was not so the path is the least \
         round trip and the rest the server's.",
        quantity::counted(stages.requests, "request", "requests"),
        quantity::count(stages.acknowledged_apart),
        if stages.acknowledged_apart == 1 {
            "was"
        } else {
            "were"
        },
    );
    page.paragraph(2, Tone::Plain, &text);
}
