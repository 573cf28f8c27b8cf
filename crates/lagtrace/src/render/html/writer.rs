//! Writing of HTML that cannot be broken out of.
//!
//! Names of elements and attributes are literals. Text from outside is only written by
//! [`Html::text`] and as the value of an attribute, and is escaped there: the characters with a
//! meaning in HTML, and those that a reader does not see or that change the order of the others.

use super::document::Base64;
use crate::render::escape::escape;

/// An attribute: its name and its value.
pub(super) type Attribute<'a> = (&'static str, &'a str);

/// A document, or a part of one, that is being written.
#[derive(Debug, Default)]
pub(super) struct Html {
    text: String,
}

impl Html {
    /// Writes an element and its content.
    pub(super) fn element(
        &mut self,
        tag: &'static str,
        attributes: &[Attribute<'_>],
        content: impl FnOnce(&mut Self),
    ) {
        self.void(tag, attributes);
        content(self);
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
    }

    /// Writes an element that contains only text.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: &[Attribute<'_>], text: &str) {
        self.element(tag, attributes, |html| html.text(text));
    }

    /// Writes an element with a class that contains only text.
    pub(super) fn classed(&mut self, tag: &'static str, class: &str, text: &str) {
        self.leaf(tag, &[("class", class)], text);
    }

    /// Writes the opening tag of an element, or an element without an end tag.
    pub(super) fn void(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.text(value);
            self.text.push('"');
        }
        self.text.push('>');
    }

    /// Writes text.
    pub(super) fn text(&mut self, text: &str) {
        for c in escape(text).chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                c => self.text.push(c),
            }
        }
    }

    /// Writes a sentence of the report, in which words between backticks are code.
    pub(super) fn prose(&mut self, text: &str) {
        let mut rest = text;
        while let Some((before, code, after)) = code(rest) {
            self.text(before);
            self.leaf("code", &[], code);
            rest = after;
        }
        self.text(rest);
    }

    /// Writes an element with a class that contains a sentence of the report.
    pub(super) fn said(&mut self, tag: &'static str, class: &str, text: &str) {
        self.element(tag, &[("class", class)], |html| html.prose(text));
    }

    /// Writes a part of this program: its script or its style sheet.
    pub(super) fn verbatim(&mut self, text: &'static str) {
        self.text.push_str(text);
    }

    /// Writes encoded data, of which nothing needs to be escaped.
    pub(super) fn encoded(&mut self, data: &Base64) {
        self.text.push_str(data.as_str());
    }

    /// Returns the whole text.
    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Returns the first code in a sentence, with the text before and after it.
fn code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_between_backticks_are_code() {
        let mut html = Html::default();
        html.prose("set `a < b` and `c`; a ` alone");
        let written = "set <code>a &lt; b</code> and <code>c</code>; a ` alone";
        assert_eq!(html.finish(), written);
    }

    #[test]
    fn text_cannot_become_markup() {
        let mut html = Html::default();
        let ill = "</script><img src=x onerror='a&b'>\"\u{202e}\u{0}\n";
        html.leaf("p", &[("title", ill)], ill);
        let safe = "&lt;/script&gt;&lt;img src=x onerror=&#39;a&amp;b&#39;&gt;&quot;\
                    \\u{202e}\\u{0}\\n";
        assert_eq!(html.finish(), format!("<p title=\"{safe}\">{safe}</p>"));
    }
}
