//! Sockets whose packets the kernel stamps, on their way out and in.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use core::net::SocketAddr;

use lagtrace_core::time::Timestamp;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, setsockopt, sockopt,
};
use rustix::io::Errno;
use socket2::Socket;

use super::errors::{CONTROL_LEN, queue_icmp, software_stamp};

/// One datagram as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Its length in bytes.
    pub(super) len: usize,
    /// When it arrived, by the kernel.
    pub(super) at: Option<Timestamp>,
    /// Its time to live or hop limit, where the kernel tells it beside the
    /// packet.
    pub(super) ttl: Option<u8>,
}

/// Has packets stamped, ICMP errors queued and times to live told; nothing
/// waits any more.
pub(super) fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    setsockopt(socket, sockopt::Timestamping, &stamps)?;
    queue_icmp(socket, address)?;
    match address {
        SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4RecvTtl, &true)?,
        SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true)?,
    }
    Ok(())
}

/// Reads one datagram with its stamp; `None` when there is none.
pub(super) fn read(socket: impl AsFd, bytes: &mut [u8]) -> Result<Option<Read>, Errno> {
    let mut control = [0_u8; CONTROL_LEN];
    let mut buffers = [IoSliceMut::new(bytes)];
    let fd = socket.as_fd().as_raw_fd();
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<SockaddrStorage>(fd, &mut buffers, Some(&mut control), flags) {
        Ok(message) => message,
        // Besides "nothing there": an ICMP error, told by its queue.
        Err(_) => return Ok(None),
    };
    let mut read = Read {
        len: message.bytes,
        at: None,
        ttl: None,
    };
    for message in message.cmsgs().map_err(|_| Errno::NOBUFS)? {
        match message {
            ControlMessageOwned::ScmTimestampsns(stamps) => read.at = software_stamp(&stamps),
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                read.ttl = u8::try_from(ttl).ok();
            }
            _ => {}
        }
    }
    Ok(Some(read))
}
