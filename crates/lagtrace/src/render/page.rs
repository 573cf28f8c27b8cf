//! The page: wraps, indents, colours and escapes text.
//!
//! All text of a page is escaped here or by its [`Table`], so nothing unescaped reaches
//! the terminal.

use anstyle::{AnsiColor, Style as Color};

use super::Style;
use super::escape::escape;
use super::table::Table;

/// The meaning of a piece of text to the reader, shown by its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Ordinary.
    #[default]
    Plain,
    /// Important.
    Strong,
    /// Secondary.
    Dim,
    /// Healthy.
    Good,
    /// At fault.
    Bad,
    /// To be taken with care.
    Caution,
}

impl Tone {
    fn color(self) -> Color {
        match self {
            Self::Plain => Color::new(),
            Self::Strong => Color::new().bold(),
            Self::Dim => Color::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default().bold(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Caution => AnsiColor::Yellow.on_default().bold(),
        }
    }
}

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    width: usize,
    color: bool,
    verbose: bool,
}

impl Page {
    /// Creates an empty page.
    pub(crate) fn new(style: &Style) -> Self {
        Self {
            text: String::new(),
            width: style.width.clamp(40, 120),
            color: style.color,
            verbose: style.verbose,
        }
    }

    /// Returns true if all details are shown.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// The width of the page, in columns.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Writes a section's title after an empty line.
    pub(crate) fn heading(&mut self, title: &str) {
        self.blank();
        self.flow(0, "", Tone::Plain, &[(Tone::Strong, title)]);
    }

    /// Writes an empty line, unless the page is empty.
    pub(crate) fn blank(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// Writes a paragraph of one tone.
    pub(crate) fn paragraph(&mut self, indent: usize, tone: Tone, text: &str) {
        self.flow(indent, "", Tone::Plain, &[(tone, text)]);
    }

    /// Writes a paragraph of several tones, separated by spaces.
    pub(crate) fn spans(&mut self, indent: usize, spans: &[(Tone, &str)]) {
        self.flow(indent, "", Tone::Plain, spans);
    }

    /// Writes a list item: a marker, and a paragraph with a hanging indent after it.
    pub(crate) fn item(&mut self, indent: usize, marker: &str, tone: Tone, spans: &[(Tone, &str)]) {
        self.flow(indent, marker, tone, spans);
    }

    /// Writes a table; nothing if it has no rows.
    pub(crate) fn table(&mut self, indent: usize, table: &Table) {
        for row in table.lines(self.width.saturating_sub(indent)) {
            let mut line = " ".repeat(indent);
            for (tone, text) in &row {
                line.push_str(&self.paint(*tone, text));
            }
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// Returns the text, whose lines all end with a line feed.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn flow(&mut self, indent: usize, marker: &str, tone: Tone, spans: &[(Tone, &str)]) {
        let marker = escape(marker);
        let hang = indent + length(&marker) + usize::from(!marker.is_empty());
        let mut line = " ".repeat(indent);
        if !marker.is_empty() {
            line.push_str(&self.paint(tone, &marker));
            line.push(' ');
        }
        let mut column = hang;
        for (tone, text) in spans {
            let text = escape(text);
            for word in text.split(' ').filter(|word| !word.is_empty()) {
                if column > hang && column + 1 + length(word) > self.width {
                    self.end_line(&line);
                    line = " ".repeat(hang);
                    column = hang;
                }
                if column > hang {
                    line.push(' ');
                    column += 1;
                }
                line.push_str(&self.paint(*tone, word));
                column += length(word);
            }
        }
        self.end_line(&line);
    }

    fn end_line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        if self.color && tone != Tone::Plain && !text.is_empty() {
            let color = tone.color();
            format!("{color}{text}{color:#}")
        } else {
            text.to_owned()
        }
    }
}

/// Returns the number of columns of a text. Wide characters count as one: they occur
/// only in strings from outside, and misalign only their own line.
pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(color: bool) -> Page {
        Page::new(&Style {
            width: 40,
            color,
            verbose: false,
        })
    }

    #[test]
    fn paragraphs_wrap_and_hang() {
        let mut page = page(false);
        page.item(
            2,
            "✗",
            Tone::Bad,
            &[
                (Tone::Strong, "server"),
                (Tone::Plain, "waits for the acknowledgement of a segment"),
            ],
        );
        assert_eq!(
            page.finish(),
            "  ✗ server waits for the acknowledgement\n    of a segment\n"
        );
    }

    #[test]
    fn colour_takes_no_room_and_only_ours_passes() {
        let mut painted = page(true);
        painted.paragraph(0, Tone::Bad, "red \u{1b}[32mgreen");
        let text = painted.finish();
        assert!(
            text.contains("\u{1b}[31m") && !text.contains("\u{1b}[32m"),
            "{text:?}"
        );
        let mut plain = page(false);
        plain.paragraph(0, Tone::Bad, "red \u{1b}[32mgreen");
        assert_eq!(plain.finish(), "red \\u{1b}[32mgreen\n");
    }
}
