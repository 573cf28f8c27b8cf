//! Tables with aligned columns.

use super::bar;
use super::escape::escape;
use super::tone::{Tone, length};

/// Gap between two columns, in characters.
const GAP: usize = 2;
/// Minimum width to which a column of words is shrunk.
const NARROWEST: usize = 10;
/// Minimum width to which a column of bars is shrunk.
const SHORTEST: usize = 8;

/// The kind of content of a column: its alignment, and whether it may shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words, aligned left; cut if there is no room.
    Left,
    /// Names, aligned left: never cut.
    Name,
    /// Numbers, aligned right: never cut.
    Right,
    /// Bars of at most this many characters: the first to shrink.
    Bar(usize),
}

/// The content of a cell.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Words or a number.
    Text(String),
    /// A bar for a fraction, 0 to 1.
    Share(f64),
    /// A bar from a start to an end on a scale of 0 to 1.
    Span(f64, f64),
}

/// A cell: its tone and content.
pub(crate) type Cell = (Tone, Content);

/// Creates a cell of text in the given tone.
pub(crate) fn cell(tone: Tone, text: impl Into<String>) -> Cell {
    (tone, Content::Text(text.into()))
}

/// Creates a cell of plain text.
pub(crate) fn plain(text: impl Into<String>) -> Cell {
    cell(Tone::Plain, text)
}

/// Creates a cell of dim text.
pub(crate) fn dim(text: impl Into<String>) -> Cell {
    cell(Tone::Dim, text)
}

/// A table of rows under a dim header.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<Cell>>,
    has_head: bool,
}

impl Table {
    /// Creates a table with these columns and titles; without a header if all titles are empty.
    pub(crate) fn new(columns: &[(Align, &str)]) -> Self {
        let has_head = columns.iter().any(|(_, title)| !title.is_empty());
        let head = columns.iter().map(|(_, title)| dim(*title)).collect();
        Self {
            columns: columns.iter().map(|&(align, _)| align).collect(),
            rows: if has_head { vec![head] } else { Vec::new() },
            has_head,
        }
    }

    /// Adds a row; its texts are escaped.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        let safe = |(tone, content)| match content {
            Content::Text(text) => cell(tone, escape(&text)),
            bar => (tone, bar),
        };
        self.rows.push(cells.into_iter().map(safe).collect());
    }

    /// Calls `change` with the content of each cell.
    pub(crate) fn contents(&mut self, mut change: impl FnMut(&mut Content)) {
        let cells = self.rows.iter_mut().flatten();
        cells.for_each(|(_, content)| change(content));
    }

    /// Returns true if the table has no rows besides the header.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() <= usize::from(self.has_head)
    }

    /// Returns the alignment of each column.
    pub(crate) fn columns(&self) -> &[Align] {
        &self.columns
    }

    /// Returns the header, if there is one, and the other rows.
    pub(crate) fn parts(&self) -> (Option<&[Cell]>, &[Vec<Cell>]) {
        match self.rows.split_first() {
            Some((head, rows)) if self.has_head => (Some(head), rows),
            _ => (None, &self.rows),
        }
    }

    /// Returns the padded lines. They are at most `width` wide, unless the columns cannot shrink
    /// that far.
    pub(crate) fn lines(&self, width: usize) -> Vec<Vec<(Tone, String)>> {
        if self.is_empty() {
            return Vec::new();
        }
        let widths = self.fit(width);
        let line = |row: &Vec<Cell>| {
            let cells = row.iter().zip(&self.columns).zip(&widths).enumerate();
            cells
                .flat_map(|(at, ((cell, align), width))| pad(at, cell, *align, *width))
                .collect()
        };
        self.rows.iter().map(line).collect()
    }

    /// Returns the width of each column: bars shrink first, then the widest words.
    fn fit(&self, width: usize) -> Vec<usize> {
        let gaps = GAP * self.columns.len().saturating_sub(1);
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|at| self.widest(at)).collect();
        let over = |widths: &[usize]| (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        let excess = over(&widths);
        let bars = |align: &Align| matches!(align, Align::Bar(_));
        if let Some(at) = self.columns.iter().position(bars) {
            widths[at] = widths[at]
                .saturating_sub(excess)
                .max(SHORTEST.min(widths[at]));
        }
        loop {
            let excess = over(&widths);
            let words = widths
                .iter_mut()
                .zip(&self.columns)
                .filter(|(width, align)| **align == Align::Left && **width > NARROWEST)
                .map(|(width, _)| width)
                .max();
            match words {
                Some(column) if excess > 0 => *column -= excess.min(*column - NARROWEST).min(4),
                _ => return widths,
            }
        }
    }

    /// Returns the width of the table if no column shrinks.
    pub(crate) fn wanted(&self) -> usize {
        let gaps = GAP * self.columns.len().saturating_sub(1);
        let widths = (0..self.columns.len()).map(|at| self.widest(at));
        widths.sum::<usize>() + gaps
    }

    fn widest(&self, at: usize) -> usize {
        if let Some(Align::Bar(most)) = self.columns.get(at) {
            return *most;
        }
        let text = |row: &Vec<Cell>| match row.get(at) {
            Some((_, Content::Text(text))) => length(text),
            _ => 0,
        };
        self.rows.iter().map(text).max().unwrap_or_default()
    }
}

fn pad(at: usize, (tone, content): &Cell, align: Align, width: usize) -> [(Tone, String); 3] {
    let text = match content {
        Content::Text(text) => cut(text, width),
        Content::Share(part) => bar::share(*part, width),
        Content::Span(start, end) => bar::span(*start, *end, width),
    };
    let room = " ".repeat(width.saturating_sub(length(&text)));
    let gap = if at > 0 {
        " ".repeat(GAP)
    } else {
        String::new()
    };
    let (before, after) = match align {
        Align::Right => (gap + &room, String::new()),
        Align::Left | Align::Name | Align::Bar(_) => (gap, room),
    };
    [(Tone::Plain, before), (*tone, text), (Tone::Plain, after)]
}

/// Returns the beginning of `text` that fits into `width` columns, with `…` if it was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(table: &Table, width: usize) -> Vec<String> {
        let join = |row: Vec<(Tone, String)>| row.into_iter().map(|(_, text)| text).collect();
        table.lines(width).into_iter().map(join).collect()
    }

    #[test]
    fn columns_line_up_and_words_give_way() {
        let mut table = Table::new(&[(Align::Left, "what"), (Align::Right, "ms")]);
        table.row(vec![plain("waiting for an acknowledgement"), plain("43.1")]);
        table.row(vec![plain("thinking"), plain("1")]);
        assert_eq!(text(&table, 80)[2], "thinking                           1");
        assert_eq!(text(&table, 20)[1], "waiting for a…  43.1");
    }

    #[test]
    fn bars_give_way_before_words_and_stay_to_scale() {
        let mut table = Table::new(&[(Align::Left, "what"), (Align::Bar(20), "")]);
        table.row(vec![
            plain("twelve chars"),
            (Tone::Plain, Content::Share(0.5)),
        ]);
        assert_eq!(text(&table, 80)[1].trim_end(), "twelve chars  ██████████");
        assert_eq!(text(&table, 24)[1].trim_end(), "twelve chars  █████");
    }

    #[test]
    fn a_head_alone_is_no_table() {
        assert!(Table::new(&[(Align::Left, "what")]).lines(80).is_empty());
    }
}
