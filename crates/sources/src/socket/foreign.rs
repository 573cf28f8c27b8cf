//! Finds the target's sockets when it runs on this host: in our own network
//! namespace, or in another one, as containers do.

use std::collections::{BTreeMap, BTreeSet, HashSet, btree_map};
use std::fmt;
use std::ops::ControlFlow;

use lagtrace_core::event::{ListenerSample, Note};
use lagtrace_core::flow::Endpoint;

use super::diag::{DiagSocket, Selection, States, listens_for};
use super::process;
use super::record::SocketRecord;
use crate::netlink::NetlinkProtocol;
use crate::privilege::{self, HostError, NetworkNamespace};
use crate::route::RouteSocket;

/// At most this many other network namespaces are looked into.
const MOST_NAMESPACES: usize = 256;
/// At most this many processes of a server are listed.
const MOST_SERVER_PROCESSES: usize = 256;

/// A connection of ours, as our side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnFlow {
    /// Our end.
    pub local: Endpoint,
    /// The target's end.
    pub remote: Endpoint,
}

impl fmt::Display for OwnFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.local, self.remote)
    }
}

/// A process that holds the target's listening socket, or our connection's far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProcess {
    /// Its number in our pid namespace.
    pub pid: u32,
    /// Its `comm`.
    pub name: String,
}

/// The target's program on this host.
#[derive(Debug)]
pub struct Server {
    namespace: NetworkNamespace,
    endpoint: Endpoint,
    processes: Vec<ServerProcess>,
}

/// What the search for the target on this host found.
#[derive(Debug, Default)]
pub struct Search {
    /// The target's program; `None` when it is not on this host as far as
    /// could be looked.
    pub server: Option<Server>,
    /// What could not be looked into.
    pub notes: Vec<Note>,
}

impl Server {
    /// The network namespace it serves from.
    pub fn namespace(&self) -> &NetworkNamespace {
        &self.namespace
    }

    /// The target's address as the server itself sees it: another one than we
    /// connect to where addresses are translated (NAT) between.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// The processes that hold its listener (a master and its workers, by
    /// ascending pid); empty where we may not look into them.
    pub fn processes(&self) -> &[ServerProcess] {
        &self.processes
    }

    /// The target's listening queues with the SYN backlog that applies there.
    ///
    /// # Errors
    /// `CAP_SYS_ADMIN` is missing, or `sock_diag` fails.
    pub fn listeners(&self) -> Result<Vec<ListenerSample>, HostError> {
        let mut listeners = DiagSocket::open_in(&self.namespace)?.listeners(self.endpoint)?;
        let backlog = self.syn_backlog();
        for listener in &mut listeners {
            listener.syn_backlog = backlog;
        }
        Ok(listeners)
    }

    /// `net.ipv4.tcp_max_syn_backlog` there, which holds for IPv6 too.
    pub fn syn_backlog(&self) -> Option<u32> {
        let backlog = self.namespace.sysctl("net/ipv4/tcp_max_syn_backlog").ok()?;
        u32::try_from(backlog).ok()
    }

    /// The server's socket of a connection of ours; `None` when there is none.
    ///
    /// # Errors
    /// `CAP_SYS_ADMIN` is missing, or `sock_diag` fails.
    pub fn far_end(&self, flow: OwnFlow) -> Result<Option<SocketRecord>, HostError> {
        far_end(&mut DiagSocket::open_in(&self.namespace)?, flow)
    }
}

/// Searches this host for the server behind `target`. Without `flow` by its
/// address and listener; with a live connection of ours by that connection's
/// far end, which is exact also where an address is in use twice or translated.
pub fn find_server(target: Endpoint, flow: Option<OwnFlow>) -> Search {
    let mut search = Search::default();
    let mut refusals = Refusals::default();
    let mut namespaces = Namespaces::new();
    for namespace in namespaces.by_ref() {
        match place(&namespace, target, flow) {
            Ok(Some(endpoint)) => {
                let processes = owners(&namespace, endpoint, flow, &mut refusals);
                search.server = Some(Server {
                    namespace,
                    endpoint,
                    processes,
                });
                break;
            }
            Ok(None) => {}
            Err(e) => {
                refusals.entering.get_or_insert(e);
            }
        }
    }
    refusals.entering = refusals.entering.or(namespaces.refusal);
    search.notes = refusals.notes(search.server.is_some());
    search
}

/// What was refused on the way, each the first of its kind.
#[derive(Debug, Default)]
struct Refusals {
    entering: Option<HostError>,
    owners: Option<HostError>,
}

impl Refusals {
    fn notes(self, is_found: bool) -> Vec<Note> {
        let entering = self.entering.filter(|_| !is_found).map(|e| {
            e.note(
                "not-measured-namespaces",
                "whether the server runs in another network namespace of this host",
            )
        });
        let owners = self.owners.map(|e| {
            e.note(
                "not-measured-server-process",
                "which process serves, and its sockets' TCP_NODELAY, TCP_QUICKACK and TCP_CORK",
            )
        });
        entering.into_iter().chain(owners).collect()
    }
}

/// The network namespaces of this host that have processes, our own first.
struct Namespaces {
    own: Option<NetworkNamespace>,
    others: Option<btree_map::IntoIter<u64, u32>>,
    refusal: Option<HostError>,
}

impl Namespaces {
    fn new() -> Self {
        Self {
            own: NetworkNamespace::own().ok(),
            others: None,
            refusal: None,
        }
    }

    /// One process of each other namespace, by the namespace's inode.
    fn list_others(&mut self) -> BTreeMap<u64, u32> {
        let own = NetworkNamespace::own().map_or(0, |own| own.id());
        let mut others = BTreeMap::new();
        for pid in process::pids() {
            match privilege::namespace_id(pid) {
                Ok(id) if id != own && others.len() < MOST_NAMESPACES => {
                    others.entry(id).or_insert(pid);
                }
                Ok(_) | Err(HostError::Gone { .. }) => {}
                Err(e) => {
                    self.refusal.get_or_insert(e);
                }
            }
        }
        others
    }
}

impl Iterator for Namespaces {
    type Item = NetworkNamespace;

    fn next(&mut self) -> Option<NetworkNamespace> {
        if let Some(own) = self.own.take() {
            return Some(own);
        }
        let mut others = match self.others.take() {
            Some(others) => others,
            None => self.list_others().into_iter(),
        };
        let next = others.by_ref().find_map(|(id, pid)| {
            let namespace = NetworkNamespace::of(pid).ok()?;
            (namespace.id() == id).then_some(namespace)
        });
        self.others = Some(others);
        next
    }
}

/// The target's address as this namespace sees it, when it is served from there.
fn place(
    namespace: &NetworkNamespace,
    target: Endpoint,
    flow: Option<OwnFlow>,
) -> Result<Option<Endpoint>, HostError> {
    if target.addr.is_loopback() && !namespace.is_own() {
        return Ok(None); // every namespace has its own
    }
    let mut diag = DiagSocket::open_in(namespace)?;
    if let Some(flow) = flow {
        return Ok(far_end(&mut diag, flow)?.map(|record| record.local));
    }
    let mut route = RouteSocket::from(namespace.netlink(NetlinkProtocol::Route)?);
    let is_local = route.lookup(target.addr).is_ok_and(|route| route.is_local);
    let serves = is_local && !listening(&mut diag, target)?.is_empty();
    Ok(serves.then_some(target))
}

/// The listening sockets that take connections to `endpoint`.
fn listening(diag: &mut DiagSocket, endpoint: Endpoint) -> Result<Vec<SocketRecord>, HostError> {
    let selection = Selection {
        states: States::LISTENING,
        local_port: Some(endpoint.port),
        remote_port: None,
    };
    let mut records = diag.list(&selection, MOST_SERVER_PROCESSES)?;
    records.retain(|record| listens_for(record.local, endpoint));
    Ok(records)
}

/// The socket at the far end of `flow`: the one with both ends reversed, or,
/// where the target's address is translated on the way, the one whose peer is us.
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

/// Who holds the listener, and our connection's far end.
fn owners(
    namespace: &NetworkNamespace,
    endpoint: Endpoint,
    flow: Option<OwnFlow>,
    refusals: &mut Refusals,
) -> Vec<ServerProcess> {
    let inodes = match server_inodes(namespace, endpoint, flow) {
        Ok(inodes) => inodes,
        Err(e) => {
            refusals.owners = Some(e);
            return Vec::new();
        }
    };
    let near = process::pids_in_namespace(namespace.id());
    let mut found = process::holders(&near, Some(&inodes));
    if found.by_inode.is_empty() {
        found = process::holders(&process::pids(), Some(&inodes));
    }
    if found.by_inode.is_empty() {
        refusals.owners = found.refusal;
    }
    let holders = found.by_inode.into_values().flatten();
    let pids: BTreeSet<u32> = holders.map(|(pid, _)| pid).collect();
    let named = |pid| ServerProcess {
        pid,
        name: process::name(pid),
    };
    pids.into_iter()
        .take(MOST_SERVER_PROCESSES)
        .map(named)
        .collect()
}

/// The inodes of the listener and of our connection's far end.
fn server_inodes(
    namespace: &NetworkNamespace,
    endpoint: Endpoint,
    flow: Option<OwnFlow>,
) -> Result<HashSet<u32>, HostError> {
    let mut diag = DiagSocket::open_in(namespace)?;
    let listeners = listening(&mut diag, endpoint)?;
    let mut inodes: HashSet<u32> = listeners.iter().map(|record| record.inode).collect();
    if let Some(flow) = flow {
        inodes.extend(far_end(&mut diag, flow)?.map(|record| record.inode));
    }
    inodes.remove(&0); // held by nobody: not accepted yet
    Ok(inodes)
}
