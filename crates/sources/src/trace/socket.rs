//! Opening the sockets of a trace, and the options that a trace sets on them.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use core::net::{IpAddr, SocketAddr};

use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::{Dress, TraceError};

/// Don't fragment, whatever the kernel knows of the path (`IP_PMTUDISC_PROBE`).
const PROBE: libc::c_int = 3;
/// Options of Linux 5.9 that tell where an ICMP error's extension begins
/// (`include/uapi/linux/in.h`, `in6.h`).
const IP_RECVERR_RFC4884: libc::c_int = 26;
const IPV6_RECVERR_RFC4884: libc::c_int = 31;
/// Bytes of receive buffer asked for; the kernel grants as much as it may.
const RECEIVE_BUFFER: usize = 1 << 20;

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// UDP, its header made by the kernel.
    Udp,
    /// Echo requests, their identifier chosen by the kernel.
    Ping,
    /// TCP, to connect.
    Tcp,
    /// Everything behind the IP header is ours.
    RawUdp,
    /// As before.
    RawTcp,
    /// As before.
    RawIcmp,
}

impl Kind {
    fn needs(self) -> &'static str {
        match self {
            Self::Ping => "CAP_NET_RAW, or this group in net.ipv4.ping_group_range",
            _ => "CAP_NET_RAW",
        }
    }
}

/// Opens one as it is dressed, with stamps and error queue.
pub(super) fn open(kind: Kind, target: SocketAddr, dress: &Dress) -> Result<Socket, TraceError> {
    let domain = Domain::for_address(target);
    let icmp = if target.is_ipv4() {
        Protocol::ICMPV4
    } else {
        Protocol::ICMPV6
    };
    let (r#type, protocol) = match kind {
        Kind::Udp => (Type::DGRAM, Protocol::UDP),
        Kind::Ping => (Type::DGRAM, icmp),
        Kind::Tcp => (Type::STREAM, Protocol::TCP),
        Kind::RawUdp => (Type::RAW, Protocol::UDP),
        Kind::RawTcp => (Type::RAW, Protocol::TCP),
        Kind::RawIcmp => (Type::RAW, icmp),
    };
    let socket =
        Socket::new(domain, r#type, Some(protocol)).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => TraceError::NotPermitted {
                operation: "opening a socket for probes",
                needs: kind.needs(),
            },
            _ => failure("opening a socket", target)(source),
        })?;
    prepare(&socket, kind, target).map_err(failure("preparing a socket", target))?;
    clothe(&socket, target, dress).map_err(failure("binding a socket", target))?;
    Ok(socket)
}

/// The error of an operation.
pub(super) fn failure(
    operation: &'static str,
    target: SocketAddr,
) -> impl Fn(io::Error) -> TraceError {
    move |source| TraceError::Socket {
        operation,
        target: target.ip(),
        source,
    }
}

fn prepare(socket: &Socket, kind: Kind, target: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if kind != Kind::Tcp {
        // As much as the limit allows: an error queue shares it.
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    }
    stamp(socket, kind != Kind::Tcp)?;
    match target {
        SocketAddr::V4(_) => {
            setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
            setsockopt(socket, sockopt::Ipv4RecvTtl, &true)?;
            // Older kernels do not have it: labels are then guessed or not read.
            let _ = set(socket, libc::IPPROTO_IP, IP_RECVERR_RFC4884, 1);
        }
        SocketAddr::V6(_) => {
            setsockopt(socket, sockopt::Ipv6RecvErr, &true)?;
            setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true)?;
            let _ = set(socket, libc::IPPROTO_IPV6, IPV6_RECVERR_RFC4884, 1);
        }
    }
    if matches!(kind, Kind::RawUdp | Kind::RawTcp) {
        socket.attach_filter(&from_port(target))?;
    }
    Ok(())
}

/// Has packets stamped and numbered from 0 on.
pub(super) fn stamp(socket: &Socket, is_numbered: bool) -> io::Result<()> {
    let arrivals = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
    // Numbering begins anew only when it was off.
    setsockopt(socket, sockopt::Timestamping, &arrivals)?;
    if is_numbered {
        let all = arrivals
            | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
        setsockopt(socket, sockopt::Timestamping, &all)?;
    }
    Ok(())
}

fn clothe(socket: &Socket, target: SocketAddr, dress: &Dress) -> io::Result<()> {
    if let Some(interface) = &dress.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(source) = dress.source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    if let Some(tos) = dress.tos {
        match target {
            SocketAddr::V4(_) => socket.set_tos_v4(tos.into())?,
            SocketAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos.into())?,
        }
    }
    Ok(())
}

/// Sets the time to live of what is sent from now on.
pub(super) fn set_ttl(socket: &Socket, is_v4: bool, ttl: u8) -> io::Result<()> {
    match is_v4 {
        true => socket.set_ttl_v4(ttl.into()),
        false => socket.set_unicast_hops_v6(ttl.into()),
    }
}

/// Has packets sent whole or not at all, whatever the kernel knows of the path.
pub(super) fn set_whole(socket: &Socket, is_v4: bool) -> io::Result<()> {
    match is_v4 {
        true => set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, PROBE),
        false => set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, PROBE),
    }
}

/// The source address that the kernel chooses. Connecting a UDP socket sends
/// nothing.
pub(super) fn source(target: SocketAddr, dress: &Dress) -> Result<IpAddr, TraceError> {
    let socket = open(Kind::Udp, target, dress)?;
    let local = |socket: &Socket| {
        socket.connect(&target.into())?;
        let local = socket.local_addr()?.as_socket();
        local.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    };
    let local: SocketAddr = local(&socket).map_err(failure("finding a route", target))?;
    Ok(local.ip())
}

/// A port that nobody else can use while the socket is held.
pub(super) fn reserve(kind: Kind, source: IpAddr, target: SocketAddr) -> io::Result<(Socket, u16)> {
    let (r#type, protocol) = match kind {
        Kind::RawTcp => (Type::STREAM, Protocol::TCP),
        _ => (Type::DGRAM, Protocol::UDP),
    };
    let holder = Socket::new(Domain::for_address(target), r#type, Some(protocol))?;
    let mut address = SocketAddr::new(source, 0);
    if let (SocketAddr::V6(address), SocketAddr::V6(target)) = (&mut address, target) {
        address.set_scope_id(target.scope_id());
    }
    holder.bind(&address.into())?;
    let port = holder.local_addr()?.as_socket();
    let port = port.ok_or(io::ErrorKind::AddrNotAvailable)?.port();
    Ok((holder, port))
}

/// A classic BPF program that passes what comes from the target's port only:
/// raw sockets get a copy of everything that the address sends.
fn from_port(target: SocketAddr) -> Vec<SockFilter> {
    const LOAD_HEADER_LEN: u16 = 0xb1; // ldxb 4*([0]&0xf)
    const LOAD_HALF_INDEXED: u16 = 0x48; // ldh [x + k]
    const LOAD_HALF: u16 = 0x28; // ldh [k]
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    // IPv4 sockets see the IP header, IPv6 sockets begin behind it.
    let mut program = match target {
        SocketAddr::V4(_) => vec![
            SockFilter::new(LOAD_HEADER_LEN, 0, 0, 0),
            SockFilter::new(LOAD_HALF_INDEXED, 0, 0, 0),
        ],
        SocketAddr::V6(_) => vec![SockFilter::new(LOAD_HALF, 0, 0, 0)],
    };
    program.extend([
        SockFilter::new(JUMP_EQUAL, 0, 1, target.port().into()),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ]);
    program
}

fn set(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the option's value is an `int`, which lives for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
