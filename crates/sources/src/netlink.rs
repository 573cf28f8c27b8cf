//! A netlink socket (RFC 3549), and reading of its messages with checked lengths.
//!
//! The kernel's messages are returned as borrowed bytes. This module does not interpret them, and
//! trusts no length in them.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

pub mod message;

use message::{Attributes, Message, Messages};

/// Twice the maximum size of a dump's datagram, which is 32 KiB (`net/netlink/af_netlink.c`).
const RECEIVE_BYTES: usize = 64 * 1024;
/// Maximum time to wait for a reply.
const PATIENCE: Duration = Duration::from_secs(3);

/// Header flags (`include/uapi/linux/netlink.h`).
const NLM_F_REQUEST: u16 = 0x01;
const NLM_F_MULTI: u16 = 0x02;
const NLM_F_DUMP: u16 = 0x300;
/// Message types of all netlink protocols.
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// The netlink protocols used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetlinkProtocol {
    /// Routes and links.
    Route,
    /// The state of sockets.
    SockDiag,
    /// Packet filters.
    Netfilter,
}

impl NetlinkProtocol {
    fn number(self) -> Option<Protocol> {
        match self {
            Self::Route => None, // NETLINK_ROUTE is protocol number 0
            Self::SockDiag => Some(netlink::SOCK_DIAG),
            Self::Netfilter => Some(netlink::NETFILTER),
        }
    }
}

/// A netlink socket. It belongs to the network namespace in which it was opened, even if a thread
/// in another namespace uses it.
#[derive(Debug)]
pub struct NetlinkSocket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl NetlinkSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an error if the kernel lacks the protocol, or no descriptors are left.
    pub fn open(protocol: NetlinkProtocol) -> io::Result<Self> {
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol.number(),
        )?;
        sockopt::set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self::from_descriptor(fd))
    }

    /// Returns the socket of a descriptor that another process has opened.
    pub(crate) fn from_descriptor(fd: OwnedFd) -> Self {
        Self {
            fd,
            sequence: 0,
            buffer: vec![0; RECEIVE_BYTES],
        }
    }

    /// Returns the descriptor, to pass it to another process.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.fd
    }

    /// Requests all objects of a kind, and passes each message of the reply to `visit`. If `visit`
    /// breaks off, the remaining messages are read and discarded.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the request, or the reply is not complete within
    /// three seconds.
    pub fn dump(
        &mut self,
        kind: u16,
        payload: &[u8],
        visit: impl FnMut(Message<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.send(kind, NLM_F_REQUEST | NLM_F_DUMP, payload)?;
        self.receive(visit)
    }

    /// Requests one object and passes the reply to `visit`.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the request (for example, because no such socket
    /// exists), or does not reply.
    pub fn request(
        &mut self,
        kind: u16,
        payload: &[u8],
        mut visit: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        self.send(kind, NLM_F_REQUEST, payload)?;
        self.receive(|message| {
            visit(message);
            ControlFlow::Continue(())
        })
    }

    fn send(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message::encode(kind, flags, self.sequence, payload);
        let kernel = SocketAddrNetlink::new(0, 0);
        let sent = retry(|| rustix::net::sendto(&self.fd, &request, SendFlags::empty(), &kernel))?;
        if sent == request.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    fn receive(&mut self, mut visit: impl FnMut(Message<'_>) -> ControlFlow<()>) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut flow = ControlFlow::Continue(());
        while Instant::now() < deadline {
            let length = self.receive_datagram()?;
            let datagram = self.buffer.get(..length).unwrap_or_default();
            for message in Messages::new(datagram).filter(|m| m.sequence == self.sequence) {
                match message.kind {
                    NLMSG_NOOP => {}
                    NLMSG_ERROR | NLMSG_DONE => return outcome(message.payload),
                    _ if flow.is_continue() => flow = visit(message),
                    _ => {}
                }
                if message.flags & NLM_F_MULTI == 0 {
                    return Ok(());
                }
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Reads one datagram into the buffer. Returns its length, or 0 if it does not come from the
    /// kernel.
    fn receive_datagram(&mut self) -> io::Result<usize> {
        let (_, length, sender) = retry(|| {
            rustix::net::recvfrom(&self.fd, self.buffer.as_mut_slice(), RecvFlags::TRUNC)
        })?;
        if length > self.buffer.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a netlink datagram is longer than any the kernel builds",
            ));
        }
        let from_kernel = sender
            .and_then(|sender| SocketAddrNetlink::try_from(sender).ok())
            .is_some_and(|sender| sender.pid() == 0);
        Ok(if from_kernel { length } else { 0 })
    }
}

/// Repeats a system call while a signal interrupts it.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    rustix::io::retry_on_intr(&mut call).map_err(io::Error::from)
}

/// Returns the result in an `NLMSG_ERROR` or `NLMSG_DONE` message: zero or a negative error number.
fn outcome(payload: &[u8]) -> io::Result<()> {
    match message::array_at(payload, 0).map(i32::from_ne_bytes) {
        Some(code) if code < 0 => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Ok(()),
    }
}

/// Returns the attributes in `payload` after a fixed header of `header` bytes.
pub(crate) fn attributes_after(payload: &[u8], header: usize) -> Attributes<'_> {
    Attributes::new(payload.get(header..).unwrap_or_default())
}
