//! The blocks of a page, for views other than text.

use crate::render::table::Table;
use crate::render::tone::Tone;

/// A part of a page, not escaped yet.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Indentation in columns. A block belongs to the list item before it if it is indented more.
    pub(crate) indent: usize,
    pub(crate) body: Body,
}

/// The content of a block.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// The title of a section.
    Heading(String),
    /// A paragraph of several tones, separated by spaces.
    Paragraph(Vec<(Tone, String)>),
    /// A list item: its marker with the tone, and its paragraph.
    Item((Tone, String), Vec<(Tone, String)>),
    /// A table.
    Table(Table),
}

impl Block {
    /// Returns a paragraph; a list item if it has a marker.
    pub(super) fn paragraph(
        indent: usize,
        marker: &str,
        tone: Tone,
        spans: &[(Tone, &str)],
    ) -> Self {
        let spans = spans.iter().filter(|(_, text)| !text.is_empty());
        let spans = spans.map(|&(tone, text)| (tone, text.to_owned())).collect();
        let body = if marker.is_empty() {
            Body::Paragraph(spans)
        } else {
            Body::Item((tone, marker.to_owned()), spans)
        };
        Self { indent, body }
    }
}
