//! Two captures of the same connections.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use lagtrace_core::analyzer::{Analyzer, FarSide, Sink};
use lagtrace_core::decode::Packet;
use lagtrace_core::observed::event::CaptureSummary;
use lagtrace_core::observed::segment::Segment;
use lagtrace_core::report::Joined;
use lagtrace_core::views::two_point::{ExchangeSpan, Joining, Recognised};
use lagtrace_sources::capture::{FileCapture, Packets};

use super::merge::Merged;
use super::{Bounds, conclusion, input, open, open_one, rounds};
use crate::failure::Result;
use crate::interrupt::Interrupt;

/// Maximum number of exchanges whose time is split by place.
const MAX_EXCHANGES: usize = 1 << 18;

/// Two captures that were read once and contain the same connections.
pub(super) struct Joint {
    recognised: Recognised,
    summaries: Vec<CaptureSummary>,
    spans: Arc<Mutex<Vec<ExchangeSpan>>>,
}

impl Joint {
    /// Reads the files, if there are two and both can be read again. Returns `None` unless they
    /// contain the same connections.
    pub(super) fn recognise(
        files: &[PathBuf],
        limit: u64,
        progress: &ProgressBar,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>> {
        if files.len() != 2 || input::is_live(files) {
            return Ok(None);
        }
        let mut joining = Joining::new(conclusion::seed());
        let mut captures = open(files, progress, interrupt)?;
        for (at, capture) in captures.iter_mut().enumerate() {
            next_while(capture, limit, interrupt, |s| {
                joining.observe_segment(at, s)
            });
        }
        let Some(recognised) = joining.recognise() else {
            return Ok(None);
        };
        // Recognition may need only part of a file: each is read to its end, since the report
        // states its size.
        if limit == u64::MAX {
            for capture in &mut captures {
                next_while(capture, limit, interrupt, |_| true);
            }
        }
        Ok(Some(Self {
            recognised,
            summaries: captures.iter().map(FileCapture::summary).collect(),
            spans: Arc::default(),
        }))
    }

    /// Returns the index of the file that was captured nearer to the clients.
    pub(super) fn client(&self) -> usize {
        self.recognised.client()
    }

    /// Returns the summaries of both files.
    pub(super) fn summaries(&self) -> &[CaptureSummary] {
        &self.summaries
    }

    /// Returns what the server's capture shows of the requests, and of what the server called.
    pub(super) fn far_side(
        &self,
        files: &[PathBuf],
        bounds: Bounds,
        progress: &ProgressBar,
        interrupt: &Interrupt,
    ) -> Result<FarSide> {
        let other = 1 - self.client();
        let mut captures = vec![open_one(other, files, progress, interrupt)?];
        let mut options = conclusion::options(Vec::new());
        options.max_connections = bounds.max_connections.map(NonZeroUsize::get);
        let mut analyzer = Analyzer::new(options);
        let mut merged = Merged::new(&mut captures, bounds.limit);
        let read = |packets: &mut Packets| {
            if interrupt.is_requested() {
                packets.clear();
            } else {
                merged.next(packets);
            }
        };
        rounds::run(&mut analyzer, bounds.threads, read, None::<fn(&Packet<'_>)>);
        Ok(analyzer.finish_far_side(&self.recognised.far_names()))
    }

    /// Returns a sink that stores the times of exchanges and passes the exchanges on.
    pub(super) fn sink(&self, mut next: Option<Sink>) -> Sink {
        let spans = Arc::clone(&self.spans);
        Box::new(move |exchange| {
            let mut spans = spans.lock().unwrap_or_else(PoisonError::into_inner);
            if spans.len() < MAX_EXCHANGES {
                spans.extend(ExchangeSpan::new(exchange));
            }
            if let Some(next) = &mut next {
                next(exchange);
            }
        })
    }

    /// Returns the combined result of both captures.
    pub(super) fn conclude(&self) -> Option<Joined> {
        let [first, second] = self.summaries.as_slice() else {
            return None;
        };
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let names = [first.name.as_str(), second.name.as_str()];
        Some(self.recognised.conclude(names, &spans))
    }
}

/// Continues reading while `wants_more` returns true, up to `limit` segments.
fn next_while(
    capture: &mut FileCapture,
    limit: u64,
    interrupt: &Interrupt,
    mut wants_more: impl FnMut(&Segment) -> bool,
) {
    for _ in 0..limit {
        match capture.next_segment() {
            Some((segment, _)) if !interrupt.is_requested() && wants_more(&segment) => {}
            _ => return,
        }
    }
}
