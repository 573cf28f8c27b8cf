//! The destination of a finished document: standard output or a file.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use anyhow::Context as _;
use lagtrace_sources::files;

use crate::console::Console;
use crate::failure::Result;
use crate::output::Form;
use crate::render::ascii::ascii;
use crate::render::escape::{json, laid_out};

/// Writes the document to the destination that the user requested.
pub(crate) fn deliver(console: &Console, document: &str) -> Result<()> {
    let document = &*Writing::of(console).written(document);
    match &console.output().output {
        Some(path) => {
            let mut file = console.outputs().report(path)?;
            file.write_all(document.as_bytes())
                .and_then(|()| file.commit())
                .with_context(|| writing(console))?;
        }
        None if !console.output().is_on_stdout() => {}
        None => {
            let written = io::stdout().write_all(document.as_bytes());
            let written = written.and_then(|()| end_standard());
            unless_unread(written).with_context(|| writing(console))?;
        }
    }
    Ok(())
}

/// Returns the operation that writes the output, for an error.
pub(crate) fn writing(console: &Console) -> String {
    match &console.output().output {
        Some(path) => format!("write {}", path.display()),
        None => "write to standard output".to_owned(),
    }
}

/// Ends standard output. If it is a file, its file system may tell only now of what could not be
/// written before.
pub(crate) fn end_standard() -> io::Result<()> {
    io::stdout().flush()?;
    files::Output::standard()?.commit()
}

/// Takes it as success that the reader of the output has exited: it has read what it wanted, as
/// `head` does, and the exit code still tells the outcome.
pub(crate) fn unless_unread(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Opens the output for lines. If they are not live, a file of them appears when it is whole;
/// otherwise it can be read while it grows.
pub(crate) fn open(console: &Console, is_live: bool) -> Result<Lines> {
    let to = match &console.output().output {
        Some(path) => {
            let file = console.outputs().report(path)?;
            let file = if is_live {
                file.into_stream()
            } else {
                Ok(file)
            };
            To::File(file.with_context(|| writing(console))?)
        }
        None if !console.output().is_on_stdout() => To::Nowhere,
        None => To::Standard(io::stdout()),
    };
    Ok(Lines {
        to: BufWriter::new(to),
        writing: Writing::of(console),
    })
}

/// The kind of a document, which decides how it is escaped.
#[derive(Clone, Copy)]
enum Writing {
    /// Text for people.
    Text,
    /// Text for people, in ASCII.
    Ascii,
    /// JSON documents.
    Json,
    /// Lines that end as RFC 4180 says.
    Csv,
    /// Bytes for programs.
    Binary,
}

impl Writing {
    fn of(console: &Console) -> Self {
        match console.output().form {
            Form::Text if console.output().is_ascii() => Self::Ascii,
            Form::Text => Self::Text,
            Form::Json | Form::Ndjson | Form::Har => Self::Json,
            Form::Csv => Self::Csv,
            Form::Perfetto => Self::Binary,
        }
    }

    /// Returns the document without characters that its reader cannot show, or that a terminal would
    /// interpret or hide.
    fn written(self, document: &str) -> Cow<'_, str> {
        match self {
            Self::Text => laid_out(document),
            Self::Ascii => ascii(&laid_out(document)).into_owned().into(),
            Self::Json => json(document),
            Self::Csv => {
                let lines: Vec<_> = document.split("\r\n").map(laid_out).collect();
                lines.join("\r\n").into()
            }
            Self::Binary => Cow::Borrowed(document),
        }
    }
}

/// Lines that are written while there are more. Each write consists of whole characters.
pub(crate) struct Lines {
    to: BufWriter<To>,
    writing: Writing,
}

/// The place of lines.
enum To {
    File(files::Output),
    Standard(io::Stdout),
    Nowhere,
}

impl Lines {
    /// Ends the output, and keeps its file.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self
            .to
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?
        {
            To::File(file) => file.commit(),
            To::Standard(_) => end_standard(),
            To::Nowhere => Ok(()),
        }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.writing, str::from_utf8(bytes)) {
            (Writing::Binary, _) => self.to.write_all(bytes)?,
            (writing, Ok(text)) => self.to.write_all(writing.written(text).as_bytes())?,
            (writing, Err(_)) => {
                let text = String::from_utf8_lossy(bytes);
                self.to.write_all(writing.written(&text).as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Standard(to) => to.write(bytes),
            Self::Nowhere => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Standard(to) => to.flush(),
            Self::Nowhere => Ok(()),
        }
    }
}
