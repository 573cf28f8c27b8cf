//! A raw TCP socket towards one address, with stamps, filter and error queue.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use core::net::{IpAddr, SocketAddr};

use lagtrace_core::time::Timestamp;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, setsockopt, sockopt,
};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::probe::ProbeError;
use crate::probe::errors::{CONTROL_LEN, queue_icmp, software_stamp};

/// The socket, and the source address that the kernel chose for it.
#[derive(Debug)]
pub(super) struct RawSocket {
    socket: Socket,
    source: IpAddr,
}

impl RawSocket {
    /// Opens one that exchanges segments with the port of `address` only.
    pub(super) fn open(address: SocketAddr) -> Result<Self, ProbeError> {
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
        prepare(&socket, address).map_err(failure("preparing a raw socket", address))?;
        let source = route(&socket, address).map_err(failure("finding a route", address))?;
        Ok(Self { socket, source })
    }

    /// The source address that the kernel chose.
    pub(super) fn source(&self) -> IpAddr {
        self.source
    }

    /// Sends a segment; the kernel puts the IP header before it.
    pub(super) fn send(&self, segment: &[u8]) -> Result<(), Errno> {
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
    pub(super) fn read(&self, bytes: &mut [u8]) -> Result<Option<Read>, Errno> {
        let mut control = [0_u8; CONTROL_LEN];
        let mut buffers = [IoSliceMut::new(bytes)];
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<SockaddrStorage>(fd, &mut buffers, Some(&mut control), flags)
        {
            Ok(message) => message,
            // Besides "nothing there": an ICMP error, told by its queue.
            Err(_) => return Ok(None),
        };
        let mut read = Read {
            len: message.bytes,
            at: None,
            hop_limit: None,
        };
        for message in message.cmsgs().map_err(|_| Errno::NOBUFS)? {
            match message {
                ControlMessageOwned::ScmTimestampsns(stamps) => read.at = software_stamp(&stamps),
                ControlMessageOwned::Ipv6HopLimit(limit) => {
                    read.hop_limit = u8::try_from(limit).ok()
                }
                _ => {}
            }
        }
        Ok(Some(read))
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

/// One datagram as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Its length in bytes.
    pub(super) len: usize,
    /// When it arrived, by the kernel.
    pub(super) at: Option<Timestamp>,
    /// Its hop limit (IPv6; in IPv4 its own header tells).
    pub(super) hop_limit: Option<u8>,
}

/// Has packets stamped, ICMP errors queued and hop limits told.
fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.attach_filter(&reply_filter(address))?;
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    setsockopt(socket, sockopt::Timestamping, &stamps)?;
    queue_icmp(socket, address)?;
    if address.is_ipv6() {
        setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true)?;
    }
    Ok(())
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
