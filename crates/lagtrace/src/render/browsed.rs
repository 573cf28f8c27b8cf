//! Single exchanges on the live page of a watch.

use std::sync::Arc;

use lagtrace_core::report::ExchangeRecord;

use super::page::{Page, Tone};
use super::table::{Align, Table, cell, dim};
use super::{exchanges, ladder, place, quantity};

/// Lines of the page besides the rows of the list: head, column names, message and keys.
const OTHER_LINES: usize = 5;

/// The exchanges to show.
#[derive(Debug)]
pub(crate) struct Browsed<'a> {
    /// The exchanges that meet the condition, in their order.
    pub(crate) list: &'a [Arc<ExchangeRecord>],
    /// Index of the selected exchange.
    pub(crate) selected: usize,
    /// True if the selected exchange is shown in full.
    pub(crate) is_opened: bool,
    /// Number of exchanges with those that do not meet the condition.
    pub(crate) of: usize,
    /// The condition.
    pub(crate) condition: Option<&'a str>,
    /// The condition that is being typed.
    pub(crate) typed: Option<&'a str>,
    /// The outcome of the last action, or empty.
    pub(crate) message: &'a str,
}

impl Browsed<'_> {
    /// Returns the number of exchanges that a page of `rows` lines shows.
    pub(crate) fn room(rows: usize) -> usize {
        rows.saturating_sub(OTHER_LINES).max(1)
    }
}

/// Writes the list, or the opened exchange, in at most `rows` lines as far as it is possible.
pub(super) fn write(page: &mut Page, browsed: &Browsed<'_>, rows: usize) {
    let opened = browsed.list.get(browsed.selected);
    match opened.filter(|_| browsed.is_opened) {
        Some(record) => {
            page.paragraph(0, Tone::Strong, &ladder::title(&record.exchange, None));
            page.table(2, &ladder::ladder(&record.exchange, None));
            if let Some(line) = ladder::at_host(&record.exchange) {
                page.paragraph(2, Tone::Plain, &line);
            }
        }
        None => list(page, browsed, Browsed::room(rows)),
    }
    if !browsed.message.is_empty() {
        page.paragraph(0, Tone::Caution, browsed.message);
    }
    let keys = match (browsed.typed, browsed.is_opened) {
        (Some(typed), _) => format!("condition: {typed}▏ (Enter applies it, Esc cancels)"),
        (None, true) => "↑ ↓ another · s save · Esc back".to_owned(),
        (None, false) => {
            "↑ ↓ select · Enter open · / condition · s save all · r refresh · Esc back".to_owned()
        }
    };
    page.paragraph(0, Tone::Dim, &keys);
}

fn list(page: &mut Page, browsed: &Browsed<'_>, room: usize) {
    page.paragraph(0, Tone::Strong, &head(browsed));
    let mut table = Table::new(&[
        (Align::Left, ""),
        (Align::Right, "latency"),
        (Align::Left, "longest wait"),
        (Align::Right, "took"),
        (Align::Left, "request"),
        (Align::Left, "outcome"),
        (Align::Name, "client"),
        (Align::Right, "at"),
    ]);
    // The selected row is on the page, and the list begins at a multiple of the page's rows.
    let first = browsed.selected / room * room;
    let shown = browsed.list.iter().enumerate().skip(first).take(room);
    for (index, record) in shown {
        let is_selected = index == browsed.selected;
        let (mark, tone) = if is_selected {
            ("›", Tone::Strong)
        } else {
            ("", Tone::Plain)
        };
        let it = &record.exchange;
        let longest = exchanges::longest(record);
        let took = longest.map(|wait| quantity::duration(wait.duration_ns));
        table.row(vec![
            cell(tone, mark),
            cell(tone, quantity::duration(it.latency_ns)),
            cell(tone, longest.map(exchanges::named).unwrap_or_default()),
            cell(tone, took.unwrap_or_default()),
            cell(tone, &it.request),
            cell(tone, &it.outcome),
            dim(&it.client),
            dim(place::time(it.start_ns)),
        ]);
    }
    page.table(0, &table);
}

fn head(browsed: &Browsed<'_>) -> String {
    let count = quantity::counted(browsed.list.len() as u64, "exchange", "exchanges");
    let among = quantity::count(browsed.of as u64);
    match browsed.condition {
        Some(condition) => format!("{count} of {among} with {condition}, the slowest first"),
        None => format!("{count}, the latest and the slowest, the slowest first"),
    }
}
