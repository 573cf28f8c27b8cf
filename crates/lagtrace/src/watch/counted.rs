//! The kernel's counters of the watched servers' network namespace. They show what no packet of a
//! connection does: attempts to connect that the host dropped.

use lagtrace_core::observed::event::{CounterScope, EventBody};
use lagtrace_core::observed::sockets::LiveSocket;
use lagtrace_sources::counter::Counters;
use lagtrace_sources::privilege::HostError;

use super::Options;
use super::listeners::port;

/// The counters when the watch began.
pub(super) struct ServerCounters {
    /// A process in the namespace; `None` for lagtrace's own namespace.
    pid: Option<u32>,
    before: Counters,
}

impl ServerCounters {
    /// Begins to count in the namespace of the watched process, or of the first one that listens at
    /// a watched port. `listeners` are the listening sockets of this host. Returns `None` if nothing
    /// is known of the namespace, or if its counters cannot be read.
    pub(super) fn begin(options: &Options, listeners: Option<&[LiveSocket]>) -> Option<Self> {
        let named = options
            .netns
            .as_deref()
            .and_then(|place| place.parse().ok());
        let pid = match (options.pid.or(named), listeners) {
            (None, None) => return None,
            (None, Some(listeners)) => holder(&options.wanted().ports, listeners),
            (pid, _) => pid,
        };
        let before = read(pid).ok()?;
        Some(Self { pid, before })
    }

    /// Returns what was counted since.
    pub(super) fn changes(self) -> impl Iterator<Item = EventBody> {
        // The namespace no longer exists if the only process in it has ended.
        let after = read(self.pid).ok();
        let changes = after.map(|after| self.before.changes(&after, CounterScope::Target));
        let changes = changes.into_iter().flatten();
        changes.map(EventBody::Counter)
    }
}

/// Returns the first process that listens at one of these ports.
fn holder(ports: &[u16], listeners: &[LiveSocket]) -> Option<u32> {
    let is_meant = |socket: &&LiveSocket| port(socket).is_some_and(|port| ports.contains(&port));
    let mut holders = listeners
        .iter()
        .filter(is_meant)
        .flat_map(|it| &it.owner.holders);
    holders.next().map(|holder| holder.pid)
}

fn read(pid: Option<u32>) -> Result<Counters, HostError> {
    pid.map_or_else(Counters::read, Counters::read_of)
}
