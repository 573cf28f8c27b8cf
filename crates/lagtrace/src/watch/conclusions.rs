//! Conclusions from what the watch has seen so far.
//!
//! The watch waits only while its state is copied. A thread draws the conclusion from the copy, and
//! makes the page of it if one is served.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lagtrace_core::analyzer::{Analyzer, SoFar};
use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::report::Report;

use super::editor::{Edition, Editor};
use crate::clock;

/// Minimum interval between conclusions.
const EVERY: Duration = Duration::from_secs(2);
/// Minimum ratio of the pause after a conclusion to the time that the conclusion took, so that
/// concluding takes at most a twentieth of one processor.
const PAUSE_PER_CONCLUSION: u32 = 19;

/// The conclusions of a watch.
pub(super) struct Conclusions {
    /// The thread that draws the current conclusion. It returns how long that took.
    running: Option<JoinHandle<(Report, Duration)>>,
    /// The time of the next conclusion; `None` if nobody reads them.
    due: Option<Instant>,
    latest: Option<Report>,
    /// The page that shows them, if one is served.
    editor: Option<Arc<Editor>>,
    /// Number of copies of the watch's state, and the longest time that one took.
    copied: (u64, Duration),
}

impl Conclusions {
    /// Returns conclusions of which the first is drawn after `pause`; none if it is `None`.
    pub(super) fn new(pause: Option<Duration>, editor: Option<Arc<Editor>>) -> Self {
        Self {
            running: None,
            due: pause.map(|pause| Instant::now() + pause),
            latest: None,
            editor,
            copied: (0, Duration::ZERO),
        }
    }

    /// Returns the latest conclusion.
    pub(super) fn latest(&self) -> Option<&Report> {
        self.latest.as_ref()
    }

    /// Returns the number of times that the watch waited while its state was copied, and the longest
    /// of these times.
    pub(super) fn copied(&self) -> (u64, Duration) {
        self.copied
    }

    /// Takes a finished conclusion, and starts the next one if it is due.
    pub(super) fn renew(&mut self, analyzer: &mut Analyzer, tally: impl FnOnce() -> WatchTally) {
        self.take_finished();
        let is_due = self.due.is_some_and(|due| Instant::now() >= due);
        if is_due && self.running.is_none() {
            self.begin(analyzer, tally());
        }
    }

    fn take_finished(&mut self) {
        if let Some(done) = self.running.take_if(|it| it.is_finished())
            && let Ok((report, took)) = done.join()
        {
            self.latest = Some(report);
            self.due = Some(Instant::now() + EVERY.max(took * PAUSE_PER_CONCLUSION));
        }
    }

    fn begin(&mut self, analyzer: &mut Analyzer, tally: WatchTally) {
        let begun = Instant::now();
        let body = EventBody::Watched(tally);
        analyzer.observe(Event::here(clock::now(), Phase::Baseline, body));
        let so_far = match &self.editor {
            Some(_) => analyzer.so_far_with_picture(),
            None => analyzer.so_far(),
        };
        let (count, longest) = self.copied;
        self.copied = (count + 1, longest.max(begun.elapsed()));
        let editor = self.editor.as_ref();
        let edition = editor.map(|editor| (Arc::clone(editor), editor.begin()));
        self.running = Some(thread::spawn(move || {
            let report = concluded(so_far, edition);
            (report, begun.elapsed())
        }));
    }
}

fn concluded(so_far: SoFar, edition: Option<(Arc<Editor>, Edition)>) -> Report {
    let (mut report, picture) = so_far.conclude();
    if let Some((editor, edition)) = edition {
        editor.publish(edition, &mut report, picture);
    }
    report
}
