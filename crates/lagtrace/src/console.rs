//! The console while lagtrace runs: outcome lines, progress, remarks, errors.
//!
//! Standard output carries the result and nothing else, so that its first line is the verdict. All
//! messages go to standard error, and progress is shown only on a terminal. Messages contain names
//! and errors from outside, so all of them are escaped here.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use lagtrace_core::report::Remark;
use rustix::termios::tcgetwinsize;

use crate::exit::{FAILURE, Outcome};
use crate::failure::{Failure, Result};
use crate::output::{Color, Format, Output};
use crate::outputs::Outputs;
use crate::render;
use crate::render::ascii::ascii;
use crate::render::escape::{escape, message};
use crate::render::tone::length;

const STEP: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
const NOTE: Style = AnsiColor::Yellow.on_default().bold();

/// The default text width, used if there is no terminal.
const WIDTH: usize = 100;

/// The default number of lines, used if there is no terminal.
const ROWS: usize = 24;

/// The width of the column with the names of the steps.
const STEP_WIDTH: usize = 14;

/// The user's terminal and files, according to the options.
#[derive(Debug)]
pub(crate) struct Console {
    output: Output,
    outputs: Outputs,
    bars: MultiProgress,
    /// A remark for all reports.
    remark: Option<Remark>,
}

/// Prints an error of a part of the program that has no console.
pub(crate) fn say(error: &str) {
    writeln!(io::stderr(), "error: {error}").ok();
}

impl Console {
    /// Returns a console that follows the options in `output`.
    pub(crate) fn new(output: &Output) -> Self {
        let target = if output.quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        Self {
            output: output.clone(),
            outputs: Outputs::default(),
            bars: MultiProgress::with_draw_target(target),
            remark: None,
        }
    }

    /// Remembers a remark for all reports.
    pub(crate) fn remember(&mut self, remark: Option<Remark>) {
        self.remark = remark;
    }

    /// Returns the remark for all reports.
    pub(crate) fn remark(&self) -> Option<&Remark> {
        self.remark.as_ref()
    }

    /// Returns the options for the report's output.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Returns the open files of the results.
    pub(crate) fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Returns the text style for the destination of the report.
    pub(crate) fn style(&self) -> render::Style {
        let is_file = self.output.output.is_some();
        let columns = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
        render::Style {
            width: if is_file || columns == 0 {
                WIDTH
            } else {
                columns
            },
            color: !is_file && self.colors_stdout(),
            ascii: self.output.is_ascii(),
            length: self.output.length(),
        }
    }

    /// Returns the style of lines that are redrawn in place, and the maximum number of such lines.
    pub(crate) fn panel_style(&self) -> (render::Style, usize) {
        let size = tcgetwinsize(io::stderr()).ok();
        let room = |cells: u16| (cells > 0).then_some(usize::from(cells));
        let style = render::Style {
            width: size.and_then(|size| room(size.ws_col)).unwrap_or(WIDTH),
            color: self.colors_stderr(),
            ascii: self.output.is_ascii(),
            length: self.output.length(),
        };
        let rows = size.and_then(|size| room(size.ws_row)).unwrap_or(ROWS);
        (style, rows.saturating_sub(1).max(1))
    }

    fn colors_stdout(&self) -> bool {
        self.colors(io::stdout().is_terminal())
    }

    /// Prints the result of a step, wrapped to the width of the terminal. What a reader must know of
    /// it is also in the report.
    pub(crate) fn outcome(&self, step: &str, text: &str) {
        if self.output.quiet {
            return;
        }
        let (style, _) = self.panel_style();
        let room = style.width.saturating_sub(STEP_WIDTH + 1);
        for (at, text) in wrapped(&escape(text), room).iter().enumerate() {
            let step = if at == 0 { step } else { "" };
            let step = paint(style.color, STEP, &format!("{step:STEP_WIDTH$}"));
            self.line(&format!("{step} {text}"));
        }
    }

    /// Prints details of a step with `--verbose`.
    pub(crate) fn detail(&self, text: &str) {
        if self.output.verbose {
            let line = format!("{:STEP_WIDTH$} {}", "", escape(text));
            self.line(&paint(self.colors_stderr(), DIM, &line));
        }
    }

    /// Prints a remark that is not part of a report.
    pub(crate) fn note(&self, text: &str) {
        if !self.output.quiet {
            self.tell(text);
        }
    }

    /// Prints a remark without which the user cannot go on, even with `--quiet`.
    pub(crate) fn tell(&self, text: &str) {
        let head = paint(self.colors_stderr(), NOTE, "note:");
        self.line(&format!("{head} {}", escape(text)));
    }

    /// Returns a progress bar for a known size, in bytes.
    pub(crate) fn bytes(&self, name: &str, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template(
            "{prefix:14} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}",
        );
        self.bar(name, ProgressBar::new(total), style)
    }

    /// Returns a progress bar for a known time, in milliseconds.
    pub(crate) fn timed(&self, name: &str, total: Duration) -> ProgressBar {
        let millis = u64::try_from(total.as_millis()).unwrap_or(u64::MAX);
        let style = ProgressStyle::with_template("{prefix:14} {wide_bar} {elapsed} {msg}");
        self.bar(name, ProgressBar::new(millis), style)
    }

    /// Returns a spinner, for work of unknown duration.
    pub(crate) fn spinner(&self, name: &str) -> ProgressBar {
        let style = ProgressStyle::with_template("{prefix:14} {spinner} {elapsed} {msg}");
        self.bar(name, ProgressBar::new_spinner(), style)
    }

    /// Returns true if live lines are written to a terminal, so that nothing else may be drawn
    /// there.
    pub(crate) fn has_lines_on_terminal(&self) -> bool {
        let is_lines = self.output.format == Format::Ndjson && self.output.is_on_stdout();
        is_lines && io::stdout().is_terminal()
    }

    /// Returns a panel of lines that are redrawn in place; the panel is hidden if there is no
    /// terminal.
    pub(crate) fn panel(&self) -> ProgressBar {
        self.bar(
            "",
            ProgressBar::no_length(),
            ProgressStyle::with_template("{msg}"),
        )
    }

    /// Ends the program: prints a failure, if there is one, and converts the outcome to an exit
    /// code.
    pub(crate) fn close(&self, result: Result<Outcome>) -> ExitCode {
        self.bars.clear().ok();
        match result {
            Ok(outcome) => outcome.into(),
            Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
            Err(failure) => {
                self.fail(&failure);
                FAILURE.into()
            }
        }
    }

    fn fail(&self, failure: &Failure) {
        let colored = self.colors_stderr();
        let text = message(&failure.to_string());
        self.line(&format!("{} {text}", paint(colored, ERROR, "error:")));
        if let Some(hint) = failure.hint_text() {
            let hint = message(hint);
            self.line(&format!("{} {hint}", paint(colored, HINT, "hint:")));
        }
    }

    fn bar(
        &self,
        name: &str,
        bar: ProgressBar,
        style: std::result::Result<ProgressStyle, indicatif::style::TemplateError>,
    ) -> ProgressBar {
        let bar = self.bars.add(bar.with_prefix(name.to_owned()));
        bar.set_style(
            style
                .expect("the templates above are valid")
                .progress_chars(if self.output.is_ascii() {
                    "=>-"
                } else {
                    "━╸─"
                }),
        );
        // A thread redraws it, which takes a part of a short run's time.
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        bar
    }

    /// Prints a line above the progress bars. Errors are ignored: if the reader has exited,
    /// measuring continues, because the report may go to a file.
    fn line(&self, line: &str) {
        let line = if self.output.is_ascii() {
            ascii(line)
        } else {
            line.into()
        };
        self.bars.suspend(|| writeln!(io::stderr(), "{line}").ok());
    }

    fn colors_stderr(&self) -> bool {
        self.colors(io::stderr().is_terminal())
    }

    fn colors(&self, is_terminal: bool) -> bool {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self.output.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb(),
        }
    }
}

/// Returns the lines of a text, at most `room` columns long unless a single word is longer.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("one at least");
        if last.is_empty() {
            last.push_str(word);
        } else if length(last) + 1 + length(word) <= room {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

fn paint(colored: bool, style: Style, text: &str) -> String {
    if colored {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}
