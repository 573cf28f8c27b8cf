//! Threads that repeatedly sleep for a millisecond and record how late they wake up.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// Minimum lateness that counts.
pub(crate) const LEAST: Duration = Duration::from_millis(8);
/// The length of one sleep of a watcher.
const NAP: Duration = Duration::from_millis(1);

/// A thread that watches one processor.
#[derive(Debug)]
pub(crate) struct Watcher {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// The lateness that a watcher measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The maximum lateness of one wake-up.
    pub(crate) longest: Duration,
    /// The sum of all delays of at least [`LEAST`].
    pub(crate) in_all: Duration,
    /// The maximum wait of the watched thread for a processor.
    pub(crate) waited: Duration,
    /// The number of runnable threads except the watcher, summed over all samples, and the number
    /// of samples.
    runnable: u64,
    looks: u64,
}

/// Returns the processors that this process may use.
pub(crate) fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("the kernel tells the processors of this thread");
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|&processor| set.is_set(processor)).collect()
}

impl Watcher {
    /// Starts watching a processor. If given, the wait of the thread `watched` for any processor is
    /// also measured.
    pub(crate) fn start(processor: usize, mut watched: Option<RunQueue>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_over);
        // The time is taken before the thread starts, because its start may be late too.
        let mut begun = Instant::now();
        let watch = move || {
            let mut own = CpuSet::new();
            own.set(processor);
            // If the processor was taken offline, the thread watches any other one.
            let _ = sched_setaffinity(None, &own);
            let mut seen = Seen::default();
            loop {
                thread::sleep(NAP);
                let now = Instant::now();
                seen.add((now - begun).saturating_sub(NAP));
                begun = now;
                if let Some(queue) = &mut watched {
                    seen.waited = seen.waited.max(queue.waited_since());
                }
                seen.look();
                if stopped.load(Ordering::Relaxed) {
                    return seen;
                }
            }
        };
        let thread = thread::Builder::new().name("trial".to_owned()).spawn(watch);
        Self {
            is_over,
            thread: thread.expect("the system has a thread"),
        }
    }

    /// Ends the watch; the last sleep is included.
    pub(crate) fn stop(self) -> Seen {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("a watcher only sleeps")
    }
}

impl Seen {
    fn add(&mut self, late: Duration) {
        self.longest = self.longest.max(late);
        if late >= LEAST {
            self.in_all += late;
        }
    }

    fn look(&mut self) {
        let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        if let Some(runnable) = runnable(&text) {
            self.runnable += runnable.saturating_sub(1);
            self.looks += 1;
        }
    }

    /// Returns the mean number of runnable threads.
    pub(crate) fn mean_runnable(&self) -> f64 {
        self.runnable as f64 / self.looks.max(1) as f64
    }
}

/// Returns the number before the slash (proc_loadavg(5)): the runnable threads.
fn runnable(loadavg: &str) -> Option<u64> {
    let (before, _) = loadavg.split_once('/')?;
    before.split_whitespace().last()?.parse().ok()
}

/// The kernel's accounting of the time that a thread was runnable without a processor.
#[derive(Debug)]
pub(crate) struct RunQueue {
    path: PathBuf,
    last: Duration,
}

impl RunQueue {
    /// Returns the accounting of the calling thread, starting now; `None` if the kernel does not
    /// provide it.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let thread = gettid().as_raw_nonzero();
        let path = PathBuf::from(format!("/proc/self/task/{thread}/schedstat"));
        let last = waited(&path)?;
        Some(Self { path, last })
    }

    /// Returns the time that the thread waited since the last call; zero once the thread has ended.
    fn waited_since(&mut self) -> Duration {
        let now = waited(&self.path).unwrap_or(self.last);
        let since = now.saturating_sub(self.last);
        self.last = now;
        since
    }
}

/// Returns the second number in a thread's `schedstat`: the waiting time in nanoseconds.
fn waited(path: &PathBuf) -> Option<Duration> {
    let text = fs::read_to_string(path).ok()?;
    let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_shares_its_processor_is_seen_to_wait() {
        let one = {
            let mut set = CpuSet::new();
            set.set(processors()[0]);
            set
        };
        let is_over = AtomicBool::new(false);
        let waited = thread::scope(|scope| {
            let spin = || {
                sched_setaffinity(None, &one).expect("its own processor");
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            scope.spawn(spin);
            let watched = scope.spawn(|| {
                sched_setaffinity(None, &one).expect("its own processor");
                let mut queue = RunQueue::of_this_thread().expect("the kernel keeps account");
                let mut waited = Duration::ZERO;
                let begun = Instant::now();
                while waited.is_zero() && begun.elapsed() < Duration::from_secs(20) {
                    std::hint::spin_loop();
                    waited += queue.waited_since();
                }
                is_over.store(true, Ordering::Relaxed);
                waited
            });
            watched.join().expect("it only computes")
        });
        assert!(!waited.is_zero());
    }

    #[test]
    fn threads_that_want_a_processor_are_counted_by_the_kernel() {
        assert_eq!(runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable(""), None);
    }

    #[test]
    fn only_what_is_late_enough_is_added_up() {
        let mut seen = Seen::default();
        seen.add(LEAST - Duration::from_nanos(1));
        seen.add(LEAST);
        seen.add(LEAST * 3);
        assert_eq!(seen.longest, LEAST * 3);
        assert_eq!(seen.in_all, LEAST * 4);
    }
}
