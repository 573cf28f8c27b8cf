//! The client sockets of a run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, ipproto, socket_with,
    sockopt,
};

use super::LoadError;
use super::plan::{Lane, Plan};

/// Socket options of a run, apart from those that experiments change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// A Unix socket to connect to instead of the targets' addresses.
    pub unix: Option<PathBuf>,
    /// Our own addresses, used in turn; if empty, the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// `SO_RCVBUF`, in bytes; the kernel doubles it (socket(7)).
    pub receive_buffer: Option<usize>,
    /// `SO_SNDBUF`, in bytes; the kernel doubles it.
    pub send_buffer: Option<usize>,
}

impl SocketOptions {
    /// Tries in advance the operations that would otherwise fail with each connection.
    pub(super) fn check(&self, lanes: &[Lane]) -> Result<(), LoadError> {
        let failure = |operation: String| {
            move |error: Errno| LoadError::Socket {
                operation,
                source: io::Error::from(error),
            }
        };
        if let Some(path) = &self.unix {
            let operation = format!("connecting to the Unix socket {}", path.display());
            let tried = SocketAddrUnix::new(path)
                .and_then(|address| Ok((new_socket(AddressFamily::UNIX)?, address)))
                .and_then(|(fd, address)| connect(&fd, &address));
            return match tried {
                // Its backlog is full: the load will wait for its turn.
                Ok(()) | Err(Errno::AGAIN) => Ok(()),
                Err(error) => Err(failure(operation)(error)),
            };
        }
        for source in &self.sources {
            let operation = format!("connecting from {source}");
            let fits = |lane: &Lane| lane.target.address.is_ipv4() == source.is_ipv4();
            if !lanes.iter().all(fits) {
                return Err(failure(operation)(Errno::AFNOSUPPORT));
            }
            let own = SocketAddr::new(*source, 0);
            let tried = new_socket(family(own)).and_then(|fd| bind(&fd, &own));
            tried.map_err(failure(operation))?;
        }
        Ok(())
    }
}

/// The parameters of a lane's connections.
#[derive(Clone, Debug)]
pub(super) struct SocketPlan {
    /// Address to connect to.
    pub(super) address: SocketAddr,
    /// `TCP_NODELAY`.
    pub(super) nodelay: bool,
    /// `TCP_QUICKACK` after every read.
    pub(super) quickack: bool,
    options: SocketOptions,
    /// Number of connections made so far, including those of earlier workers. It selects the source
    /// address.
    made: Cell<usize>,
}

impl SocketPlan {
    /// Returns the parameters for connections of `lane` in a run of `plan`. `before` is the number
    /// of connections of earlier workers.
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

    /// Creates a socket and starts to connect it without waiting.
    pub(super) fn connect(&self) -> Result<OwnedFd, RequestFailure> {
        if let Some(path) = &self.options.unix {
            let address = SocketAddrUnix::new(path).map_err(failure_of)?;
            let fd = new_socket(AddressFamily::UNIX).map_err(failure_of)?;
            self.size_buffers(&fd)?;
            return match connect(&fd, &address) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
                // Its backlog is full, and nothing reports when there is room again.
                Err(Errno::AGAIN) => Err(RequestFailure::Refused),
                Err(error) => Err(failure_of(error)),
            };
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

    /// Sets the buffer sizes before connecting, because the window scale depends on them.
    fn size_buffers(&self, fd: &OwnedFd) -> Result<(), RequestFailure> {
        if let Some(bytes) = self.options.receive_buffer {
            sockopt::set_socket_recv_buffer_size(fd, bytes).map_err(failure_of)?;
        }
        if let Some(bytes) = self.options.send_buffer {
            sockopt::set_socket_send_buffer_size(fd, bytes).map_err(failure_of)?;
        }
        Ok(())
    }

    /// Binds to the next of our addresses, if any are given.
    fn bind(&self, fd: &OwnedFd) -> Result<(), RequestFailure> {
        let made = self.made.get();
        self.made.set(made.wrapping_add(1));
        let sources = &self.options.sources;
        let Some(source) = sources.get(made % sources.len().max(1)) else {
            return Ok(());
        };
        // The port is chosen at connect, when the peer is known: each source has all its ports for
        // each peer (`IP_BIND_ADDRESS_NO_PORT`).
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

fn family(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

fn new_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let protocol = (family != AddressFamily::UNIX).then_some(ipproto::TCP);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, protocol)
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
