//! The search for the target's sockets if the target runs on this host, in lagtrace's own network
//! namespace or in another one (such as a container's).

use std::ops::ControlFlow;

use lagtrace_core::observed::event::{ListenerSample, Note};
use lagtrace_core::observed::flow::Endpoint;

use super::diag::{DiagSocket, Selection, States, listens_for};
use super::record::SocketRecord;
use crate::privilege::limits::MOST_SEARCHED_FIRST;
use crate::privilege::message::FarEnd;
pub use crate::privilege::message::OwnFlow;
use crate::privilege::{HostError, NetworkNamespace};

mod calls;
mod proof;
mod search;
mod serving;

pub(crate) use proof::proven_far_end;
pub use search::{find_server, find_server_in};
pub(crate) use serving::{serving_among, serving_here};

/// Maximum number of listening sockets on one port that are examined.
const MOST_LISTENERS: usize = 256;

/// A process that holds the target's listening socket, or the remote end of a connection of this
/// process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProcess {
    /// PID in lagtrace's own PID namespace.
    pub pid: u32,
    /// Process name (`comm`).
    pub name: String,
}

/// The target's program on this host.
#[derive(Debug)]
pub struct Server {
    namespace: NetworkNamespace,
    endpoint: Endpoint,
    processes: Vec<ServerProcess>,
}

/// The result of the search for the target on this host.
#[derive(Debug, Default)]
pub struct Search {
    /// The target's program; `None` if it was not found on this host.
    pub server: Option<Server>,
    /// Notes on parts that could not be searched.
    pub notes: Vec<Note>,
}

impl Server {
    /// Returns the network namespace that the server runs in.
    pub fn namespace(&self) -> &NetworkNamespace {
        &self.namespace
    }

    /// Returns the target's address as the server sees it. With NAT on the path, it differs from
    /// the address that this process connects to.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Returns the processes that hold the listener (a master and its workers), by PID. The list is
    /// empty if the user may not see them.
    pub fn processes(&self) -> &[ServerProcess] {
        &self.processes
    }

    /// Returns the target's listening queues and their limits in the server's namespace.
    ///
    /// # Errors
    /// Returns an error if `CAP_SYS_ADMIN` is missing, or if `sock_diag` fails.
    pub fn listeners(&self) -> Result<Vec<ListenerSample>, HostError> {
        let mut listeners = DiagSocket::open_in(&self.namespace)?.listeners(self.endpoint)?;
        let limits = self.queue_limits();
        for listener in &mut listeners {
            limits.apply(listener);
        }
        Ok(listeners)
    }

    /// Returns the kernel's limits on listening queues in the server's namespace.
    pub(super) fn queue_limits(&self) -> QueueLimits {
        let read = |name| u32::try_from(self.namespace.sysctl(name).ok()?).ok();
        QueueLimits {
            syn_backlog: read("net/ipv4/tcp_max_syn_backlog"),
            somaxconn: read("net/core/somaxconn"),
        }
    }

    /// Returns a server that another process has found.
    pub(crate) fn found(
        namespace: NetworkNamespace,
        endpoint: Endpoint,
        processes: Vec<ServerProcess>,
    ) -> Self {
        Self {
            namespace,
            endpoint,
            processes,
        }
    }

    /// Describes the server's end of this connection for the keeper.
    pub(super) fn far_end_of(&self, flow: OwnFlow) -> FarEnd {
        let searched = self.processes.iter().take(MOST_SEARCHED_FIRST);
        FarEnd {
            namespace: self.namespace.id(),
            endpoint: self.endpoint,
            flow,
            pids: searched.map(|process| process.pid).collect(),
        }
    }

    /// Returns the server's socket of this connection; `None` if there is no such socket.
    ///
    /// # Errors
    /// Returns an error if `CAP_SYS_ADMIN` is missing, or if `sock_diag` fails.
    pub fn far_end(&self, flow: OwnFlow) -> Result<Option<SocketRecord>, HostError> {
        far_end_in(&self.namespace, flow)
    }
}

/// The kernel's limits on listening queues, which apply to IPv4 and IPv6.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    syn_backlog: Option<u32>,
    somaxconn: Option<u32>,
}

impl QueueLimits {
    /// Adds the limits to a sample.
    pub(super) fn apply(self, listener: &mut ListenerSample) {
        listener.syn_backlog = self.syn_backlog;
        listener.somaxconn = self.somaxconn;
    }
}

/// Returns the listening sockets that accept connections to `endpoint`.
fn listening(diag: &mut DiagSocket, endpoint: Endpoint) -> Result<Vec<SocketRecord>, HostError> {
    let selection = Selection {
        states: States::LISTENING,
        local_port: Some(endpoint.port),
        remote_port: None,
    };
    let mut records = diag.list(&selection, MOST_LISTENERS)?;
    records.retain(|record| listens_for(record.local, endpoint));
    Ok(records)
}

/// Returns the ends of a socket's connection.
fn flow_of(record: &SocketRecord) -> OwnFlow {
    OwnFlow {
        local: record.local,
        remote: record.remote,
    }
}

/// Returns the socket at the remote end of `flow` in a namespace.
fn far_end_in(
    namespace: &NetworkNamespace,
    flow: OwnFlow,
) -> Result<Option<SocketRecord>, HostError> {
    far_end(&mut DiagSocket::open_in(namespace)?, flow)
}

/// Returns the socket at the remote end of `flow`. If NAT translates the target's address, finds
/// the socket by its peer, which is the local end of `flow`. That does not prove that it belongs to
/// this connection ([`proven_far_end`]).
fn far_end(diag: &mut DiagSocket, flow: OwnFlow) -> Result<Option<SocketRecord>, HostError> {
    let exact = diag.find(flow.remote, flow.local)?;
    if exact.is_some() || flow.local.addr.is_loopback() {
        return Ok(exact);
    }
    let selection = Selection {
        states: States::CONNECTED,
        local_port: None,
        remote_port: Some(flow.local.port),
    };
    let mut translated = None;
    diag.dump(&selection, |record| {
        if record.remote == flow.local {
            translated = Some(record);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(translated)
}
