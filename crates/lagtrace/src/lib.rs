//! A program that determines what slow requests spend their time on, and what to change.
//!
//! This crate combines the other parts: it parses the arguments, runs the sources, passes their
//! observations to the analyzer and prints the report. It contains no protocol logic and no
//! thresholds.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use mimalloc::MiMalloc;

mod analyze;
mod arguments;
mod call_trace;
mod capture;
mod clock;
mod compare;
mod conclusion;
mod console;
mod delivery;
mod diagnose;
mod duration;
mod exit;
mod explain;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod interrupt;
mod lab;
mod load;
mod lookup;
mod manual;
mod output;
mod page;
mod probe;
mod render;
mod route;
mod saved;
mod sockets;
mod tls;
mod view;
mod watch;
mod words;

use arguments::{Arguments, Command};
use console::Console;
pub use lab::run as run_lab;

/// The allocator. An analysis allocates and frees memory for each connection and each exchange;
/// with the C library's allocator, this takes a quarter of its time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs the subcommand of `lagtrace` that the command line names.
pub fn run() -> ExitCode {
    let Arguments { output, command } = Arguments::parse();
    let output = output.settled(command.offer());
    let output = output.unwrap_or_else(|reason| {
        let mut arguments = Arguments::command();
        arguments.error(ErrorKind::InvalidValue, reason).exit()
    });
    let console = Console::new(&output);
    let outcome = page::check(&output).and_then(|()| carry_out(command, &console));
    console.close(outcome)
}

fn carry_out(command: Command, console: &Console) -> failure::Result<exit::Outcome> {
    match command {
        Command::Diagnose(options) => diagnose::run(&options, console),
        Command::Route(options) => route::run(&options, console),
        Command::Analyze(options) => analyze::run(&options, console),
        Command::Capture(options) => capture::run(&options, console),
        Command::Compare(options) => compare::run(&options, console),
        Command::View(options) => view::run(&options, console),
        Command::Load(options) => load::run(&options, console),
        Command::Probe(options) => probe::run(&options, console),
        Command::Sockets(options) => sockets::run(&options, console),
        Command::Watch(options) => watch::run(&options, console),
        Command::Explain(options) => explain::run(&options, console),
        Command::Completions(options) => manual::completions(&options, Arguments::command()),
        Command::Man(options) => manual::pages(&options, Arguments::command()),
    }
}
