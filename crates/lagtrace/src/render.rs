//! The views of a report: text for people, JSON for programs.
//!
//! Turns a finished [`Report`] or [`Comparison`] into text. A view draws no conclusions: it prints
//! those of the report. Strings that came from the network or from a file could contain control
//! characters for the terminal. They are all escaped in one place, when they are added to a
//! [`page`].

use lagtrace_core::report::{Connections, ExchangeRecord, Hop, Report};
use lagtrace_core::views::compare::Comparison;

mod annotation;
pub(crate) mod ascii;
mod bar;
mod browsed;
mod capacity;
mod capture;
mod comparison;
mod configuration;
mod connections;
mod counters;
mod encoder;
pub(crate) mod escape;
mod exchanges;
mod experiments;
mod finding;
mod groups;
mod har;
mod healthy;
pub(crate) mod html;
mod joined;
mod ladder;
mod latency;
mod layers;
mod limits;
mod live;
mod load;
mod modes;
mod ndjson;
mod notes;
pub(crate) mod page;
mod percentiles;
mod perfetto;
mod place;
mod plot;
mod probes;
pub(crate) mod quantity;
mod route;
mod screen;
mod served;
mod sockets;
mod stages;
mod stream;
mod sweep;
pub(crate) mod table;
pub(crate) mod tone;
mod transport;
mod unexplained;
mod verdict;
mod waits;
mod watch;
mod watching;
pub(crate) mod words;

pub(crate) use annotation::{exchange_comments, harmless};
pub(crate) use browsed::Browsed;
pub(crate) use encoder::Encoder;
pub(crate) use har::Har;
pub(crate) use ndjson::ndjson;
pub(crate) use perfetto::Perfetto;
pub(crate) use stream::{Plot, Stream, bytes, head as stream_head, ladders, over_time};
pub(crate) use watching::Watching;

use page::Page;

/// The layout of text output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// The width in columns. Text uses at least 40 and at most 120 columns.
    pub(crate) width: usize,
    /// True if colour is used.
    pub(crate) color: bool,
    /// True if only ASCII characters are used.
    pub(crate) ascii: bool,
    /// The length of a report.
    pub(crate) length: Length,
}

/// The length of a report as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Length {
    /// The verdict and what to change, in a few lines.
    Brief,
    /// The facts that a person needs to act, on one screen.
    #[default]
    Screen,
    /// The whole report.
    Full,
}

/// Renders a report as text: one screen, or the whole report.
pub(crate) fn text(report: &Report, style: &Style) -> String {
    match style.length {
        _ if report.command == "route" && report.overall.is_none() => route(report, style),
        Length::Brief | Length::Screen => screen::text(report, style),
        Length::Full => letter(report, style),
    }
}

/// Renders a traced route hop by hop.
fn route(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    write_route(&mut page, report);
    page.finish()
}

fn write_route(page: &mut Page, report: &Report) {
    route::write(page, report);
    notes::write(page, &report.notes);
}

/// Renders the whole report: verdict, proof and remedy first, then tables.
fn letter(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    verdict::write(&mut page, report);
    finding::write(&mut page, report);
    layers::write(&mut page, report);
    tables(&mut page, report);
    notes::write(&mut page, &report.notes);
    page.finish()
}

/// Writes the tables of a diagnosis.
fn tables(page: &mut Page, report: &Report) {
    latency::write(page, report);
    modes::write(page, report);
    waits::write(page, report);
    watch::write(page, report);
    served::write(page, report);
    joined::write(page, report);
    ladder::write(page, report);
    experiments::write(page, report);
    probes::write(page, report);
    sockets::write(page, report);
    configuration::write(page, report);
    counters::write(page, report);
    capture::write(page, report);
}

/// Renders the figures of a load run.
pub(crate) fn load(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    write_load(&mut page, report);
    page.finish()
}

fn write_load(page: &mut Page, report: &Report) {
    sweep::write(page, report);
    if report.sweep.is_some() {
        page.blank();
    }
    load::write(page, report);
    modes::write(page, report);
    notes::write(page, &report.notes);
}

/// Renders the summary of probes, which follows the lines of their answers.
pub(crate) fn probes(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    write_probes(&mut page, report);
    page.finish()
}

fn write_probes(page: &mut Page, report: &Report) {
    probes::write(page, report);
    notes::write(page, &report.notes);
}

/// Renders live sockets one by one, with the kernel's limits and counters.
pub(crate) fn live(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    live::write(&mut page, report);
    limits::write(&mut page, report);
    counters::write(&mut page, report);
    notes::write(&mut page, &report.notes);
    page.finish()
}

/// Renders live requests while they are watched.
pub(crate) fn watching(watching: &Watching<'_>, style: &Style) -> String {
    let mut page = Page::new(style);
    watching::write(&mut page, watching);
    page.finish()
}

/// Renders single exchanges of a watch, on a terminal with this number of rows.
pub(crate) fn browsed(browsed: &Browsed<'_>, rows: usize, style: &Style) -> String {
    let mut page = Page::new(style);
    browsed::write(&mut page, browsed, rows);
    page.finish()
}

/// Renders exchanges in the order given; `met` of the `seen` exchanges meet the condition that the
/// user specified.
pub(crate) fn exchanges(records: &[&ExchangeRecord], met: u64, seen: u64, style: &Style) -> String {
    let mut page = Page::new(style);
    exchanges::write(&mut page, records, met, seen);
    page.finish()
}

/// Renders the hops of a route that is still being traced.
pub(crate) fn hops(hops: &[Hop], style: &Style) -> String {
    let mut page = Page::new(style);
    page.table(0, &route::live(hops, page.width()));
    page.finish()
}

/// Renders a traced route as comma-separated values, one line per hop.
pub(crate) fn route_csv(report: &Report) -> String {
    route::csv::lines(report)
}

/// Renders connections in the order given.
pub(crate) fn connections(connections: &Connections, style: &Style) -> String {
    let mut page = Page::new(style);
    connections::write(&mut page, connections);
    page.finish()
}

/// Renders a comparison as text: verdict, figures, mechanism, prediction.
pub(crate) fn comparison(comparison: &Comparison, style: &Style) -> String {
    if style.length != Length::Full {
        return screen::comparison(comparison, style);
    }
    let mut page = Page::new(style);
    write_comparison(&mut page, comparison);
    page.finish()
}

fn write_comparison(page: &mut Page, comparison: &Comparison) {
    comparison::write(page, comparison);
    notes::write(page, &comparison.remarks);
}

/// Serializes a report as one indented JSON document that conforms to its schema.
pub(crate) fn json(report: &Report) -> String {
    format!("{}\n", crate::json::indented(report))
}

/// Serializes a comparison as one indented JSON document.
pub(crate) fn comparison_json(comparison: &Comparison) -> String {
    format!("{}\n", crate::json::indented(comparison))
}

#[cfg(test)]
mod tests;
