//! The last stage of every command that performs a diagnosis: printing the report.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use lagtrace_core::analyzer::{self, Analyzer};
use lagtrace_core::observed::event::{Event, EventBody, Note, Phase, TargetId};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::report::{Picture, Report};
use lagtrace_core::views::picture::Keeps;

use crate::clock::{self, now};
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::output::{Form, Format};
use crate::page;
use crate::render::{self, html};

/// Returns the analyzer's options.
pub(crate) fn options(targets: Vec<(TargetId, Endpoint)>) -> analyzer::Options {
    analyzer::Options {
        hash_seed: seed(),
        targets,
        ..analyzer::Options::default()
    }
}

/// Returns an analyzer that collects the data to draw its result, if they are needed.
pub(crate) fn analyzer(options: analyzer::Options, is_drawn: bool) -> Analyzer {
    let analyzer = Analyzer::new(options);
    if is_drawn {
        analyzer.with_picture()
    } else {
        analyzer
    }
}

/// Returns an analyzer of packets that cannot be read again. If its result is drawn, it keeps them
/// for the examples.
pub(crate) fn live_analyzer(options: analyzer::Options, is_drawn: bool, keeps: Keeps) -> Analyzer {
    let analyzer = self::analyzer(options, is_drawn);
    if is_drawn {
        analyzer.with_packets(keeps)
    } else {
        analyzer
    }
}

/// Returns a seed for the hash of keys that come from the network.
pub(crate) fn seed() -> u64 {
    // The standard library seeds its hasher with random numbers of the kernel.
    RandomState::new().build_hasher().finish()
}

/// Returns a remark added by the command itself.
pub(crate) fn note(id: &str, text: String) -> Event {
    let note = Note {
        id: id.to_owned(),
        text,
    };
    Event::here(now(), Phase::Baseline, EventBody::Note(note))
}

/// Prints the report in the requested form, writes its page, and returns the outcome.
pub(crate) fn conclude(
    report: &Report,
    picture: Option<Picture>,
    console: &Console,
) -> Result<Outcome> {
    let noted = console.remark().map(|remark| {
        let mut report = report.clone();
        report.notes.push(remark.clone());
        report
    });
    let report = noted.as_ref().unwrap_or(report);
    let shown = || html::Document::of_report(report, picture);
    page::beside(console, shown, || print(report, console))?;
    Ok(Outcome::of(report))
}

/// Prints that the user interrupted the command before anything was measured.
pub(crate) fn interrupted(about: About<'_>, console: &Console) -> Result<Outcome> {
    if !matches!(
        console.output().form,
        Form::Text | Form::Json | Form::Ndjson
    ) {
        return Ok(Outcome::Interrupted);
    }
    let mut report = Report::nothing();
    about.command.clone_into(&mut report.command);
    about.subject.clone_into(&mut report.subject);
    report.started = clock::started(Some(about.started.as_nanos()));
    report.interrupt(now().since(about.started));
    conclude(&report, None, console)
}

/// A run that measured nothing.
pub(crate) struct About<'a> {
    pub(crate) command: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) started: Timestamp,
}

fn print(report: &Report, console: &Console) -> Result<()> {
    let document = match console.output().format {
        _ if console.output().form == Form::Csv => render::route_csv(report),
        Format::Text => render::text(report, &console.style()),
        Format::Json => render::json(report),
        Format::Ndjson => render::ndjson(report),
    };
    deliver(console, &document)
}
