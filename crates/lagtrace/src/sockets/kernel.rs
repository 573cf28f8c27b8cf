//! The kernel's counters and limits in the network namespace of the surveyed sockets.

use std::collections::BTreeSet;

use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::event::{CounterScope, Event, EventBody, Phase};
use lagtrace_core::observed::sockets::LiveSocket;
use lagtrace_sources::counter::Counters;
use lagtrace_sources::privilege::{HostError, NetworkNamespace};
use lagtrace_sources::socket::limits;

use crate::clock;

/// The counters and settings of one network namespace.
pub(super) struct Kernel {
    /// A process in the namespace; `None` for lagtrace's own namespace.
    pid: Option<u32>,
    before: Result<Counters, HostError>,
}

impl Kernel {
    /// Starts counting in the namespace of the requested sockets, if they are all in one namespace,
    /// and otherwise in lagtrace's own.
    pub(super) fn begin(sockets: &[LiveSocket]) -> Self {
        let chosen = || sockets.iter().filter(|socket| socket.is_chosen);
        let namespaces: BTreeSet<Option<u64>> = chosen().map(|socket| socket.namespace).collect();
        let other = match namespaces.first() {
            Some(&Some(only)) if namespaces.len() == 1 => Some(only),
            _ => None,
        };
        let is_there = |pid: &u32| {
            let id = lagtrace_sources::privilege::namespace_id(*pid);
            id.is_ok_and(|id| Some(id) == other)
        };
        let holders = chosen().flat_map(|socket| &socket.owner.holders);
        let pid = holders.map(|holder| holder.pid).find(is_there);
        Self {
            pid,
            before: read(pid),
        }
    }

    /// Reports the increase of the counters; only the settings if there was a single survey.
    pub(super) fn end(self, analyzer: &mut Analyzer, is_following: bool) {
        let mut tell = |body| {
            analyzer.observe(Event::here(clock::now(), Phase::Baseline, body));
        };
        let namespace = self
            .pid
            .map_or_else(NetworkNamespace::own, NetworkNamespace::of);
        // The namespace no longer exists if the only process in it has ended.
        if let Ok(namespace) = namespace {
            tell(EventBody::KernelLimits(limits::read(&namespace)));
        }
        if !is_following {
            return;
        }
        let after = read(self.pid);
        match self.before.and_then(|before| Ok((before, after?))) {
            Ok((before, after)) => {
                for change in before.changes(&after, CounterScope::Both) {
                    tell(EventBody::Counter(change));
                }
            }
            Err(refusal) => {
                let note = refusal.note("not-measured-counters", "the kernel's counters");
                tell(EventBody::Note(note));
            }
        }
    }
}

fn read(pid: Option<u32>) -> Result<Counters, HostError> {
    pid.map_or_else(Counters::read, Counters::read_of)
}
