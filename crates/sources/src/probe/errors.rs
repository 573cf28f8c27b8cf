//! What waits on a socket's error queue: ICMP errors and transmit stamps.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd};

use core::net::{IpAddr, SocketAddr};

use lagtrace_core::event::ProbeAnswer;
use lagtrace_core::time::Timestamp;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, Timestamps, recvmsg, setsockopt, sockopt,
};
use rustix::io::Errno;

/// Room for the control messages of one datagram.
pub(super) const CONTROL_LEN: usize = 512;

/// One entry of an error queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    /// An ICMP error of this type and code about a packet of ours.
    Icmp {
        /// ICMP or ICMPv6 type.
        kind: u8,
        /// Its code.
        code: u8,
        /// What the packet began with, behind its IP header.
        packet: Vec<u8>,
        /// Who says so, if it was not this host's own kernel.
        from: Option<IpAddr>,
        /// When it came, by the kernel's stamp, if the socket asks for it.
        at: Option<Timestamp>,
    },
    /// When the packet of this number, from 0, was handed to the device.
    Sent {
        /// The packet's number.
        number: u32,
        /// When, on the realtime clock.
        at: Timestamp,
    },
}

/// Has ICMP errors queued on a socket.
pub(super) fn queue_icmp(socket: impl AsFd, address: SocketAddr) -> nix::Result<()> {
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4RecvErr, &true),
        SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvErr, &true),
    }
}

/// Takes the next entry of a socket's error queue; `None` when there is none.
pub(super) fn take_queued(socket: impl AsFd) -> Option<Queued> {
    // Entries of other kinds are passed over; the queue itself is bounded.
    for _ in 0..64 {
        let mut packet = [0_u8; 128];
        let mut control = [0_u8; CONTROL_LEN];
        let mut buffers = [IoSliceMut::new(&mut packet)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let (len, queued) = {
            let fd = socket.as_fd().as_raw_fd();
            let message =
                recvmsg::<SockaddrStorage>(fd, &mut buffers, Some(&mut control), flags).ok()?;
            (message.bytes, interpret(message.cmsgs().ok()?))
        };
        if let Some(mut queued) = queued {
            if let Queued::Icmp { packet: kept, .. } = &mut queued {
                *kept = packet.get(..len).unwrap_or_default().to_vec();
            }
            return Some(queued);
        }
    }
    None
}

fn interpret(messages: impl Iterator<Item = ControlMessageOwned>) -> Option<Queued> {
    let (mut error, mut stamp, mut from) = (None, None, None);
    for message in messages {
        match message {
            ControlMessageOwned::Ipv4RecvErr(found, offender) => {
                error = Some(found);
                from = offender
                    .filter(|offender| offender.sin_family != 0)
                    .map(|offender| IpAddr::from(offender.sin_addr.s_addr.to_ne_bytes()));
            }
            ControlMessageOwned::Ipv6RecvErr(found, offender) => {
                error = Some(found);
                from = offender
                    .filter(|offender| offender.sin6_family != 0)
                    .map(|offender| IpAddr::from(offender.sin6_addr.s6_addr));
            }
            ControlMessageOwned::ScmTimestampsns(stamps) => stamp = software_stamp(&stamps),
            _ => {}
        }
    }
    let error = error?;
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => Some(Queued::Icmp {
            kind: error.ee_type,
            code: error.ee_code,
            packet: Vec::new(),
            from,
            at: stamp,
        }),
        libc::SO_EE_ORIGIN_TIMESTAMPING => Some(Queued::Sent {
            number: error.ee_data,
            at: stamp?,
        }),
        _ => None,
    }
}

/// The kernel's stamp, on the realtime clock; `None` when it has none.
pub(super) fn software_stamp(stamps: &Timestamps) -> Option<Timestamp> {
    let (seconds, nanos) = (stamps.system.tv_sec(), stamps.system.tv_nsec());
    let nanos = u32::try_from(nanos).ok()?;
    (seconds != 0).then(|| Timestamp::from_parts(seconds, nanos))
}

/// The ICMP error that a kernel's own word stands for: it had no route, or
/// nobody answered its neighbour solicitations (RFC 792, RFC 4443 §3.1).
pub(super) fn unreachable_by(error: Errno, address: SocketAddr) -> Option<ProbeAnswer> {
    let is_v4 = address.is_ipv4();
    match error {
        Errno::NETUNREACH | Errno::NETDOWN if is_v4 => Some(ProbeAnswer::Unreachable(3, 0)),
        Errno::HOSTUNREACH | Errno::HOSTDOWN if is_v4 => Some(ProbeAnswer::Unreachable(3, 1)),
        Errno::ACCESS | Errno::PERM if is_v4 => Some(ProbeAnswer::Unreachable(3, 13)),
        Errno::NETUNREACH | Errno::NETDOWN => Some(ProbeAnswer::Unreachable(1, 0)),
        Errno::HOSTUNREACH | Errno::HOSTDOWN => Some(ProbeAnswer::Unreachable(1, 3)),
        Errno::ACCESS | Errno::PERM => Some(ProbeAnswer::Unreachable(1, 1)),
        _ => None,
    }
}
