//! The holders of sockets, and the options of these sockets. Holders are remembered between the
//! dumps of a namespace's sockets.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::SocketOwner;

use super::option::{self, SocketOptions};
use super::process::{self, Holder};
use super::record::SocketRecord;
use crate::privilege::{HostError, ProcessHandle};

/// Minimum interval between two listings of the processes.
const RENEWAL: Duration = Duration::from_secs(1);
/// Maximum number of processes for which an open handle is kept.
const MOST_HANDLES: usize = 256;

/// The processes that can be holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidates {
    /// Only this process.
    Own,
    /// The processes of a network namespace.
    Namespace(u64),
}

/// Holders of sockets, by the socket's inode number.
#[derive(Debug)]
pub(super) struct Owners {
    candidates: Candidates,
    pids: Vec<u32>,
    listed: Option<Instant>,
    by_inode: HashMap<u32, Holder>,
    handles: HashMap<u32, (ProcessHandle, String)>,
    refusal: Option<HostError>,
    has_read: bool,
}

impl Owners {
    /// Creates an empty set of holders. The processes `pids` are searched first.
    pub(super) fn new(candidates: Candidates, pids: Vec<u32>) -> Self {
        Self {
            candidates,
            pids,
            listed: None,
            by_inode: HashMap::new(),
            handles: HashMap::new(),
            refusal: None,
            has_read: false,
        }
    }

    /// Finds the holders of these sockets, if the user may see them. If some stay unknown, the list
    /// of processes is read again and searched, at most once per second.
    pub(super) fn learn(&mut self, wanted: &HashSet<u32>) {
        if self.knows(wanted) {
            return;
        }
        self.search(wanted);
        let is_stale = self.listed.is_none_or(|at| at.elapsed() > RENEWAL);
        let Candidates::Namespace(id) = self.candidates else {
            return;
        };
        if is_stale && !self.knows(wanted) {
            self.listed = Some(Instant::now());
            let (pids, refusal) = process::pids_in_namespace(id);
            self.refusal = self.refusal.take().or(refusal);
            if pids != self.pids {
                self.pids = pids;
                self.search(wanted);
            }
        }
    }

    fn knows(&self, wanted: &HashSet<u32>) -> bool {
        wanted.iter().all(|inode| self.by_inode.contains_key(inode))
    }

    fn search(&mut self, wanted: &HashSet<u32>) {
        let found = process::holders(&self.pids, Some(wanted));
        let first = |(inode, holders): (u32, Vec<Holder>)| Some((inode, *holders.first()?));
        self.by_inode = found.by_inode.into_iter().filter_map(first).collect();
        self.refusal = self.refusal.take().or(found.refusal);
    }

    /// Returns true if this socket's holder is known.
    pub(super) fn holds(&self, inode: u32) -> bool {
        self.by_inode.contains_key(&inode)
    }

    /// Returns the owner of a socket and its options. Options that cannot be read are `None`.
    pub(super) fn inspect(&mut self, record: &SocketRecord) -> (SocketOwner, SocketOptions) {
        let Some(&(pid, fd)) = self.by_inode.get(&record.inode) else {
            return (SocketOwner::Unnamed, SocketOptions::default());
        };
        let outcome = self.handle(pid).and_then(|(handle, name)| {
            let owner = name.clone();
            Ok((owner, option::of(handle, fd, record.cookie)?))
        });
        let (name, options) = match outcome {
            Ok((name, options)) => {
                self.has_read |= options.is_some();
                (name, options)
            }
            Err(HostError::Gone { .. }) => {
                self.handles.remove(&pid);
                self.by_inode.remove(&record.inode);
                (process::name(pid), None)
            }
            Err(refusal) => {
                self.refusal.get_or_insert(refusal);
                (process::name(pid), None)
            }
        };
        let owner = match self.candidates {
            Candidates::Own => SocketOwner::Own,
            Candidates::Namespace(_) => SocketOwner::Process { pid, fd, name },
        };
        (owner, options.unwrap_or_default())
    }

    /// Returns the first refusal if no socket's options could be read. If some could be read, the
    /// refusal does not matter.
    pub(super) fn take_refusal(&mut self) -> Option<HostError> {
        self.refusal.take().filter(|_| !self.has_read)
    }

    fn handle(&mut self, pid: u32) -> Result<&(ProcessHandle, String), HostError> {
        if self.handles.len() >= MOST_HANDLES {
            self.handles.clear();
        }
        match self.handles.entry(pid) {
            std::collections::hash_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::hash_map::Entry::Vacant(free) => {
                let handle = ProcessHandle::open(pid)?;
                Ok(free.insert((handle, process::name(pid))))
            }
        }
    }
}
