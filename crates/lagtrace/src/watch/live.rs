//! The display while the watch runs: a page that is redrawn in place on a terminal, and nothing
//! elsewhere. With keys, the user leaves its figures for single exchanges.

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use lagtrace_core::analyzer::Sink;
use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::report::Report;
use lagtrace_core::stats::histogram::Distribution;

use super::SAVED_IN;
use super::browser::{Browser, Effect};
use super::keys::Keyboard;
use super::recent::Recent;
use crate::console::Console;
use crate::render::{self, Browsed, Watching};

/// The interval at which the page is redrawn.
pub(super) const REDRAW: Duration = Duration::from_secs(1);

/// The page and its content.
pub(super) struct Live<'a> {
    console: &'a Console,
    panel: ProgressBar,
    drawn: Instant,
    /// The latest page of figures.
    figures: String,
    /// The latencies at the time when the page was last drawn.
    before: Distribution,
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
        }
    }

    /// Returns true if there is a page.
    pub(super) fn is_shown(&self) -> bool {
        !self.panel.is_hidden()
    }

    /// Returns a sink that keeps the exchanges that can be browsed, and passes all on.
    pub(super) fn sink(&self, next: Option<Sink>) -> Option<Sink> {
        match &self.browsing {
            Some(browsing) => Some(browsing.recent.sink(next)),
            None => next,
        }
    }

    /// Handles the keys pressed, and redraws the page if a redraw is due. `report` is the latest
    /// conclusion.
    pub(super) fn show(
        &mut self,
        report: Option<&Report>,
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
        self.show_figures(report, tally, &style, rows);
        Effect::Stays
    }

    fn show_figures(
        &mut self,
        report: Option<&Report>,
        tally: impl FnOnce() -> WatchTally,
        style: &render::Style,
        rows: usize,
    ) {
        let passed = self.drawn.elapsed();
        if self.panel.is_hidden() || passed < REDRAW {
            return;
        }
        let tally = tally();
        let mut latest = tally.latency.clone();
        latest.subtract(&self.before);
        let watching = Watching {
            rate: latest.count() as f64 / passed.as_secs_f64(),
            latest: &latest,
            tally: &tally,
            report,
            has_keys: self.browsing.is_some(),
        };
        self.figures = render::watching(&watching, style);
        draw(&self.panel, &self.figures, rows);
        (self.drawn, self.before) = (Instant::now(), tally.latency);
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
            browser: Browser::new(recent.clone(), Path::new(SAVED_IN)),
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
    let text = render::escape::laid_out(&lines.join("\n")).into_owned();
    if panel.message() != text {
        panel.set_message(text);
    }
}
