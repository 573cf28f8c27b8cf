//! The lab's own processes: the keeper of a run, the path emulator, the small servers. Each is the
//! current program, started again with other arguments.

use std::ffi::OsString;
use std::process::ExitCode;

use serde::de::DeserializeOwned;

use crate::client;
use crate::error::Error;
use crate::lab::keeper;
use crate::path::emulator;
use crate::server::control::watch;
use crate::server::{dns, mail, own};
use crate::stranger;

/// Runs a helper process according to its arguments: `keep`, or one of `path`, `serve`, `dns`,
/// `mail`, `watch`, `ask`, `stranger-serve` and `stranger-ask` followed by the file of its plan. Not for direct use: [`crate::Lab`]
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
        ["stranger-serve", plan] => read_plan(plan).and_then(stranger::serve),
        ["stranger-ask", plan] => read_plan(plan).and_then(|plan| stranger::ask(&plan)),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // stderr is the process's log in the run's folder; the process that
            // keeps the run reports its last lines.
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
