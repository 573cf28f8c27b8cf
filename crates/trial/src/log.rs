//! The log of live tests, from which runs and void tests can be counted.

use std::env;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;
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
    append(&again(name));
    let told = writeln!(io::stderr(), "void: {name}: {reason}");
    told.expect("standard error takes a line");
}

/// Returns the line that tells how to run a void test again. The harness names the thread of a test
/// after it; where it runs on the main thread, `name` has to do.
fn again(name: &str) -> String {
    let thread = std::thread::current();
    let test = thread.name().filter(|&test| test != "main").unwrap_or(name);
    let path = |path: io::Result<PathBuf>| path.unwrap_or_default().display().to_string();
    let (folder, program) = (path(env::current_dir()), path(env::current_exe()));
    format!("again\t{folder}\t{program}\t{test}\n")
}

fn append(line: &str) {
    if let Some(path) = env::var_os(LOG) {
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
