//! The page: wraps, indents, colours and escapes text.
//!
//! All text of a page is escaped here or by its [`Table`], so nothing unescaped reaches
//! the terminal.

use std::borrow::Cow;

use super::ascii::ascii;
use super::escape::escape;
use super::table::{Content, Table};
pub(crate) use super::tone::{Tone, length};
use super::{Length, Style};

mod block;
mod wrap;

pub(crate) use block::{Block, Body};

/// Minimum width of a page, in columns.
const NARROWEST: usize = 40;
/// Maximum width of a page, in columns.
const WIDEST: usize = 120;
/// Maximum width of a bounded page, in columns.
const SCREEN: usize = 100;

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    /// The blocks, if they are recorded instead of being written as text.
    blocks: Option<Vec<Block>>,
    width: usize,
    color: bool,
    ascii: bool,
    length: Length,
    /// True if no line may be wider than the page, whatever it contains.
    is_bounded: bool,
}

impl Page {
    /// Creates an empty page.
    pub(crate) fn new(style: &Style) -> Self {
        Self {
            text: String::new(),
            blocks: None,
            width: style.width.clamp(NARROWEST, WIDEST),
            color: style.color,
            ascii: style.ascii,
            length: style.length,
            is_bounded: false,
        }
    }

    /// Creates an empty page that records its blocks, for a view that is not text. It shows all
    /// details at the greatest width.
    pub(crate) fn recording() -> Self {
        Self {
            blocks: Some(Vec::new()),
            ..Self::new(&Style {
                width: WIDEST,
                color: false,
                ascii: false,
                length: Length::Full,
            })
        }
    }

    /// Returns the recorded blocks.
    pub(crate) fn into_blocks(self) -> Vec<Block> {
        self.blocks.unwrap_or_default()
    }

    /// Creates an empty bounded page. No line is wider than the style's width or [`SCREEN`]: words
    /// that are wider are broken.
    pub(super) fn bounded(style: &Style) -> Self {
        Self {
            width: style.width.clamp(NARROWEST, SCREEN),
            is_bounded: true,
            ..Self::new(style)
        }
    }

    /// Returns true if all details are shown.
    pub(crate) fn is_verbose(&self) -> bool {
        self.length == Length::Full
    }

    /// Returns true if only the brief form of the report is printed.
    pub(super) fn is_brief(&self) -> bool {
        self.length == Length::Brief
    }

    /// The number of lines written so far.
    pub(super) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// The width of the page, in columns.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Writes a section's title after an empty line.
    pub(crate) fn heading(&mut self, title: &str) {
        if let Some(blocks) = &mut self.blocks {
            let body = Body::Heading(title.to_owned());
            blocks.push(Block { indent: 0, body });
            return;
        }
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
        if let Some(blocks) = &mut self.blocks {
            let body = Body::Table(table.clone());
            blocks.push(Block { indent, body });
            return;
        }
        for row in self.rows(table, self.width.saturating_sub(indent)) {
            let mut line = " ".repeat(indent);
            let mut left = if self.is_bounded {
                self.width.saturating_sub(indent)
            } else {
                usize::MAX
            };
            for (tone, text) in &row {
                let shown: String = text.chars().take(left).collect();
                left -= length(&shown);
                line.push_str(&self.paint(*tone, &shown));
            }
            self.end_line(&line);
        }
    }

    /// Returns the padded lines of a table. Its texts get their plain form before they are laid out,
    /// and its bars after that.
    fn rows(&self, table: &Table, room: usize) -> Vec<Vec<(Tone, String)>> {
        if !self.ascii {
            return table.lines(room);
        }
        let mut table = table.clone();
        table.contents(|content| {
            if let Content::Text(text) = content {
                *text = ascii(text).into_owned();
            }
        });
        let mut rows = table.lines(room);
        for (_, text) in rows.iter_mut().flatten() {
            *text = ascii(&text.replace('…', "~")).into_owned();
        }
        rows
    }

    /// Returns the text with the characters that the page may contain.
    fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.ascii {
            ascii(text)
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Returns the text, whose lines all end with a line feed.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn flow(&mut self, indent: usize, marker: &str, tone: Tone, spans: &[(Tone, &str)]) {
        if let Some(blocks) = &mut self.blocks {
            blocks.push(Block::paragraph(indent, marker, tone, spans));
            return;
        }
        let marker = self.shown(marker);
        let marker = escape(&marker);
        let hang = indent + length(&marker) + usize::from(!marker.is_empty());
        let mut line = " ".repeat(indent);
        if !marker.is_empty() {
            line.push_str(&self.paint(tone, &marker));
            line.push(' ');
        }
        let room = self.width.saturating_sub(hang);
        let spans = spans.iter().map(|(tone, text)| (*tone, self.shown(text)));
        let spans: Vec<_> = spans.collect();
        for words in wrap::lines(&spans, room, self.is_bounded) {
            let painted = words.iter().map(|(tone, word)| self.paint(*tone, word));
            line.push_str(&painted.collect::<Vec<_>>().join(" "));
            self.end_line(&line);
            line = " ".repeat(hang);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn page(color: bool) -> Page {
        Page::new(&Style {
            width: 40,
            color,
            ascii: false,
            length: Length::Screen,
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
    fn bounded_pages_break_words() {
        let style = Style {
            width: 40,
            color: false,
            ascii: false,
            length: Length::Screen,
        };
        let mut page = Page::bounded(&style);
        page.paragraph(0, Tone::Plain, &"forty ".repeat(7));
        page.paragraph(4, Tone::Plain, &"x".repeat(40));
        let line = "forty forty forty forty forty forty";
        let word = format!("    {}", "x".repeat(36));
        assert_eq!(page.lines(), 4);
        assert_eq!(page.finish(), format!("{line}\nforty\n{word}\n    xxxx\n"));
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
