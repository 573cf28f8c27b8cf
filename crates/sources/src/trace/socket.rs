//! Opening the sockets of a trace, and the options that a trace sets on them.

use std::io;

use core::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Dress, TraceError};
use crate::stamped::{from_port, set};

/// Don't fragment, whatever the kernel knows of the path (`IP_PMTUDISC_PROBE`).
const PROBE: libc::c_int = 3;

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

/// Opens one as it is dressed.
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
    if matches!(kind, Kind::RawUdp | Kind::RawTcp) {
        socket
            .attach_filter(&from_port(target))
            .map_err(failure("preparing a socket", target))?;
    }
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
            SocketAddr::V6(_) => socket.set_tclass_v6(tos.into())?,
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
