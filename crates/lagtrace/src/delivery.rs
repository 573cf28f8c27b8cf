//! The destination of a finished document: standard output or a file.

use std::fs;
use std::io::{self, BufWriter, Write};

use anyhow::Context as _;

use crate::console::Console;
use crate::failure::Result;

/// Writes the document to the destination that the user requested.
pub(crate) fn deliver(console: &Console, document: &str) -> Result<()> {
    match &console.output().output {
        Some(path) => {
            fs::write(path, document).with_context(|| format!("write {}", path.display()))?;
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

/// Opens the output for lines that are written immediately.
pub(crate) fn open(console: &Console) -> Result<Box<dyn Write + Send>> {
    Ok(match &console.output().output {
        Some(path) => {
            let file = fs::File::create(path);
            let file = file.with_context(|| format!("write {}", path.display()))?;
            Box::new(BufWriter::new(file))
        }
        None if !console.output().is_on_stdout() => Box::new(io::sink()),
        None => Box::new(BufWriter::new(io::stdout())),
    })
}
