//! The command `lagtrace compare`, which compares reports before and after a change.

use std::path::PathBuf;

use clap::Args;
use lagtrace_core::views::compare::{Comparison, compare};

use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::json;
use crate::output::Format;
use crate::page;
use crate::render::{self, html};
use crate::saved;

/// The options of `lagtrace compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Make reports with `--format json -o FILE`. Compare runs with the same rate
(`diagnose --rate`) or the same number of connections.

Examples:
  lagtrace compare before.json after.json
  lagtrace compare before.json after.json --format json
  lagtrace compare before.json.gz after.json --html compared.html")]
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
    let before = saved::report(&options.before)?;
    let after = saved::report(&options.after)?;
    let comparison = compare(&before, &after);
    let shown = || html::Document::of_comparison(&comparison, Some(&before), Some(&after));
    page::beside(console, shown, || {
        deliver(console, &document(&comparison, console))
    })?;
    Ok(outcome(&comparison))
}

/// Returns the comparison in the format that the user requested.
pub(crate) fn document(comparison: &Comparison, console: &Console) -> String {
    match console.output().format {
        Format::Text => render::comparison(comparison, &console.style()),
        Format::Json => render::comparison_json(comparison),
        Format::Ndjson => format!("{}\n", json::tree(comparison)),
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
