//! The results of commands that draw no verdict: routes, probes, loads, comparisons and scores, as
//! their text shows them.

use lagtrace_core::report::Report;
use lagtrace_core::views::compare::Comparison;

use super::blocks;
use super::writer::Html;
use crate::render::page::{Block, Page};

/// Writes the section with the result.
pub(super) fn write(html: &mut Html, title: &str, shown: &[Block]) {
    let section = [("id", "verdict"), ("aria-labelledby", "verdict-title")];
    html.element("section", &section, |html| {
        html.leaf("h2", &[("id", "verdict-title")], title);
        blocks::write(html, shown);
    });
}

/// Returns what the command's text shows; `None` for a command that makes a diagnosis.
pub(super) fn shown(report: &Report) -> Option<Vec<Block>> {
    let write = match report.command.as_str() {
        "load" => crate::render::write_load,
        "probe" => crate::render::write_probes,
        "route" => crate::render::write_route,
        _ => return None,
    };
    let mut page = Page::recording();
    write(&mut page, report);
    Some(page.into_blocks())
}

/// Returns what the text of a comparison shows.
pub(super) fn compared(comparison: &Comparison) -> Vec<Block> {
    let mut page = Page::recording();
    crate::render::write_comparison(&mut page, comparison);
    page.into_blocks()
}
