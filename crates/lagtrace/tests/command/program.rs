//! Helpers that run the program and read its output.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Returns the path of the program under test: the one that `LAGTRACE_PROGRAM` names, or else the
/// one of this build. `./figures` sets the variable to test the release build.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("LAGTRACE_PROGRAM").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_lagtrace")))
}

/// Returns the path of `lagtrace-lab`, which is in the folder of the program under test.
pub(crate) fn lab_program() -> PathBuf {
    let named = std::env::var_os("LAGTRACE_PROGRAM").map(PathBuf::from);
    let beside = named.map(|program| program.with_file_name("lagtrace-lab"));
    beside.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_lagtrace-lab")))
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program with these arguments, to its end.
pub(crate) fn lagtrace<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Run {
    run(Command::new(program()).args(arguments))
}

/// Runs the lab's program with these arguments, to its end.
pub(crate) fn lagtrace_lab<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Run {
    run(Command::new(lab_program()).args(arguments))
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Run {
    Run::new(command.stdin(Stdio::null()).output().unwrap())
}

impl Run {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Parses standard output as JSON; panics if it is not JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("no JSON: {error}\n{self:#?}"),
        }
    }

    /// Panics, with the whole output, unless the exit code is `code`.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

/// Returns the ids of a report's findings.
pub(crate) fn findings(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    let causes = findings.iter().filter(|f| f["locates"] != true);
    causes.map(|f| f["cause"].as_str().unwrap()).collect()
}

/// Returns the ids of a report's notes.
pub(crate) fn notes(report: &Value) -> Vec<&str> {
    let notes = report["notes"].as_array().unwrap();
    notes
        .iter()
        .map(|note| note["id"].as_str().unwrap())
        .collect()
}

/// Returns true if a test that needs root can run. Without root, the test is skipped, or fails if
/// `LAGTRACE_REQUIRE_ALL` is 1.
pub(crate) fn has_root(test: &str) -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt as _;
        own.uid() == 0
    });
    may_run(test, "root", is_root)
}

/// Returns true if a test that needs this tool can run; see [`has_root`].
pub(crate) fn has_tool(test: &str, tool: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&paths).any(|folder| folder.join(tool).is_file());
    may_run(test, tool, is_there)
}

/// Returns true if a test can run whose requirement is met (`is_there`); see [`has_root`].
pub(crate) fn may_run(test: &str, need: &str, is_there: bool) -> bool {
    let is_required = std::env::var_os("LAGTRACE_REQUIRE_ALL").is_some_and(|all| all == "1");
    assert!(
        is_there || !is_required,
        "{test} needs {need}, and nothing may be skipped"
    );
    if !is_there {
        eprintln!("skipped: needs {need} ({test})");
    }
    is_there
}
