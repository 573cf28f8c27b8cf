//! The lab's helper processes as a separate program, for this crate's tests, examples and
//! benchmarks. The `lagtrace` command is its own helper.

use std::process::ExitCode;

fn main() -> ExitCode {
    lagtrace_lab::helper_main(std::env::args_os().skip(1))
}
