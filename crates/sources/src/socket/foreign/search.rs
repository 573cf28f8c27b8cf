//! The search itself: namespace by namespace, our own first.

use std::collections::{BTreeSet, HashSet};

use lagtrace_core::event::Note;
use lagtrace_core::flow::Endpoint;

use super::{OwnFlow, Search, Server, ServerProcess, far_end, listening};
use crate::netlink::NetlinkProtocol;
use crate::privilege::{HostError, NetworkNamespace};
use crate::route::RouteSocket;
use crate::socket::diag::DiagSocket;
use crate::socket::namespaces::Namespaces;
use crate::socket::process;

/// At most this many processes of a server are listed.
const MOST_PROCESSES: usize = 256;

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
                search.server = Some(server(namespace, endpoint, flow, &mut refusals));
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

/// The same in one namespace, where somebody knows which.
pub fn find_server_in(
    namespace: NetworkNamespace,
    target: Endpoint,
    flow: Option<OwnFlow>,
) -> Search {
    let (mut search, mut refusals) = (Search::default(), Refusals::default());
    match place(&namespace, target, flow) {
        Ok(Some(endpoint)) => {
            search.server = Some(server(namespace, endpoint, flow, &mut refusals));
        }
        Ok(None) => {}
        Err(e) => refusals.entering = Some(e),
    }
    search.notes = refusals.notes(search.server.is_some());
    search
}

fn server(
    namespace: NetworkNamespace,
    endpoint: Endpoint,
    flow: Option<OwnFlow>,
    refusals: &mut Refusals,
) -> Server {
    Server {
        processes: owners(&namespace, endpoint, flow, refusals),
        namespace,
        endpoint,
    }
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
    let (near, refusal) = process::pids_in_namespace(namespace.id());
    let mut found = process::holders(&near, Some(&inodes));
    if found.by_inode.is_empty() {
        found = process::holders(&process::pids(), Some(&inodes));
    }
    if found.by_inode.is_empty() {
        refusals.owners = found.refusal.or(refusal);
    }
    let holders = found.by_inode.into_values().flatten();
    let pids: BTreeSet<u32> = holders.map(|(pid, _)| pid).collect();
    let named = |pid| ServerProcess {
        pid,
        name: process::name(pid),
    };
    pids.into_iter().take(MOST_PROCESSES).map(named).collect()
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
