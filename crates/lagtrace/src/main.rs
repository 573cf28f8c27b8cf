//! The program `lagtrace`, which finds where the milliseconds of slow requests went.

use std::process::ExitCode;

fn main() -> ExitCode {
    lagtrace::run()
}
