//! Options of a socket that another process holds. They are read and set through a duplicate of the
//! socket's descriptor. The process is neither stopped nor traced.
//!
//! The duplicate refers to the same socket. While it exists, a `close` by that process does not
//! send a FIN. The duplicate is therefore closed as soon as the options are read, some microseconds
//! later.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Sender;

use lagtrace_core::observed::event::Note;
use rustix::net::sockopt;

use super::diag::DiagSocket;
use super::foreign::{OwnFlow, Server, proven_far_end};
use super::record::{SocketRecord, TcpState};
use super::{options, process};
use crate::privilege::client::{keeper, unexpected};
use crate::privilege::message::{HeldSocket, Reply, Request};
use crate::privilege::{self, Capability, HostError, ProcessHandle};

/// The options that determine when a small segment or an ACK may be sent. `None`: not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// `TCP_NODELAY`.
    pub nodelay: Option<bool>,
    /// `TCP_CORK`.
    pub cork: Option<bool>,
    /// `TCP_QUICKACK`: true if ACKs are currently not delayed (no ping-pong mode).
    pub quickack: Option<bool>,
}

/// Reads the options of a socket that a process holds; `None` if the descriptor now refers to
/// another socket.
pub(super) fn of(
    process: &ProcessHandle,
    fd: u32,
    cookie: u64,
) -> Result<Option<SocketOptions>, HostError> {
    if process.is_own() || keeper().is_none() {
        return Ok(read(&process.duplicate(fd)?, cookie));
    }
    let pid = process.pid();
    let mut all = options::of_all(&[HeldSocket { pid, fd, cookie }]);
    let options = all.pop().ok_or_else(unexpected)??;
    Ok(options.map(|options| SocketOptions {
        nodelay: options.nodelay,
        cork: options.cork,
        quickack: options.quickack,
    }))
}

/// Reads the options of `socket`; `None` if the descriptor now refers to another socket, which has
/// a different cookie.
fn read(socket: &impl AsFd, cookie: u64) -> Option<SocketOptions> {
    (sockopt::socket_cookie(socket).ok()? == cookie).then(|| SocketOptions {
        nodelay: sockopt::tcp_nodelay(socket).ok(),
        cork: sockopt::tcp_cork(socket).ok(),
        quickack: sockopt::tcp_quickack(socket).ok(),
    })
}

/// `TCP_NODELAY`, switched on at the remote end of a connection of this process. The server runs on
/// this host. Dropping this value restores the previous setting.
///
/// Both changes are logged. If this process is killed (SIGKILL), its keeper restores the option.
/// Without a keeper the option stays on, but only for this connection, which ends with the process.
#[derive(Debug)]
pub struct ForeignOption {
    switched: Switched,
    was_on: bool,
    log: Sender<Note>,
}

/// The process that has switched the option.
#[derive(Debug)]
enum Switched {
    /// The process itself.
    Here(FarSocket),
    /// The keeper, under this number.
    Kept(u32),
}

impl ForeignOption {
    /// Switches `TCP_NODELAY` on at the server's end of `flow` and reports the change in `log`.
    ///
    /// # Errors
    /// Returns an error if `flow` is not a live connection of this process, if its remote end is
    /// not on this host, or if `CAP_SYS_PTRACE` (for another namespace, `CAP_SYS_ADMIN`) is
    /// missing.
    pub fn set_nodelay(
        server: &Server,
        flow: OwnFlow,
        log: Sender<Note>,
    ) -> Result<Self, HostError> {
        if let Some(keeper) = keeper() {
            let request = Request::SwitchOn(Box::new(server.far_end_of(flow)));
            let (Reply::Switched(number, was_on, notes), _) = keeper.ask(&request)? else {
                return Err(unexpected());
            };
            notes
                .into_iter()
                .for_each(|note| log.send(note).unwrap_or_default());
            return Ok(Self {
                switched: Switched::Kept(number),
                was_on,
                log,
            });
        }
        Self::set_for(std::process::id(), server, flow, log)
    }

    /// Switches the option on for a connection of process `client`.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::set_nodelay`].
    pub(crate) fn set_for(
        client: u32,
        server: &Server,
        flow: OwnFlow,
        log: Sender<Note>,
    ) -> Result<Self, HostError> {
        let far = FarSocket::hold(client, server, flow)?;
        let socket = far.socket()?;
        let was_on = sockopt::tcp_nodelay(&socket).map_err(|e| far.failed("reading", e))?;
        if !was_on {
            sockopt::set_tcp_nodelay(&socket, true).map_err(|e| far.failed("setting", e))?;
        }
        let guard = Self {
            switched: Switched::Here(far),
            was_on,
            log,
        };
        guard.report(if was_on {
            "was already on and was left on"
        } else {
            "was off and has been switched on"
        });
        Ok(guard)
    }

    /// Returns true if the option was on before.
    pub fn was_on(&self) -> bool {
        self.was_on
    }

    /// Returns true if the option is on now.
    ///
    /// # Errors
    /// Returns an error if the connection has ended.
    pub fn is_on(&self) -> Result<bool, HostError> {
        match &self.switched {
            Switched::Here(far) => {
                sockopt::tcp_nodelay(&far.socket()?).map_err(|e| far.failed("reading", e))
            }
            Switched::Kept(number) => {
                let keeper = keeper().ok_or_else(unexpected)?;
                match keeper.ask(&Request::IsOn(*number))? {
                    (Reply::Number(is_on), _) => Ok(is_on != 0),
                    _ => Err(unexpected()),
                }
            }
        }
    }

    /// Writes a note to the log. A closed log is not an error.
    fn report(&self, what: &str) {
        if let Switched::Here(far) = &self.switched {
            self.log.send(far.note(what)).unwrap_or_default();
        }
    }
}

impl Drop for ForeignOption {
    fn drop(&mut self) {
        match &self.switched {
            Switched::Kept(number) => {
                let answer = keeper().map(|keeper| keeper.ask(&Request::Restore(*number)));
                if let Some(Ok((Reply::Notes(notes), _))) = answer {
                    let tell = |note| self.log.send(note).unwrap_or_default();
                    notes.into_iter().for_each(tell);
                }
            }
            Switched::Here(_) if self.was_on => {}
            Switched::Here(far) => match far.put_back() {
                Ok(()) => self.report("was switched off again, as before"),
                Err(HostError::Gone { .. }) => {
                    self.report("did not have to be restored: the connection is closed");
                }
                Err(e) => self.report(&format!("could not be restored: {e}")),
            },
        }
    }
}

/// The socket at the remote end of a connection.
#[derive(Debug)]
struct FarSocket {
    process: ProcessHandle,
    fd: u32,
    cookie: u64,
    subject: String,
}

impl FarSocket {
    /// Finds the server's end of `flow`, which must be a connection of process `client`. Changes
    /// nothing.
    fn hold(client: u32, server: &Server, flow: OwnFlow) -> Result<Self, HostError> {
        let near = prove_owned(client, flow)?;
        let gone = || HostError::Gone {
            what: format!("the far end of {flow}"),
        };
        let record = proven_far_end(server.namespace(), &near)?;
        let is_open = |record: &SocketRecord| record.state == TcpState::Established;
        let record = record.filter(|far| is_open(&near) && is_open(far));
        let record = record.ok_or_else(gone)?;
        let (pid, fd) = holder(server, &record)?.ok_or_else(gone)?;
        Ok(Self {
            process: ProcessHandle::open(pid)?,
            fd,
            cookie: record.cookie,
            subject: format!("{} {pid}, descriptor {fd}, {flow}", process::name(pid)),
        })
    }

    /// Returns a duplicate of the socket, after checking that it is still the same socket.
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

    fn note(&self, what: &str) -> Note {
        Note {
            id: "what-if-option".to_owned(),
            text: format!("TCP_NODELAY of {} {what}.", self.subject),
        }
    }
}

/// Returns the socket of `flow`, or an error unless `flow` is a connection of process `client`.
pub(crate) fn prove_owned(client: u32, flow: OwnFlow) -> Result<SocketRecord, HostError> {
    let record = DiagSocket::open()?.find(flow.local, flow.remote)?;
    let held = privilege::sockets_of(client, usize::MAX)?;
    record
        .filter(|record| held.iter().any(|&(inode, _)| inode == record.inode))
        .ok_or_else(|| HostError::NotOurs {
            what: flow.to_string(),
        })
}

/// Returns the process and the descriptor that hold the socket. The server's processes are searched
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
