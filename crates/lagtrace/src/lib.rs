//! A program that determines what slow requests spend their time on, and what to change.
//!
//! This crate combines the other parts: it parses the arguments, runs the sources, passes their
//! observations to the analyzer and prints the report. It contains no protocol logic and no
//! thresholds.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, panic, process};

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _};
use lagtrace_sources::inherited;
use mimalloc::MiMalloc;
use signal_hook::consts::SIGXFSZ;
use signal_hook::flag;

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
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod habits;
mod help;
mod interrupt;
mod json;
mod lab;
mod load;
mod locale;
mod lookup;
mod manual;
mod named;
mod output;
mod outputs;
mod page;
mod probe;
mod render;
mod request;
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
use named::NamedPaths;
use output::Output;

/// The allocator. An analysis allocates and frees memory for each connection and each exchange;
/// with the C library's allocator, this takes a quarter of its time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs the subcommand of `lagtrace` that the command line names.
pub fn run() -> ExitCode {
    end_at_panics();
    close_files_of_others();
    survive_limits();
    let (arguments, matches) = match command_line() {
        Ok(parsed) => parsed,
        Err(failure) => return Console::new(&Output::default()).close(Err(failure)),
    };
    let Arguments {
        output,
        confinement,
        mut command,
    } = arguments;
    let output = output.settled(command.offer()).unwrap_or_else(|reason| {
        let mut command_line = Arguments::command();
        command_line.error(ErrorKind::InvalidValue, reason).exit()
    });
    let mut console = Console::new(&output);
    if let Err(failure) = command.adopt(&console) {
        return console.close(Err(failure));
    }
    command.prepare();
    let needs = command.needs();
    let inputs = needs.as_ref().map(|needs| needs.scope.inputs.as_slice());
    let named = NamedPaths::of(&matches).with_inputs(inputs.unwrap_or_default());
    let confined = named
        .check()
        .and_then(|()| confinement.begin(needs, &named));
    let confined = match confined {
        Ok(confined) => confined,
        Err(failure) => return console.close(Err(failure)),
    };
    console.remember(confined.remark());
    let outcome = page::check(&console).and_then(|()| carry_out(command, &console));
    let code = console.close(outcome);
    confined.end();
    code
}

/// Makes a write beyond the user's limit for the size of files (`ulimit -f`) an error like any other:
/// by default, the signal ends the program without a word.
fn survive_limits() {
    flag::register(SIGXFSZ, Arc::default()).ok();
}

/// Closes the files that the shell or another program left open for this one, except those that the
/// command line names, as `-w /dev/fd/3` or `<(command)` do. An error is ignored: without it, the
/// program works as well.
fn close_files_of_others() {
    let words = env::args_os().skip(1);
    let named: Vec<i32> = words
        .flat_map(|word| descriptors(&word.to_string_lossy()))
        .collect();
    inherited::close_inherited(&named).ok();
}

/// Returns the numbers of the open files that a word of the command line names, also within it
/// (`--data=@/dev/fd/63`).
fn descriptors(word: &str) -> Vec<i32> {
    let parts = word.split("/fd/").skip(1);
    let number = |part: &str| {
        let digits = part.split(|c: char| !c.is_ascii_digit());
        digits.into_iter().next()?.parse().ok()
    };
    parts.filter_map(number).collect()
}

/// Reads the command line; ends the program if it asks for help, or is wrong.
fn command_line() -> failure::Result<(Arguments, ArgMatches)> {
    let root = Arguments::command();
    let words: Vec<OsString> = env::args_os().collect();
    if let Some(mut subject) = help::subject(&words, &root) {
        subject.print_help()?;
        process::exit(0);
    }
    let words = habits::read(words, &root)?;
    let known = habits::known(help::arranged(root));
    let (arguments, matches) = usage::parsed(known, words);
    habits::answered(&matches)?;
    Ok((arguments, matches))
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
        Command::SelfTest(options) => self_test::run(&options, console),
        Command::Explain(options) => explain::run(&options, console),
        Command::Completions(options) => {
            manual::completions(&options, help::arranged(Arguments::command()))
        }
        Command::Man(options) => manual::pages(&options, help::arranged(Arguments::command())),
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
