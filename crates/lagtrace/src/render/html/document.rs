//! The data of a page: one JSON document, compressed and encoded in base64.

use std::io::BufWriter;

use flate2::Compression;
use flate2::write::GzEncoder;
use lagtrace_core::report::{Picture, Report};
use lagtrace_core::views::compare::Comparison;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the document's form.
const VERSION: u32 = 1;

/// The level of compression: the default one takes twice as long for a page that is a tenth smaller.
const LEVEL: Compression = Compression::new(4);
/// Number of bytes that are compressed at a time.
const CHUNK: usize = 1 << 16;

/// Everything from which a page is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Document {
    page: u32,
    /// The program and its version.
    pub(super) made_by: String,
    pub(super) kind: Kind,
    pub(super) report: Option<Report>,
    pub(super) picture: Option<Picture>,
    pub(super) comparison: Option<Comparison>,
    pub(super) before: Option<Report>,
    pub(super) after: Option<Report>,
    /// The score of a corpus, as the lab prints it in JSON.
    pub(super) score: Option<Value>,
}

/// The kind of result that a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Report,
    Comparison,
    Score,
}

impl Document {
    /// Returns the report with its picture, if the document is of a drawn report.
    pub(crate) fn drawn(&self) -> Option<(&Report, &Picture)> {
        Some((self.report.as_ref()?, self.picture.as_ref()?))
    }

    /// Returns the document of a report, with the data to draw it.
    pub(crate) fn of_report(report: &Report, picture: Option<Picture>) -> Self {
        Self {
            report: Some(report.clone()),
            picture,
            ..Self::empty(Kind::Report)
        }
    }

    /// Returns the document of a comparison of two reports; `None` for reports that are not at
    /// hand.
    pub(crate) fn of_comparison(
        comparison: &Comparison,
        before: Option<&Report>,
        after: Option<&Report>,
    ) -> Self {
        Self {
            comparison: Some(comparison.clone()),
            before: before.cloned(),
            after: after.cloned(),
            ..Self::empty(Kind::Comparison)
        }
    }

    /// Returns the document of a score.
    pub(crate) fn of_score(score: Value) -> Self {
        Self {
            score: Some(score),
            ..Self::empty(Kind::Score)
        }
    }

    fn empty(kind: Kind) -> Self {
        Self {
            page: VERSION,
            made_by: concat!("lagtrace ", env!("CARGO_PKG_VERSION")).to_owned(),
            kind,
            report: None,
            picture: None,
            comparison: None,
            before: None,
            after: None,
            score: None,
        }
    }

    /// Returns the document as the page contains it.
    pub(super) fn encoded(&self) -> Base64 {
        let gzip = GzEncoder::new(Vec::new(), LEVEL);
        // JSON is written in many small pieces, and the encoder clears its whole buffer for each.
        let mut json = BufWriter::with_capacity(CHUNK, gzip);
        crate::json::write(&mut json, self).expect("memory takes all");
        let gzip = json.into_inner().map_err(|error| error.into_error());
        let bytes = gzip.and_then(GzEncoder::finish);
        Base64::of(&bytes.expect("memory takes all"))
    }
}

/// Bytes in base64 (RFC 4648 §4).
#[derive(Debug)]
pub(super) struct Base64(String);

impl Base64 {
    /// Encodes bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
        for group in bytes.chunks(3) {
            let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for digit in 0..4 {
                let value = (bits >> (18 - 6 * digit)) & 63;
                let is_padding = digit > group.len();
                text.push(if is_padding {
                    '='
                } else {
                    char::from(DIGITS[value as usize])
                });
            }
        }
        Self(text)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_in_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(Base64::of(bytes.as_bytes()).as_str(), text);
        }
        assert_eq!(Base64::of(&[0xfb, 0xff, 0xfe]).as_str(), "+//+");
    }
}
