//! The display while the watch runs: a page that is redrawn in place on a terminal, and nothing
//! elsewhere.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::report::Report;
use lagtrace_core::stats::histogram::Distribution;

use crate::clock;
use crate::console::Console;
use crate::render::{self, Watching};

/// The interval at which the page is redrawn.
const REDRAW: Duration = Duration::from_secs(1);
/// Minimum interval between conclusions from the data seen so far.
const CONCLUDED_EVERY: Duration = Duration::from_secs(2);
/// Minimum ratio of the pause after a conclusion to the time that the conclusion took, so that
/// concluding takes at most a twentieth of one processor.
const PAUSE_PER_CONCLUSION: u32 = 19;

/// The page and its content.
pub(super) struct Live<'a> {
    console: &'a Console,
    panel: ProgressBar,
    drawn: Instant,
    /// The latencies at the time when the page was last drawn.
    before: Distribution,
    /// The thread that draws conclusions in parallel, because watching must not wait for it.
    concluding: Option<JoinHandle<(Report, Duration)>>,
    /// The time of the next conclusion.
    due: Instant,
    report: Option<Report>,
}

impl<'a> Live<'a> {
    pub(super) fn new(console: &'a Console) -> Self {
        let now = Instant::now();
        Self {
            console,
            panel: if console.has_lines_on_terminal() {
                ProgressBar::hidden()
            } else {
                console.panel()
            },
            drawn: now,
            before: Distribution::default(),
            concluding: None,
            due: now + REDRAW,
            report: None,
        }
    }

    /// Redraws the page if a redraw is due.
    pub(super) fn show(&mut self, analyzer: &mut Analyzer, tally: impl FnOnce() -> WatchTally) {
        let passed = self.drawn.elapsed();
        if self.panel.is_hidden() || passed < REDRAW {
            return;
        }
        let tally = tally();
        self.conclude(analyzer, &tally);
        let mut latest = tally.latency.clone();
        latest.subtract(&self.before);
        let watching = Watching {
            rate: latest.count() as f64 / passed.as_secs_f64(),
            latest: &latest,
            tally: &tally,
            report: self.report.as_ref(),
        };
        let (style, rows) = self.console.panel_style();
        let page = render::watching(&watching, &style);
        let lines: Vec<&str> = page.lines().take(rows).collect();
        self.panel.set_message(lines.join("\n"));
        (self.drawn, self.before) = (Instant::now(), tally.latency);
    }

    /// Uses a finished conclusion, and starts the next one if it is due.
    fn conclude(&mut self, analyzer: &mut Analyzer, tally: &WatchTally) {
        if let Some(done) = self.concluding.take_if(|it| it.is_finished())
            && let Ok((report, took)) = done.join()
        {
            self.report = Some(report);
            self.due = Instant::now() + CONCLUDED_EVERY.max(took * PAUSE_PER_CONCLUSION);
        }
        if self.concluding.is_some() || Instant::now() < self.due {
            return;
        }
        let begun = Instant::now();
        let body = EventBody::Watched(tally.clone());
        analyzer.observe(Event::here(clock::now(), Phase::Baseline, body));
        let so_far = analyzer.so_far();
        self.concluding = Some(thread::spawn(move || {
            let report = so_far.conclude();
            (report, begun.elapsed())
        }));
    }

    /// Clears the display.
    pub(super) fn end(self) {
        self.panel.finish_and_clear();
    }
}
