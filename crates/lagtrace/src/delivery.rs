//! The destination of a finished document: standard output or a file.

use std::io::{self, BufWriter, Write};

use anyhow::Context as _;
use lagtrace_sources::files;

use crate::console::Console;
use crate::failure::Result;

/// Writes the document to the destination that the user requested.
pub(crate) fn deliver(console: &Console, document: &str) -> Result<()> {
    match &console.output().output {
        Some(path) => {
            let mut file = console.outputs().report(path)?;
            file.write_all(document.as_bytes())
                .and_then(|()| file.commit())
                .with_context(|| format!("write {}", path.display()))?;
        }
        None if !console.output().is_on_stdout() => {}
        None => {
            let mut to = io::stdout().lock();
            to.write_all(console.gap().as_bytes())
                .and_then(|()| to.write_all(document.as_bytes()))
                .and_then(|()| to.flush())
                .context("write the report")?;
        }
    }
    Ok(())
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
            To::File(file.with_context(|| format!("write {}", path.display()))?)
        }
        None if !console.output().is_on_stdout() => To::Nowhere,
        None => To::Standard(io::stdout()),
    };
    Ok(Lines(BufWriter::new(to)))
}

/// Lines that are written while there are more.
pub(crate) struct Lines(BufWriter<To>);

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
            .0
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?
        {
            To::File(file) => file.commit(),
            To::Standard(mut to) => to.flush(),
            To::Nowhere => Ok(()),
        }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
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
