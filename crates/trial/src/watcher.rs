//! Threads that repeatedly sleep for a millisecond and record how late they wake up.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// The maximum wait of a watched thread for a processor.
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
    /// Starts watching a processor. If given, the waits of the threads `watched` for any processor
    /// are also measured.
    pub(crate) fn start(processor: usize, watched: Option<Watched>) -> Self {
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
                if let Some(watched) = &watched {
                    seen.waited = seen.waited.max(watched.waited_since());
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

/// The threads whose waits for a processor are measured. More can be added at any time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched(Arc<Mutex<Vec<RunQueue>>>);

impl Watched {
    /// Adds a thread; `None`, where the kernel does not provide its accounting, adds nothing.
    pub(crate) fn add(&self, queue: Option<RunQueue>) {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queues.extend(queue);
    }

    /// Returns the longest wait of any of the threads since the last call.
    fn waited_since(&self) -> Duration {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = queues.iter_mut().map(RunQueue::waited_since);
        waits.max().unwrap_or_default()
    }
}

/// The kernel's accounting of the time that a thread was runnable without a processor.
#[derive(Debug)]
pub(crate) struct RunQueue {
    path: PathBuf,
    last: Waits,
}

/// The waits of a thread for a processor since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    in_all: Duration,
    count: u32,
}

impl RunQueue {
    /// Returns the accounting of the calling thread, starting now; `None` if the kernel does not
    /// provide it.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let thread = gettid().as_raw_nonzero();
        Self::at(format!("/proc/self/task/{thread}/schedstat").into())
    }

    /// Returns the accounting of a process's main thread, starting now; `None` if the process has
    /// ended.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        Self::at(format!("/proc/{pid}/task/{pid}/schedstat").into())
    }

    fn at(path: PathBuf) -> Option<Self> {
        let last = Waits::read(&path)?;
        Some(Self { path, last })
    }

    /// Returns the mean of the thread's waits since the last call, which is at most the longest
    /// one; zero once the thread has ended.
    fn waited_since(&mut self) -> Duration {
        let now = Waits::read(&self.path).unwrap_or(self.last);
        let last = std::mem::replace(&mut self.last, now);
        let count = now.count.saturating_sub(last.count).max(1);
        now.in_all.saturating_sub(last.in_all) / count
    }
}

impl Waits {
    fn read(path: &PathBuf) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    /// Parses a thread's `schedstat`: the time on a processor and the waiting time in nanoseconds,
    /// and the number of times that it got a processor.
    fn parse(schedstat: &str) -> Option<Self> {
        let mut numbers = schedstat.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (_, waited, runs) = (next()?, next()?, next()?);
        Some(Self {
            in_all: Duration::from_nanos(waited),
            count: u32::try_from(runs).unwrap_or(u32::MAX),
        })
    }
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
    fn the_longest_wait_is_not_overstated() {
        let waits = |text| Waits::parse(text);
        let of = |nanos, count| Waits {
            in_all: Duration::from_nanos(nanos),
            count,
        };
        assert_eq!(waits("7 90 4\n"), Some(of(90, 4)));
        assert_eq!(waits("7 90\n"), None);
        let file = tempfile::NamedTempFile::new().expect("a file");
        let write = |text| fs::write(file.path(), text).expect("it is written");
        write("0 100 5\n");
        let mut queue = RunQueue::at(file.path().into()).expect("numbers");
        write("0 160 8\n");
        assert_eq!(queue.waited_since(), Duration::from_nanos(20));
        assert_eq!(queue.waited_since(), Duration::ZERO);
        write("0 190 9\n");
        assert_eq!(queue.waited_since(), Duration::from_nanos(30));
        drop(file);
        assert_eq!(queue.waited_since(), Duration::ZERO);
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
