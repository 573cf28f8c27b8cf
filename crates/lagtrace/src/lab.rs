//! The program `lagtrace-lab`, which reproduces causes of latency and tests whether they are found.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use lagtrace_lab::{Family, Helper, Lab, Scenario};
use lagtrace_sources::files;

use crate::console::Console;
use crate::delivery::deliver;
use crate::duration;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::manual;
use crate::named::NamedPaths;
use crate::output::{Offer, Output, STYLES};
use crate::page;
use crate::usage::parsed;

pub(crate) mod catalogue;
mod record;
mod run;
pub(crate) mod score;
mod show;
mod strangers;
mod truth;

/// Maximum length of a scenario file.
const MAX_SCENARIO: u64 = 1 << 20;

/// The subcommand with which the lab starts its own processes from this program.
pub(crate) const HELPER: &str = "helper";

/// Reproduces causes of latency on this machine, and scores lagtrace's diagnoses of them.
#[derive(Debug, Parser)]
#[command(name = "lagtrace-lab", bin_name = "lagtrace-lab", version, styles = STYLES)]
#[command(
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = "\
A lab consists of two network namespaces with a path between them and real
servers in one of them, or of one namespace whose client and server use its
loopback. It needs root and never changes the host's own network.

Examples:
  lagtrace-lab list
  sudo lagtrace-lab run nagle-delayed-ack
  sudo lagtrace-lab run nagle-delayed-ack --rtt 8ms -- -d 5s
  sudo lagtrace-lab run ./my-own.toml
  sudo lagtrace-lab up nagle-delayed-ack
  sudo lagtrace-lab down nagle-delayed-ack
  lagtrace-lab score")]
struct Arguments {
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the scenarios with their causes and requirements, and the running labs
    #[command(after_help = "\
Examples:
  lagtrace-lab list
  lagtrace-lab list --format json | jq '.scenarios[0]'")]
    List,
    /// Show a scenario: its path, its services, the proof of each fault, and the truth
    #[command(after_help = "\
Examples:
  lagtrace-lab show nagle-delayed-ack")]
    Show {
        /// The scenario, or a scenario file (*.toml)
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Start a scenario, diagnose each of its services, and stop it
    Run(run::Options),
    /// Record scenarios at both ends, with the truth
    Record(record::Options),
    /// Diagnose recordings whose truth is known, and count correct diagnoses
    Score(score::Options),
    /// Diagnose drawn traffic, and compare each figure of the reports with the programs' clocks
    Strangers(strangers::Options),
    /// Start a scenario and leave it running
    #[command(after_help = "\
Examples:
  sudo lagtrace-lab up nagle-delayed-ack --rtt 8ms")]
    Up(Choice),
    /// Stop a scenario that `up` started
    #[command(after_help = "\
Examples:
  sudo lagtrace-lab down nagle-delayed-ack")]
    Down {
        /// The scenario, or the id that `up` printed
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print a shell's completion script
    Completions(manual::Shell),
    /// Print the manual page, or write all of them into a directory
    Man(manual::Pages),
    /// What the lab starts; not for people
    #[command(name = HELPER, hide = true)]
    Helper {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// A scenario, and the round-trip time between its hosts.
#[derive(Debug, Args)]
struct Choice {
    /// The scenario, or a scenario file (*.toml)
    #[arg(value_name = "NAME")]
    name: String,
    /// The round trip between the two hosts; a bare number means milliseconds
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    rtt: Option<Duration>,
}

/// Runs the subcommand of `lagtrace-lab` that the command line names.
pub fn run() -> ExitCode {
    let (Arguments { mut output, action }, matches) =
        parsed(Arguments::command(), env::args_os().collect());
    if let Action::Record(_) = action {
        // There `--output` names the folder of the recordings.
        output.output = None;
    }
    let offer = Offer {
        page: matches!(action, Action::Score(_)),
        ..Offer::default()
    };
    let output = output.settled(offer).unwrap_or_else(|reason| {
        let mut arguments = Arguments::command();
        arguments.error(ErrorKind::InvalidValue, reason).exit()
    });
    let console = Console::new(&output);
    if let Action::Helper { arguments } = action {
        return lagtrace_lab::helper_main(arguments);
    }
    let outcome = NamedPaths::of(&matches)
        .check()
        .and_then(|()| page::check(&console))
        .and_then(|()| carry_out(action, &console));
    console.close(outcome)
}

fn carry_out(action: Action, console: &Console) -> Result<Outcome> {
    match action {
        Action::List => catalogue::list(console),
        Action::Show { name } => {
            scenario(&name).and_then(|scenario| show::show(&scenario, console))
        }
        Action::Run(options) => run::run(&options, console),
        Action::Record(options) => record::run(&options, console),
        Action::Score(options) => score::run(&options, console),
        Action::Strangers(options) => strangers::run(&options, console),
        Action::Up(choice) => up(&choice, console),
        Action::Down { name } => down(&name, console),
        Action::Completions(options) => manual::completions(&options, Arguments::command()),
        Action::Man(options) => manual::pages(&options, Arguments::command()),
        Action::Helper { .. } => Ok(Outcome::Clean),
    }
}

/// Returns the path of `lagtrace`, which is in the same folder as this program.
fn lagtrace() -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program's own file")?;
    let program = own.with_file_name("lagtrace");
    if program.exists() {
        return Ok(program);
    }
    let text = format!("there is no {}", program.display());
    Err(Failure::new(text)
        .hint("lagtrace-lab runs the lagtrace in its own directory: build or install both"))
}

impl Choice {
    fn scenario(&self) -> Result<Scenario> {
        let scenario = scenario(&self.name)?;
        Ok(match self.rtt {
            Some(rtt) => scenario.with_round_trip(rtt),
            None => scenario,
        })
    }

    fn bring_up(&self) -> Result<Lab> {
        Lab::bring_up(&self.scenario()?, &Helper::this_program(HELPER)).map_err(failed)
    }
}

fn up(choice: &Choice, console: &Console) -> Result<Outcome> {
    let lab = choice.bring_up()?;
    let urls: Vec<_> = lab
        .scenario()
        .services
        .iter()
        .map(|service| (service.name.clone(), lab.url(service, Family::V4)))
        .collect();
    let run = lab.detach().map_err(failed)?;
    let inside = format!("sudo ip netns exec {}", run.client_namespace());
    let mut text = format!("{} is up as {}\n", run.scenario.name, run.id);
    for (name, url) in urls {
        writeln!(text, "{name:14} {inside} lagtrace diagnose {url}").ok();
    }
    writeln!(text, "stop it:  sudo lagtrace-lab down {}", run.id).ok();
    print(&text, console)
}

fn down(name: &str, console: &Console) -> Result<Outcome> {
    let mut text = String::new();
    for run in lagtrace_lab::take_down(name).map_err(failed)? {
        writeln!(text, "{} ({}) is down", run.scenario.name, run.id).ok();
    }
    print(&text, console)
}

fn print(text: &str, console: &Console) -> Result<Outcome> {
    deliver(console, text)?;
    Ok(Outcome::Clean)
}

/// Returns a built-in scenario by its name, or one of the user's own by its file.
fn scenario(name: &str) -> Result<Scenario> {
    if !name.ends_with(".toml") {
        return Scenario::by_name(name).map_err(failed);
    }
    let text = files::read(Path::new(name), MAX_SCENARIO);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let text = text.ok_or_else(|| Failure::new(format!("{name} is longer than 1 MiB")))?;
    let text = String::from_utf8(text).with_context(|| format!("cannot read {name}"))?;
    Scenario::parse(name, &text).map_err(failed)
}

/// Returns the lab's error with its hint.
fn failed(error: lagtrace_lab::Error) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn milliseconds(text: &str) -> std::result::Result<Duration, String> {
    if text.ends_with(|last: char| last.is_ascii_digit()) {
        duration::parse(&format!("{text}ms"))
    } else {
        duration::parse(text)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the definition of the command line, for tests of all options.
    pub(crate) fn command_line() -> clap::Command {
        Arguments::command()
    }

    #[test]
    fn a_bare_number_means_milliseconds_with_its_fraction() {
        for (text, micros) in [
            ("8", 8_000),
            ("33.2", 33_200),
            ("1.5s", 1_500_000),
            ("0", 0),
        ] {
            assert_eq!(
                milliseconds(text),
                Ok(Duration::from_micros(micros)),
                "{text}"
            );
        }
        assert!(milliseconds("").is_err() && milliseconds("x1").is_err());
    }
}
