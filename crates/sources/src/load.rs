//! Concurrent HTTP/1.1 and HTTP/2 load over TCP and TLS. Its latencies include requests that timed
//! out.
//!
//! Input: a [`Plan`]. Output: events during the run, and a [`Summary`]. Every request is counted. A
//! request that timed out, or that the end of the run cut off, is in the latencies with its age. A
//! request that was refused or reset is counted by its kind of failure. This module only measures;
//! it does not interpret.
//!
//! Connections and the workers' policies are state machines without I/O. The engine moves bytes
//! between them and the sockets.

mod by_url;
mod cadence;
mod collector;
mod connection;
mod driver;
mod engine;
mod jar;
mod lane;
mod meter;
mod mix;
mod plan;
mod recent;
mod record;
mod sample;
mod silence;
mod socket;
mod socket_options;
mod stages;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
mod transport;
mod wait;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use core::time::Duration;

use lagtrace_core::observed::event::{Event, RequestFailure};
use lagtrace_core::observed::time::Timestamp;

pub use plan::{Arrangement, Lane, LoadProtocol, LoadReporting, Pace, Plan, Target, WeightedUrl};
pub use recent::Recent;
pub use socket_options::SocketOptions;
pub use summary::{Ending, GeneratorLoad, LaneSummary, Summary};

use crate::clock::Clock;
use crate::open_files;
use crate::tls::TlsError;
use collector::Collector;
use driver::Driver;
use engine::{Engine, Stops, WorkerReport};
use record::Batch;

/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of batches that wait for the collector. If there are more, the workers wait.
const MAX_BATCHES: usize = 1_024;
/// Number of file descriptors reserved for other parts of the program.
const SPARE_DESCRIPTORS: u64 = 64;

/// A reason why a run is not possible.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan has no lane.
    #[error("the load has no target")]
    NoLanes,
    /// A lane has no connections.
    #[error("lane {lane} of the load has no connection")]
    NoConnections {
        /// The lane's number, from 0.
        lane: usize,
    },
    /// More connections than the program supports.
    #[error("{wanted} connections are wanted, {most} are possible")]
    TooManyConnections {
        /// The plan's number of connections.
        wanted: u32,
        /// The maximum number.
        most: u32,
    },
    /// More connections than this process may have files.
    #[error(
        "{connections} connections need {needed} open files, and this process may have {limit}: \
         raise the limit (ulimit -Hn shows it), or use fewer connections"
    )]
    TooFewFiles {
        /// The plan's number of connections.
        connections: u32,
        /// The number of files that the run needs.
        needed: u64,
        /// The limit for this process.
        limit: u64,
    },
    /// The rate is not a positive number, or is too high.
    #[error(
        "a rate of {rate} requests per second is not possible: it must be above 0, at most {most}"
    )]
    Rate {
        /// The plan's rate.
        rate: f64,
        /// The maximum rate.
        most: f64,
    },
    /// A duration is too short or too long.
    #[error("a {name} of {length:?} is not possible: it must be from 1 ms to 24 h")]
    Length {
        /// The name of the duration.
        name: &'static str,
        /// The value of the duration.
        length: Duration,
    },
    /// A URL needs TLS, and the plan has no TLS settings.
    #[error("the load needs TLS, but the plan has no TLS client")]
    NoTls,
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The number of requests that may be in flight on a connection is 0 or too high.
    #[error("from 1 to {most} requests may be in flight on a connection")]
    AtOnce {
        /// The maximum number.
        most: u32,
    },
    /// More URLs than are supported.
    #[error("at most {most} URLs can be requested in one run")]
    TooManyUrls {
        /// The maximum number.
        most: usize,
    },
    /// The scheme, host or port of a URL differs from that of the first URL.
    #[error("{url} is of another scheme, host or port than the first URL")]
    OtherOrigin {
        /// The URL.
        url: String,
    },
    /// The weight of a URL is out of range.
    #[error("the weight of a URL is a number from 1 to {most}")]
    Weight {
        /// The maximum weight.
        most: u32,
    },
    /// Cookies cannot be kept on connections of this protocol.
    #[error("cookies of servers are stored only with HTTP/1.1")]
    Jar,
    /// The kernel cannot timestamp the plan's requests.
    #[error("timestamps need HTTP/1.1 in clear text over TCP, one request at a time")]
    Stamps,
    /// A socket could not be set up as the plan requires.
    #[error("{operation} failed")]
    Socket {
        /// The operation, with its operand.
        operation: String,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The kernel could not create an epoll instance, or waiting on it failed.
    #[error("waiting for the sockets of the load failed")]
    Epoll {
        /// The error from the kernel.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("a thread for the load could not be started")]
    Thread {
        /// The error from the kernel.
        source: io::Error,
    },
}

/// The progress of a run, while it is running.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Length of the run, including the warm-up.
    pub of: Duration,
    /// Requests that ended so far.
    pub requests: u64,
    /// Number of ended requests that failed.
    pub failures: u64,
    /// Number of ended requests that failed and were due after the warm-up.
    pub counted_failures: u64,
    /// Connections opened so far.
    pub connects: u64,
    /// Figures of the last second's requests.
    pub recent: Recent,
}

/// Runs `plan` to its end on separate threads.
///
/// `progress` is called about ten times per second. Setting `stop` ends the run early, with the
/// measurements so far. Both callbacks run on the calling thread.
///
/// The events are:
/// - `PhaseStarted` at the beginning, for the warm-up and for each lane. If the run ends early,
///   these events are repeated with the actual end.
/// - `FlowPhase` for each connection. Its traffic before the `PhaseStarted` time of its lane
///   belongs to the warm-up.
/// - `Request` for evenly selected requests.
/// - `Load` for each second and group. Several of these with the same second and group are to be
///   summed.
pub fn run(
    plan: &Plan,
    progress: &dyn Fn(Progress),
    stop: &AtomicBool,
    sink: impl FnMut(Event),
) -> Result<Summary, LoadError> {
    plan.check()?;
    allow_descriptors(plan.connections())?;
    let clock = Clock::new();
    let abandoned = AtomicBool::new(false);
    let (sender, batches) = sync_channel(MAX_BATCHES);
    let start = clock.now();
    std::thread::scope(|scope| {
        let workers = plan.thread_count();
        let mut threads = Vec::new();
        for worker in 0..workers {
            let stops = Stops {
                by_caller: stop,
                abandoned: &abandoned,
            };
            let driver = Driver::new(plan, (worker, workers), start);
            let sender = sender.clone();
            let thread = std::thread::Builder::new()
                .name(format!("load-{worker}"))
                .spawn_scoped(scope, move || work(plan, driver, clock, sender, stops))
                .map_err(|source| LoadError::Thread { source });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    abandoned.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        drop(sender);
        let mut watch = Watch {
            plan,
            clock,
            start,
            progress,
            collector: Collector::new(plan, start, sink),
            told: start,
            standstill: Duration::ZERO,
            hopeless: None,
        };
        watch.run(&batches, &abandoned);
        let reports: Result<Vec<WorkerReport>, LoadError> = threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect();
        Ok(watch.summarize(&reports?, stop.load(Ordering::Relaxed)))
    })
}

/// Runs one worker on its thread.
fn work(
    plan: &Plan,
    driver: Driver,
    clock: Clock,
    sender: SyncSender<Batch>,
    stops: Stops<'_>,
) -> Result<WorkerReport, LoadError> {
    let abandoned = stops.abandoned;
    let engine = Engine::new(plan, driver, clock, sender, stops)?;
    engine.run().map_err(|source| {
        abandoned.store(true, Ordering::Relaxed);
        LoadError::Epoll { source }
    })
}

/// The state of the calling thread while the workers run.
struct Watch<'a, S> {
    plan: &'a Plan,
    clock: Clock,
    start: Timestamp,
    progress: &'a dyn Fn(Progress),
    collector: Collector<'a, S>,
    told: Timestamp,
    /// The longest delay of this thread after it waited for records.
    standstill: Duration,
    hopeless: Option<RequestFailure>,
}

impl<S: FnMut(Event)> Watch<'_, S> {
    /// Collects records until all workers have ended.
    fn run(&mut self, batches: &Receiver<Batch>, abandoned: &AtomicBool) {
        loop {
            let before = self.clock.now();
            let received = batches.recv_timeout(PROGRESS_INTERVAL);
            let late = self.clock.now().since(before + PROGRESS_INTERVAL);
            self.standstill = self.standstill.max(late);
            match received {
                Ok(batch) => self.collector.take(&batch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = self.clock.now();
            self.collector.flush(now);
            if now.since(self.told) >= PROGRESS_INTERVAL {
                self.tell(now);
            }
            if self.hopeless.is_none() {
                self.hopeless = self.collector.hopeless(now);
                abandoned.store(self.hopeless.is_some(), Ordering::Relaxed);
            }
        }
    }

    fn tell(&mut self, now: Timestamp) {
        self.told = now;
        let counts = self.collector.counts();
        (self.progress)(Progress {
            elapsed: now.since(self.start),
            of: self.plan.warm_up_in_rounds() + self.plan.duration,
            requests: counts.requests,
            failures: counts.failures,
            counted_failures: counts.counted_failures,
            connects: counts.opened,
            recent: self.collector.recent(now),
        });
    }

    fn summarize(mut self, reports: &[WorkerReport], is_stopped: bool) -> Summary {
        let ended = self.clock.now();
        self.tell(ended);
        let counted_from = self.start + self.plan.warm_up_in_rounds();
        let counts = self.collector.counts();
        let generator = GeneratorLoad {
            standstill: self.standstill,
            ..GeneratorLoad::new(reports, counts.requests > counts.failures)
        };
        let last_start = reports.iter().filter_map(|report| report.last_start).max();
        Summary {
            started: self.start,
            opened: counts.opened,
            requests: counts.requests,
            counted_from,
            ended,
            ending: match self.hopeless {
                Some(failure) => Ending::NothingConnected(failure),
                None if is_stopped && ended < counted_from + self.plan.duration => Ending::Stopped,
                None => Ending::Completed,
            },
            tls_fault: self.collector.tls_fault(),
            lanes: self.collector.finish(ended, last_start, &generator),
            generator,
        }
    }
}

/// Raises this process's limit on file descriptors to the number that the run needs, if the system
/// allows it.
fn allow_descriptors(connections: u32) -> Result<(), LoadError> {
    let needed = u64::from(connections) + SPARE_DESCRIPTORS;
    open_files::raise(needed).map_err(|limit| LoadError::TooFewFiles {
        connections,
        needed,
        limit,
    })
}
