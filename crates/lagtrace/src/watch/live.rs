//! The display while the watch runs: a page that is redrawn in place on a terminal, and nothing
//! elsewhere. With keys, the user leaves its figures for single exchanges.

use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use lagtrace_core::analyzer::{Analyzer, Sink};
use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::report::Report;
use lagtrace_core::stats::histogram::Distribution;

use super::browser::{Browser, Effect};
use super::keys::Keyboard;
use super::recent::Recent;
use crate::clock;
use crate::console::Console;
use crate::render::{self, Browsed, Watching};

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
    /// The latest page of figures.
    figures: String,
    /// The latencies at the time when the page was last drawn.
    before: Distribution,
    /// The thread that draws conclusions in parallel, because watching must not wait for it.
    concluding: Option<JoinHandle<(Report, Duration)>>,
    /// The time of the next conclusion.
    due: Instant,
    report: Option<Report>,
    /// The keyboard and what it browses; `None` without a terminal.
    browsing: Option<Browsing>,
}

struct Browsing {
    keyboard: Keyboard,
    browser: Browser,
    recent: Recent,
    /// True if single exchanges are shown instead of the figures.
    is_open: bool,
}

impl<'a> Live<'a> {
    pub(super) fn new(console: &'a Console) -> Self {
        let now = Instant::now();
        let panel = if console.has_lines_on_terminal() {
            ProgressBar::hidden()
        } else {
            console.panel()
        };
        let browsing = if panel.is_hidden() {
            None
        } else {
            Browsing::open()
        };
        Self {
            console,
            panel,
            browsing,
            drawn: now,
            figures: String::new(),
            before: Distribution::default(),
            concluding: None,
            due: now + REDRAW,
            report: None,
        }
    }

    /// Returns a sink that keeps the exchanges that can be browsed, and passes all on.
    pub(super) fn sink(&self, next: Option<Sink>) -> Option<Sink> {
        match &self.browsing {
            Some(browsing) => Some(browsing.recent.sink(next)),
            None => next,
        }
    }

    /// Handles the keys pressed, and redraws the page if a redraw is due.
    pub(super) fn show(
        &mut self,
        analyzer: &mut Analyzer,
        tally: impl FnOnce() -> WatchTally,
    ) -> Effect {
        let (style, rows) = self.console.panel_style();
        if let Some(browsing) = &mut self.browsing {
            let was_open = browsing.is_open;
            if browsing.handle_keys(rows) == Effect::Ends {
                return Effect::Ends;
            }
            if let Some(page) = browsing.page(&style, rows) {
                draw(&self.panel, &page, rows);
                return Effect::Stays;
            }
            if was_open {
                draw(&self.panel, &self.figures, rows);
            }
        }
        self.show_figures(analyzer, tally, &style, rows);
        Effect::Stays
    }

    fn show_figures(
        &mut self,
        analyzer: &mut Analyzer,
        tally: impl FnOnce() -> WatchTally,
        style: &render::Style,
        rows: usize,
    ) {
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
            has_keys: self.browsing.is_some(),
        };
        self.figures = render::watching(&watching, style);
        draw(&self.panel, &self.figures, rows);
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
            let report = so_far.conclude().0;
            (report, begun.elapsed())
        }));
    }

    /// Clears the display.
    pub(super) fn end(self) {
        self.panel.finish_and_clear();
    }
}

impl Browsing {
    fn open() -> Option<Self> {
        let keyboard = Keyboard::open()?;
        let recent = Recent::default();
        Some(Self {
            keyboard,
            browser: Browser::new(recent.clone(), Path::new(".")),
            recent,
            is_open: false,
        })
    }

    fn handle_keys(&mut self, rows: usize) -> Effect {
        for key in self.keyboard.pressed() {
            if self.browser.press(key, Browsed::room(rows)) == Effect::Ends {
                return Effect::Ends;
            }
        }
        self.is_open = self.browser.browsed().is_some();
        Effect::Stays
    }

    /// Returns the page of single exchanges; `None` if the figures are shown.
    fn page(&self, style: &render::Style, rows: usize) -> Option<String> {
        let browsed = self.browser.browsed()?;
        Some(render::browsed(&browsed, rows, style))
    }
}

/// Shows the page, unless it is shown already.
fn draw(panel: &ProgressBar, page: &str, rows: usize) {
    let lines: Vec<&str> = page.lines().take(rows).collect();
    let text = lines.join("\n");
    if panel.message() != text {
        panel.set_message(text);
    }
}
