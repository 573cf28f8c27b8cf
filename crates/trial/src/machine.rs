//! The machine that a test runs on, watched during the test.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use crate::watcher::{self, RunQueue, Seen, Watched, Watcher, processors};

/// The duration of a tick of the times in `/proc/stat`: `USER_HZ` is 100 on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// The state of a watch over the machine since a test began.
#[derive(Debug)]
pub(crate) struct Machine {
    begun: Instant,
    stolen: Duration,
    watched: Watched,
    watchers: Vec<Watcher>,
}

/// The times for which the machine did not run runnable threads during a test.
#[derive(Clone, Copy, Debug)]
pub struct Standstill {
    /// The maximum time by which a due thread ran late on any processor.
    pub longest: Duration,
    /// The maximum time for which the test's own thread, or a process that it measures, was
    /// runnable and had no processor. It may be underestimated.
    pub waited: Duration,
    /// The sum of the stalls of at least [`Standstill::LEAST`] on the worst processor.
    pub in_all: Duration,
    /// The time that the hypervisor gave to other guests, summed over all processors.
    pub stolen: Duration,
    /// The mean number of running or runnable threads per processor.
    pub crowd: f64,
    /// The test's own time.
    pub elapsed: Duration,
    /// The number of processors that were watched.
    pub processors: usize,
}

impl Machine {
    /// Starts watching each processor, and the calling thread.
    pub(crate) fn watch() -> Self {
        let processors = processors();
        let watched = Watched::default();
        watched.add(RunQueue::of_this_thread());
        let mut once = Some(watched.clone());
        let watchers = processors
            .into_iter()
            .map(|processor| Watcher::start(processor, once.take()));
        Self {
            begun: Instant::now(),
            stolen: stolen(),
            watchers: watchers.collect(),
            watched,
        }
    }

    /// Returns the threads whose waits for a processor count, to which more may be added.
    pub(crate) fn watched(&self) -> Watched {
        self.watched.clone()
    }

    /// Ends the watch and returns the result.
    pub(crate) fn standstill(self) -> Standstill {
        let processors = self.watchers.len();
        let seen: Vec<_> = self.watchers.into_iter().map(Watcher::stop).collect();
        let most = |of: fn(&Seen) -> Duration| seen.iter().map(of).max();
        Standstill {
            longest: most(|seen| seen.longest).unwrap_or_default(),
            waited: most(|seen| seen.waited).unwrap_or_default(),
            in_all: most(|seen| seen.in_all).unwrap_or_default(),
            stolen: stolen().saturating_sub(self.stolen),
            crowd: seen.first().map_or(0.0, Seen::mean_runnable) / processors.max(1) as f64,
            elapsed: self.begun.elapsed(),
            processors,
        }
    }
}

impl Standstill {
    /// The minimum stall that is added up. A thread that only waits for its turn among a test's own
    /// threads is less late than this.
    pub const LEAST: Duration = watcher::LEAST;
    /// The number of runnable threads per processor that counts as a crowd. Fewer threads may
    /// mostly belong to the test itself.
    pub const CROWD: f64 = 4.0;

    /// Returns the share of the test's time, 0 to 1, for which the machine stalled, or for which
    /// its threads had to wait in a crowd.
    #[must_use]
    pub fn share(&self) -> f64 {
        let elapsed = self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let stolen = self.stolen.as_secs_f64() / self.processors.max(1) as f64;
        let share = self.in_all.as_secs_f64().max(stolen) / elapsed;
        if self.crowd < Self::CROWD {
            share
        } else {
            share.max(1.0 - 1.0 / self.crowd)
        }
    }
}

impl fmt::Display for Standstill {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            to,
            "the machine stood still for {:.0} ms at once and {:.0} ms in all of {:.1} s, \
             {:.0} ms were stolen, the test or its server waited {:.0} ms at once for a processor, \
             {:.1} threads wanted each processor",
            ms(self.longest),
            ms(self.in_all),
            self.elapsed.as_secs_f64(),
            ms(self.stolen),
            ms(self.waited),
            self.crowd,
        )
    }
}

/// Returns the stolen time of all processors since the machine booted; zero if it is not reported.
fn stolen() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    TICK * stolen_ticks(&text).unwrap_or_default()
}

/// Returns the eighth number in the line for all processors (proc_stat(5)), which is the stolen
/// time in ticks.
fn stolen_ticks(stat: &str) -> Option<u32> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    all.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number_of_all_processors() {
        let text = "cpu  46286 1486 5423 16498 441 0 72 32 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(stolen_ticks(text), Some(32));
        assert_eq!(stolen_ticks("cpu  1 2 3\n"), None);
        assert_eq!(stolen_ticks(""), None);
    }
}
