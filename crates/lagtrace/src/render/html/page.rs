//! The whole page: head with the content policy, header, sections, data and script.

use std::sync::OnceLock;

use lagtrace_core::report::Report;
use serde::Deserialize;

use super::document::{Document, Kind};
use super::writer::Html;
use super::{blocks, summary, time, verdict};
use crate::render::page::{Block, Page};
use crate::render::{place, quantity};

/// The script and the style sheet, built in `web/`.
const SCRIPT: &str = include_str!("../../../../../web/dist/page.js");
const STYLE: &str = include_str!("../../../../../web/dist/page.css");
/// The hashes of the script and the style sheet.
const POLICY: &str = include_str!("../../../../../web/dist/policy.json");

/// The hashes of the script and of the style sheet, as a content policy names them.
#[derive(Debug, Deserialize)]
struct Hashes {
    script: String,
    style: String,
}

/// The place from which a browser reads the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file, which is complete.
    File,
    /// A server, which the page may ask for more.
    Server,
    /// A server of the page's versions, of which this is the one with a number.
    Live(u64),
}

/// Returns the page of a document. `shown` is what the command's text shows of a result that is
/// neither a report nor a comparison.
pub(crate) fn page(document: &Document, shown: &[Block], place: Place) -> String {
    let mut html = Html::default();
    html.verbatim("<!doctype html>\n");
    html.element("html", &[("lang", "en")], |html| {
        html.element("head", &[], |html| {
            head(html, &title(document), place);
        });
        let version;
        let attribute = match place {
            Place::File => None,
            Place::Server => Some(("data-served", "")),
            Place::Live(number) => {
                version = number.to_string();
                Some(("data-live", version.as_str()))
            }
        };
        html.element("body", attribute.as_slice(), |html| {
            body(html, document, shown);
        });
    });
    html.verbatim("\n");
    html.finish()
}

/// Returns the content policy: nothing but this page's own script and style, and requests only to
/// the server of the page.
pub(crate) fn policy(place: Place) -> String {
    static HASHES: OnceLock<Hashes> = OnceLock::new();
    let Hashes { script, style } =
        HASHES.get_or_init(|| serde_json::from_str(POLICY).expect("a test reads it"));
    let reached = match place {
        Place::File => "'none'",
        Place::Server | Place::Live(_) => "'self'",
    };
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data: blob:; \
         connect-src {reached}; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'"
    )
}

fn head(html: &mut Html, title: &str, place: Place) {
    html.void("meta", &[("charset", "utf-8")]);
    let viewport = "width=device-width, initial-scale=1";
    html.void("meta", &[("name", "viewport"), ("content", viewport)]);
    let policy = policy(place);
    let policy = [
        ("http-equiv", "Content-Security-Policy"),
        ("content", policy.as_str()),
    ];
    html.void("meta", &policy);
    html.void("meta", &[("name", "referrer"), ("content", "no-referrer")]);
    html.leaf("title", &[], title);
    html.element("style", &[], |html| html.verbatim(STYLE));
}

fn title(document: &Document) -> String {
    match (&document.report, document.kind) {
        (Some(report), _) => named("lagtrace", report),
        (None, Kind::Score) => "lagtrace-lab score".to_owned(),
        (None, _) => "lagtrace compare".to_owned(),
    }
}

/// Returns a command and its subject.
fn named(program: &str, report: &Report) -> String {
    let parts = [program, &report.command, &report.subject];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

fn body(html: &mut Html, document: &Document, shown: &[Block]) {
    html.element("header", &[], |html| header(html, document));
    html.element("main", &[], |html| {
        sections(html, document, shown);
        html.element("div", &[("id", "views")], |_| {});
        html.element("noscript", &[], |html| {
            html.classed(
                "p",
                "muted",
                "The other views of this page need JavaScript.",
            );
        });
        if let Some(report) = &document.report {
            whole(html, report);
        }
    });
    let data = [
        ("id", "data"),
        ("type", "application/json"),
        ("data-encoding", "gzip;base64"),
    ];
    html.element("script", &data, |html| html.encoded(&document.encoded()));
    html.element("script", &[], |html| html.verbatim(SCRIPT));
}

fn header(html: &mut Html, document: &Document) {
    html.leaf("h1", &[], &title(document));
    let mut parts = Vec::new();
    if let Some(report) = &document.report {
        parts.push(place::second(&report.started));
        let capture = report.capture.as_ref().filter(|c| c.packets > 0);
        parts.extend(capture.map(|it| quantity::counted(it.packets, "packet", "packets")));
    }
    parts.push(document.made_by.clone());
    parts.retain(|part| !part.is_empty());
    html.classed("p", "muted", &parts.join(" · "));
}

fn sections(html: &mut Html, document: &Document, shown: &[Block]) {
    if let Some(report) = &document.report {
        match summary::shown(report) {
            Some(shown) => summary::write(html, report, &shown),
            None => verdict::write(html, report, document.picture.as_ref()),
        }
        time::write(html, report, document.picture.as_ref());
    }
    if let Some(comparison) = &document.comparison {
        summary::compared(html, comparison);
    }
    if document.kind == Kind::Score {
        summary::section(html, |html| {
            summary::title(html, "Score");
            blocks::write(html, shown);
        });
    }
}

/// Writes the tables of the whole report, for a reader without a script.
fn whole(html: &mut Html, report: &Report) {
    if summary::shown(report).is_some() {
        return;
    }
    let mut page = Page::recording();
    crate::render::tables(&mut page, report);
    html.element("section", &[("id", "tables")], |html| {
        html.element("details", &[], |html| {
            html.leaf("summary", &[], "All tables of the report");
            blocks::write(html, &page.into_blocks());
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hash of a text as a content policy names it.
    fn hash(text: &str) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        format!(
            "sha256-{}",
            crate::render::html::document::Base64::of(digest.as_ref()).as_str()
        )
    }

    #[test]
    fn the_policy_names_the_script_and_the_style_of_this_program() {
        let hashes: Hashes = serde_json::from_str(POLICY).expect("the policy");
        assert_eq!((hashes.script, hashes.style), (hash(SCRIPT), hash(STYLE)));
        for (text, end) in [(SCRIPT, "</script"), (STYLE, "</style"), (SCRIPT, "<!--")] {
            assert!(
                !text.to_lowercase().contains(end),
                "{end} ends the element early"
            );
        }
    }
}
