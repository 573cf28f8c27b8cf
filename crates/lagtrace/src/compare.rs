//! The command `lagtrace compare`, which compares reports before and after a change.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Report, SCHEMA};
use lagtrace_core::views::compare::{Comparison, compare};
use serde_json::{Value, json};

use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::output::Format;
use crate::page;
use crate::render::{self, html};

/// The options of `lagtrace compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Make reports with `--format json -o FILE`. Compare runs with the same rate
(`diagnose --rate`) or the same number of connections.

Examples:
  lagtrace compare before.json after.json
  lagtrace compare before.json after.json --format json")]
pub(crate) struct Options {
    /// The JSON report before the change
    #[arg(value_name = "BEFORE.json")]
    before: PathBuf,
    /// The JSON report after it
    #[arg(value_name = "AFTER.json")]
    after: PathBuf,
}

/// Compares the reports and prints the differences.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let (before, after) = (read(&options.before)?, read(&options.after)?);
    let comparison = compare(&before, &after);
    let shown = || html::Document::of_comparison(&comparison, Some(&before), Some(&after));
    page::beside(console, shown, || {
        deliver(console, &document(&comparison, console))
    })?;
    Ok(outcome(&comparison))
}

/// The oldest report schema in which everything that is compared has its present meaning.
const OLDEST: u32 = 1;

/// Reads a JSON report.
pub(crate) fn read(path: &Path) -> Result<Report> {
    let name = path.display();
    let text = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let report: Report = serde_json::from_slice(&text).map_err(|error| {
        if let Some(cause) = unknown_cause(&text) {
            return Failure::new(format!(
                "{name} contains a cause that this version does not know: {cause}"
            ))
            .hint("a newer version of lagtrace wrote it: use that version to read it");
        }
        Failure::from(error)
            .during(format!("{name} is not a report of lagtrace"))
            .hint("make reports with `lagtrace diagnose URL --format json -o FILE`")
    })?;
    if (OLDEST..=SCHEMA).contains(&report.schema) {
        return Ok(report);
    }
    let told = format!(
        "{name} is a report of schema {}; this version reads {OLDEST} to {SCHEMA}",
        report.schema
    );
    Err(Failure::new(told).hint("make it again with this version of lagtrace"))
}

/// Returns the first id in a report that does not belong to a known cause; `None` if the report has
/// another fault.
fn unknown_cause(text: &[u8]) -> Option<String> {
    let report: Value = serde_json::from_slice(text).ok()?;
    let within = |finding: &Value| {
        let parts = ["ruled_out", "candidates"].map(|part| list(&finding[part]));
        parts.concat()
    };
    let findings = list(&report["findings"]);
    let named = findings.iter().cloned();
    let mut named = named.chain(findings.iter().flat_map(within));
    named.find_map(|named| {
        let id = named["cause"].as_str()?;
        id.parse::<Id>().is_err().then(|| id.to_owned())
    })
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Returns the comparison in the format that the user requested.
pub(crate) fn document(comparison: &Comparison, console: &Console) -> String {
    match console.output().format {
        Format::Text => render::comparison(comparison, &console.style()),
        Format::Json => render::comparison_json(comparison),
        Format::Ndjson => format!("{}\n", json!(comparison)),
    }
}

/// Returns the outcome: clean if the run after the change is no worse.
pub(crate) fn outcome(comparison: &Comparison) -> Outcome {
    if comparison.is_no_worse() {
        Outcome::Clean
    } else {
        Outcome::Found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the failure for a text that is not a readable report.
    fn refused(text: &str) -> Failure {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("it takes the text");
        read(file.path()).expect_err("no report of this version")
    }

    #[test]
    fn a_cause_of_a_newer_version_is_named() {
        let known = r#"{"cause": "server-think", "ruled_out": [{"cause": "packet-loss"}]}"#;
        let newer = r#"{"cause": "server-think", "candidates": [{"cause": "gremlins"}]}"#;
        let report = |finding| format!(r#"{{"schema": 1, "findings": [{finding}]}}"#);
        let failure = refused(&report(newer));
        assert!(
            failure.to_string().contains("does not know: gremlins"),
            "{failure}"
        );
        let hint = failure.hint_text().unwrap_or_default();
        assert!(hint.contains("newer version"), "{hint}");
        // The error for any other fault does not name a cause.
        for text in [&report(known), "[]", "no JSON"] {
            let failure = refused(text);
            assert!(
                failure.to_string().contains("not a report of lagtrace"),
                "{failure}"
            );
        }
    }
}
