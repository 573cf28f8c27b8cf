//! The option `--html`: the page of a result, in a file of its own or on standard output.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rustix::fs::{Access, access};

use crate::console::Console;
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

/// Returns an error if the page could not be written, before anything is measured. A file that is
/// not a page is not overwritten: it may be the capture or the report that is read.
pub(crate) fn check(output: &Output) -> Result<()> {
    let Some(path) = output
        .html
        .as_deref()
        .filter(|path| *path != Path::new("-"))
    else {
        return Ok(());
    };
    let named = || format!("cannot write {}", path.display());
    if output.output.as_deref() == Some(path) {
        let failure = Failure::new("--output and --html name the same file");
        return Err(failure.hint("the page is written in addition to the report: name two files"));
    }
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => {
            let error = io::Error::from(rustix::io::Errno::ISDIR);
            return Err(Failure::from(error).during(named()));
        }
        Ok(about) if about.is_file() && about.len() > 0 && !is_page(path).unwrap_or_default() => {
            let failure = format!("{} exists and is not a page", path.display());
            return Err(Failure::new(failure).hint("name another file for --html, or remove it"));
        }
        Ok(about) if !about.is_file() => return Ok(()),
        Ok(_) | Err(_) => {}
    }
    let folder = folder(path);
    let is_folder = fs::metadata(folder).with_context(named)?.is_dir();
    let allowed = if is_folder {
        access(folder, Access::WRITE_OK | Access::EXEC_OK)
    } else {
        Err(rustix::io::Errno::NOTDIR)
    };
    allowed.map_err(io::Error::from).with_context(named)?;
    Ok(())
}

/// Returns true if a file begins as a page does.
fn is_page(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
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

/// Writes a page: into a temporary file that replaces the named one when it is whole. What is not
/// a file, such as a pipe, is written directly.
pub(crate) fn write(path: &Path, shown: Shown, console: &Console) -> Result<()> {
    let text = made(shown, Place::File, console);
    if path == Path::new("-") {
        let mut to = io::stdout().lock();
        let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
        return Ok(written.context("write the page")?);
    }
    let written = match target(path) {
        Target::File(file) => replace(&file, &text),
        Target::Other => {
            let file = File::options().write(true).open(path);
            file.and_then(|mut file| put(&mut file, path, &text))
        }
    };
    Ok(written.with_context(|| format!("cannot write {}", path.display()))?)
}

/// The destination of a page.
enum Target {
    /// A file, which may not exist yet, without links.
    File(PathBuf),
    /// A device or a pipe.
    Other,
}

fn target(path: &Path) -> Target {
    match fs::metadata(path) {
        Ok(about) if !about.is_file() => Target::Other,
        Ok(_) => Target::File(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())),
        Err(_) => Target::File(path.to_owned()),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mode = fs::metadata(path).map_or(0o666, |about| about.permissions().mode() & 0o777);
    let mut file = tempfile::Builder::new()
        .prefix(".lagtrace-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder(path))?;
    put(file.as_file_mut(), path, text)?;
    file.persist(path)?;
    Ok(())
}

/// Writes the text, compressed if the name of the file says so.
fn put(file: &mut File, path: &Path, text: &str) -> io::Result<()> {
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

fn folder(path: &Path) -> &Path {
    let parent = path.parent();
    let named = parent.filter(|folder| !folder.as_os_str().is_empty());
    named.unwrap_or(Path::new("."))
}
