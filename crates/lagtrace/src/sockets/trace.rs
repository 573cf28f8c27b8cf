//! The option `--trace` of `lagtrace sockets`, which prints calls on sockets as they happen.

mod line;

use std::io::Write;
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use lagtrace_core::observed::syscall::SocketCall;
use lagtrace_sources::kernel::Calls;

use super::Options;
use crate::call_trace::TAKEN_EVERY;
use crate::console::Console;
use crate::delivery::{self, writing};
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::watch::refused;
use crate::words;

/// Traces until the user or the duration ends the trace.
pub(super) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    if console.output().format == Format::Json {
        let refusal = anyhow::anyhow!("--trace prints no document");
        return Err(Failure::from(refusal).hint("--format ndjson prints each call as JSON"));
    }
    let interrupt = Interrupt::listen()?;
    let mut lines = Lines {
        is_json: console.output().format == Format::Ndjson,
        to: delivery::open(console, true)?,
        failure: None,
    };
    let mut calls = Calls::start(options.calls()?).map_err(refused)?;
    let end = options.duration.map(|duration| Instant::now() + duration);
    console.detail("the tracepoints are attached");
    while !interrupt.is_requested() && end.is_none_or(|end| Instant::now() < end) {
        thread::sleep(TAKEN_EVERY);
        calls.take(|call| lines.take(&call));
        lines.flush(console)?;
    }
    let tally = calls.finish(|call| lines.take(&call));
    lines.flush(console)?;
    lines.to.finish().with_context(|| writing(console))?;
    if tally.lost > 0 {
        console.note(&format!(
            "the kernel reported more calls than lagtrace could process: {} missing. Select fewer \
             with --pid, -p or --cgroup.",
            words::plural(tally.lost, "call"),
        ));
    }
    Ok(Outcome::Clean)
}

/// The output, one call per line.
struct Lines {
    is_json: bool,
    to: delivery::Lines,
    /// The error with which a line could not be written.
    failure: Option<std::io::Error>,
}

impl Lines {
    fn take(&mut self, call: &SocketCall) {
        if self.failure.is_some() {
            return;
        }
        let line = if self.is_json {
            line::json(call)
        } else {
            line::text(call)
        };
        self.failure = writeln!(self.to, "{line}").err();
    }

    fn flush(&mut self, console: &Console) -> Result<()> {
        match self.failure.take() {
            Some(error) => Err(error),
            None => self.to.flush(),
        }
        .with_context(|| writing(console))?;
        Ok(())
    }
}
