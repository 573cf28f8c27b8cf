//! Probes during the load, which measure the round trip under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lagtrace_core::observed::event::Event;
use lagtrace_sources::probe::{self, ProbePlan};

use super::Site;

/// The time from one probe to the next; the probes are few compared with any load.
const INTERVAL: Duration = Duration::from_millis(100);
/// The timeout of a probe; the load ends sooner.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Probes of each target in the background.
pub(super) struct LoadedProbes {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Event>>>,
}

impl LoadedProbes {
    /// Starts probing the sites. A site is not probed if no thread can be started.
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

/// Runs a series of probes. If the series fails at the client, the events up to the failure are
/// returned.
fn series(plan: &ProbePlan, stop: &AtomicBool) -> Vec<Event> {
    let mut events = Vec::new();
    let _ = probe::connect(plan, stop, |event| events.push(event));
    events
}
