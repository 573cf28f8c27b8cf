//! The client sockets of a run.

use std::os::fd::{AsFd, OwnedFd};

use core::cell::Cell;
use core::net::SocketAddr;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::io::Errno;
use rustix::net::{bind, connect, sockopt};

use super::plan::{Lane, Plan};
use super::socket_options::{SocketOptions, family, new_socket};
use crate::unix::unix_socket;

/// The settings of a lane's connections.
#[derive(Clone, Debug)]
pub(super) struct SocketPlan {
    /// Address to connect to.
    pub(super) address: SocketAddr,
    /// True to set `TCP_NODELAY`.
    pub(super) nodelay: bool,
    /// True to set `TCP_QUICKACK` after every read.
    pub(super) quickack: bool,
    options: SocketOptions,
    /// Number of connections created so far, including those of earlier workers. It determines the
    /// source address of the next one.
    made: Cell<usize>,
}

impl SocketPlan {
    /// Returns the settings for connections of `lane` in a run of `plan`. `before` is the number of
    /// connections of earlier workers.
    pub(super) fn new(plan: &Plan, lane: &Lane, before: u32) -> Self {
        let is_tcp = plan.sockets.unix.is_none();
        Self {
            address: lane.target.address,
            nodelay: is_tcp && plan.nodelay && lane.experiment != Some(Experiment::ClientNagle),
            quickack: is_tcp && lane.experiment == Some(Experiment::QuickAck),
            options: plan.sockets.clone(),
            made: Cell::new(before as usize),
        }
    }

    /// Creates a socket and begins to connect it, without blocking.
    pub(super) fn connect(&self) -> Result<OwnedFd, RequestFailure> {
        if let Some(path) = &self.options.unix {
            let fd = unix_socket(path).map_err(|error| match error {
                // The server's backlog is full, and no event reports when there is room again.
                Errno::AGAIN => RequestFailure::Refused,
                error => failure_of(error),
            })?;
            self.size_buffers(&fd)?;
            return Ok(fd);
        }
        let fd = new_socket(family(self.address)).map_err(failure_of)?;
        if self.nodelay {
            sockopt::set_tcp_nodelay(&fd, true).map_err(failure_of)?;
        }
        self.size_buffers(&fd)?;
        self.bind(&fd)?;
        match connect(&fd, &self.address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
            Err(error) => Err(failure_of(error)),
        }
    }

    /// Sets the buffer sizes. For TCP, this must happen before connecting, because the window scale
    /// depends on them.
    fn size_buffers(&self, fd: &OwnedFd) -> Result<(), RequestFailure> {
        if let Some(bytes) = self.options.receive_buffer {
            sockopt::set_socket_recv_buffer_size(fd, bytes).map_err(failure_of)?;
        }
        if let Some(bytes) = self.options.send_buffer {
            sockopt::set_socket_send_buffer_size(fd, bytes).map_err(failure_of)?;
        }
        Ok(())
    }

    /// Binds the socket to the next local address of the plan, if the plan has any.
    fn bind(&self, fd: &OwnedFd) -> Result<(), RequestFailure> {
        let made = self.made.get();
        self.made.set(made.wrapping_add(1));
        let sources = &self.options.sources;
        let Some(source) = sources.get(made % sources.len().max(1)) else {
            return Ok(());
        };
        // The port is chosen when connecting, because the peer is known then. Each local address
        // can then use all its ports for each peer (`IP_BIND_ADDRESS_NO_PORT`).
        let _ = nix::sys::socket::setsockopt(fd, IpBindAddressNoPort, &true);
        bind(fd, &SocketAddr::new(*source, 0)).map_err(failure_of)
    }

    /// Returns the 5-tuple of a connected socket.
    pub(super) fn flow(&self, fd: impl AsFd) -> Option<FlowKey> {
        let local = rustix::net::getsockname(fd).ok()?;
        let local = SocketAddr::try_from(local).ok()?;
        let (key, _) = FlowKey::new(Transport::Tcp, local.into(), Endpoint::from(self.address));
        Some(key)
    }
}

/// Returns the request failure that corresponds to a socket error.
pub(super) fn failure_of(error: Errno) -> RequestFailure {
    match error {
        Errno::CONNREFUSED => RequestFailure::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => RequestFailure::Reset,
        Errno::TIMEDOUT => RequestFailure::ConnectTimeout,
        Errno::HOSTUNREACH
        | Errno::NETUNREACH
        | Errno::HOSTDOWN
        | Errno::NETDOWN
        | Errno::NOPROTOOPT
        | Errno::PROTO
        | Errno::OPNOTSUPP => RequestFailure::Unreachable,
        _ => RequestFailure::Local,
    }
}
