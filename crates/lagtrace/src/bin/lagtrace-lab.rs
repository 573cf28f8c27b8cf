//! The program `lagtrace-lab`, which reproduces causes of latency and tests whether lagtrace finds
//! them.

use std::process::ExitCode;

fn main() -> ExitCode {
    lagtrace::run_lab()
}
