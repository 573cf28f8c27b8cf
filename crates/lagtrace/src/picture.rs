//! The data from which the page draws a diagnosis, gathered while exchanges close.

use lagtrace_core::analyzer::Sink;
use lagtrace_core::report::{Picture, Report};

use crate::console::Console;

/// What was gathered so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pictured {}

impl Pictured {
    /// Returns an empty picture, if a page is wanted.
    pub(crate) fn wanted(console: &Console) -> Option<Self> {
        console.output().html.as_ref().map(|_| Self::default())
    }

    /// Returns a sink that gathers exchanges and passes them on.
    pub(crate) fn sink(&self, next: Option<Sink>) -> Option<Sink> {
        next
    }

    /// Returns the picture.
    pub(crate) fn finish(self, _report: &Report) -> Option<Picture> {
        None
    }
}
