//! Output of single exchanges in the form that the user requested.

use std::io::Write as _;

use anyhow::Context as _;
use lagtrace_core::report::{ExchangeRecord, Report};
use serde_json::json;

use super::listing::{Listed, Target};
use crate::console::Console;
use crate::delivery::deliver;
use crate::failure::Result;
use crate::output::Format;
use crate::render;

/// Writes the report's line after the lines of the exchanges, or prints the exchanges that were
/// kept.
pub(crate) fn listed(listed: Listed, report: &Report, console: &Console) -> Result<()> {
    let Listed { seen, met, to } = listed;
    let kept = match to {
        Target::Lines { mut to, fault, .. } => {
            let written = match fault {
                Some(fault) => Err(fault),
                None => to
                    .write_all(render::ndjson(report).as_bytes())
                    .and_then(|()| to.flush()),
            };
            return Ok(written.context("write the exchanges")?);
        }
        Target::Most { kept, .. } => kept,
    };
    let records: Vec<&ExchangeRecord> = kept.iter().map(|(_, record)| record).collect();
    let document = match console.output().format {
        Format::Json => {
            let document = json!({"seen": seen, "met": met, "exchanges": records});
            format!("{document:#}\n")
        }
        Format::Text | Format::Ndjson => render::exchanges(&records, met, seen, &console.style()),
    };
    deliver(console, &document)
}
