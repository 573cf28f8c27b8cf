//! The command `lagtrace probe`, which measures round trips to targets with the kernel's
//! timestamps.

mod line;
mod loaded;
mod options;
mod packet;
mod plan;
mod session;
mod targets;
mod values;

use std::io::Write;

use anyhow::Context as _;
use lagtrace_core::observed::event::ProbeAnswer;
use lagtrace_core::report::{Probe, Report};

use crate::clock;
use crate::conclusion::{self, About};
use crate::console::Console;
use crate::delivery::{Lines, unless_unread, writing};
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::page;
use crate::render::{self, html};
pub(crate) use options::Options;
use plan::Plan;
use session::Session;
pub(crate) use values::{Ports, parse_ports};

/// Maximum number of series in parallel; each has its own thread.
const MAX_SERIES: usize = 256;

/// Probes, prints each answer as it arrives, and prints a summary.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let (targets, mut events) = targets::find(options, console)?;
    let load = options.load(&mut events)?;
    let urls = targets.iter().filter_map(|target| target.url.as_ref());
    let tls = options.tls.client(urls, options.carried())?;
    let plans = targets
        .iter()
        .map(|target| options.plan(target, tls.as_ref()));
    let plans = plans.collect::<Result<Vec<Plan>>>()?;
    if plans.len() > MAX_SERIES {
        let told = format!(
            "{} concurrent series are too many: at most {MAX_SERIES}",
            plans.len()
        );
        return Err(Failure::new(told).hint("give fewer targets or ports"));
    }
    let started = clock::now();
    let mut session = Session::begin(options, console)?;
    events
        .into_iter()
        .for_each(|event| session.analyzer.observe(event));
    session.measure(&plans, &interrupt)?;
    if let Some(load) = load.filter(|_| !interrupt.is_requested()) {
        session.measure_under(&load, &plans, &interrupt)?;
    }
    if !session.has_measured {
        let subject = options.targets.join(" ");
        let about = About {
            command: "probe",
            subject: &subject,
            started,
        };
        return conclusion::interrupted(about, console);
    }
    if interrupt.is_requested() {
        let text = "Interrupted: probes in flight at that time are not counted.".to_owned();
        session
            .analyzer
            .observe(conclusion::note("interrupted", text));
    }
    let mut report = session.analyzer.finish();
    "probe".clone_into(&mut report.command);
    report.subject = options.targets.join(" ");
    report.started = clock::started(Some(started.as_nanos()));
    conclude(&report, console, session.lines)
}

/// Writes the summary after the lines of the answers.
fn conclude(report: &Report, console: &Console, mut lines: Lines) -> Result<Outcome> {
    let document = match console.output().format {
        Format::Text => render::probes(report, &console.style()),
        Format::Json => render::json(report),
        Format::Ndjson => render::ndjson(report),
    };
    let shown = || html::Document::of_report(report, None);
    page::beside(console, shown, || {
        let written = lines.write_all(document.as_bytes());
        let written = written.and_then(|()| lines.finish());
        Ok(unless_unread(written).with_context(|| writing(console))?)
    })?;
    if report.probes.iter().any(Probe::is_faulty) {
        Ok(Outcome::Found)
    } else {
        Ok(Outcome::Clean)
    }
}

/// Returns true if the answer is the one that the probe requests.
fn is_good(answer: ProbeAnswer) -> bool {
    matches!(
        answer,
        ProbeAnswer::Open
            | ProbeAnswer::Echo
            | ProbeAnswer::Datagram
            | ProbeAnswer::Secured
            | ProbeAnswer::Status(_)
    )
}
