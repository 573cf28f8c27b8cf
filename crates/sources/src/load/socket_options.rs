//! The options of a run's client sockets, and functions that create sockets.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use core::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with};

use super::LoadError;
use crate::unix::unix_socket;

/// Socket options of a run, without those that experiments change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// A Unix socket to connect to instead of the targets' addresses.
    pub unix: Option<PathBuf>,
    /// Local addresses, used one after the other. If empty, the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// `SO_RCVBUF`, in bytes; the kernel doubles it (socket(7)).
    pub receive_buffer: Option<usize>,
    /// `SO_SNDBUF`, in bytes; the kernel doubles it.
    pub send_buffer: Option<usize>,
}

impl SocketOptions {
    /// Tries operations that would otherwise fail for each connection.
    pub(super) fn check(
        &self,
        targets: impl Iterator<Item = SocketAddr> + Clone,
    ) -> Result<(), LoadError> {
        let failure = |operation: String| {
            move |error: Errno| LoadError::Socket {
                operation,
                source: io::Error::from(error),
            }
        };
        if let Some(path) = &self.unix {
            let operation = format!("connecting to the Unix socket {}", path.display());
            return match unix_socket(path) {
                // The backlog is full, which does not prevent the run.
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(error) => Err(failure(operation)(error)),
            };
        }
        for source in &self.sources {
            let operation = format!("connecting from {source}");
            let fits = |target: SocketAddr| target.is_ipv4() == source.is_ipv4();
            if !targets.clone().all(fits) {
                return Err(failure(operation)(Errno::AFNOSUPPORT));
            }
            let own = SocketAddr::new(*source, 0);
            let tried = new_socket(family(own)).and_then(|fd| bind(&fd, &own));
            tried.map_err(failure(operation))?;
        }
        Ok(())
    }
}

/// Returns the address family of an address.
pub(super) fn family(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// Creates a non-blocking stream socket.
pub(super) fn new_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let protocol = (family != AddressFamily::UNIX).then_some(ipproto::TCP);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, protocol)
}
