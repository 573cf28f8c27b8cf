//! The sockets of a trace, and the socket options that a trace uses.

use std::io;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Dress, TraceError};
use crate::stamped::{self, from_port};

/// The kind of a probe's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// UDP. The kernel writes the UDP header.
    Udp,
    /// ICMP echo requests. The kernel chooses the identifier.
    Ping,
    /// TCP, for `connect`.
    Tcp,
    /// Raw UDP. The caller writes everything after the IP header.
    RawUdp,
    /// Raw TCP. The caller writes everything after the IP header.
    RawTcp,
    /// Raw ICMP. The caller writes everything after the IP header.
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

/// Opens a socket with the options in `dress`.
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
    clothe(&socket, kind, target, dress).map_err(failure("binding a socket", target))?;
    mark(&socket, target, dress)?;
    Ok(socket)
}

/// Returns a function that creates the error of an operation.
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

fn clothe(socket: &Socket, kind: Kind, target: SocketAddr, dress: &Dress) -> io::Result<()> {
    if let Some(interface) = &dress.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    // For raw sockets, a separate socket reserves the port.
    let port = dress.source_port.filter(|_| kind == Kind::Udp);
    if dress.source.is_some() || port.is_some() {
        let any: IpAddr = match target {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let address = SocketAddr::new(dress.source.unwrap_or(any), port.unwrap_or(0));
        socket.bind(&address.into())?;
    }
    if dress.bypasses_routing {
        // The kernel ignores the option on IPv6 sockets.
        if target.is_ipv6() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        stamped::set(socket, libc::SOL_SOCKET, libc::SO_DONTROUTE, 1)?;
    }
    if let Some(tos) = dress.tos {
        match target {
            SocketAddr::V4(_) => socket.set_tos_v4(tos.into())?,
            SocketAddr::V6(_) => socket.set_tclass_v6(tos.into())?,
        }
    }
    Ok(())
}

/// Sets the firewall mark of the packets that a socket sends.
fn mark(socket: &Socket, target: SocketAddr, dress: &Dress) -> Result<(), TraceError> {
    let Some(mark) = dress.mark else {
        return Ok(());
    };
    socket.set_mark(mark).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => TraceError::NotPermitted {
            operation: "marking probes",
            needs: "CAP_NET_ADMIN or CAP_NET_RAW",
        },
        _ => failure("marking probes", target)(source),
    })
}

/// Sets the TTL of packets sent after this call.
pub(super) fn set_ttl(socket: &Socket, is_v4: bool, ttl: u8) -> io::Result<()> {
    if is_v4 {
        socket.set_ttl_v4(ttl.into())
    } else {
        socket.set_unicast_hops_v6(ttl.into())
    }
}

/// Returns the source address that the kernel chooses. Connects a UDP socket for this, which sends
/// no packet.
pub(super) fn source(target: SocketAddr, dress: &Dress) -> Result<IpAddr, TraceError> {
    let dress = Dress {
        source_port: None,
        ..dress.clone()
    };
    let socket = open(Kind::Udp, target, &dress)?;
    let local = |socket: &Socket| {
        socket.connect(&target.into())?;
        let local = socket.local_addr()?.as_socket();
        local.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    };
    let local: SocketAddr = local(&socket).map_err(failure("finding a route", target))?;
    Ok(local.ip())
}
