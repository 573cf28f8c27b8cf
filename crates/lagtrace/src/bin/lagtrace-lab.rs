//! The program `lagtrace-lab`: causes of latency on demand, and whether lagtrace finds them.

use std::process::ExitCode;

fn main() -> ExitCode {
    lagtrace::run_lab()
}
