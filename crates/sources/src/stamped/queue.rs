//! The queues of probe sockets: the error queue with ICMP errors and transmit timestamps, and the
//! receive queue with the target's replies.

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

/// Size in bytes of the buffer for a datagram's control messages.
const CONTROL: usize = 512;
/// Size in bytes of the buffer for a packet, which holds a whole packet of the usual size.
const ROOM: usize = 1_500;
/// Number of bytes of the original packet that an ICMP error quotes before its extension, if the
/// router is older than RFC 4884 (§5.5). Such routers do not say where the extension begins.
const OLD_QUOTE: usize = 128;
/// Length in bytes of an IPv4 header without options, as lagtrace sends it.
pub(crate) const HEADER_V4: usize = 20;

/// `ee_info` of a timestamp taken when the packet enters the queue
/// (`include/uapi/linux/errqueue.h`).
const SCM_TSTAMP_SCHED: u32 = 1;
/// `ee_info` of a timestamp taken when the packet is acknowledged.
const SCM_TSTAMP_ACK: u32 = 2;

/// An entry of an error queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// An ICMP error about a packet of this socket.
    Icmp(Icmp),
    /// A packet reached a stage of its transmission.
    Sent {
        /// Number of the packet, from 0.
        number: u32,
        /// Stage that the packet reached.
        stage: Stage,
        /// Time on the realtime clock.
        at: Timestamp,
    },
    /// Any other entry.
    Other,
}

/// A stage of a packet's transmission (`Documentation/networking/timestamping.rst`, 1.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The packet enters the queue before the device, on this host.
    Queue,
    /// The packet reaches the device.
    Device,
    /// The peer has acknowledged the packet (TCP).
    Acknowledged,
}

/// An ICMP error about a packet of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Icmp {
    /// Sender of the ICMP error.
    pub(crate) from: Option<IpAddr>,
    /// ICMP or ICMPv6 type.
    pub(crate) kind: u8,
    /// ICMP or ICMPv6 code.
    pub(crate) code: u8,
    /// MTU of the next link; 0 if the message does not contain it.
    pub(crate) mtu: u32,
    /// Destination port of the quoted packet; 0 for raw sockets.
    pub(crate) port: u16,
    /// The quoted packet. For a raw socket, it begins with the transport header, or with the IP
    /// header if the caller writes that header. For other sockets, it begins after the headers.
    pub(crate) quoted: Vec<u8>,
    /// Time of arrival, from the kernel.
    pub(crate) at: Option<Timestamp>,
    /// Time to live of the ICMP error itself.
    pub(crate) ttl: Option<u8>,
    /// MPLS labels in the message's extension.
    pub(crate) labels: Vec<MplsLabel>,
}

/// A packet that the socket received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Contents from the position at which the socket returns them, up to the size of the buffer.
    pub(crate) bytes: Vec<u8>,
    /// Length of the contents, even if they exceed the buffer.
    pub(crate) len: usize,
    /// Sender of the packet.
    pub(crate) from: Option<SocketAddr>,
    /// Time of arrival, from the kernel.
    pub(crate) at: Option<Timestamp>,
    /// Time to live.
    pub(crate) ttl: Option<u8>,
}

/// Removes and returns the next entry of a socket's error queue; `None` if the queue is empty.
/// `hidden` is the number of bytes at the beginning of a quoted IPv4 packet that the socket does
/// not return.
pub(crate) fn take_queued(socket: impl AsFd, hidden: usize) -> Option<Queued> {
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let (bytes, received) = receive(socket, flags)?;
    let Some(error) = received.error else {
        return Some(Queued::Other);
    };
    Some(match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => {
            let is_v4 = error.ee_origin == libc::SO_EE_ORIGIN_ICMP;
            // `ee_rfc4884.len` occupies the first two bytes of `ee_data`.
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

/// Removes and returns the next received packet; `None` if there is none.
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

/// Reads the next bytes of a stream. Returns their number and the arrival time of the last byte, if
/// the kernel stamped it.
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

/// Returns the labels in the extension. `told` is its offset, or 0 if the router does not report
/// the offset. In this case, the fixed offset of older routers is used (IPv4 only).
fn labels(quoted: &[u8], told: usize, is_v4: bool, hidden: usize) -> Vec<MplsLabel> {
    let old = OLD_QUOTE.saturating_sub(hidden);
    let at = match told {
        0 if is_v4 => old,
        0 => return Vec::new(),
        told => told,
    };
    extension::labels(quoted.get(at..).unwrap_or_default())
}

/// The metadata of a received message.
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

/// Returns the kernel's timestamp on the realtime clock; `None` if there is none.
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
