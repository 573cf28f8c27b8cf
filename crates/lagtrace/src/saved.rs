//! Reports, comparisons and scores that were written to files as JSON.

use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use anyhow::Context as _;
use flate2::read::MultiGzDecoder;
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Report, SCHEMA};
use lagtrace_core::views::compare::{self, Comparison};
use lagtrace_sources::files;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::lab::score::summary::Summary;

/// The oldest report schema in which everything that is compared has its present meaning.
const OLDEST: u32 = 1;
/// Maximum length of a document, uncompressed. A report with everything at its limit is shorter.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum length of a text that becomes a tree of values, which takes forty times the memory.
const MAX_TREE_BYTES: usize = 4 << 20;
/// Number of bytes in which a document of JSON shows its first brace.
const BEGINNING: u64 = 64;
/// The first bytes of a gzip file (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A document.
#[derive(Debug)]
pub(crate) enum Saved {
    /// A report.
    Report(Box<Report>),
    /// The comparison of two reports.
    Comparison(Box<Comparison>),
    /// The report of a run and its comparison with an earlier one (`diagnose --verify`).
    Verified(Box<Verified>),
    /// The score of a corpus, and its summary.
    Score(Value, Box<Summary>),
}

/// The report of a run and its comparison with an earlier one.
#[derive(Debug, Deserialize)]
pub(crate) struct Verified {
    pub(crate) report: Report,
    pub(crate) comparison: Comparison,
}

/// Returns true if a file contains a JSON document, and not a capture.
pub(crate) fn is_document(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    // A file that cannot be decompressed is not a document.
    let read = opened(path)?.take(BEGINNING).read_to_end(&mut start);
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    Ok(read.is_ok() && matches!(first, Some(b'{' | b'[')))
}

/// Reads a JSON report.
pub(crate) fn report(path: &Path) -> Result<Report> {
    let text = read(path)?;
    parsed(path, &text)
}

/// Reads a JSON document of any kind.
pub(crate) fn any(path: &Path) -> Result<Saved> {
    any_of(path, &read(path)?)
}

/// The fields by which kinds of documents are told apart. Errors name what was expected.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "Report")]
struct Fields {
    report: Option<IgnoredAny>,
    comparison: Option<IgnoredAny>,
    outcome: Option<IgnoredAny>,
    before: Option<IgnoredAny>,
    confusion: Option<IgnoredAny>,
    together: Option<IgnoredAny>,
}

/// Reads the text of a JSON document of any kind.
pub(crate) fn any_of(path: &Path, text: &[u8]) -> Result<Saved> {
    let is_list = text.trim_ascii_start().starts_with(b"[");
    let fields = if is_list {
        Fields::default()
    } else {
        deserialized(path, text)?
    };
    if fields.report.is_some() && fields.comparison.is_some() {
        let both: Verified = deserialized(path, text)?;
        check(path, both.report.schema, OLDEST, SCHEMA)?;
        return Ok(Saved::Verified(Box::new(both)));
    }
    if fields.outcome.is_some() && fields.before.is_some() {
        let comparison: Comparison = deserialized(path, text)?;
        check(path, comparison.schema, compare::SCHEMA, compare::SCHEMA)?;
        return Ok(Saved::Comparison(Box::new(comparison)));
    }
    let may_be_score = is_list || (fields.confusion.is_some() && fields.together.is_some());
    if may_be_score && text.len() <= MAX_TREE_BYTES {
        let value: Value = deserialized(path, text)?;
        if let Some(summary) = Summary::of(&value) {
            let summary = summary.map_err(|error| unread(path, text, error))?;
            return Ok(Saved::Score(value, Box::new(summary)));
        }
    }
    Ok(Saved::Report(Box::new(parsed(path, text)?)))
}

fn parsed(path: &Path, text: &[u8]) -> Result<Report> {
    let report: Report = deserialized(path, text)?;
    check(path, report.schema, OLDEST, SCHEMA)?;
    Ok(report)
}

fn deserialized<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| unread(path, text, error))
}

/// Opens a file, decompressed if it is compressed.
fn opened(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = files::open(path)?;
    let mut magic = Vec::new();
    (&file).take(GZIP.len() as u64).read_to_end(&mut magic)?;
    let is_gzip = magic == GZIP;
    // A pipe has no beginning to go back to.
    let whole = Cursor::new(magic).chain(file);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(BufReader::new(whole)))
    } else {
        Box::new(whole)
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let mut text = Vec::new();
    opened(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text))
        .with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Failure::new(format!("{name} is longer than 16 MiB")));
    }
    Ok(text)
}

/// Returns the failure for a text that is no document of a known form, with line and column.
fn unread(path: &Path, text: &[u8], error: serde_json::Error) -> Failure {
    let name = path.display();
    if let Some(cause) = unknown_cause(text) {
        return Failure::new(format!(
            "{name} contains a cause that this version does not know: {cause}"
        ))
        .hint("a newer version of lagtrace wrote it: use that version to read it");
    }
    if error.is_eof() {
        return Failure::from(error)
            .during(format!("{name} is cut off"))
            .hint("it was copied or written only in part: copy it again, or make it again");
    }
    let hint = if is_lines(text) {
        "it has one object per line: make it with --format json, not ndjson"
    } else {
        "make reports with `lagtrace diagnose URL --format json -o FILE`"
    };
    Failure::from(error)
        .during(format!("{name} is not a report of lagtrace"))
        .hint(hint)
}

/// Returns true if a text consists of JSON objects, one per line.
fn is_lines(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n');
    let typed =
        |line: &[u8]| serde_json::from_slice(line).is_ok_and(|v: Value| v["type"].is_string());
    let first = lines.next().filter(|line| line.len() <= MAX_TREE_BYTES);
    first.is_some_and(typed)
}

fn check(path: &Path, schema: u32, oldest: u32, newest: u32) -> Result<()> {
    if (oldest..=newest).contains(&schema) {
        return Ok(());
    }
    let told = format!(
        "{} is a report of schema {schema}; this version reads {oldest} to {newest}",
        path.display()
    );
    Err(Failure::new(told).hint("make it again with this version of lagtrace"))
}

/// Returns the first id in a report that does not belong to a known cause; `None` if the report has
/// another fault.
fn unknown_cause(text: &[u8]) -> Option<String> {
    if text.len() > MAX_TREE_BYTES {
        return None;
    }
    let report: Value = serde_json::from_slice(text).ok()?;
    let within = |finding: &Value| {
        let parts = ["ruled_out", "candidates"].map(|part| list(&finding[part]));
        parts.concat()
    };
    let findings = list(&report["findings"]);
    let named = findings.iter().cloned();
    let mut named = named.chain(findings.iter().flat_map(within));
    named.find_map(|named| {
        let id = named["cause"].as_str()?;
        id.parse::<Id>().is_err().then(|| id.to_owned())
    })
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    /// Returns the failure for a text that is not a readable report.
    fn refused(text: &str) -> Failure {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("it takes the text");
        report(file.path()).expect_err("no report of this version")
    }

    #[test]
    fn kinds_of_documents_are_told_apart_without_a_tree_of_values() {
        let path = Path::new("a.json");
        let read = |text: &str| any_of(path, text.as_bytes());
        // A list of this length would take a gigabyte as values.
        let long = format!("[{}0]", "0,".repeat(8 << 20));
        for text in [
            long.as_str(),
            "[]",
            "5",
            "{",
            r#"{"report": 1, "report": 2}"#,
        ] {
            let failure = read(text).expect_err("no document").to_string();
            assert!(failure.starts_with("a.json is"), "{failure}");
        }
        let report = Report {
            schema: SCHEMA,
            ..Report::default()
        };
        let report = serde_json::to_string(&report).expect("plain data");
        assert!(matches!(read(&report), Ok(Saved::Report(_))));
    }

    #[test]
    fn documents_are_read_from_pipes() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        let written = Report {
            schema: SCHEMA,
            ..Report::default()
        };
        let text = serde_json::to_vec(&written).expect("plain data");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).expect("in memory");
        for bytes in [text, gzip.finish().expect("in memory")] {
            let writer = std::thread::spawn({
                let pipe = pipe.clone();
                move || fs::write(pipe, bytes).expect("written")
            });
            assert_eq!(report(&pipe).expect("a report"), written);
            writer.join().expect("the writer");
        }
    }

    #[test]
    fn a_cause_of_a_newer_version_is_named() {
        let known = r#"{"cause": "server-think", "ruled_out": [{"cause": "packet-loss"}]}"#;
        let newer = r#"{"cause": "server-think", "candidates": [{"cause": "gremlins"}]}"#;
        let of = |finding| format!(r#"{{"schema": 1, "findings": [{finding}]}}"#);
        let failure = refused(&of(newer));
        assert!(
            failure.to_string().contains("does not know: gremlins"),
            "{failure}"
        );
        let hint = failure.hint_text().unwrap_or_default();
        assert!(hint.contains("newer version"), "{hint}");
        // The error for any other fault does not name a cause.
        for text in [&of(known), "[]", "no JSON"] {
            let failure = refused(text);
            assert!(
                failure.to_string().contains("not a report of lagtrace"),
                "{failure}"
            );
        }
    }
}
