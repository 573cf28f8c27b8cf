//! What the kernel counts and allows where the sockets live that are looked at.

use std::collections::BTreeSet;

use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::event::{CounterScope, Event, EventBody, Phase};
use lagtrace_core::observed::sockets::LiveSocket;
use lagtrace_sources::counter::Counters;
use lagtrace_sources::privilege::{HostError, NetworkNamespace};
use lagtrace_sources::socket::limits;

use crate::clock;

/// One network namespace's counters and settings.
pub(super) struct Kernel {
    /// A process in it, where it is not ours.
    pid: Option<u32>,
    before: Result<Counters, HostError>,
}

impl Kernel {
    /// Begins to count: in the namespace of the sockets that were asked for,
    /// if they are all in one, else in ours.
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
        let holders = chosen().flat_map(|socket| &socket.holders);
        let pid = holders.map(|holder| holder.pid).find(is_there);
        Self {
            pid,
            before: read(pid),
        }
    }

    /// Tells what was counted since; the settings alone where there was one
    /// look only.
    pub(super) fn end(self, analyzer: &mut Analyzer, is_following: bool) {
        let mut tell = |body| {
            analyzer.observe(Event::here(clock::now(), Phase::Baseline, body));
        };
        let namespace = self
            .pid
            .map_or_else(NetworkNamespace::own, NetworkNamespace::of);
        // A holder that is gone took its namespace with it.
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
