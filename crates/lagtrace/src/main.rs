//! The program `lagtrace`, which determines what slow requests spend their time on.

use std::process::ExitCode;

fn main() -> ExitCode {
    lagtrace::run()
}
