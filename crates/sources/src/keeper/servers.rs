//! The processes that serve the target. The worker may examine these alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::net::getsockname;

use super::scope::Scope;
use crate::privilege::message::Served;
use crate::privilege::{HostError, NetworkNamespace, ProcessHandle};
use crate::socket::foreign::{ServerProcess, far_end_in, serving_among, serving_here};
use crate::socket::option::prove_owned;

/// Maximum number of processes that are known at the same time.
const MOST_PROCESSES: usize = 4096;

/// The servers that the worker has found.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// The handles are kept so that a later process with the same PID is told apart.
    processes: BTreeMap<u32, ProcessHandle>,
    /// The ports of their addresses. With NAT, these are not those of the command line.
    ports: BTreeSet<u16>,
}

impl Servers {
    /// Finds the processes that serve the target, and remembers them; `None` if the target is not
    /// one of the command line.
    pub(super) fn find(
        &mut self,
        scope: &Scope,
        worker: u32,
        namespace: &NetworkNamespace,
        served: &Served,
    ) -> Result<Option<Vec<ServerProcess>>, HostError> {
        let named = scope.processes.served_ports();
        let is_ours = |flow| prove_owned(worker, flow).is_ok();
        let flow = served
            .flow
            .filter(|flow| named.contains(&flow.remote.port) && is_ours(*flow));
        let is_named = named.contains(&served.endpoint.port);
        // With NAT, only the worker's own connection proves that this is the target.
        let far = flow.filter(|_| !is_named);
        let far = far.map(|flow| far_end_in(namespace, flow)).transpose()?;
        let far = far.flatten().map(|far| far.local);
        if !is_named && far != Some(served.endpoint) {
            return Ok(None);
        }
        let mut found = serving_here(namespace, served.endpoint, flow)?;
        self.ports.insert(served.endpoint.port);
        let handles = found.iter().map(|process| ProcessHandle::open(process.pid));
        let handles: Vec<ProcessHandle> = handles.flatten().collect();
        // A process that had ended before its handle was opened may have left its number to another
        // one. So the socket is looked for again, while the handles are open.
        let serving = serving_among(namespace, served.endpoint, flow, &handles)?;
        for handle in handles {
            if self.processes.len() < MOST_PROCESSES
                && serving.contains(&handle.pid())
                && !handle.has_ended()
            {
                self.processes.insert(handle.pid(), handle);
            }
        }
        found.retain(|process| serving.contains(&process.pid));
        Ok(Some(found))
    }

    /// Returns true if the process serves the target.
    pub(super) fn include(&self, pid: u32) -> bool {
        let handle = self.processes.get(&pid);
        handle.is_some_and(|handle| !handle.has_ended())
    }

    /// Returns true if the socket is on a port of the target.
    pub(super) fn have(&self, socket: &impl AsFd) -> bool {
        let address = getsockname(socket).ok().map(SocketAddr::try_from);
        let port = address.and_then(Result::ok).map(|address| address.port());
        port.is_some_and(|port| self.ports.contains(&port))
    }
}
