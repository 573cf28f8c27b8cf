//! The fold from observations to a report.

use core::fmt;

use foldhash::fast::SeedableRandomState;

use crate::connection::Closed;
use crate::event::{Event, TargetId};
use crate::exchange::Exchange;
use crate::experiment::Experiment;
use crate::flow::Endpoint;
use crate::report::Report;
use crate::segment::Segment;
use crate::shard::{self, SHARDS, Shard};

/// What the analyzer is told before it begins.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seed of the flow tables' hashes: random, because the keys come from the
    /// network. The report does not depend on it.
    pub hash_seed: u64,
    /// The servers under investigation. Empty for captures: every server counts.
    pub targets: Vec<(TargetId, Endpoint)>,
}

/// Receives every exchange as it closes.
pub type Sink = Box<dyn FnMut(&Exchange) + Send>;

/// Folds segments and events; concludes once.
pub struct Analyzer {
    options: Options,
    hasher: SeedableRandomState,
    shards: Vec<Shard>,
    sink: Option<Sink>,
}

impl Analyzer {
    /// An analyzer that has seen nothing.
    pub fn new(options: Options) -> Self {
        let hasher = shard::hasher(options.hash_seed);
        let shards = (0..SHARDS).map(|_| Shard::new(hasher.clone())).collect();
        Self {
            options,
            hasher,
            shards,
            sink: None,
        }
    }

    /// Hands every exchange to `sink` as it closes, in the order they close.
    pub fn with_sink(mut self, sink: Sink) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Takes in one TCP segment and as much of its payload as was captured.
    pub fn segment(&mut self, segment: &Segment, payload: &[u8]) {
        let mut closed = Closed::default();
        let place = shard::place(&self.hasher, &segment.flow);
        if let Some(shard) = self.shards.get_mut(place) {
            shard.take(segment, payload, &mut closed);
        }
        self.fold(closed);
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
    pub fn finish(mut self) -> Report {
        for shard in core::mem::take(&mut self.shards) {
            let mut closed = Closed::default();
            shard.finish(&mut closed);
            self.fold(closed);
        }
        Report::default()
    }

    fn fold(&mut self, closed: Closed) {
        for exchange in &closed.exchanges {
            if let Some(sink) = &mut self.sink {
                sink(exchange);
            }
        }
    }
}

impl fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analyzer")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
