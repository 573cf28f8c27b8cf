//! A program that determines what slow requests spend their time on, and what to change.
//!
//! This crate combines the other parts: it parses the arguments, runs the sources, passes their
//! observations to the analyzer and prints the report. It contains no protocol logic and no
//! thresholds.

use std::process::ExitCode;
use std::{panic, process};

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use mimalloc::MiMalloc;

mod analyze;
mod arguments;
mod call_trace;
mod capture;
mod clock;
mod compare;
mod conclusion;
mod confinement;
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
mod json;
mod lab;
mod load;
mod lookup;
mod manual;
mod output;
mod outputs;
mod page;
mod probe;
mod render;
mod route;
mod saved;
mod self_test;
mod sockets;
mod tls;
mod usage;
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
    end_at_panics();
    let (arguments, matches) = usage::parsed();
    let Arguments {
        output,
        confinement,
        command,
    } = arguments;
    let output = output.settled(command.offer());
    let output = output.unwrap_or_else(|reason| {
        let mut command_line = Arguments::command();
        command_line.error(ErrorKind::InvalidValue, reason).exit()
    });
    let mut console = Console::new(&output);
    let confined = match confinement.begin(command.needs(), &matches) {
        Ok(confined) => confined,
        Err(failure) => return console.close(Err(failure)),
    };
    console.remember(confined.remark());
    let outcome = page::check(&console).and_then(|()| carry_out(command, &console));
    let code = console.close(outcome);
    confined.end();
    code
}

/// Makes a panic of any thread end the process: what would go on could report half of the truth.
/// The keeper then undoes what is to be undone, as after any other end of the worker.
fn end_at_panics() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |reason| {
        watch::restore_terminal();
        tell(reason);
        process::exit(exit::FAILURE.into())
    }));
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
        Command::SelfTest(_) => self_test::run(console),
        Command::Explain(options) => explain::run(&options, console),
        Command::Completions(options) => manual::completions(&options, Arguments::command()),
        Command::Man(options) => manual::pages(&options, Arguments::command()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::{env, thread};

    /// The variable that makes [`in_a_thread`] panic.
    const PANICS: &str = "LAGTRACE_TEST_PANICS";

    #[test]
    fn a_panic_of_any_thread_ends_the_process() {
        let ended = Command::new(env::current_exe().expect("a path"))
            .args(["--exact", "tests::in_a_thread", "--nocapture"])
            .env(PANICS, "1")
            .output()
            .expect("it starts");
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("on purpose"));
    }

    #[test]
    fn in_a_thread() {
        if env::var_os(PANICS).is_some() {
            super::end_at_panics();
            thread::spawn(|| panic!("on purpose")).join().ok();
        }
    }
}
