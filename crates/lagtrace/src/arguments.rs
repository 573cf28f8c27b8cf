//! The command line.

use clap::{Parser, Subcommand};

use crate::confinement::{Confinement, Needs};
use crate::console::Console;
use crate::failure::Result;
use crate::output::{Form, Offer, Output, REPORT, STYLES};

const EXAMPLES_AND_EXIT_CODES: &str = "\
Examples:
  lagtrace diagnose http://shop.example:8080/
  lagtrace analyze slow.pcap
  sudo lagtrace watch -p 8080

Exit codes:
  0    nothing found; with compare and --verify: fixed, or no worse
  1    a cause was found; a target that refuses, filters or fails counts;
       with compare and --verify: worse, or not fixed
  2    wrong usage, or a failure without a report
  130  interrupted before anything was measured";

/// Finds where the milliseconds of slow requests went, and what to change.
#[derive(Debug, Parser)]
#[command(name = "lagtrace", bin_name = "lagtrace", version, styles = STYLES, after_help = EXAMPLES_AND_EXIT_CODES)]
#[command(
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) confinement: Confinement,
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
    /// Send concurrent requests to a service, and measure the latency as users see it
    Load(crate::load::Options),
    /// Measure round trips to hosts and ports, with the kernel's timestamps
    Probe(crate::probe::Options),
    /// Show options and state of live sockets, and the processes at both ends
    Sockets(crate::sockets::Options),
    /// Show where a live server's requests spend their time, from inside the kernel
    Watch(crate::watch::Options),
    /// Compare two reports, before and after a change
    Compare(crate::compare::Options),
    /// Show a report or a capture as a page in a browser
    View(crate::view::Options),
    /// Explain a cause: mechanism, evidence, look-alikes, fixes
    Explain(crate::explain::Options),
    /// Show what confines the part that reads packets and answers, and try to break out
    SelfTest(crate::self_test::Options),
    /// Print a shell's completion script
    Completions(crate::manual::Shell),
    /// Print the manual page, or write all of them into a directory
    Man(crate::manual::Pages),
}

impl Command {
    /// Returns the name of the command.
    fn name(&self) -> &'static str {
        match self {
            Self::Diagnose(_) => "diagnose",
            Self::Route(_) => "route",
            Self::Analyze(_) => "analyze",
            Self::Capture(_) => "capture",
            Self::Load(_) => "load",
            Self::Probe(_) => "probe",
            Self::Sockets(_) => "sockets",
            Self::Watch(_) => "watch",
            Self::Compare(_) => "compare",
            Self::View(_) => "view",
            Self::Explain(_) => "explain",
            Self::SelfTest(_) => "self-test",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }

    /// Returns the forms of output that the command has.
    pub(crate) fn offer(&self) -> Offer {
        Offer {
            forms: forms(self.name()),
            page: !matches!(
                self,
                Self::Sockets(_)
                    | Self::SelfTest(_)
                    | Self::Explain(_)
                    | Self::Completions(_)
                    | Self::Man(_)
            ),
            always_page: match self {
                Self::View(_) => true,
                Self::Watch(options) => options.is_served(),
                _ => false,
            },
        }
    }
}

/// Returns the formats that a command prints.
pub(crate) fn forms(command: &str) -> &'static [Form] {
    use Form::{Csv, Har, Json, Ndjson, Perfetto, Text};
    match command {
        "analyze" | "watch" => &[Text, Json, Ndjson, Har, Perfetto],
        "route" => &[Text, Json, Ndjson, Csv],
        "view" | "self-test" | "completions" | "man" => &[Text],
        _ => REPORT,
    }
}

impl Command {
    /// Takes over what the command's options name elsewhere: a curl command, credentials in a URL.
    pub(crate) fn adopt(&mut self, console: &Console) -> Result<()> {
        let unused = match self {
            Self::Diagnose(options) => options.adopt()?,
            Self::Load(options) => options.adopt()?,
            Self::Probe(options) => options.adopt()?,
            _ => return Ok(()),
        };
        if !unused.is_empty() {
            let text = format!("{} of the curl command: not used", unused.join(", "));
            console.note(&text);
        }
        Ok(())
    }

    /// Starts what the command needs beside itself, while this process has a single thread and all its
    /// rights.
    pub(crate) fn prepare(&mut self) {
        if let Self::SelfTest(options) = self {
            options.prepare();
        }
    }

    /// Returns what the command needs although it is confined; `None` if it reads nothing that
    /// others have made.
    pub(crate) fn needs(&self) -> Option<Needs> {
        match self {
            Self::Analyze(_) | Self::Compare(_) => Some(Needs::files()),
            Self::Capture(_) => Some(crate::capture::needs()),
            Self::Diagnose(options) => Some(options.needs()),
            Self::Load(options) => Some(options.needs()),
            Self::Probe(options) => Some(options.needs()),
            Self::Route(_) => Some(Needs::probes()),
            Self::Sockets(options) => Some(options.needs()),
            Self::Watch(options) => Some(options.needs()),
            Self::SelfTest(options) => Some(options.needs()),
            Self::View(options) => Some(options.needs()),
            Self::Explain(_) | Self::Completions(_) | Self::Man(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
