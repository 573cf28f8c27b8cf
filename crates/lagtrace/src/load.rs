//! The command `lagtrace load`, which sends concurrent requests and reports their true latencies.

mod hdr;
mod options;
mod planned;
mod remarks;
mod steps;
mod urls;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::event::{Event, EventBody};
use lagtrace_core::report::{Picture, Report};
use lagtrace_sources::load::{self, LaneSummary, Plan, Progress, Summary};

use crate::clock;
use crate::conclusion::{self, About};
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::page;
use crate::render::{self, html};
use crate::words;
use hdr::{Log, Seconds};
pub(crate) use options::Options;
use remarks::{remarks, status_help};

/// Minimum number of failures at which a run is aborted.
const MANY_FAILURES: u64 = 200;
/// Minimum share of failures among all requests at which a run is aborted.
const FAILING_SHARE: f64 = 0.5;
/// The warm-up as a share of the load's duration, within bounds.
const WARM_UP_SHARE: f64 = 0.05;

/// Puts load on the service and reports its latencies.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let started = clock::now();
    options.check()?;
    let mut events = Vec::new();
    let plan = options.plan(console, &mut events)?;
    events.extend(options.request.answer.expectation());
    let log = options.hdr.as_deref().map(Log::create).transpose()?;
    let run = Run {
        options,
        console,
        interrupt: &interrupt,
        events,
        subject: subject(&plan),
        log: Cell::new(log),
    };
    let report = match options.steps.plans(&plan, options.warm_up)? {
        None => run.once("load", &plan)?,
        Some((over, plans)) => run.in_steps(over, &plans)?,
    };
    match report {
        Some((mut report, picture)) => {
            let expected = options.request.answer.check(&mut report);
            conclude(&report, picture, expected, console)
        }
        None => conclusion::interrupted(
            About {
                command: "load",
                subject: &run.subject,
                started,
            },
            console,
        ),
    }
}

/// A report, and the data to draw it if they are needed.
type Drawn = (Report, Option<Picture>);

/// The state shared by all loads of one command.
struct Run<'a> {
    options: &'a Options,
    console: &'a Console,
    interrupt: &'a Interrupt,
    /// The events before the first load.
    events: Vec<Event>,
    /// The subject of the report.
    subject: String,
    /// The log to which latencies are also written.
    log: Cell<Option<Log>>,
}

impl Run<'_> {
    /// Runs one plan; returns `None` if it was interrupted before anything was measured.
    fn once(&self, name: &str, plan: &Plan) -> Result<Option<Drawn>> {
        let started = clock::now();
        let targets = plan.lanes.iter().map(|lane| &lane.target);
        let targets = targets.map(|target| (target.id, target.endpoint()));
        let is_drawn = self.console.output().is_drawn();
        let mut analyzer = conclusion::analyzer(conclusion::options(targets.collect()), is_drawn);
        for event in &self.events {
            analyzer.observe(event.clone());
        }
        let (summary, is_failing) = self.measure(name, plan, &mut analyzer)?;
        let is_empty = |lane: &LaneSummary| lane.responses() + lane.failed() == 0;
        let is_stopped = self.interrupt.is_requested() && !is_failing;
        if summary.lanes.iter().all(is_empty) && is_stopped {
            return Ok(None);
        }
        for (id, text) in remarks(plan, &summary, is_failing, self.interrupt) {
            analyzer.observe(conclusion::note(id, text));
        }
        if let Some(text) = status_help(&summary, &self.options.request) {
            analyzer.observe(conclusion::note("answer-is-no-success", text));
        }
        let (mut report, picture) = analyzer.finish_with_picture();
        "load".clone_into(&mut report.command);
        report.subject.clone_from(&self.subject);
        report.started = clock::started(Some(started.as_nanos()));
        Ok(Some((report, picture)))
    }

    /// Runs plans with increasing load, and stops after the first run without a response.
    fn in_steps(&self, over: &str, plans: &[Plan]) -> Result<Option<Drawn>> {
        let mut reports: Vec<Drawn> = Vec::new();
        for (number, plan) in (1..).zip(plans) {
            let name = format!("step {number}/{}", plans.len());
            let Some((report, picture)) = self.once(&name, plan)? else {
                break;
            };
            let answers = report.load.as_ref().is_some_and(|load| load.responses > 0);
            reports.push((report, picture));
            if self.interrupt.is_requested() || !answers {
                break;
            }
        }
        Ok(steps::join(over, reports))
    }

    /// Runs the plan; also returns true if it was aborted because most requests failed.
    fn measure(&self, name: &str, plan: &Plan, analyzer: &mut Analyzer) -> Result<(Summary, bool)> {
        let bar = self.console.timed(name, plan.warm_up + plan.duration);
        let is_failing = AtomicBool::new(false);
        let progress = |now: Progress| {
            let passed = match plan.requests {
                Some(all) => now.of.mul_f64((now.requests as f64 / all as f64).min(1.0)),
                None => now.elapsed,
            };
            bar.set_position(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
            bar.set_message(live(&now));
            let share = now.failures as f64 / now.requests.max(1) as f64;
            // A run without a failure after its warm-up would have nothing to report, and requests
            // that are cut off by the end of the run are not failures of the service.
            let is_under_way = now.counted_failures > 0 && now.elapsed < now.of;
            let fails = now.failures >= MANY_FAILURES && share >= FAILING_SHARE;
            if fails && is_under_way && !self.options.keep_going {
                is_failing.store(true, Ordering::Relaxed);
                self.interrupt.request();
            }
        };
        let mut seconds = Seconds::default();
        let summary = load::run(plan, &progress, self.interrupt.flag(), |event| {
            seconds.observe(&event);
            // `FlowPhase` events are needed only to analyse packets. There is one for each
            // connection, which is too many to store if each request has a new connection.
            if !matches!(event.body, EventBody::FlowPhase(_)) {
                analyzer.observe(event);
            }
        });
        bar.finish_and_clear();
        let summary = summary?;
        // A run that was stopped before it measured anything leaves an old log as it was.
        let has_result = !seconds.is_empty() || !self.interrupt.is_requested();
        if let Some(log) = self.log.take().filter(|_| has_result) {
            let begun = u64::try_from(summary.counted_from.as_nanos()).unwrap_or(0);
            seconds.save(log, SystemTime::UNIX_EPOCH + Duration::from_nanos(begun))?;
        }
        Ok((summary, is_failing.into_inner()))
    }
}

/// Returns the first URL of a plan, and the number of others.
fn subject(plan: &Plan) -> String {
    let first = plan.lanes.first().map(|lane| lane.target.url.to_string());
    let first = first.unwrap_or_default();
    match plan.urls.len() {
        0 | 1 => first,
        several => format!("{first} and {} more", several - 1),
    }
}

/// Describes the results of the last second in words.
fn live(now: &Progress) -> String {
    let recent = &now.recent;
    let mut text = format!("{}/s", words::rate(recent.rate));
    for (name, value) in [("p50", recent.p50), ("p99", recent.p99)] {
        if let Some(value) = value {
            text.push_str(&format!(" {name} {}", words::time(value)));
        }
    }
    match (recent.failures, now.failures) {
        (_, 0) => {}
        (recent, all) => text.push_str(&format!(
            ", {} failed, {} in all",
            words::count(recent),
            words::count(all)
        )),
    }
    text
}

/// Returns the warm-up of a load of this duration.
fn warm_up(whole: Duration) -> Duration {
    let share = whole.mul_f64(WARM_UP_SHARE);
    share.clamp(Duration::from_millis(100), Duration::from_millis(500))
}

/// Prints the report. `expected` is true if all responses had a status that the user expects, and
/// `None` if the user expects none in particular.
fn conclude(
    report: &Report,
    picture: Option<Picture>,
    expected: Option<bool>,
    console: &Console,
) -> Result<Outcome> {
    let document = match console.output().format {
        Format::Text => render::load(report, &console.style()),
        Format::Json => render::json(report),
        Format::Ndjson => render::ndjson(report),
    };
    let shown = || html::Document::of_report(report, picture);
    page::beside(console, shown, || deliver(console, &document))?;
    let load = report.load.as_ref();
    let is_clean = load.is_some_and(|load| match expected {
        Some(expected) => expected && load.responses > 0,
        None => !load.is_faulty(),
    });
    Ok(if is_clean {
        Outcome::Clean
    } else {
        Outcome::Found
    })
}
