//! The processes that serve the target, and those that have started them with the same program. The
//! worker may examine these alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::net::getsockname;

use crate::config::process;
use crate::kernel::{CallsRequest, WatchRequest};
use crate::privilege::message::Served;
use crate::privilege::{HostError, NetworkNamespace, ProcessHandle};
use crate::socket::foreign::{ServerProcess, proven_far_end, serving_among, serving_here};
use crate::socket::option::prove_owned;

/// Maximum number of processes that are known at the same time.
const MOST_PROCESSES: usize = 4096;

/// Maximum number of places that are known at the same time.
const MOST_PLACES: usize = 1024;

/// The servers that the worker has found.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// The handles are kept so that a later process with the same PID is told apart.
    processes: BTreeMap<u32, ProcessHandle>,
    /// The network namespaces and ports of their addresses. With NAT, the ports are not those of
    /// the command line.
    places: BTreeSet<(u64, u16)>,
}

impl Servers {
    /// Finds the processes that serve the target, and remembers them; `None` if the target is not
    /// at one of the ports that the command line names.
    pub(super) fn find(
        &mut self,
        named: &[u16],
        worker: u32,
        namespace: &NetworkNamespace,
        served: &Served,
    ) -> Result<Option<Vec<ServerProcess>>, HostError> {
        let flow = served.flow;
        let flow = flow.filter(|flow| named.contains(&flow.remote.port));
        let near = flow.and_then(|flow| prove_owned(worker, flow).ok());
        let far = near.and_then(|near| proven_far_end(namespace, &near).ok()?);
        let is_named = named.contains(&served.endpoint.port);
        // With NAT, only the worker's own connection proves that this is the target.
        let is_far = far.as_ref().is_some_and(|far| far.local == served.endpoint);
        if !is_named && !is_far {
            return Ok(None);
        }
        if self.places.len() < MOST_PLACES {
            self.places.insert((namespace.id(), served.endpoint.port));
        }
        let mut found = serving_here(namespace, served.endpoint, far.clone())?;
        // A worker that an attacker controls could listen there.
        found.retain(|process| process.pid != worker);
        let handles = found.iter().map(|process| ProcessHandle::open(process.pid));
        let handles: Vec<ProcessHandle> = handles.flatten().collect();
        // A process that had ended before its handle was opened may have left its number to another
        // one. So the socket is looked for again, while the handles are open.
        let serving = serving_among(namespace, served.endpoint, far, &handles)?;
        for handle in handles {
            if serving.contains(&handle.pid()) && !handle.has_ended() {
                self.remember(starter(&handle).filter(|starter| starter.pid() != worker));
                self.remember(Some(handle));
            }
        }
        found.retain(|process| serving.contains(&process.pid));
        Ok(Some(found))
    }

    fn remember(&mut self, handle: Option<ProcessHandle>) {
        if let Some(handle) = handle
            && self.processes.len() < MOST_PROCESSES
        {
            self.processes.insert(handle.pid(), handle);
        }
    }

    /// Returns true if the process serves the target, or has started such a process with the same
    /// program.
    pub(super) fn include(&self, pid: u32) -> bool {
        let handle = self.processes.get(&pid);
        handle.is_some_and(|handle| !handle.has_ended())
    }

    /// Returns true if the socket is on a port of the target.
    pub(super) fn have(&self, socket: &impl AsFd) -> bool {
        let address = getsockname(socket).ok().map(SocketAddr::try_from);
        let port = address.and_then(Result::ok).map(|address| address.port());
        port.is_some_and(|port| self.are_at(port))
    }

    fn are_at(&self, port: u16) -> bool {
        self.places.iter().any(|&(_, known)| known == port)
    }

    /// Returns true if this is the watch of `diagnose`: of the servers' ports in their only
    /// namespace, or in all namespaces if the servers are in several. No payload leaves the kernel.
    pub(super) fn are_watched(&self, asked: &WatchRequest) -> bool {
        let namespaces: BTreeSet<u64> = self.places.iter().map(|&(id, _)| id).collect();
        let is_place = |port: &u16| match asked.namespace {
            Some(id) => self.places.contains(&(u64::from(id), *port)),
            None => namespaces.len() > 1 && self.are_at(*port),
        };
        let meant = WatchRequest {
            ports: asked.ports.clone(),
            namespace: asked.namespace,
            without: asked.without,
            ..WatchRequest::default()
        };
        !asked.ports.is_empty() && asked.ports.iter().all(is_place) && *asked == meant
    }

    /// Returns true if this is the trace of `diagnose`: of calls on the sockets of the servers'
    /// ports.
    pub(super) fn are_traced(&self, asked: &CallsRequest) -> bool {
        let meant = CallsRequest {
            ports: asked.ports.clone(),
            has_accepts: asked.has_accepts,
            ..CallsRequest::default()
        };
        let are_known = asked.ports.iter().all(|&port| self.are_at(port));
        !asked.ports.is_empty() && are_known && *asked == meant
    }
}

/// Returns the process that has started a server with its configuration.
fn starter(server: &ProcessHandle) -> Option<ProcessHandle> {
    let handle = ProcessHandle::open(process::starter(server.pid())?).ok()?;
    // The parent may have ended before its handle was opened, and its number may be another's now.
    let is_still = process::starter(server.pid()) == Some(handle.pid());
    (is_still && !server.has_ended()).then_some(handle)
}
