//! Ports of the loopback for the servers of tests.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// Returns different TCP ports that are free on all IPv4 addresses. They are below the ephemeral
/// port range of Linux (`net.ipv4.ip_local_port_range`), so that neither an outgoing connection nor
/// a server that binds port 0 takes one before the caller's server does.
///
/// # Panics
///
/// If fewer than `count` of 1,000 ports are free.
#[must_use]
pub fn free_ports(count: usize) -> Vec<u16> {
    const FIRST: u32 = 11_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes that run at the same time begin at different ports.
    let start = std::process::id().wrapping_mul(97);
    let candidates = std::iter::repeat_with(|| {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = start.wrapping_add(next) % COUNT;
        u16::try_from(FIRST + offset).expect("the last port is 30,999")
    });
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    let found: Vec<u16> = candidates.take(1000).filter(is_free).take(count).collect();
    assert_eq!(found.len(), count, "free ports");
    found
}

/// Returns one port as [`free_ports`] does.
///
/// # Panics
///
/// If none of 1,000 ports is free.
#[must_use]
pub fn free_port() -> u16 {
    free_ports(1)[0]
}

/// A TCP port of 127.0.0.1 that refuses connections: a socket is bound to it and does not listen.
/// While this value exists, no other program can listen there.
#[derive(Debug)]
pub struct RefusingPort {
    _socket: OwnedFd,
    address: SocketAddr,
}

impl RefusingPort {
    /// Binds a free port.
    ///
    /// # Panics
    ///
    /// If no port is free.
    #[must_use]
    #[allow(
        clippy::new_without_default,
        reason = "it takes something of the machine"
    )]
    pub fn new() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        bind(&socket, &any).expect("a free port");
        let address = getsockname(&socket).expect("it is bound");
        let address = address.try_into().expect("an IPv4 address");
        Self {
            _socket: socket,
            address,
        }
    }

    /// Returns the address that refuses.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_refusing_port_refuses_and_cannot_be_taken() {
        let port = RefusingPort::new();
        let refused = TcpStream::connect(port.address()).expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let taken = TcpListener::bind(port.address()).expect_err("it is held");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn free_ports_are_different_and_can_be_bound() {
        let ports: Vec<u16> = (0..4).flat_map(|_| free_ports(3)).collect();
        let listeners = ports
            .iter()
            .map(|port| TcpListener::bind(("127.0.0.1", *port)));
        assert!(
            listeners.collect::<Result<Vec<_>, _>>().is_ok(),
            "{ports:?}"
        );
    }
}
