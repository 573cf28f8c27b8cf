//! The log of live tests, for whoever runs them and counts how many were void.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::time::Duration;

/// The environment variable that names the log's file.
const LOG: &str = "LAGTRACE_VOID_LOG";

/// Notes that a test begins.
pub(crate) fn run(name: &str) {
    append(&format!("run {name}\n"));
}

/// Notes how long a test took once it had its place.
pub(crate) fn took(name: &str, time: Duration) {
    append(&format!("took {:.1} {name}\n", time.as_secs_f64()));
}

/// Notes that a test is void, and tells it on standard error even where the test harness captures
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

/// Appends a line in one write, so that lines of several processes stay whole.
fn append_to(path: &OsStr, line: &str) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("append to {}: {error}", path.to_string_lossy());
    }
}
