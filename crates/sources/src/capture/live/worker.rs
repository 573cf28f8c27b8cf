//! The capturing thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lagtrace_core::observed::time::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::LiveOutcome;
use super::handle::{BLOCK_TIMEOUT, Handle};
use super::sink::Sink;

/// Maximum number of packets read from one interface before the next interface is read.
const TURN: usize = 1_024;
/// Interval between checks of the conditions that end the capture.
const TICK: Duration = Duration::from_millis(20);
/// Time without packets after which the kernel's rings are empty, once the capture was stopped.
const SETTLED: Duration = BLOCK_TIMEOUT.saturating_mul(5);
/// Maximum time for emptying the rings.
const MAX_DRAIN: Duration = Duration::from_secs(10);

/// The state of the capturing thread.
pub(super) struct Worker {
    handles: Vec<Handle>,
    sink: Sink,
    limit: Option<u64>,
    deadline: Option<Instant>,
    stop: Arc<AtomicBool>,
    progress: Arc<AtomicU64>,
}

impl Worker {
    pub(super) fn new(handles: Vec<Handle>, sink: Sink) -> Self {
        Self {
            handles,
            sink,
            limit: None,
            deadline: None,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Sets the conditions that end the capture: a number of packets, a duration, or a flag.
    pub(super) fn ending(
        mut self,
        limit: Option<u64>,
        duration: Option<Duration>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        self.limit = limit;
        self.deadline = duration.and_then(|length| Instant::now().checked_add(length));
        self.stop = stop;
        self
    }

    /// Sets the counter that is updated with the number of packets captured so far.
    pub(super) fn counting(mut self, progress: Arc<AtomicU64>) -> Self {
        self.progress = progress;
        self
    }

    pub(super) fn run(mut self) -> LiveOutcome {
        while !self.is_to_end() {
            if self.read(Timestamp::MAX) == 0 {
                self.wait();
            }
        }
        self.drain();
        let written = self.sink.finish();
        let summaries = self.handles.into_iter().map(Handle::close).collect();
        LiveOutcome { summaries, written }
    }

    fn is_to_end(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|at| Instant::now() >= at)
            || self.handles.iter().all(Handle::is_over)
            || self.is_complete()
    }

    /// Returns true if nothing more may be captured, not even packets from before the stop.
    fn is_complete(&self) -> bool {
        self.left() == 0 || self.sink.is_pipe_closed()
    }

    fn left(&self) -> u64 {
        self.limit
            .map_or(u64::MAX, |limit| limit.saturating_sub(self.sink.packets()))
    }

    /// Reads up to [`TURN`] packets from every interface that has not yet delivered a packet later
    /// than `end`. Returns the number of packets read.
    fn read(&mut self, end: Timestamp) -> usize {
        let mut read = 0;
        for index in 0..self.handles.len() {
            let turn = usize::try_from(self.left()).map_or(TURN, |left| left.min(TURN));
            let (sink, handle) = (&mut self.sink, &mut self.handles[index]);
            if !handle.is_over() && handle.last() <= end {
                read += handle.read(turn, |point, summary, record| {
                    sink.take(point, summary, record);
                });
            }
        }
        self.sink.deliver();
        self.progress.store(self.sink.packets(), Ordering::Relaxed);
        read
    }

    /// Waits for packets, at most for a [`TICK`].
    fn wait(&mut self) {
        self.sink.flush();
        let left = self
            .deadline
            .map_or(TICK, |at| at.saturating_duration_since(Instant::now()));
        let timeout = Timespec::try_from(left.min(TICK)).ok();
        let open = self.handles.iter().filter(|handle| !handle.is_over());
        let mut fds: Vec<_> = open
            .map(|handle| PollFd::from_borrowed_fd(handle.fd(), PollFlags::IN))
            .collect();
        if poll(&mut fds, timeout.as_ref()).is_err() {
            // The wait was interrupted, or memory was short: pause before the next attempt.
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads the packets that arrived before the capture was stopped. Reading an interface ends
    /// when it delivers a later packet, or no packet for longer than the kernel keeps packets back.
    fn drain(&mut self) {
        let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let stopped = Timestamp::default() + since_epoch;
        let begin = Instant::now();
        self.deadline = None;
        while !self.is_complete() && begin.elapsed() < MAX_DRAIN {
            if self.read(stopped) > 0 {
                continue;
            }
            let is_passed = |handle: &Handle| handle.is_over() || handle.last() > stopped;
            if begin.elapsed() >= SETTLED || self.handles.iter().all(is_passed) {
                break;
            }
            self.wait();
        }
    }
}
