//! Sockets for probes. The kernel stamps the packets that these sockets send and receive, and puts
//! ICMP errors about them into the socket's error queue.
//!
//! Timestamps need no privilege. Raw sockets are opened by the callers that need them.
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

/// Options since Linux 5.9 that report where the extension of an ICMP error begins
/// (`include/uapi/linux/in.h`, `in6.h`).
const IP_RECVERR_RFC4884: libc::c_int = 26;
const IPV6_RECVERR_RFC4884: libc::c_int = 31;
/// `IP_PMTUDISC_PROBE`: sets DF and ignores the path MTU that the kernel knows.
const PROBE: libc::c_int = 3;
/// Requested size in bytes of the receive buffer, which the error queue shares. The kernel may
/// reduce it to its maximum.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Maximum number of packets for which transmit timestamps are still expected.
const STAMPED: u32 = 20_000;
/// Maximum number of attempts to send a probe.
const SENDS: usize = 3;
/// Maximum number of queue entries that are read in one call.
const MAX_ENTRIES: usize = 1_000;

/// A socket that sends probes. The caller gives each probe a number.
#[derive(Debug)]
pub(crate) struct StampedSocket {
    socket: Socket,
    /// Number of bytes at the beginning of a quoted IPv4 packet that the socket does not return.
    hidden: usize,
    /// Number of packets sent since the kernel's packet numbers started from 0.
    sent: u32,
    /// Numbers of the latest probes, by packet number.
    numbers: BTreeMap<u32, u32>,
}

/// A message about a probe.
#[derive(Clone, Debug)]
pub(crate) enum Came {
    /// A probe reached a stage of its transmission.
    Sent {
        /// Number of the probe.
        number: u32,
        /// Stage that the probe reached.
        stage: Stage,
        /// Time on the realtime clock.
        at: Timestamp,
    },
    /// An ICMP error about one of the probes.
    Icmp(Icmp),
    /// A packet that arrived, from any sender.
    Reply(Reply),
}

impl StampedSocket {
    /// Enables timestamps of a socket's packets to and from `target`. `hidden` is the length of the
    /// transport header, if the kernel writes it.
    pub(crate) fn new(socket: Socket, target: SocketAddr, hidden: usize) -> io::Result<Self> {
        // The kernel reduces the size to its limit.
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        prepare(&socket, target)?;
        number_packets(&socket)?;
        // If the user writes the IP header, the error queue contains it too.
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

    /// Sends probe number `number` to the connected address, or to `to`.
    pub(crate) fn send(
        &mut self,
        number: u32,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        let mut last = io::Error::from(io::ErrorKind::Other);
        for _ in 0..SENDS {
            // Clears a pending ICMP error about an earlier probe, which would make this send fail.
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
            // Some kernels number a failed send and others do not, so numbering starts anew.
            number_packets(&self.socket)?;
            self.sent = 0;
            self.numbers.clear();
        }
        Err(last)
    }

    /// Passes the arrived messages to `on`. Timestamps and errors come before replies, because the
    /// round trip of a reply is computed with the timestamp of its probe.
    pub(crate) fn collect(&self, mut on: impl FnMut(Came)) {
        // Clears a pending error, which the next read would return instead of a message.
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

/// Enables timestamps of arrivals, ICMP errors with their extensions, and the time to live. Makes
/// the socket non-blocking.
pub(crate) fn prepare(socket: &Socket, target: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    stamp(socket, ARRIVALS)?;
    match target {
        SocketAddr::V4(_) => {
            setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
            setsockopt(socket, sockopt::Ipv4RecvTtl, &true)?;
            // Kernels before 5.9 do not have this option. The position of MPLS labels is then
            // assumed.
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

/// Reserves a port of `source`, so that no other socket receives its packets; port 0: the kernel
/// chooses. The socket is bound but not connected.
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

/// Connects a socket without ports. Returns the source address that the kernel chose.
pub(crate) fn route(socket: &Socket, mut target: SocketAddr) -> io::Result<IpAddr> {
    target.set_port(0);
    socket.connect(&target.into())?;
    let local = socket.local_addr()?.as_socket();
    let local = local.map(|local| local.ip());
    local.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Flags for timestamps of arrivals.
const ARRIVALS: libc::c_uint = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
/// Flags for timestamps of arrivals and of transmissions. Transmissions are stamped twice: when
/// entering the queue and at the device.
const ALL: libc::c_uint = ARRIVALS
    | libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

fn stamp(socket: impl AsFd, which: libc::c_uint) -> io::Result<()> {
    let which = libc::c_int::try_from(which).map_err(|_| io::ErrorKind::InvalidInput)?;
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, which)
}

/// Enables timestamps of transmissions. The kernel numbers the packets from 0.
fn number_packets(socket: &Socket) -> io::Result<()> {
    // Numbering starts anew only if it was off before.
    stamp(socket, ARRIVALS)?;
    stamp(socket, ALL)
}

/// Sets DF and ignores the path MTU that the kernel knows.
pub(crate) fn set_whole(socket: &Socket, is_v4: bool) -> io::Result<()> {
    if is_v4 {
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, PROBE)
    } else {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, PROBE)
    }
}

/// Sets an option with an `int` value.
pub(crate) fn set(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the option's value is an `int`, which exists during the call.
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
