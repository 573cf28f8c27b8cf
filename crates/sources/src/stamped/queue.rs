//! The queues of probe sockets: ICMP errors and transmit timestamps on the error queue, and the
//! target's replies.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd};

use core::net::{IpAddr, SocketAddr};

use lagtrace_core::observed::route::MplsLabel;
use lagtrace_core::observed::time::Timestamp;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, RecvMsg, SockaddrLike, SockaddrStorage, Timestamps, recvmsg,
};

use super::extension;

/// Buffer for the control messages of one datagram, in bytes.
const CONTROL: usize = 512;
/// Buffer for the quote of one message, in bytes: a whole packet of the usual size.
const ROOM: usize = 1_500;
/// Bytes that an ICMP error quotes before an extension of routers older than RFC 4884 (§5.5),
/// which do not indicate it.
const OLD_QUOTE: usize = 128;
/// Bytes of an IPv4 header without options, as ours are.
pub(crate) const HEADER_V4: usize = 20;

/// `ee_info` of a timestamp at the queue (`include/uapi/linux/errqueue.h`).
const SCM_TSTAMP_SCHED: u32 = 1;
/// `ee_info` of a timestamp of the acknowledgement.
const SCM_TSTAMP_ACK: u32 = 2;

/// An entry of an error queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// An ICMP error about a packet of ours.
    Icmp(Icmp),
    /// The packet of this number, from 0, reached a stage of its way out.
    Sent {
        /// Number of the packet.
        number: u32,
        /// Stage it reached.
        stage: Stage,
        /// Time, on the realtime clock.
        at: Timestamp,
    },
    /// Any other entry.
    Other,
}

/// The stage that a packet reached on its way out (`Documentation/networking/timestamping.rst`,
/// 1.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The queue before the device, on this host.
    Queue,
    /// The device.
    Device,
    /// The peer, which acknowledged it (TCP).
    Acknowledged,
}

/// An ICMP error about a packet of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Icmp {
    /// Sender of the error.
    pub(crate) from: Option<IpAddr>,
    /// ICMP or ICMPv6 type.
    pub(crate) kind: u8,
    /// ICMP or ICMPv6 code.
    pub(crate) code: u8,
    /// MTU of the next link, where the message holds it.
    pub(crate) mtu: u32,
    /// Destination port of the quoted packet (cooked sockets).
    pub(crate) port: u16,
    /// Quoted packet: of raw sockets from the transport header on, or from the IP header where the
    /// user writes that too; of others from behind the headers.
    pub(crate) quoted: Vec<u8>,
    /// Time of arrival by the kernel.
    pub(crate) at: Option<Timestamp>,
    /// Time to live of the error itself.
    pub(crate) ttl: Option<u8>,
    /// MPLS labels.
    pub(crate) labels: Vec<MplsLabel>,
}

/// A reply of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Contents, from where the socket shows them, as far as there was room.
    pub(crate) bytes: Vec<u8>,
    /// Length from there on.
    pub(crate) len: usize,
    /// Sender of the reply.
    pub(crate) from: Option<SocketAddr>,
    /// Time of arrival by the kernel.
    pub(crate) at: Option<Timestamp>,
    /// Time to live.
    pub(crate) ttl: Option<u8>,
}

/// Takes the next entry of a socket's error queue; returns `None` when there is none. `hidden` are
/// the bytes of a quoted IPv4 packet before those that the socket shows.
pub(crate) fn take_queued(socket: impl AsFd, hidden: usize) -> Option<Queued> {
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let (bytes, received) = receive(socket, flags)?;
    let Some(error) = received.error else {
        return Some(Queued::Other);
    };
    Some(match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => {
            let is_v4 = error.ee_origin == libc::SO_EE_ORIGIN_ICMP;
            // `ee_rfc4884.len` lies over the first half of `ee_data`.
            let [low, high, ..] = error.ee_data.to_ne_bytes();
            let told = usize::from(u16::from_ne_bytes([low, high]));
            Queued::Icmp(Icmp {
                from: received.offender,
                kind: error.ee_type,
                code: error.ee_code,
                mtu: error.ee_info,
                port: received.name.map_or(0, |name| name.port()),
                labels: labels(&bytes, told, is_v4, hidden),
                quoted: bytes,
                at: received.at,
                ttl: received.ttl,
            })
        }
        libc::SO_EE_ORIGIN_TIMESTAMPING => match received.at {
            Some(at) => Queued::Sent {
                number: error.ee_data,
                stage: match error.ee_info {
                    SCM_TSTAMP_SCHED => Stage::Queue,
                    SCM_TSTAMP_ACK => Stage::Acknowledged,
                    _ => Stage::Device,
                },
                at,
            },
            None => Queued::Other,
        },
        _ => Queued::Other,
    })
}

/// Takes the next reply; returns `None` when there is none.
pub(crate) fn take_reply(socket: impl AsFd) -> Option<Reply> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
    let (bytes, received) = receive(socket, flags)?;
    Some(Reply {
        bytes,
        len: received.len,
        from: received.name,
        at: received.at,
        ttl: received.ttl,
    })
}

/// Reads a stream's next bytes; returns their number, and the time at which the last of them
/// arrived, where the kernel timestamped it.
pub(crate) fn take_bytes(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> Result<(usize, Option<Timestamp>), Errno> {
    let mut control = [0_u8; CONTROL];
    let mut buffers = [IoSliceMut::new(buffer)];
    let fd = socket.as_fd().as_raw_fd();
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(fd, &mut buffers, Some(&mut control), flags)?;
    Ok((message.bytes, interpret(&message).at))
}

/// Returns the labels in an extension, which begins where the kernel reports it; for older routers
/// at the offset they all use, if the bytes there look like one.
fn labels(quoted: &[u8], told: usize, is_v4: bool, hidden: usize) -> Vec<MplsLabel> {
    let old = OLD_QUOTE.saturating_sub(hidden);
    let at = match told {
        0 if is_v4 => old,
        0 => return Vec::new(),
        told => told,
    };
    extension::labels(quoted.get(at..).unwrap_or_default())
}

/// The metadata received with the bytes.
#[derive(Default)]
struct Received {
    len: usize,
    error: Option<libc::sock_extended_err>,
    offender: Option<IpAddr>,
    name: Option<SocketAddr>,
    at: Option<Timestamp>,
    ttl: Option<u8>,
}

fn receive(socket: impl AsFd, flags: MsgFlags) -> Option<(Vec<u8>, Received)> {
    let mut bytes = vec![0_u8; ROOM];
    let mut control = [0_u8; CONTROL];
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let fd = socket.as_fd().as_raw_fd();
    let message = recvmsg::<SockaddrStorage>(fd, &mut buffers, Some(&mut control), flags).ok()?;
    let mut received = interpret(&message);
    received.len = message.bytes;
    bytes.truncate(received.len);
    Some((bytes, received))
}

fn interpret(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Received {
    let mut received = Received {
        name: message.address.as_ref().and_then(socket_address),
        ..Received::default()
    };
    let Ok(messages) = message.cmsgs() else {
        return received;
    };
    for message in messages {
        match message {
            ControlMessageOwned::Ipv4RecvErr(error, from) => {
                received.error = Some(error);
                let from = from.filter(|from| i32::from(from.sin_family) == libc::AF_INET);
                received.offender =
                    from.map(|from| IpAddr::from(from.sin_addr.s_addr.to_ne_bytes()));
            }
            ControlMessageOwned::Ipv6RecvErr(error, from) => {
                received.error = Some(error);
                let from = from.filter(|from| i32::from(from.sin6_family) == libc::AF_INET6);
                received.offender = from.map(|from| IpAddr::from(from.sin6_addr.s6_addr));
            }
            ControlMessageOwned::ScmTimestampsns(stamps) => received.at = software_stamp(&stamps),
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                received.ttl = u8::try_from(ttl).ok();
            }
            _ => {}
        }
    }
    received
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    address.family()?;
    let v4 = address.as_sockaddr_in();
    let v4 = v4.map(|v4| SocketAddr::from((v4.ip(), v4.port())));
    let v6 = address.as_sockaddr_in6();
    v4.or(v6.map(|v6| SocketAddr::from((v6.ip(), v6.port()))))
}

/// Returns the kernel's timestamp, on the realtime clock; `None` when there is none.
fn software_stamp(stamps: &Timestamps) -> Option<Timestamp> {
    let (seconds, nanos) = (stamps.system.tv_sec(), stamps.system.tv_nsec());
    let nanos = u32::try_from(nanos).ok()?;
    (seconds != 0).then(|| Timestamp::from_parts(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_old_routers_are_found_where_they_put_them() {
        let extension = [0x20, 0, 0, 0, 0, 8, 1, 1, 0x05, 0xdc, 0x11, 0x01];
        for hidden in [0, HEADER_V4, HEADER_V4 + 8] {
            let mut quoted = vec![0; OLD_QUOTE - hidden];
            quoted.extend(extension);
            assert_eq!(labels(&quoted, 0, true, hidden).len(), 1);
            assert_eq!(labels(&quoted, OLD_QUOTE - hidden, false, hidden).len(), 1);
            assert!(labels(&quoted, 0, false, hidden).is_empty());
            assert!(labels(&quoted, usize::MAX, true, hidden).is_empty());
        }
    }
}
