//! Options of a socket that another process holds, read and set through a duplicate of its
//! descriptor. The process is neither stopped nor traced.
//!
//! The duplicate refers to the same socket, so while it exists, a `close` by that process would not
//! send a FIN. The duplicate is therefore dropped as soon as the options are read, some
//! microseconds later.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Sender;

use lagtrace_core::observed::event::Note;
use rustix::net::sockopt;

use super::diag::DiagSocket;
use super::foreign::{OwnFlow, Server};
use super::process;
use super::record::SocketRecord;
use crate::privilege::{self, Capability, HostError, ProcessHandle};

/// The options that determine when a small segment or an ACK may be sent. `None`: not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// `TCP_NODELAY`.
    pub nodelay: Option<bool>,
    /// `TCP_CORK`.
    pub cork: Option<bool>,
    /// `TCP_QUICKACK`: true if not in ping-pong mode at this instant.
    pub quickack: Option<bool>,
}

/// Reads the options of `socket`; returns `None` if the descriptor now refers to a later socket
/// with another cookie.
pub(super) fn read(socket: &impl AsFd, cookie: u64) -> Option<SocketOptions> {
    (sockopt::socket_cookie(socket).ok()? == cookie).then(|| SocketOptions {
        nodelay: sockopt::tcp_nodelay(socket).ok(),
        cork: sockopt::tcp_cork(socket).ok(),
        quickack: sockopt::tcp_quickack(socket).ok(),
    })
}

/// `TCP_NODELAY` switched on at the remote end of one of our connections, whose server runs on this
/// host. Dropping this value restores the previous setting.
///
/// Both changes are logged. If this process is killed (SIGKILL), the option stays set, but only on
/// that one connection, which ends with the process.
#[derive(Debug)]
pub struct ForeignOption {
    process: ProcessHandle,
    fd: u32,
    cookie: u64,
    was_on: bool,
    subject: String,
    log: Sender<Note>,
}

impl ForeignOption {
    /// Switches `TCP_NODELAY` on at the server's end of `flow` and reports the change in `log`.
    ///
    /// # Errors
    /// `flow` is not a live connection of this process; its remote end is not on this host; or
    /// `CAP_SYS_PTRACE` (or, for another namespace, `CAP_SYS_ADMIN`) is missing.
    pub fn set_nodelay(
        server: &Server,
        flow: OwnFlow,
        log: Sender<Note>,
    ) -> Result<Self, HostError> {
        let mut guard = Self::hold(server, flow, log)?;
        let socket = guard.socket()?;
        guard.was_on = sockopt::tcp_nodelay(&socket).map_err(|e| guard.failed("reading", e))?;
        if guard.was_on {
            guard.report("was already on and was left on");
            return Ok(guard);
        }
        if let Err(e) = sockopt::set_tcp_nodelay(&socket, true) {
            guard.was_on = true; // nothing was changed, nothing is put back
            return Err(guard.failed("setting", e));
        }
        guard.report("was off and has been switched on");
        Ok(guard)
    }

    /// Finds the server's end of `flow`, which must be our connection, without changing it.
    fn hold(server: &Server, flow: OwnFlow, log: Sender<Note>) -> Result<Self, HostError> {
        prove_ours(flow)?;
        let gone = || HostError::Gone {
            what: format!("the far end of {flow}"),
        };
        let record = server.far_end(flow)?.ok_or_else(gone)?;
        let (pid, fd) = holder(server, &record)?.ok_or_else(gone)?;
        Ok(Self {
            process: ProcessHandle::open(pid)?,
            fd,
            cookie: record.cookie,
            was_on: true,
            subject: format!("{} {pid}, descriptor {fd}, {flow}", process::name(pid)),
            log,
        })
    }

    /// Returns true if the option was on before.
    pub fn was_on(&self) -> bool {
        self.was_on
    }

    /// Returns true if the option is on now.
    ///
    /// # Errors
    /// The connection ended.
    pub fn is_on(&self) -> Result<bool, HostError> {
        sockopt::tcp_nodelay(&self.socket()?).map_err(|e| self.failed("reading", e))
    }

    /// Returns a duplicate of the socket, verified to be the same socket as at first.
    fn socket(&self) -> Result<OwnedFd, HostError> {
        let socket = self.process.duplicate(self.fd)?;
        let cookie = sockopt::socket_cookie(&socket).map_err(|e| self.failed("reading", e))?;
        if cookie == self.cookie {
            Ok(socket)
        } else {
            Err(HostError::Gone {
                what: format!("the far end of {}", self.subject),
            })
        }
    }

    fn put_back(&self) -> Result<(), HostError> {
        let socket = self.socket()?;
        sockopt::set_tcp_nodelay(&socket, false).map_err(|e| self.failed("setting", e))
    }

    fn failed(&self, verb: &str, error: rustix::io::Errno) -> HostError {
        let operation = format!("{verb} TCP_NODELAY of {}", self.subject);
        HostError::new(operation, error.into(), Capability::SysPtrace)
    }

    /// Sends a note to the log; a closed log is not an error.
    fn report(&self, what: &str) {
        let note = Note {
            id: "what-if-option".to_owned(),
            text: format!("TCP_NODELAY of {} {what}.", self.subject),
        };
        self.log.send(note).unwrap_or_default();
    }
}

impl Drop for ForeignOption {
    fn drop(&mut self) {
        if self.was_on {
            return;
        }
        match self.put_back() {
            Ok(()) => self.report("was switched off again, as before"),
            Err(HostError::Gone { .. }) => {
                self.report("did not have to be restored: the connection is closed");
            }
            Err(e) => self.report(&format!("could not be restored: {e}")),
        }
    }
}

/// Returns an error unless the flow is between this process and its peer.
fn prove_ours(flow: OwnFlow) -> Result<(), HostError> {
    let record = DiagSocket::open()?.find(flow.local, flow.remote)?;
    let held = privilege::sockets_of(std::process::id(), usize::MAX)?;
    record
        .filter(|record| held.iter().any(|&(inode, _)| inode == record.inode))
        .map(|_| ())
        .ok_or_else(|| HostError::NotOurs {
            what: flow.to_string(),
        })
}

/// Returns the process and descriptor that hold the socket; the server's own processes are tried
/// first.
fn holder(server: &Server, record: &SocketRecord) -> Result<Option<process::Holder>, HostError> {
    let wanted = HashSet::from([record.inode]);
    let known: Vec<u32> = server.processes().iter().map(|p| p.pid).collect();
    let mut refusal = None;
    for pids in [known, process::pids()] {
        let found = process::holders(&pids, Some(&wanted));
        if let Some(holder) = found.by_inode.into_values().flatten().next() {
            return Ok(Some(holder));
        }
        refusal = refusal.or(found.refusal);
    }
    refusal.map_or(Ok(None), Err)
}
