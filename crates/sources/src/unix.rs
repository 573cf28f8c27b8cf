//! Connections to Unix sockets.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::privilege::client::keeper;
use crate::privilege::message::Request;

/// Returns a socket that is connected to the run's Unix socket. The keeper connects it, if there is
/// one: this process may not be the user whom the socket lets in, and it can reach no other one.
pub(crate) fn unix_socket(path: &Path) -> Result<OwnedFd, Errno> {
    let Some(keeper) = keeper() else {
        return connect_unix(path);
    };
    let connected = keeper.descriptor(&Request::ConnectUnix);
    connected.map_err(|error| Errno::from_io_error(&error.into()).unwrap_or(Errno::IO))
}

/// Connects to a Unix socket without blocking.
pub(crate) fn connect_unix(path: &Path) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&fd, &address)?;
    Ok(fd)
}
