//! The process that stops and continues a service's processes. It writes each of these stops, and
//! each time that the kernel throttled the processes, to the service's log.
//!
//! When a signal ends this process, it first continues the stopped processes. If it is killed, they
//! stay stopped until the keeper ends them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Stop;
use crate::error::Error;
use crate::machine::process::Process;

/// The plan for the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WatchPlan {
    /// The service's first process; its descendants belong to it.
    pub(crate) process: Process,
    pub(crate) stop: Option<Stop>,
    /// The statistics of the service's control group, if it has one.
    pub(crate) statistics: Option<PathBuf>,
    /// The service's log.
    pub(crate) log: PathBuf,
}

/// The interval of the main loop: fine enough for stops of a few milliseconds.
const TICK: Duration = Duration::from_millis(1);

/// The interval at which the group's statistics are read.
const READ_EVERY: Duration = Duration::from_millis(20);

/// Maximum number of processes of a service that are searched for.
const MOST_PROCESSES: usize = 256;

/// Stops and watches processes until the service or this process is ended.
pub(crate) fn run(plan: WatchPlan) -> Result<(), Error> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&is_over))
            .map_err(Error::file("watch", "signals"))?;
    }
    let log = OpenOptions::new().create(true).append(true).open(&plan.log);
    let mut watch = Watch {
        log: log.map_err(Error::file("open", &plan.log))?,
        throttled: 0,
        plan,
        is_over,
    };
    watch.run().map_err(Error::file("write", watch.plan.log))
}

struct Watch {
    plan: WatchPlan,
    log: File,
    /// The number of throttled periods when the statistics were last read.
    throttled: u64,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    fn run(&mut self) -> io::Result<()> {
        let (begun, mut stops, mut read) = (Instant::now(), 1_u32, Instant::now());
        while !self.is_over() {
            let due = self.plan.stop.filter(|stop| {
                stop.every
                    .checked_mul(stops)
                    .is_some_and(|at| begun.elapsed() >= at)
            });
            if let Some(stop) = due {
                stops = stops.saturating_add(1);
                self.stop(stop.r#for)?;
            }
            if read.elapsed() >= READ_EVERY {
                read = Instant::now();
                self.note_throttling()?;
            }
            sleep(TICK);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || !self.plan.process.is_alive()
    }

    /// Stops every process for this time. Afterwards the processes are continued, even after an
    /// error.
    fn stop(&mut self, time: Duration) -> io::Result<()> {
        let begun = Instant::now();
        let mut stopped = Vec::new();
        for process in family(self.plan.process) {
            process.signal(Signal::STOP);
            stopped.push(process);
        }
        while begun.elapsed() < time && !self.is_over.load(Ordering::Relaxed) {
            sleep(TICK.min(time));
        }
        for process in &stopped {
            process.signal(Signal::CONT);
        }
        let (count, ms) = (stopped.len(), begun.elapsed().as_millis());
        writeln!(self.log, "lab: {count} processes stopped for {ms} ms")
    }

    fn note_throttling(&mut self) -> io::Result<()> {
        let Some(file) = &self.plan.statistics else {
            return Ok(());
        };
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let now = throttled(&text).unwrap_or(self.throttled);
        for _ in self.throttled..now {
            writeln!(self.log, "lab: throttled, CPU quota used up")?;
        }
        self.throttled = now;
        Ok(())
    }
}

/// Returns `nr_throttled N` in a group's `cpu.stat`: the number of periods in which the quota was
/// used up.
fn throttled(statistics: &str) -> Option<u64> {
    let line = statistics
        .lines()
        .find_map(|line| line.strip_prefix("nr_throttled "))?;
    line.trim().parse().ok()
}

/// Returns a process and its descendants, parents first.
fn family(first: Process) -> Vec<Process> {
    let mut all = vec![first];
    let mut next = 0;
    while next < all.len() && all.len() < MOST_PROCESSES {
        all.extend(all[next].children());
        next += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::throttled;

    #[test]
    fn both_versions_statistics_read() {
        let v1 = "nr_periods 10\nnr_throttled 3\nthrottled_time 99\n";
        let v2 = "usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 9\n";
        assert_eq!((throttled(v1), throttled(v2)), (Some(3), Some(4)));
        assert_eq!(throttled(""), None);
    }
}
