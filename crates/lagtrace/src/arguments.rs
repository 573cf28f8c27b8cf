//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::render::Length;

pub(crate) mod duration;
pub(crate) mod tls;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXIT_CODES: &str = "\
Exit codes:
  0    nothing found; with compare and --verify: fixed, or no worse
  1    something found; a target that refuses, filters or fails counts
  2    wrong usage or a failure that left no report
  130  interrupted before anything was measured";

/// Says where the milliseconds of slow requests went, and what to change.
#[derive(Debug, Parser)]
#[command(name = "lagtrace", bin_name = "lagtrace", version, styles = STYLES, after_help = EXIT_CODES)]
#[command(
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Investigate a service: where do its milliseconds go, and what to change?
    Diagnose(crate::diagnose::Options),
    /// Trace the route to a host: delay and loss, hop by hop
    Route(crate::route::Options),
    /// Diagnose captures
    Analyze(crate::analyze::Options),
    /// Capture packets into a file or straight into the analysis
    Capture(crate::capture::Options),
    /// Concurrent requests to a service: an honest latency distribution
    Load(crate::load::Options),
    /// Round trips to hosts and ports, by the kernel's stamps
    Probe(crate::probe::Options),
    /// Options and state of live sockets, and who holds both ends
    Sockets(crate::sockets::Options),
    /// Where a live server's requests spend their time, from the kernel
    Watch(crate::watch::Options),
    /// Compare two reports, before and after a change
    Compare(crate::compare::Options),
    /// Tell all about a cause
    Explain(crate::explain::Options),
    /// Reproduce causes of latency on this machine
    Lab(crate::lab::Options),
    /// Print a shell's completion script
    Completions(crate::manual::Shell),
    /// Print the manual page, or write all of them into a directory
    Man(crate::manual::Pages),
    /// What the lab starts; not for people
    #[command(name = crate::lab::HELPER, hide = true)]
    LabHelper {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// How results are shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// How to print the report
    #[arg(
        id = "format",
        long = "format",
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub(crate) form: Form,
    /// What the format is, of those that all commands have.
    #[arg(skip)]
    pub(crate) format: Format,
    /// Whether it is CSV instead.
    #[arg(skip)]
    pub(crate) is_csv: bool,
    /// Write the report to FILE instead of standard output
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// When to use colour; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Print the report only: no steps, no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print the whole report, and tell more about each step
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Print the whole report, not only its first screen
    #[arg(long, global = true)]
    pub(crate) full: bool,
    /// Print what was found in at most 12 lines
    #[arg(long, global = true, conflicts_with_all = ["verbose", "full"])]
    pub(crate) brief: bool,
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One JSON object a line
    Ndjson,
    /// A line of comma-separated values for each hop (route)
    Csv,
}

impl Output {
    /// How much of a report is to be printed as text.
    pub(crate) fn length(&self) -> Length {
        match self.brief {
            true => Length::Brief,
            false if self.verbose || self.full => Length::Full,
            false => Length::Screen,
        }
    }

    /// The same with the format known; `None` where `command` has none such.
    pub(crate) fn settled(mut self, command: &Command) -> Option<Self> {
        self.format = match self.form {
            Form::Text => Format::Text,
            // What is said meanwhile keeps out of its way as out of JSON's.
            Form::Json | Form::Csv => Format::Json,
            Form::Ndjson => Format::Ndjson,
        };
        self.is_csv = self.form == Form::Csv;
        let has_csv = matches!(command, Command::Route(_));
        (has_csv || !self.is_csv).then_some(self)
    }
}

/// A report's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One JSON object a line
    Ndjson,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
