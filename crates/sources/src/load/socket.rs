//! The sockets of a run.

use std::os::fd::{AsFd, OwnedFd};

use core::net::SocketAddr;

use lagtrace_core::event::RequestFailure;
use lagtrace_core::experiment::Experiment;
use lagtrace_core::flow::{Endpoint, FlowKey, Transport};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::plan::{Lane, Plan};

/// How a lane's connections are made.
#[derive(Clone, Debug)]
pub(super) struct SocketPlan {
    /// Where to.
    pub(super) address: SocketAddr,
    /// `TCP_NODELAY`.
    pub(super) nodelay: bool,
    /// `TCP_QUICKACK` after every read.
    pub(super) quickack: bool,
}

impl SocketPlan {
    /// How the connections of `lane` are made in a run of `plan`.
    pub(super) fn new(plan: &Plan, lane: &Lane) -> Self {
        Self {
            address: lane.target.address,
            nodelay: plan.nodelay && lane.experiment != Some(Experiment::ClientNagle),
            quickack: lane.experiment == Some(Experiment::QuickAck),
        }
    }

    /// Makes a socket and begins to connect it without waiting.
    pub(super) fn connect(&self) -> Result<OwnedFd, RequestFailure> {
        let family = match self.address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let fd = rustix::net::socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            Some(ipproto::TCP),
        )
        .map_err(failure_of)?;
        if self.nodelay {
            sockopt::set_tcp_nodelay(&fd, true).map_err(failure_of)?;
        }
        match rustix::net::connect(&fd, &self.address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
            Err(error) => Err(failure_of(error)),
        }
    }

    /// The 5-tuple of a connected socket.
    pub(super) fn flow(&self, fd: impl AsFd) -> Option<FlowKey> {
        let local = rustix::net::getsockname(fd).ok()?;
        let local = SocketAddr::try_from(local).ok()?;
        let (key, _) = FlowKey::new(Transport::Tcp, local.into(), Endpoint::from(self.address));
        Some(key)
    }
}

/// What an error on a socket means for a request.
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
