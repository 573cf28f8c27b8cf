//! The text of a command as HTML: headings, paragraphs, lists and tables.

use super::writer::Html;
use crate::render::page::{Block, Body, Tone};
use crate::render::table::{Align, Cell, Content, Table};

/// Width of a bar's picture.
const BAR: f64 = 100.0;

/// Writes the blocks of a page.
pub(super) fn write(html: &mut Html, blocks: &[Block]) {
    let mut rest = blocks;
    while let Some((first, others)) = rest.split_first() {
        rest = match &first.body {
            Body::Item(..) => list(html, rest),
            _ => {
                one(html, first);
                others
            }
        };
    }
}

/// Writes a list: items of the same indentation, each with the blocks that belong to it. Returns
/// the blocks after it.
fn list<'a>(html: &mut Html, blocks: &'a [Block]) -> &'a [Block] {
    let mut rest = blocks;
    html.element("ul", &[], |html| {
        while let Some((item, others)) = rest.split_first() {
            let Body::Item(marker, spans) = &item.body else {
                return;
            };
            let is_inner = |block: &&Block| {
                block.indent > item.indent && !matches!(block.body, Body::Heading(_))
            };
            let inner = others.iter().take_while(is_inner).count();
            let (inner, after) = others.split_at(inner);
            html.element("li", &[], |html| {
                let (tone, marker) = marker;
                html.classed("span", &format!("mark {}", class(*tone)), marker);
                html.text(" ");
                phrases(html, spans);
                write(html, inner);
            });
            rest = after;
        }
    });
    rest
}

fn one(html: &mut Html, block: &Block) {
    match &block.body {
        Body::Heading(title) => html.leaf("h3", &[], title),
        Body::Paragraph(spans) | Body::Item(_, spans) => {
            html.element("p", &[], |html| phrases(html, spans));
        }
        Body::Table(table) => grid(html, table),
    }
}

/// Writes a paragraph's parts, separated by spaces.
pub(super) fn phrases(html: &mut Html, spans: &[(Tone, String)]) {
    for (at, (tone, text)) in spans.iter().enumerate() {
        if at > 0 {
            html.text(" ");
        }
        phrase(html, *tone, text);
    }
}

/// Writes text in a tone.
pub(super) fn phrase(html: &mut Html, tone: Tone, text: &str) {
    match tone {
        Tone::Plain => html.prose(text),
        Tone::Strong => html.element("strong", &[], |html| html.prose(text)),
        tone => html.said("span", class(tone), text),
    }
}

/// Returns the class of a tone.
pub(super) fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain | Tone::Strong => "plain",
        Tone::Dim => "muted",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Caution => "caution",
    }
}

fn grid(html: &mut Html, table: &Table) {
    if table.is_empty() {
        return;
    }
    let (head, rows) = table.parts();
    html.element("div", &[("class", "scroll"), ("tabindex", "0")], |html| {
        html.element("table", &[], |html| {
            if let Some(head) = head {
                html.element("thead", &[], |html| row(html, head, table.columns(), true));
            }
            html.element("tbody", &[], |html| {
                for cells in rows {
                    row(html, cells, table.columns(), false);
                }
            });
        });
    });
}

fn row(html: &mut Html, cells: &[Cell], columns: &[Align], is_head: bool) {
    html.element("tr", &[], |html| {
        for (at, ((tone, content), align)) in cells.iter().zip(columns).enumerate() {
            let class = match align {
                Align::Right => "number",
                Align::Bar(_) => "bars",
                Align::Left | Align::Name => "words",
            };
            let attributes = [
                ("class", class),
                ("scope", if is_head { "col" } else { "row" }),
            ];
            let is_empty = matches!(content, Content::Text(text) if text.trim().is_empty());
            if is_empty || !(is_head || at == 0) {
                let [class, _] = attributes;
                html.element("td", &[class], |html| inside(html, *tone, content));
            } else {
                html.element("th", &attributes, |html| inside(html, *tone, content));
            }
        }
    });
}

fn inside(html: &mut Html, tone: Tone, content: &Content) {
    match content {
        Content::Text(text) => phrase(html, tone, text),
        Content::Share(part) => bar(html, 0.0, *part),
        Content::Span(start, end) => bar(html, *start, *end),
    }
}

/// Writes a bar from a start to an end on a scale of 0 to 1.
fn bar(html: &mut Html, start: f64, end: f64) {
    let place = |at: f64| at.clamp(0.0, 1.0) * BAR;
    let (x, width) = (place(start), place(end) - place(start));
    let box_of_it = [
        ("class", "bar"),
        ("viewBox", "0 0 100 10"),
        ("preserveAspectRatio", "none"),
        ("aria-hidden", "true"),
    ];
    html.element("svg", &box_of_it, |html| {
        let (x, width) = (format!("{x:.2}"), format!("{width:.2}"));
        let place = [("x", &*x), ("y", "0"), ("width", &*width), ("height", "10")];
        html.element("rect", &place, |_| {});
    });
}
