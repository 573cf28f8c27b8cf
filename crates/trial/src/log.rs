//! The log of live tests, from which runs and void tests can be counted.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::time::Duration;

/// The environment variable that names the log's file.
const LOG: &str = "LAGTRACE_VOID_LOG";

/// Logs that a test begins.
pub(crate) fn run(name: &str) {
    append(&format!("run {name}\n"));
}

/// Logs how long a test took after it got its place.
pub(crate) fn took(name: &str, time: Duration) {
    append(&format!("took {:.1} {name}\n", time.as_secs_f64()));
}

/// Logs that a test is void, and writes this to standard error even if the test harness captures
/// the output of tests.
pub(crate) fn void(name: &str, reason: &str) {
    append(&format!("void {name} {reason}\n"));
    let told = writeln!(io::stderr(), "void: {name}: {reason}");
    told.expect("standard error takes a line");
}

fn append(line: &str) {
    if let Some(path) = std::env::var_os(LOG) {
        append_to(&path, line);
    }
}

/// Appends a line in a single write, so that the lines of several processes are not mixed.
fn append_to(path: &OsStr, line: &str) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("append to {}: {error}", path.to_string_lossy());
    }
}
