//! The command `lagtrace explain`, which prints the page of a cause.

use std::fmt::Write as _;

use clap::Args;
use lagtrace_core::cause;
use lagtrace_core::registry::{Cause, Id, UnknownCause};
use serde_json::json;

use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::output::Format;

/// The options of `lagtrace explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lagtrace explain
  lagtrace explain nagle-delayed-ack")]
pub(crate) struct Options {
    /// The id of the cause, as in findings; without it, all causes are listed
    #[arg(value_name = "CAUSE")]
    cause: Option<String>,
}

/// Prints the page, or the list of all causes.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let document = match &options.cause {
        Some(id) => page(find(id)?, console),
        None => list(console),
    };
    deliver(console, &document)?;
    Ok(Outcome::Clean)
}

fn find(id: &str) -> Result<&'static Cause> {
    id.parse().map(Id::cause).map_err(|_: UnknownCause| {
        let near = nearest(id).map_or(String::new(), |near| format!("did you mean `{near}`? "));
        let hint = format!("{near}`lagtrace explain` lists all causes");
        Failure::new(format!("no cause is called `{id}`")).hint(hint)
    })
}

/// Returns the id that has the most words in common with the typed text.
fn nearest(typed: &str) -> Option<&'static str> {
    let shared = |id: &str| id.split('-').filter(|word| typed.contains(word)).count();
    let ids = Id::ALL.iter().map(|id| id.as_str());
    ids.max_by_key(|id| shared(id)).filter(|id| shared(id) > 0)
}

fn page(cause: &Cause, console: &Console) -> String {
    match console.output().format {
        Format::Text => styled(cause.page, console.style().color),
        Format::Json | Format::Ndjson => {
            let value = json!({"id": cause.id, "title": cause.title, "page": cause.page});
            format!("{value}\n")
        }
    }
}

fn list(console: &Console) -> String {
    let mut text = String::new();
    for cause in cause::all() {
        match console.output().format {
            Format::Text => writeln!(text, "{:28} {}", cause.id, cause.title).ok(),
            Format::Json | Format::Ndjson => {
                writeln!(text, "{}", json!({"id": cause.id, "title": cause.title})).ok()
            }
        };
    }
    text
}

/// Returns the page with its headings set in bold.
fn styled(page: &str, color: bool) -> String {
    let bold = anstyle::Style::new().bold();
    let line = |line: &str| {
        if line.starts_with('#') && color {
            format!("{bold}{line}{bold:#}\n")
        } else {
            format!("{line}\n")
        }
    };
    page.lines().map(line).collect()
}
