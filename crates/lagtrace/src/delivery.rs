//! Where a finished document goes: standard output or a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;

use crate::failure::Result;

/// Hands the document that `render` writes to `file`, or to standard output.
pub(crate) fn deliver(
    file: Option<&Path>,
    render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    match file {
        Some(path) => File::create(path)
            .and_then(|file| write(file, render))
            .with_context(|| format!("write {}", path.display()))?,
        None => write(io::stdout().lock(), render).context("write the report")?,
    }
    Ok(())
}

fn write(
    to: impl Write,
    render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    render(&mut to)?;
    to.flush()
}
