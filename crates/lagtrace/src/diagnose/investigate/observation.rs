//! Observation of this host's sockets and counters while the load runs.

use lagtrace_core::observed::event::{CounterChange, CounterScope, EventBody, Phase};
use lagtrace_sources::counter::Counters;
use lagtrace_sources::socket::foreign::Server;
use lagtrace_sources::socket::sampler::{Sampler, SamplerPlan};

use super::{Investigation, Site};

/// An observation that is running.
pub(super) struct Observation {
    samplers: Vec<Sampler>,
    counters: Vec<Counted>,
}

/// The counters at the beginning, and the namespace in which they are read.
struct Counted {
    scope: CounterScope,
    /// A process in the namespace; `None` for lagtrace's own namespace.
    pid: Option<u32>,
    before: Counters,
}

impl Observation {
    /// Starts the observation.
    pub(super) fn begin(investigation: &mut Investigation<'_>) -> Self {
        let mut samplers = Vec::new();
        let mut refusals = Vec::new();
        for site in investigation.open_sites() {
            match start_sampler(site) {
                Ok(sampler) => samplers.push(sampler),
                Err(error) => refusals.push(error),
            }
        }
        for error in refusals {
            investigation.refused("sockets", &error, "the state of the connections' sockets");
        }
        Self {
            samplers,
            counters: begin_counting(investigation),
        }
    }

    /// Ends the observation and keeps its events.
    pub(super) fn end(self, investigation: &mut Investigation<'_>) {
        for sampler in self.samplers {
            investigation.feed.observe_all(sampler.stop());
        }
        for counted in self.counters {
            match read(counted.pid) {
                Ok(after) => tell(investigation, counted.before.changes(&after, counted.scope)),
                Err(error) => investigation.refused("counters", &error, "the kernel's counters"),
            }
        }
    }
}

/// Starts a sampler of both ends; of the client's end only, if the server's is not permitted.
fn start_sampler(site: &Site) -> Result<Sampler, lagtrace_sources::privilege::HostError> {
    let target = &site.target;
    let plan = SamplerPlan::new(target.id, target.endpoint(), Phase::Baseline);
    Sampler::start(plan.clone(), site.server.as_ref()).or_else(|_| Sampler::start(plan, None))
}

/// Reads the client's counters, and those of the subject's namespace if it is a different one.
fn begin_counting(investigation: &mut Investigation<'_>) -> Vec<Counted> {
    let server = investigation.subject().server.as_ref();
    let is_shared = server.is_some_and(|server| server.namespace().is_own());
    let mut places = vec![(
        if is_shared {
            CounterScope::Both
        } else {
            CounterScope::Client
        },
        None,
    )];
    if let Some(pid) = server.filter(|_| !is_shared).and_then(first_pid) {
        places.push((CounterScope::Target, Some(pid)));
    }
    let mut counters = Vec::new();
    for (scope, pid) in places {
        match read(pid) {
            Ok(before) => counters.push(Counted { scope, pid, before }),
            Err(error) => investigation.refused("counters", &error, "the kernel's counters"),
        }
    }
    counters
}

fn first_pid(server: &Server) -> Option<u32> {
    server.processes().first().map(|process| process.pid)
}

fn read(pid: Option<u32>) -> Result<Counters, lagtrace_sources::privilege::HostError> {
    pid.map_or_else(Counters::read, Counters::read_of)
}

fn tell(investigation: &mut Investigation<'_>, changes: Vec<CounterChange>) {
    if let Some(first) = changes.first() {
        let side = match first.scope {
            CounterScope::Client => "client",
            CounterScope::Target => "server",
            CounterScope::Both => "both ends",
        };
        // The source lists the most informative counters first.
        let most: Vec<_> = changes
            .iter()
            .filter(|change| change.after > change.before)
            .take(4)
            .map(|change| format!("{} +{}", change.name, change.after - change.before))
            .collect();
        investigation
            .console
            .detail(&format!("counters, {side}: {}", most.join(", ")));
    }
    for change in changes {
        investigation.feed.observe_now(EventBody::Counter(change));
    }
}
