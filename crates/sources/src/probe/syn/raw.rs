//! A raw TCP socket towards one address, with stamps, filter and error queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use core::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::probe::ProbeError;
use crate::probe::stamped::{self, Read};

/// The socket, and the source address that the kernel chose for it.
#[derive(Debug)]
pub(in crate::probe) struct RawSocket {
    socket: Socket,
    source: IpAddr,
}

impl RawSocket {
    /// Opens one that exchanges segments with the port of `address` only.
    pub(super) fn open(address: SocketAddr) -> Result<Self, ProbeError> {
        Self::dressed(address, |_| Ok(()))
    }

    /// The same with options of its own, which `dress` sets before the kernel
    /// chooses the route.
    pub(in crate::probe) fn dressed(
        address: SocketAddr,
        dress: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> Result<Self, ProbeError> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::TCP)).map_err(|error| {
            let operation = "opening a raw socket";
            match error.kind() {
                io::ErrorKind::PermissionDenied => ProbeError::NotPermitted {
                    operation,
                    needs: "CAP_NET_RAW",
                },
                _ => failure(operation, address)(error),
            }
        })?;
        stamped::prepare(&socket, address)
            .and_then(|()| socket.attach_filter(&reply_filter(address)))
            .map_err(failure("preparing a raw socket", address))?;
        dress(&socket).map_err(failure("setting the options", address))?;
        let source = route(&socket, address).map_err(failure("finding a route", address))?;
        Ok(Self { socket, source })
    }

    /// The source address that the kernel chose.
    pub(in crate::probe) fn source(&self) -> IpAddr {
        self.source
    }

    /// Sends a segment; the kernel puts the IP header before it.
    pub(in crate::probe) fn send(&self, segment: &[u8]) -> Result<(), Errno> {
        let mut last = Errno::IO;
        // An ICMP error about an earlier probe is reported once by a later send.
        for _ in 0..3 {
            match self.socket.send(segment) {
                Ok(_) => return Ok(()),
                Err(error) => last = Errno::from_io_error(&error).unwrap_or(Errno::IO),
            }
        }
        Err(last)
    }

    /// Reads one datagram with its stamp; `None` when there is none.
    pub(in crate::probe) fn read(&self, bytes: &mut [u8]) -> Result<Option<Read>, Errno> {
        stamped::read(&self.socket, bytes)
    }
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn failure(operation: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> ProbeError {
    move |source| ProbeError::Socket {
        operation,
        address,
        source,
    }
}

/// Has the kernel choose route and source address.
fn route(socket: &Socket, mut address: SocketAddr) -> io::Result<IpAddr> {
    // A raw socket knows no ports; its filter looks at them.
    address.set_port(0);
    socket.connect(&address.into())?;
    let local = socket.local_addr()?.as_socket();
    local
        .map(|local| local.ip())
        .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// A classic BPF program that passes segments from the probed port only: raw
/// sockets get a copy of everything else that the address sends.
fn reply_filter(address: SocketAddr) -> Vec<SockFilter> {
    const LOAD_HEADER_LEN: u16 = 0xb1; // ldxb 4*([0]&0xf)
    const LOAD_HALF_INDEXED: u16 = 0x48; // ldh [x + k]
    const LOAD_HALF: u16 = 0x28; // ldh [k]
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    // IPv4 sockets see the IP header, IPv6 sockets begin behind it.
    let mut program = match address {
        SocketAddr::V4(_) => vec![
            SockFilter::new(LOAD_HEADER_LEN, 0, 0, 0),
            SockFilter::new(LOAD_HALF_INDEXED, 0, 0, 0),
        ],
        SocketAddr::V6(_) => vec![SockFilter::new(LOAD_HALF, 0, 0, 0)],
    };
    program.extend([
        SockFilter::new(JUMP_EQUAL, 0, 1, address.port().into()),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ]);
    program
}
