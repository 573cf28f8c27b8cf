//! Polling of the sockets of load connections: those of this process, and their remote ends on this
//! host.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use lagtrace_core::observed::event::{ListenerSample, SocketSample, TargetId};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::time::Timestamp;

use super::diag::{DiagSocket, OpeningQueues, Selection, States};
use super::foreign::{QueueLimits, Server};
use super::owner::{Candidates, Owners};
use super::record::{SocketRecord, TcpState};
use crate::privilege::{HostError, NetworkNamespace};

/// Maximum number of sockets that are examined in one dump.
const MOST_RECORDS: usize = 16_384;

/// The sockets of this process that are connected to a target.
#[derive(Debug)]
pub(super) struct OwnWatch {
    diag: DiagSocket,
    remotes: Vec<Endpoint>,
    owners: Owners,
}

impl OwnWatch {
    /// Prepares to poll this process's connections to `remotes`.
    pub(super) fn open(remotes: Vec<Endpoint>) -> Result<Self, HostError> {
        Ok(Self {
            diag: DiagSocket::open()?,
            remotes,
            owners: Owners::new(Candidates::Own, vec![std::process::id()]),
        })
    }

    /// Returns this process's connected sockets with their current state.
    pub(super) fn look(&mut self) -> Result<Vec<SocketRecord>, HostError> {
        let ports: HashSet<u16> = self.remotes.iter().map(|remote| remote.port).collect();
        let mut records = Vec::new();
        for port in ports {
            let selection = Selection {
                states: States::CONNECTED,
                local_port: None,
                remote_port: Some(port),
            };
            records.extend(self.diag.list(&selection, MOST_RECORDS)?);
        }
        records.retain(|record| self.remotes.contains(&record.remote));
        self.owners.learn(&inodes(&records));
        records.retain(|record| self.owners.holds(record.inode));
        Ok(records)
    }

    pub(super) fn sample(&mut self, record: &SocketRecord, target: TargetId) -> SocketSample {
        sample(&mut self.owners, record, target)
    }

    pub(super) fn take_refusal(&mut self) -> Option<HostError> {
        self.owners.take_refusal()
    }
}

/// The target's sockets on this host: the remote ends of this process's connections, and the
/// listener that accepted them.
#[derive(Debug)]
pub(super) struct PeerWatch {
    diag: DiagSocket,
    endpoint: Endpoint,
    limits: QueueLimits,
    owners: Owners,
    /// Each listener as of the poll when its queue was longest.
    fullest: BTreeMap<u64, (Timestamp, ListenerSample)>,
}

impl PeerWatch {
    /// Prepares to poll the sockets of `server`.
    pub(super) fn open(server: &Server) -> Result<Self, HostError> {
        let namespace: &NetworkNamespace = server.namespace();
        let pids = server.processes().iter().map(|p| p.pid).collect();
        Ok(Self {
            diag: DiagSocket::open_in(namespace)?,
            endpoint: server.endpoint(),
            limits: server.queue_limits(),
            owners: Owners::new(Candidates::Namespace(namespace.id()), pids),
            fullest: BTreeMap::new(),
        })
    }

    /// Returns the server's sockets whose peer is one of `ours`. Listeners are recorded with time
    /// `at`.
    pub(super) fn look(
        &mut self,
        ours: &HashSet<Endpoint>,
        at: Timestamp,
    ) -> Result<Vec<SocketRecord>, HostError> {
        let selection = Selection {
            states: States::CONNECTED.with(States::OPENING),
            local_port: Some(self.endpoint.port),
            remote_port: None,
        };
        let mut queues = OpeningQueues::new(self.endpoint);
        let mut records = Vec::new();
        self.diag.dump(&selection, |record| {
            queues.add(&record);
            let is_opening = matches!(record.state, TcpState::Listen | TcpState::SynRecv);
            if !is_opening && ours.contains(&record.remote) && records.len() < MOST_RECORDS {
                records.push(record);
            }
            ControlFlow::Continue(())
        })?;
        self.note_listeners(&queues, at);
        self.owners.learn(&inodes(&records));
        Ok(records)
    }

    fn note_listeners(&mut self, queues: &OpeningQueues, at: Timestamp) {
        for (cookie, mut listener) in queues.listeners() {
            self.limits.apply(&mut listener);
            let load = |l: &ListenerSample| (l.queued, l.embryonic);
            let fullest = self
                .fullest
                .entry(cookie)
                .or_insert_with(|| (at, listener.clone()));
            if load(&listener) > load(&fullest.1) {
                *fullest = (at, listener);
            }
        }
    }

    pub(super) fn sample(&mut self, record: &SocketRecord, target: TargetId) -> SocketSample {
        sample(&mut self.owners, record, target)
    }

    pub(super) fn take_refusal(&mut self) -> Option<HostError> {
        self.owners.take_refusal()
    }

    /// Returns each listener as of the poll when its queue was longest.
    pub(super) fn into_fullest(self) -> impl Iterator<Item = (Timestamp, ListenerSample)> {
        self.fullest.into_values()
    }
}

/// Returns the inode numbers of the sockets that a process holds.
fn inodes(records: &[SocketRecord]) -> HashSet<u32> {
    let held = records.iter().map(|record| record.inode);
    held.filter(|&inode| inode != 0).collect()
}

fn sample(owners: &mut Owners, record: &SocketRecord, target: TargetId) -> SocketSample {
    let (owner, options) = owners.inspect(record);
    SocketSample {
        target,
        owner,
        local: record.local,
        remote: record.remote,
        nodelay: options.nodelay,
        cork: options.cork,
        quickack: options.quickack,
        tcp: record.tcp,
    }
}
