//! Redaction: addresses, names and paths are replaced by labels, the same original always by the
//! same label.
//!
//! The document is redacted before anything is made from it, so that the page contains no original
//! anywhere. First, the fields that contain originals are read. Then each text is searched for
//! these originals, and for everything else that looks like an address, a URL, a path or the name
//! of a host. Words of lagtrace itself, ports, names of known server programs and names of settings
//! stay: the advice would be useless without them.

use lagtrace_core::report::Report;
use serde_json::Value;

use super::document::Document;
use crate::json;
use crate::render::page::{Block, Body};
use crate::render::table::Content;

mod labels;
mod originals;
mod scan;
mod words;

use labels::Labels;

/// Maximum number of labels that are kept from one document for the next.
const MAX_LABELS: usize = 100_000;

/// The labels given so far. Several documents that are redacted with the same one, such as the
/// versions of a page, have the same labels for the same originals.
#[derive(Debug, Default)]
pub(crate) struct Redaction(Labels);

impl Redaction {
    /// Returns the document with labels instead of originals, and replaces those in `text` too.
    pub(crate) fn of(&mut self, document: &Document, text: &mut [Block]) -> Document {
        if self.0.count() > MAX_LABELS {
            *self = Self::default();
        }
        let Self(labels) = self;
        let mut value = json::tree(document);
        for report in [&document.report, &document.before, &document.after]
            .into_iter()
            .flatten()
        {
            subject(labels, report);
        }
        originals::read(labels, &value);
        replace(labels, &mut value, Place::default());
        text.iter_mut().for_each(|block| redact(labels, block));
        // From bytes, as reports are read everywhere: reading them from values or text too would make
        // the program nearly 1 MB larger.
        let written = value.to_string();
        serde_json::from_slice(written.as_bytes())
            .expect("words of closed vocabularies are not replaced")
    }
}

/// Notes the names in the subject of a report, which depend on the command.
fn subject(labels: &mut Labels, report: &Report) {
    let words = report.subject.split_whitespace();
    match report.command.as_str() {
        "analyze" => report
            .subject
            .split(", ")
            .for_each(|file| labels.file(file)),
        "probe" | "route" => words.for_each(|target| labels.host(target)),
        "capture" | "watch" => {
            let names = words.clone().zip(words.skip(1));
            let is_name = |word| ["host", "net", "gateway", "in"].contains(&word);
            let names = names.filter(|(before, _)| is_name(*before));
            names.for_each(|(_, name)| labels.host(name));
        }
        _ => {}
    }
}

/// The place of a value in a document: the name of its field, and of the field around it.
#[derive(Clone, Copy, Debug, Default)]
struct Place<'a> {
    field: &'a str,
    around: &'a str,
}

impl<'a> Place<'a> {
    /// Returns the place of a field of the value at this place.
    fn within(self, field: &'a str) -> Self {
        let around = self.field;
        Self { field, around }
    }
}

/// Replaces the originals in a value and all values within it.
fn replace(labels: &mut Labels, value: &mut Value, place: Place<'_>) {
    match value {
        Value::String(text) if place.field == "request" => *text = labels.request(text),
        Value::String(text) if !words::is_closed(place) => *text = scan::text(labels, text),
        Value::Number(_) if place.field == "asn" => *value = Value::Null,
        Value::Array(items) => {
            for item in items {
                replace(labels, item, place);
            }
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                replace(labels, value, place.within(field));
            }
        }
        _ => {}
    }
}

fn redact(labels: &mut Labels, block: &mut Block) {
    match &mut block.body {
        Body::Heading(text) => *text = scan::text(labels, text),
        Body::Paragraph(spans) | Body::Item(_, spans) => {
            for (_, text) in spans {
                *text = scan::text(labels, text);
            }
        }
        Body::Table(table) => table.contents(|content| {
            if let Content::Text(text) = content {
                *text = scan::text(labels, text);
            }
        }),
    }
}
