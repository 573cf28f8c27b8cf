//! Output of single exchanges in the form that the user requested.

use anyhow::Context as _;
use lagtrace_core::report::{ExchangeRecord, PassedOn, Picture, Report};
use serde_json::json;

use super::listing::{Listed, Target};
use crate::console::Console;
use crate::delivery::{deliver, writing};
use crate::failure::Result;
use crate::output::Format;
use crate::render;

/// Takes the requests that proxies passed on from the picture.
pub(crate) fn passed_on(picture: Option<&mut Picture>) -> Vec<PassedOn> {
    picture.map_or_else(Vec::new, |picture| std::mem::take(&mut picture.passed_on))
}

/// Ends the stream of exchanges, or prints the exchanges that were kept. `passed_on` are those that
/// a proxy passed on.
pub(crate) fn listed(
    listed: Listed,
    report: &Report,
    passed_on: &[PassedOn],
    console: &Console,
) -> Result<()> {
    let Listed { seen, met, to } = listed;
    let kept = match to {
        Target::Stream {
            mut to,
            mut encoder,
            fault,
            ..
        } => {
            let written = match fault {
                Some(fault) => Err(fault),
                None => encoder
                    .end(report, passed_on, &mut to)
                    .and_then(|()| to.finish()),
            };
            encoder
                .remark(seen)
                .iter()
                .for_each(|text| console.note(text));
            return Ok(written.with_context(|| writing(console))?);
        }
        Target::Most { kept, .. } => kept,
    };
    let records: Vec<&ExchangeRecord> = kept.values().collect();
    let document = match console.output().format {
        Format::Json => {
            let document = json!({"seen": seen, "met": met, "exchanges": records});
            format!("{document:#}\n")
        }
        Format::Text | Format::Ndjson => render::exchanges(&records, met, seen, &console.style()),
    };
    deliver(console, &document)
}
