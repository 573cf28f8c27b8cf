//! Round trips while the load runs, which show the path under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lagtrace_core::observed::event::Event;
use lagtrace_sources::probe::{self, ProbePlan};

use super::Site;

/// The time from one probe to the next: few beside any load.
const INTERVAL: Duration = Duration::from_millis(100);
/// The timeout of a probe; the load ends sooner.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Probes of each target in the background.
pub(super) struct LoadedProbes {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Event>>>,
}

impl LoadedProbes {
    /// Begins to probe the sites. A site goes without probes where no thread can be started.
    pub(super) fn begin<'a>(sites: impl Iterator<Item = &'a Site>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |site: &Site| {
            let plan = ProbePlan {
                count: u32::MAX,
                interval: INTERVAL,
                timeout: TIMEOUT,
                silences: u32::MAX,
                ..ProbePlan::new(site.target.id, site.target.address)
            };
            let stop = Arc::clone(&stop);
            let thread = thread::Builder::new().name("probes".to_owned());
            thread.spawn(move || series(&plan, &stop)).ok()
        };
        Self {
            threads: sites.filter_map(start).collect(),
            stop,
        }
    }

    /// Ends the probes and returns their events.
    pub(super) fn end(self) -> Vec<Event> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<Vec<Event>>| thread.join().unwrap_or_default();
        self.threads.into_iter().flat_map(join).collect()
    }
}

/// Runs a series of probes. One that fails at the client ends with the events until then.
fn series(plan: &ProbePlan, stop: &AtomicBool) -> Vec<Event> {
    let mut events = Vec::new();
    let _ = probe::connect(plan, stop, |event| events.push(event));
    events
}
