//! The command `lagtrace explain`, which prints the page of a cause.

use std::fmt::Write as _;

use clap::Args;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use lagtrace_core::cause;
use lagtrace_core::registry::{Cause, Id};
use serde_json::json;

use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::output::Format;

/// Maximum number of causes that are listed for words.
const MOST: usize = 12;

/// The options of `lagtrace explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lagtrace explain
  lagtrace explain nagle-delayed-ack
  lagtrace explain tcp_nodelay
  lagtrace explain delayed ack")]
pub(crate) struct Options {
    /// The id of a cause, or any words of one: a directive, a socket option, a kernel setting, a
    /// wait; without it, all causes are listed
    #[arg(value_name = "CAUSE", value_parser = Word, hide_possible_values = true)]
    cause: Vec<String>,
}

/// Prints the page, the list of causes that fit, or the list of all.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let words = options.cause.join(" ");
    let document = if words.is_empty() {
        list(cause::all(), console)
    } else if let Ok(id) = words.parse::<Id>() {
        page(id.cause(), console)
    } else {
        fitting(&words, console)?
    };
    deliver(console, &document)?;
    Ok(Outcome::Clean)
}

/// Returns the only cause's page, or the causes that fit best.
fn fitting(words: &str, console: &Console) -> Result<String> {
    let found = cause::search(words);
    match found.as_slice() {
        [] => {
            let failure = Failure::new(format!("no cause has to do with `{words}`"));
            Err(failure.hint("`lagtrace explain` lists all causes"))
        }
        [only] => Ok(page(only, console)),
        [best, ..] => {
            let id = best.id;
            console.note(&format!(
                "{} causes have to do with `{words}`, the best first: lagtrace explain {id}",
                found.len()
            ));
            Ok(list(found.into_iter().take(MOST), console))
        }
    }
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

fn list(causes: impl Iterator<Item = &'static Cause>, console: &Console) -> String {
    let mut text = String::new();
    for cause in causes {
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

/// Any word; shells complete the ids.
#[derive(Clone)]
struct Word;

impl TypedValueParser for Word {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> std::result::Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let ids = Id::ALL.iter().map(|id| PossibleValue::new(id.as_str()));
        Some(Box::new(ids))
    }
}
