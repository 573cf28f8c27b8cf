//! The stages of the requests' time, by the kernel's timestamps.

use lagtrace_core::report::LoadRun;

use crate::render::page::{Page, Tone};
use crate::render::{quantity, stages};

/// The meanings of the stages, by name.
const MEANINGS: [(&str, &str); 7] = [
    ("for a connection", "due, but no connection was free"),
    ("own queue", "from send() to this host's device"),
    ("path", "the connection's minimum round trip"),
    ("unacknowledged", "more time on the path, or a late ACK"),
    ("server", "until the first byte of the response came"),
    ("response", "until its last byte came"),
    ("client wake-up", "until it was read"),
];

/// Writes the stages; nothing if they were not requested.
pub(super) fn write(page: &mut Page, load: &LoadRun) {
    let Some(told) = &load.stages else {
        return;
    };
    page.heading("Stages");
    let Some(largest) = &told.largest else {
        let text = "The kernel timestamped no request: its stages are not known.";
        return page.paragraph(2, Tone::Caution, text);
    };
    page.table(2, &stages::table(&told.stages, &MEANINGS));
    let text = format!(
        "Most of the time went to: {largest}. From the kernel's timestamps of {}; {} of them {} \
         acknowledged before the response came. For the others, the minimum round trip counts as \
         the path and the rest as the server.",
        quantity::counted(told.requests, "request", "requests"),
        quantity::count(told.acknowledged_apart),
        if told.acknowledged_apart == 1 {
            "was"
        } else {
            "were"
        },
    );
    page.paragraph(2, Tone::Plain, &text);
}
