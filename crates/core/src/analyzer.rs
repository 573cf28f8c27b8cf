//! The fold from observations to a report.

use crate::event::{Event, TargetId};
use crate::experiment::Experiment;
use crate::flow::Endpoint;
use crate::report::Report;
use crate::segment::Segment;

/// What the analyzer is told before it begins.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seed of the flow tables' hashes: random, because the keys come from the
    /// network. The report does not depend on it.
    pub hash_seed: u64,
    /// The servers under investigation. Empty for captures: every server counts.
    pub targets: Vec<(TargetId, Endpoint)>,
}

/// Folds segments and events; concludes once.
#[derive(Debug)]
pub struct Analyzer {
    options: Options,
}

impl Analyzer {
    /// An analyzer that has seen nothing.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Takes in one TCP segment and as much of its payload as was captured.
    pub fn segment(&mut self, segment: &Segment, payload: &[u8]) {
        let _ = (&self.options, segment, payload);
    }

    /// Takes in anything else that was observed.
    pub fn observe(&mut self, event: Event) {
        let _ = event;
    }

    /// The interventions that would tell the remaining hypotheses apart, the
    /// most telling first.
    pub fn next_experiments(&self) -> Vec<Experiment> {
        Vec::new()
    }

    /// Concludes. `command`, `subject` and `started` are the caller's to fill in.
    pub fn finish(self) -> Report {
        Report::default()
    }
}
