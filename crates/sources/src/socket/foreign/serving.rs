//! The processes that serve the target.

use std::collections::{BTreeSet, HashSet};

use lagtrace_core::observed::flow::Endpoint;

use super::{OwnFlow, ServerProcess, far_end_in, listening};
use crate::privilege::client::{keeper, unexpected};
use crate::privilege::message::{Reply, Request, Served};
use crate::privilege::{HostError, NetworkNamespace, ProcessHandle};
use crate::socket::diag::DiagSocket;
use crate::socket::process;
use crate::socket::record::SocketRecord;

/// Maximum number of a server's processes that are listed.
const MOST_PROCESSES: usize = 256;

/// Returns the processes that hold the target's listener or the remote end of `flow`.
///
/// # Errors
/// Returns an error if `CAP_SYS_ADMIN` or `CAP_SYS_PTRACE` is missing, or if `sock_diag` fails.
pub(super) fn serving(
    namespace: &NetworkNamespace,
    endpoint: Endpoint,
    flow: Option<OwnFlow>,
) -> Result<Vec<ServerProcess>, HostError> {
    let Some(keeper) = keeper() else {
        let far = flow.map(|flow| far_end_in(namespace, flow)).transpose()?;
        return serving_here(namespace, endpoint, far.flatten());
    };
    let request = Request::Serving(Box::new(Served {
        namespace: namespace.id(),
        endpoint,
        flow,
    }));
    match keeper.ask(&request)? {
        (Reply::Processes(found), _) => {
            let process = |(pid, name)| ServerProcess { pid, name };
            Ok(found.into_iter().map(process).collect())
        }
        _ => Err(unexpected()),
    }
}

/// Finds the processes that hold the target's listener or the socket `far`, with the privileges of
/// this process.
pub(crate) fn serving_here(
    namespace: &NetworkNamespace,
    endpoint: Endpoint,
    far: Option<SocketRecord>,
) -> Result<Vec<ServerProcess>, HostError> {
    let inodes = inodes(namespace, endpoint, far)?;
    let (near, refusal) = process::pids_in_namespace(namespace.id());
    let mut found = process::holders(&near, Some(&inodes));
    if found.by_inode.is_empty() {
        found = process::holders(&process::pids(), Some(&inodes));
    }
    if found.by_inode.is_empty()
        && let Some(refusal) = found.refusal.or(refusal)
    {
        return Err(refusal);
    }
    let holders = found.by_inode.into_values().flatten();
    let pids: BTreeSet<u32> = holders.map(|(pid, _)| pid).collect();
    let named = |pid| ServerProcess {
        pid,
        name: process::name(pid),
    };
    Ok(pids.into_iter().take(MOST_PROCESSES).map(named).collect())
}

/// Returns those of the processes that hold such a socket now.
pub(crate) fn serving_among(
    namespace: &NetworkNamespace,
    endpoint: Endpoint,
    far: Option<SocketRecord>,
    processes: &[ProcessHandle],
) -> Result<BTreeSet<u32>, HostError> {
    let inodes = inodes(namespace, endpoint, far)?;
    let pids: Vec<u32> = processes.iter().map(ProcessHandle::pid).collect();
    let found = process::holders(&pids, Some(&inodes));
    let holders = found.by_inode.into_values().flatten();
    Ok(holders.map(|(pid, _)| pid).collect())
}

/// Returns the inode numbers of the listeners and of the connection's remote end.
fn inodes(
    namespace: &NetworkNamespace,
    endpoint: Endpoint,
    far: Option<SocketRecord>,
) -> Result<HashSet<u32>, HostError> {
    let mut diag = DiagSocket::open_in(namespace)?;
    let mut records = listening(&mut diag, endpoint)?;
    records.extend(far);
    let mut inodes: HashSet<u32> = records.iter().map(|record| record.inode).collect();
    inodes.remove(&0); // no process holds it: not accepted yet
    Ok(inodes)
}
