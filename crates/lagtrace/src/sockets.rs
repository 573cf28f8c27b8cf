//! The command `lagtrace sockets`, which prints the options and state of live sockets.

mod change;
mod kernel;
mod options;
mod trace;

use std::collections::BTreeMap;
use std::io::Write;
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::sockets::LiveSocket;
use lagtrace_core::report::Report;
use lagtrace_sources::socket::survey::Survey;

use crate::clock;
use crate::conclusion;
use crate::console::Console;
use crate::delivery::{self, Lines, writing};
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::{CHECKED_EVERY, Interrupt};
use crate::output::Format;
use crate::render;
use kernel::Kernel;
pub(crate) use options::Options;

/// Minimum ratio of the pause after a survey to the survey's own time, so that surveys take at most
/// a tenth of one processor.
const PAUSE_PER_LOOK: u32 = 9;

/// Surveys sockets once or repeatedly, or traces system calls on them, and prints the result.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    if options.is_tracing() {
        trace::run(options, console)
    } else {
        look(options, console)
    }
}

fn look(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let mut survey = Survey::open(options.choice()?).map_err(Failure::from)?;
    let started = clock::now();
    let mut session = Session {
        options,
        console,
        analyzer: Analyzer::new(conclusion::options(Vec::new())),
        lines: delivery::open(console, true)?,
        before: None,
        kernel: None,
    };
    session.observe(&mut survey, &interrupt)?;
    if let Some(kernel) = session.kernel.take() {
        kernel.end(&mut session.analyzer, options.is_following());
    }
    let notes = survey.notes();
    let mut lines = session.lines;
    for note in notes {
        session
            .analyzer
            .observe(conclusion::note(&note.id, note.text));
    }
    let mut report = session.analyzer.finish();
    "sockets".clone_into(&mut report.command);
    report.subject = options.subject();
    report.started = clock::started(Some(started.as_nanos()));
    let document = document(&report, console);
    lines
        .write_all(document.as_bytes())
        .and_then(|()| lines.finish())
        .with_context(|| writing(console))?;
    Ok(Outcome::Clean)
}

fn document(report: &Report, console: &Console) -> String {
    match console.output().format {
        Format::Text => render::live(report, &console.style()),
        Format::Json => render::json(report),
        Format::Ndjson => render::ndjson(report),
    }
}

/// A session of surveys that is running.
struct Session<'a> {
    options: &'a Options,
    console: &'a Console,
    analyzer: Analyzer,
    lines: Lines,
    /// The sockets in the last survey.
    before: Option<BTreeMap<change::Key, LiveSocket>>,
    /// The kernel's counters since the first survey.
    kernel: Option<Kernel>,
}

impl Session<'_> {
    fn observe(&mut self, survey: &mut Survey, interrupt: &Interrupt) -> Result<()> {
        let begun = Instant::now();
        let end = self.options.duration.map(|duration| begun + duration);
        let is_over = || interrupt.is_requested() || end.is_some_and(|end| Instant::now() >= end);
        loop {
            let looked = Instant::now();
            let sockets = survey.look().map_err(Failure::from)?;
            self.kernel.get_or_insert_with(|| Kernel::begin(&sockets));
            self.take(sockets)?;
            if !self.options.is_following() {
                return Ok(());
            }
            let pause = looked.elapsed() * PAUSE_PER_LOOK;
            let next = (looked + self.options.interval).max(Instant::now() + pause);
            while !is_over() && Instant::now() < next {
                let left = next.saturating_duration_since(Instant::now());
                thread::sleep(left.min(CHECKED_EVERY));
            }
            if is_over() {
                break;
            }
        }
        if let Some(sockets) = survey.look_at_last().map_err(Failure::from)? {
            self.take(sockets)?;
        }
        Ok(())
    }

    fn take(&mut self, sockets: Vec<LiveSocket>) -> Result<()> {
        let at = clock::now();
        let now: BTreeMap<change::Key, LiveSocket> = sockets
            .into_iter()
            .map(|socket| (change::key(&socket), socket))
            .collect();
        if let Some(before) = self.before.take() {
            self.show(&change::between(&before, &now), at)?;
        }
        for socket in now.values() {
            let body = EventBody::LiveSocket(Box::new(socket.clone()));
            self.analyzer
                .observe(Event::here(at, Phase::Baseline, body));
        }
        if self.options.is_following() {
            self.before = Some(now);
        }
        Ok(())
    }

    fn show(
        &mut self,
        changes: &[change::Change<'_>],
        at: lagtrace_core::observed::time::Timestamp,
    ) -> Result<()> {
        let output = self.console.output();
        for change in changes {
            let line = match output.format {
                Format::Text if !output.quiet => change.text(at),
                Format::Ndjson => change.json(at),
                _ => continue,
            };
            writeln!(self.lines, "{line}").with_context(|| writing(self.console))?;
        }
        self.lines.flush().with_context(|| writing(self.console))?;
        Ok(())
    }
}
