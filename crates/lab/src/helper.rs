//! The lab's own processes: the keeper of a run, the path emulator, the small servers. Each is the
//! current program, started again with other arguments.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::server::{dns, mail, own};
use crate::{client, control::watch, keeper, path::emulator};

/// The command line of a program that passes the arguments that follow to [`helper_main`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    program: PathBuf,
    prefix: Vec<OsString>,
}

/// The path of the current program, valid even if its file has been replaced since.
const THIS_PROGRAM: &str = "/proc/self/exe";

impl Helper {
    /// Returns the current program, which passes the arguments after `subcommand` to
    /// [`helper_main`].
    pub fn this_program(subcommand: &str) -> Self {
        Self {
            program: THIS_PROGRAM.into(),
            prefix: vec![subcommand.into()],
        }
    }

    /// Returns another program, which passes all its arguments to [`helper_main`].
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self {
            program: path.into(),
            prefix: Vec::new(),
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.program == Path::new(THIS_PROGRAM) {
            command.arg0(
                std::env::args_os()
                    .next()
                    .unwrap_or_else(|| "lagtrace".into()),
            );
        }
        command.args(&self.prefix);
        command
    }

    /// Returns the prefix, for a helper that starts further helpers.
    pub(crate) fn prefix(&self) -> Vec<String> {
        self.prefix
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    /// Returns the program of the calling helper, with this prefix.
    pub(crate) fn again(prefix: &[String]) -> Self {
        Self {
            program: THIS_PROGRAM.into(),
            prefix: prefix.iter().map(OsString::from).collect(),
        }
    }
}

/// Runs a helper process according to its arguments: `keep`, or one of `path`, `serve`, `dns`,
/// `mail`, `watch` and `ask` followed by the file of its plan. Not for direct use: [`crate::Lab`]
/// starts these processes.
pub fn helper_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<String> = arguments
        .into_iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["keep"] => return keeper::main(),
        ["path", plan] => read_plan(plan).and_then(|plan| emulator::run(&plan)),
        ["serve", plan] => read_plan(plan).and_then(own::run),
        ["dns", plan] => read_plan(plan).and_then(dns::run),
        ["mail", plan] => read_plan(plan).and_then(mail::run),
        ["watch", plan] => read_plan(plan).and_then(watch::run),
        ["ask", plan] => read_plan(plan).and_then(|plan| client::run(&plan)),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // stderr is the process's log in the run's folder; the keeper reports the end of it.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{}\n", error.chain()).as_bytes(),
            );
            ExitCode::FAILURE
        }
    }
}

fn read_plan<P: DeserializeOwned>(file: &str) -> Result<P, Error> {
    let text = std::fs::read(file).map_err(Error::file("read", file))?;
    serde_json::from_slice(&text).map_err(|source| Error::BadLog {
        path: file.into(),
        line: source.line(),
        source,
    })
}
