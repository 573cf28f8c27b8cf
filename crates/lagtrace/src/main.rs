//! A program that finds where the milliseconds of slow requests went, and what to change.
//!
//! This is the assembly: it parses the arguments, lets the sources observe, hands their
//! observations to the analyzer and prints its report. It knows no protocol and no threshold.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use mimalloc::MiMalloc;

mod analyze;
mod arguments;
mod capture;
mod compare;
mod conclusion;
mod console;
mod delivery;
mod diagnose;
mod exit;
mod explain;
mod failure;
mod interrupt;
mod investigate;
mod lab;
mod load;
mod lookup;
mod manual;
mod probe;
mod render;
mod route;
mod sockets;
mod watch;
mod words;

use arguments::{Arguments, Command};
use console::Console;

/// The allocator. An analysis allocates and frees for each connection and each exchange: a quarter
/// of its time goes to the C library's allocator otherwise.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let Arguments { output, command } = Arguments::parse();
    let Some(output) = output.settled(&command) else {
        Arguments::command()
            .error(
                ErrorKind::InvalidValue,
                "--format csv is for `lagtrace route` only",
            )
            .exit();
    };
    let console = Console::new(&output);
    let outcome = match command {
        Command::Diagnose(options) => diagnose::run(&options, &console),
        Command::Route(options) => route::run(&options, &console),
        Command::Analyze(options) => analyze::run(&options, &console),
        Command::Capture(options) => capture::run(&options, &console),
        Command::Compare(options) => compare::run(&options, &console),
        Command::Load(options) => load::run(&options, &console),
        Command::Probe(options) => probe::run(&options, &console),
        Command::Sockets(options) => sockets::run(&options, &console),
        Command::Watch(options) => watch::run(&options, &console),
        Command::Explain(options) => explain::run(&options, &console),
        Command::Lab(options) => lab::run(&options, &console),
        Command::Completions(options) => manual::completions(&options),
        Command::Man(options) => manual::pages(&options),
        Command::LabHelper { arguments } => return lagtrace_lab::helper_main(arguments),
    };
    console.close(outcome)
}
