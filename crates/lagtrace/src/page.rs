//! The option `--html`: the page of a result, in a file of its own or on standard output.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::path::Path;

use anyhow::Context as _;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use lagtrace_sources::files::{self, Kind};

use crate::console::Console;
use crate::delivery::{end_standard, unless_unread};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::render::html::{Document, Place, Redaction, page};
use crate::render::page::Block;

/// The beginning of a page.
const BEGINNING: &[u8] = b"<!doctype html>";

/// A result that is shown on a page.
pub(crate) struct Shown {
    pub(crate) document: Document,
    /// The text of a result that is neither a report nor a comparison.
    pub(crate) text: Vec<Block>,
}

impl From<Document> for Shown {
    fn from(document: Document) -> Self {
        let text = Vec::new();
        Self { document, text }
    }
}

/// Opens the files of the results, before anything is measured. A file that is not a page does not
/// become one: it may be the capture or the report that is read.
pub(crate) fn check(console: &Console) -> Result<()> {
    let output = console.output();
    let page = output.html.as_deref();
    if let Some(path) = page.filter(|path| *path != Path::new("-"))
        && files::kind(path) == Kind::Regular
        && !is_page(path).unwrap_or_default()
    {
        let failure = format!("{} exists and is not a page", path.display());
        return Err(Failure::new(failure).hint("name another file for --html, or remove it"));
    }
    console.outputs().open(output)
}

/// Returns true if a file begins as a page does, or is empty.
fn is_page(path: &Path) -> io::Result<bool> {
    let mut file = BufReader::new(files::open(path)?);
    if file.fill_buf()?.is_empty() {
        return Ok(true);
    }
    let mut start = Vec::new();
    let length = BEGINNING.len() as u64;
    if is_compressed(path) {
        GzDecoder::new(file).take(length).read_to_end(&mut start)?;
    } else {
        file.take(length).read_to_end(&mut start)?;
    }
    Ok(start == BEGINNING)
}

/// Prints the report by `print`, and writes the page if one is wanted. If one of both fails, the
/// other is still written.
pub(crate) fn beside<S: Into<Shown>, T>(
    console: &Console,
    shown: impl FnOnce() -> S,
    print: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let printed = print();
    if let Some(path) = &console.output().html {
        write(path, shown().into(), console)?;
    }
    printed
}

/// Writes a page to an open file.
pub(crate) fn write_to(file: &mut File, shown: Shown, console: &Console) -> io::Result<()> {
    file.write_all(made(shown, Place::File, console).as_bytes())
}

/// Returns the page of a result.
pub(crate) fn made(shown: Shown, place: Place, console: &Console) -> String {
    let mut redaction = redaction(console.output());
    made_with(redaction.as_mut(), shown, place)
}

/// Returns the page of a result, redacted if there is a redaction.
pub(crate) fn made_with(redaction: Option<&mut Redaction>, shown: Shown, place: Place) -> String {
    let Shown { document, mut text } = shown;
    let document = match redaction {
        Some(redaction) => redaction.of(&document, &mut text),
        None => document,
    };
    page(&document, &text, place)
}

/// Returns a redaction, if that is requested.
pub(crate) fn redaction(output: &Output) -> Option<Redaction> {
    output.redact.then(Redaction::default)
}

/// Writes a page to its file, or to standard output.
pub(crate) fn write(path: &Path, shown: Shown, console: &Console) -> Result<()> {
    let text = made(shown, Place::File, console);
    if path == Path::new("-") {
        let written = io::stdout().write_all(text.as_bytes());
        let written = written.and_then(|()| end_standard());
        return Ok(unless_unread(written).context("write the page to standard output")?);
    }
    let mut file = console.outputs().page(path)?;
    let written = put(&mut file, path, &text).and_then(|()| file.commit());
    Ok(written.with_context(|| format!("cannot write {}", path.display()))?)
}

/// Writes the text, compressed if the name of the file says so.
fn put(file: &mut impl Write, path: &Path, text: &str) -> io::Result<()> {
    if !is_compressed(path) {
        return file.write_all(text.as_bytes());
    }
    let mut gzip = GzEncoder::new(file, Compression::default());
    gzip.write_all(text.as_bytes())?;
    gzip.finish()?;
    Ok(())
}

fn is_compressed(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("gz"))
}
