//! The file with all observations except packets. Together with the packets, it contains everything
//! that a report is based on.

use std::io::{BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

use lagtrace_core::observed::event::{Event, TargetId};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_sources::files::{Output, Purpose};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::json;
use crate::outputs;

/// The first line of the file.
#[derive(Debug, Serialize)]
pub(super) struct Head<'a> {
    /// The version of lagtrace that wrote the file; the format of the lines depends on the version.
    pub(super) lagtrace: &'a str,
    /// The URL under investigation.
    pub(super) subject: &'a str,
    /// The time at which the investigation began.
    pub(super) started: &'a str,
    /// The endpoints of the targets.
    pub(super) targets: &'a [(TargetId, Endpoint)],
}

/// A file of JSON lines: a [`Head`], followed by the events in the order in which they were
/// analysed.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    /// The file; `None` once a line could not be written.
    file: Option<BufWriter<Output>>,
    fault: Option<Failure>,
}

impl Keeper {
    /// Creates the file, before anything is measured.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = outputs::create(path, Purpose::Result)?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(BufWriter::new(file)),
            fault: None,
        })
    }

    /// Writes the first line.
    pub(super) fn begin(&mut self, head: &Head<'_>) {
        self.line(head);
    }

    /// Writes one event's line.
    pub(super) fn keep(&mut self, event: &Event) {
        self.line(event);
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The reason why the file is incomplete. The investigation itself continues without it.
    pub(super) fn finish(mut self) -> Result<()> {
        if let Some(file) = self.file.take() {
            let written = file.into_inner().map_err(IntoInnerError::into_error);
            let written = written.and_then(Output::commit);
            self.fault = written.err().map(|error| failed(&self.path, error));
        }
        self.fault.map_or(Ok(()), Err)
    }

    fn line(&mut self, of: &impl Serialize) {
        let Some(file) = &mut self.file else { return };
        let written = json::write(file, of);
        if let Err(error) = written.and_then(|()| file.write_all(b"\n")) {
            self.fault = Some(failed(&self.path, error));
            self.file = None;
        }
    }
}

fn failed(path: &Path, error: std::io::Error) -> Failure {
    let name = path.display();
    Failure::from(anyhow::Error::new(error).context(format!("cannot write {name}")))
}
