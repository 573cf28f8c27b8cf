//! The display while a trace runs. In rounds it is a table that is redrawn in place on a terminal,
//! or a line for each round if there is no terminal.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use lagtrace_core::observed::route::HopSample;
use lagtrace_core::route::RouteTally;

use crate::console::Console;
use crate::render;
use crate::render::escape::laid_out;
use crate::words;

/// The step's name.
const STEP: &str = "route";
/// Minimum time between two redraws of the table.
const REDRAW: Duration = Duration::from_millis(100);

/// The display of a running trace.
pub(super) struct Live<'a> {
    console: &'a Console,
    is_in_rounds: bool,
    bar: ProgressBar,
    drawn: Option<Instant>,
}

impl<'a> Live<'a> {
    pub(super) fn new(console: &'a Console, is_in_rounds: bool) -> Self {
        let bar = if is_in_rounds {
            console.panel()
        } else {
            console.spinner(STEP)
        };
        Self {
            console,
            is_in_rounds,
            bar,
            drawn: None,
        }
    }

    /// Displays a probe that was answered or lost.
    pub(super) fn show(&mut self, tally: &RouteTally, sample: &HopSample) {
        if !self.is_in_rounds {
            let hops = tally.hops();
            let answering = hops.iter().filter(|hop| hop.received > 0).count();
            let answering = u64::try_from(answering).unwrap_or(u64::MAX);
            self.bar.set_message(words::plural(answering, "hop"));
        } else if self.bar.is_hidden() {
            self.line(tally, sample);
        } else if self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW) {
            self.drawn = Some(Instant::now());
            let table = render::hops(&tally.hops(), &self.console.style());
            self.bar.set_message(laid_out(&table).into_owned());
        }
    }

    /// Prints a line for each round with the result of the probe to the target.
    fn line(&self, tally: &RouteTally, sample: &HopSample) {
        let distance = tally.route().and_then(|route| route.distance);
        if sample.flow != 0 || distance != Some(sample.ttl) {
            return;
        }
        let hops = tally.hops();
        let Some(target) = hops.last() else {
            return;
        };
        let now = match sample.rtt {
            Some(rtt) => words::time(rtt),
            None => "lost".to_owned(),
        };
        let lost = target.sent.saturating_sub(target.received);
        let text = format!(
            "{} of {} hops: {now}, {lost} of {} lost so far",
            hops.iter().filter(|hop| hop.received > 0).count(),
            hops.len(),
            target.sent
        );
        self.console.outcome(STEP, &text);
    }

    /// Clears the display.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
