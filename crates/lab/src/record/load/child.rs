//! A program that runs to its end or to a deadline.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::Error;
use crate::machine::process::Process;

/// The outcome of one run of a program.
pub(super) struct Output {
    pub(super) text: String,
    pub(super) is_success: bool,
    pub(super) took: Duration,
}

pub(super) fn run_to_end(
    command: Command,
    program: &str,
    deadline: Instant,
) -> Result<Output, Error> {
    let begun = Instant::now();
    let mut child = start(command, program)?;
    let mut stdout = child.stdout.take().expect("its stdout was piped");
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // If the program was ended, the output that it had written is used.
        let _ = stdout.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let is_success = wait_until(&mut child, deadline);
    let took = begun.elapsed();
    let text = reader
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok(Output {
        text,
        is_success,
        took,
    })
}

fn start(mut command: Command, program: &str) -> Result<Child, Error> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| Error::Start {
            program: program.to_owned(),
            source,
        })
}

/// Waits for a program to end, and ends it at the deadline; returns true if it ended successfully.
fn wait_until(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => sleep(Duration::from_millis(1)),
            _ => {
                end(child);
                return false;
            }
        }
    }
}

/// Ends a program: with SIGTERM first, and with SIGKILL half a second later.
pub(super) fn end(child: &mut Child) {
    let process = i32::try_from(child.id()).ok().and_then(Process::with_pid);
    if let Some(process) = process {
        process.signal(Signal::TERM);
        if process.wait_for_end(Duration::from_millis(500)) {
            let _ = child.wait();
            return;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}
