//! What the program makes of documents and expressions from anyone, for the fuzz targets. This
//! module exists only with the feature `fuzzing`.

use std::path::Path;

use lagtrace_core::report::Report;
use lagtrace_core::views::compare::compare;

use crate::analyze::condition::Condition;
use crate::page::{Shown, made_with};
use crate::render::html::{Document, Place, Redaction};
use crate::render::{self, Length, Style};
use crate::saved::{self, Saved};

/// A text that the fuzz target puts into documents, and that a page must not contain as it is.
const MARKUP: &str = "<fuzzed>";

/// Reads a document, and shows it as each of the views does. Two reports, separated by a zero
/// byte, are compared; one is compared with itself.
pub fn report(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let (one, other) = (parts.next().unwrap_or_default(), parts.next());
    let Ok(saved) = saved::any_of(Path::new("fuzzed.json"), one) else {
        return;
    };
    match saved {
        Saved::Report(report) => {
            show(&report);
            let other = other.and_then(|text| serde_json::from_slice(text).ok());
            show_comparison(&report, other.as_ref().unwrap_or(&report));
        }
        Saved::Comparison(comparison) => {
            render::comparison(&comparison, &style(Length::Full));
            page(Document::of_comparison(&comparison, None, None).into());
        }
        Saved::Verified(both) => {
            show(&both.report);
            page(Document::of_comparison(&both.comparison, None, Some(&both.report)).into());
        }
        Saved::Score(score, summary) => page(Shown {
            document: Document::of_score(score),
            text: summary.blocks(),
        }),
    }
}

/// Reads an expression of `--where`.
pub fn condition(text: &str) {
    match text.parse::<Condition>() {
        Ok(_) => {}
        Err(fault) => drop(fault.to_string()),
    }
}

fn style(length: Length) -> Style {
    Style {
        width: 80,
        color: true,
        ascii: false,
        length,
    }
}

fn show(report: &Report) {
    for length in [Length::Brief, Length::Screen, Length::Full] {
        is_harmless(&render::text(report, &style(length)));
    }
    for part in [render::load, render::probes, render::live] {
        is_harmless(&part(report, &style(Length::Full)));
    }
    render::route_csv(report);
    render::json(report);
    render::ndjson(report);
    page(Document::of_report(report, None).into());
}

fn show_comparison(before: &Report, after: &Report) {
    let comparison = compare(before, after);
    is_harmless(&render::comparison(&comparison, &style(Length::Full)));
    render::comparison_json(&comparison);
    page(Document::of_comparison(&comparison, Some(before), Some(after)).into());
}

/// Makes a page, redacted. It has no element of another's.
fn page(shown: Shown) {
    let page = made_with(Some(&mut Redaction::default()), shown, Place::File);
    assert!(!page.contains(MARKUP));
}

/// Text for a terminal has no control characters but those of colours.
fn is_harmless(text: &str) {
    let is_ill = |c: char| c.is_control() && !matches!(c, '\n' | '\u{1b}');
    assert!(!text.contains(is_ill), "{text:?}");
    for after in text.split('\u{1b}').skip(1) {
        let end = after.find('m').and_then(|end| after.get(1..end));
        let is_color = |code: &str| code.bytes().all(|b| b.is_ascii_digit() || b == b';');
        assert!(
            after.starts_with('[') && end.is_some_and(is_color),
            "{after:?}"
        );
    }
}
