//! The lab's scenarios, grouped by cause.

use crate::lab::catalogue::{Entry, Group};
use crate::lab::score::case::Kind;

use crate::render::Style;
use crate::render::page::{Page, Tone, length};

/// The programs that every scenario needs.
const BASIS: [&str; 2] = ["curl", "iproute2"];

/// Renders the lab's scenarios, and the running labs by scenario and id.
pub(crate) fn text(groups: &[Group], up: &[(String, String)], style: &Style) -> String {
    let mut page = Page::new(style);
    write(&mut page, groups, up);
    page.finish()
}

/// Writes the scenarios and the running labs.
fn write(page: &mut Page, groups: &[Group], up: &[(String, String)]) {
    let entries = groups.iter().flat_map(|group| &group.entries);
    let names = entries.map(|entry| length(&entry.name)).max();
    for group in groups {
        head(page, group);
        for entry in &group.entries {
            row(page, entry, names.unwrap_or_default());
        }
    }
    page.blank();
    let basis = BASIS.join(" and ");
    let text = format!("All need {basis}; recording also needs tcpdump and tshark.");
    page.paragraph(0, Tone::Dim, &text);
    for (name, id) in up {
        let text = format!("{name} as {id}");
        page.spans(0, &[(Tone::Good, "up:"), (Tone::Plain, &text)]);
    }
}

fn head(page: &mut Page, group: &Group) {
    page.blank();
    let (name, title) = match (group.kind, group.cause) {
        (Kind::Healthy, _) | (_, None) => ("healthy", "healthy, or only similar to a fault"),
        (Kind::Known | Kind::Hidden, Some(cause)) => (cause.as_str(), group.title),
    };
    page.spans(0, &[(Tone::Strong, name), (Tone::Dim, title)]);
}

fn row(page: &mut Page, entry: &Entry, names: usize) {
    let needs = entry
        .needs
        .iter()
        .filter(|need| !BASIS.contains(&need.as_str()));
    let needs: Vec<_> = needs
        .map(|need| {
            if entry.missing.contains(need) {
                format!("{need} (missing)")
            } else {
                need.clone()
            }
        })
        .collect();
    let tone = if entry.missing.is_empty() {
        Tone::Dim
    } else {
        Tone::Bad
    };
    let needs = match needs.as_slice() {
        [] => String::new(),
        needs => format!("· needs {}", needs.join(", ")),
    };
    let name = format!("{:names$}", entry.name);
    page.item(
        2,
        &name,
        Tone::Plain,
        &[(Tone::Plain, &entry.title), (tone, &needs)],
    );
}
