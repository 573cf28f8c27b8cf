//! Where the milliseconds of slow requests went, and what to change.
//!
//! This is the assembly: it reads the arguments, lets the sources observe,
//! hands what they saw to the analyzer and prints its report. It knows no
//! protocol and no threshold.

use std::process::ExitCode;

use clap::Parser as _;

mod analyze;
mod arguments;
mod conclusion;
mod console;
mod delivery;
mod exit;
mod failure;
mod interrupt;
mod manual;
mod packets;

use arguments::{Arguments, Command};
use console::Console;

fn main() -> ExitCode {
    let Arguments { output, command } = Arguments::parse();
    let console = Console::new(&output);
    let outcome = match command {
        Command::Analyze(options) => analyze::run(&options, &console),
        Command::Completions(options) => manual::completions(&options),
        Command::Man(options) => manual::pages(&options),
    };
    console.close(outcome)
}
