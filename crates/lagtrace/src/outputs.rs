//! The files of `-o` and `--html`. They are opened before anything is measured, so that no run ends
//! without a place for its result.

use std::cell::RefCell;
use std::path::Path;

use anyhow::Context as _;
use lagtrace_sources::files::{Output, Purpose};

use crate::failure::Result;
use crate::output;

/// The open files of a command's results.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    report: RefCell<Option<Output>>,
    page: RefCell<Option<Output>>,
}

impl Outputs {
    /// Opens the files that the options name.
    pub(crate) fn open(&self, options: &output::Output) -> Result<()> {
        if let Some(path) = &options.output {
            self.report.replace(Some(create(path, Purpose::Result)?));
        }
        let page = options.html.as_deref();
        if let Some(path) = page.filter(|path| *path != Path::new("-")) {
            self.page.replace(Some(create(path, Purpose::Result)?));
        }
        Ok(())
    }

    /// Returns the file of the report; `path` is opened again if it was taken before.
    pub(crate) fn report(&self, path: &Path) -> Result<Output> {
        match self.report.take() {
            Some(output) => Ok(output),
            None => create(path, Purpose::Result),
        }
    }

    /// Returns the file of the page; `path` is opened again if it was taken before.
    pub(crate) fn page(&self, path: &Path) -> Result<Output> {
        match self.page.take() {
            Some(output) => Ok(output),
            None => create(path, Purpose::Result),
        }
    }
}

/// Opens an output.
pub(crate) fn create(path: &Path, purpose: Purpose) -> Result<Output> {
    Ok(
        Output::create(path, purpose)
            .with_context(|| format!("cannot write {}", path.display()))?,
    )
}
