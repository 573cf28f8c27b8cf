//! The option `--trace` of `lagtrace sockets`, which prints calls on sockets as they happen.

mod line;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::syscall::{CallTally, SocketCall};
use lagtrace_core::report::Report;
use lagtrace_sources::kernel::Calls;

use super::Options;
use crate::clock;
use crate::conclusion;
use crate::console::Console;
use crate::delivery;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::render;
use crate::watch::refused;

/// Maximum time for which calls wait in the kernel.
const PATIENCE: Duration = Duration::from_millis(20);

/// Traces until the user or the duration ends the trace; then prints a summary.
pub(super) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let mut session = Session {
        console,
        analyzer: Analyzer::new(conclusion::options(Vec::new())),
        lines: delivery::open(console)?,
        failure: None,
    };
    let mut calls = Calls::start(options.calls()?).map_err(refused)?;
    let started = clock::now();
    let end = options.duration.map(|duration| Instant::now() + duration);
    console.detail("the tracepoints are attached");
    while !interrupt.is_requested() && end.is_none_or(|end| Instant::now() < end) {
        thread::sleep(PATIENCE);
        calls.take(|call| session.take(call));
        session.flush()?;
    }
    let tally = calls.finish(|call| session.take(call));
    session.flush()?;
    let (report, mut lines) = session.report(tally, |report| {
        report.subject = options.subject();
        report.started = clock::started(Some(started.as_nanos()));
    });
    let document = match console.output().format {
        Format::Text => render::calls(&report, &console.style()),
        Format::Json => render::json(&report),
        Format::Ndjson => render::ndjson(&report),
    };
    lines
        .write_all(document.as_bytes())
        .and_then(|()| lines.flush())
        .context("write the report")?;
    Ok(Outcome::Clean)
}

/// A trace that is running.
struct Session<'a> {
    console: &'a Console,
    analyzer: Analyzer,
    lines: Box<dyn Write + Send>,
    /// The error with which a line could not be written.
    failure: Option<std::io::Error>,
}

impl Session<'_> {
    fn take(&mut self, call: SocketCall) {
        let output = self.console.output();
        let line = match output.format {
            Format::Text if !output.quiet => Some(line::text(&call)),
            Format::Ndjson => Some(line::json(&call)),
            Format::Text | Format::Json => None,
        };
        if let (Some(line), None) = (line, &self.failure) {
            self.failure = writeln!(self.lines, "{line}").err();
        }
        let body = EventBody::SocketCall(Box::new(call));
        self.analyzer
            .observe(Event::here(clock::now(), Phase::Baseline, body));
    }

    fn flush(&mut self) -> Result<()> {
        match self.failure.take() {
            Some(error) => Err(error),
            None => self.lines.flush(),
        }
        .context("write the calls")?;
        Ok(())
    }

    fn report(
        mut self,
        tally: CallTally,
        head: impl FnOnce(&mut Report),
    ) -> (Report, Box<dyn Write + Send>) {
        let body = EventBody::Traced(tally);
        self.analyzer
            .observe(Event::here(clock::now(), Phase::Baseline, body));
        let mut report = self.analyzer.finish();
        "sockets".clone_into(&mut report.command);
        head(&mut report);
        (report, self.lines)
    }
}
