//! The lab's scenarios by what they show.

use crate::lab::catalogue::{Entry, Group};
use crate::lab::score::case::Kind;

use super::page::{Page, Tone};
use super::table::{Align, Cell, Table, cell, dim, plain};

/// What every scenario takes.
const BASIS: [&str; 2] = ["curl", "iproute2"];

/// Writes the scenarios, and the labs that are up.
pub(super) fn write(page: &mut Page, groups: &[Group], up: &[(String, String)]) {
    let mut table = Table::new(&[
        (Align::Left, "scenario"),
        (Align::Left, "needs"),
        (Align::Left, "what it shows"),
    ]);
    for group in groups {
        table.row(head(group));
        group.entries.iter().for_each(|entry| table.row(row(entry)));
    }
    page.table(0, &table);
    page.blank();
    let basis = BASIS.join(" and ");
    let text = format!("All need {basis}; to record one takes tcpdump and tshark too.");
    page.paragraph(0, Tone::Dim, &text);
    for (name, id) in up {
        page.spans(
            0,
            &[
                (Tone::Good, "up:"),
                (Tone::Plain, &format!("{name} as {id}")),
            ],
        );
    }
}

fn head(group: &Group) -> Vec<Cell> {
    let (name, known, title) = match (group.kind, &group.cause) {
        (Kind::Healthy, _) | (_, None) => ("healthy", "", "Nothing is wrong, or it only looks so"),
        (Kind::NoRule, Some(cause)) => (cause.as_str(), "no rule yet", ""),
        (Kind::Known, Some(cause)) => (cause.as_str(), "", group.title.unwrap_or_default()),
    };
    vec![
        cell(Tone::Strong, name),
        cell(Tone::Caution, known),
        dim(title),
    ]
}

fn row(entry: &Entry) -> Vec<Cell> {
    let needs = entry
        .needs
        .iter()
        .filter(|need| !BASIS.contains(&need.as_str()));
    let needs: Vec<_> = needs
        .map(|need| match entry.missing.contains(need) {
            true => format!("{need} (missing)"),
            false => need.clone(),
        })
        .collect();
    let tone = if entry.missing.is_empty() {
        Tone::Dim
    } else {
        Tone::Bad
    };
    vec![
        plain(format!("  {}", entry.name)),
        cell(tone, needs.join(", ")),
        plain(&entry.title),
    ]
}
