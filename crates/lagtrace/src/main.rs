//! `lagtrace`: where the milliseconds of slow requests went, and what to change.

use std::process::ExitCode;

fn main() -> ExitCode {
    lagtrace::run()
}
