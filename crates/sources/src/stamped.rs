//! Sockets for probes. The kernel timestamps the packets that these sockets send and receive, and
//! puts ICMP errors about them into the error queue.
//!
//! Requesting timestamps needs no privilege; raw sockets are opened by the callers that want them.
#![allow(unsafe_code)]

mod extension;
mod filter;
pub(crate) mod queue;
pub(crate) mod stream;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use core::net::{IpAddr, SocketAddr};

use lagtrace_core::observed::time::Timestamp;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

pub(crate) use filter::{answers_from, from_port};

use queue::{HEADER_V4, Icmp, Queued, Reply, Stage, take_queued, take_reply};

/// Options of Linux 5.9 that report the start of an ICMP error's extension
/// (`include/uapi/linux/in.h`, `in6.h`).
const IP_RECVERR_RFC4884: libc::c_int = 26;
const IPV6_RECVERR_RFC4884: libc::c_int = 31;
/// Sets "don't fragment", regardless of the path MTU that the kernel knows (`IP_PMTUDISC_PROBE`).
const PROBE: libc::c_int = 3;
/// Size of the receive buffer that is requested, in bytes, which the error queue shares; the kernel
/// limits it to its maximum.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Maximum number of packets whose transmit timestamps may still arrive.
const STAMPED: u32 = 20_000;
/// Maximum number of attempts to send a probe.
const SENDS: usize = 3;
/// Maximum number of entries read in one call.
const MAX_ENTRIES: usize = 1_000;

/// A socket that sends probes, each identified by a number that the caller chooses.
#[derive(Debug)]
pub(crate) struct StampedSocket {
    socket: Socket,
    /// Number of bytes of a quoted IPv4 packet before the part that the socket returns.
    hidden: usize,
    /// Number of packets sent since the kernel began to number them from 0.
    sent: u32,
    /// Probe numbers of the most recent packets.
    numbers: BTreeMap<u32, u32>,
}

/// A message received about probes.
#[derive(Clone, Debug)]
pub(crate) enum Came {
    /// The probe with this number reached a stage on its way out.
    Sent {
        /// Number of the probe.
        number: u32,
        /// Stage that the probe reached.
        stage: Stage,
        /// Time, on the realtime clock.
        at: Timestamp,
    },
    /// An ICMP error about one of the probes.
    Icmp(Icmp),
    /// A packet from any sender.
    Reply(Reply),
}

impl StampedSocket {
    /// Enables timestamps for a socket's packets to and from `target`. `hidden` is the number of
    /// bytes of the transport header that the kernel writes itself.
    pub(crate) fn new(socket: Socket, target: SocketAddr, hidden: usize) -> io::Result<Self> {
        // As much as the limit allows.
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        prepare(&socket, target)?;
        number_packets(&socket)?;
        // A socket whose user writes the IP header receives it, too.
        let is_whole = target.is_ipv4() && socket.header_included_v4().unwrap_or(false);
        Ok(Self {
            socket,
            hidden: if is_whole { 0 } else { HEADER_V4 + hidden },
            sent: 0,
            numbers: BTreeMap::new(),
        })
    }

    /// Returns the socket itself.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends the probe with this number to the connected address, or to `to`.
    pub(crate) fn send(
        &mut self,
        number: u32,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        let mut last = io::Error::from(io::ErrorKind::Other);
        for _ in 0..SENDS {
            // An ICMP error about an earlier probe would be reported by this send, once.
            self.socket.take_error()?;
            let sent = match to {
                None => self.socket.send(bytes),
                Some(to) => self.socket.send_to(bytes, &to.into()),
            };
            match sent {
                Ok(_) => {
                    self.numbers.insert(self.sent, number);
                    self.numbers.remove(&self.sent.wrapping_sub(STAMPED));
                    self.sent = self.sent.wrapping_add(1);
                    return Ok(());
                }
                Err(error) => last = error,
            }
            // It depends on the kernel's version whether the failed send was numbered.
            number_packets(&self.socket)?;
            self.sent = 0;
            self.numbers.clear();
        }
        Err(last)
    }

    /// Passes on the messages that arrived; timestamps and errors come before replies, because the
    /// round trip of a reply is computed from the timestamp of its probe.
    pub(crate) fn collect(&self, mut on: impl FnMut(Came)) {
        // Cleared, so that it is not reported instead of what there is to read.
        let _ = self.socket.take_error();
        for _ in 0..MAX_ENTRIES {
            match take_queued(&self.socket, self.hidden) {
                None => break,
                Some(Queued::Sent { number, stage, at }) => {
                    if let Some(&number) = self.numbers.get(&number) {
                        on(Came::Sent { number, stage, at });
                    }
                }
                Some(Queued::Icmp(icmp)) => on(Came::Icmp(icmp)),
                Some(Queued::Other) => {}
            }
        }
        for _ in 0..MAX_ENTRIES {
            match take_reply(&self.socket) {
                Some(reply) => on(Came::Reply(reply)),
                None => break,
            }
        }
    }
}

impl AsFd for StampedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Enables timestamps of arrivals, ICMP errors with their extensions, and the time to live; makes
/// the socket non-blocking.
pub(crate) fn prepare(socket: &Socket, target: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    stamp(socket, ARRIVALS)?;
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
    Ok(())
}

/// Reserves the port of `source`, or any port if it is 0, so that no other socket receives its
/// packets. The socket is bound and not connected.
pub(crate) fn reserve(
    source: IpAddr,
    target: SocketAddr,
    kind: Type,
    protocol: Protocol,
    port: u16,
) -> io::Result<(Socket, u16)> {
    let holder = Socket::new(Domain::for_address(target), kind, Some(protocol))?;
    let mut address = SocketAddr::new(source, port);
    if let (SocketAddr::V6(address), SocketAddr::V6(target)) = (&mut address, target) {
        address.set_scope_id(target.scope_id());
    }
    holder.bind(&address.into())?;
    let bound = holder.local_addr()?.as_socket();
    let port = bound.ok_or(io::ErrorKind::AddrNotAvailable)?.port();
    Ok((holder, port))
}

/// Connects a socket that has no ports; returns the source address that the kernel chose.
pub(crate) fn route(socket: &Socket, mut target: SocketAddr) -> io::Result<IpAddr> {
    target.set_port(0);
    socket.connect(&target.into())?;
    let local = socket.local_addr()?.as_socket();
    let local = local.map(|local| local.ip());
    local.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Flags for timestamps of arrivals.
const ARRIVALS: libc::c_uint = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
/// Flags for timestamps of arrivals and of transmissions, the latter both at the queue and at the
/// device.
const ALL: libc::c_uint = ARRIVALS
    | libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

fn stamp(socket: impl AsFd, which: libc::c_uint) -> io::Result<()> {
    let which = libc::c_int::try_from(which).map_err(|_| io::ErrorKind::InvalidInput)?;
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, which)
}

/// Enables timestamps of transmissions, with packets numbered from 0.
fn number_packets(socket: &Socket) -> io::Result<()> {
    // Numbering begins anew only when it was off.
    stamp(socket, ARRIVALS)?;
    stamp(socket, ALL)
}

/// Disables fragmentation, regardless of the path MTU that the kernel knows.
pub(crate) fn set_whole(socket: &Socket, is_v4: bool) -> io::Result<()> {
    if is_v4 {
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, PROBE)
    } else {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, PROBE)
    }
}

/// Sets an option that is an `int`.
pub(crate) fn set(
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
