//! Probes by `connect(2)` to the real port, which need no privilege.
//!
//! Each probe has its own socket, and is therefore a flow of its own. The kernel retransmits a SYN
//! after a second. A later answer does not show which of the two SYNs it acknowledges. A probe
//! therefore ends before its SYN is retransmitted.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::observed::route::HopAnswer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::Socket;

use super::Dress;
use super::channel::{Answered, Channel, Outgoing, Seen, answered};
use super::socket::{Kind, open, set_ttl};
use crate::probe::tcp_info::TcpInfo;
use crate::stamped;
use crate::stamped::queue::{HEADER_V4, Queued, take_queued};

/// Time before the kernel retransmits a SYN (`TCP_TIMEOUT_INIT`), minus a margin.
pub(super) const LONGEST: Duration = Duration::from_millis(950);

/// The connections that are being opened.
#[derive(Debug)]
pub(super) struct Connects {
    target: SocketAddr,
    dress: Dress,
    sockets: BTreeMap<u32, Socket>,
}

impl Connects {
    /// Creates a channel without open connections.
    pub(super) fn new(target: SocketAddr, dress: Dress) -> Self {
        Self {
            target,
            dress,
            sockets: BTreeMap::new(),
        }
    }
}

impl Channel for Connects {
    fn send(&mut self, probe: Outgoing) -> io::Result<()> {
        let socket = open(Kind::Tcp, self.target, &self.dress).map_err(io::Error::other)?;
        stamped::prepare(&socket, self.target)?;
        set_ttl(&socket, self.target.is_ipv4(), probe.ttl)?;
        // Closing sends an RST, so that no connection stays open.
        socket.set_linger(Some(Duration::ZERO))?;
        match socket.connect(&self.target.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            // If the target is this host, the refusal is immediate.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
        self.sockets.insert(probe.number, socket);
        Ok(())
    }

    fn collect(&mut self, seen: &mut Vec<Seen>) {
        let target = self.target;
        self.sockets.retain(|&number, socket| {
            let look = look(socket, target, number);
            let is_waiting = matches!(look, Look::Waiting);
            if let Look::Over(answer) = look {
                seen.push(answer);
            }
            is_waiting
        });
    }

    fn sockets(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let sockets = self.sockets.values();
        sockets
            .map(|socket| (socket.as_fd(), PollFlags::OUT))
            .collect()
    }

    fn forget(&mut self, number: u32) {
        self.sockets.remove(&number);
    }
}

/// The state of a connection attempt.
enum Look {
    /// There is no result yet.
    Waiting,
    /// The attempt is complete, with this result.
    Over(Seen),
    /// The local kernel ended the attempt, without a packet from another host.
    GivenUp,
}

fn look(socket: &Socket, target: SocketAddr, number: u32) -> Look {
    while let Some(queued) = take_queued(socket, HEADER_V4) {
        if let Queued::Icmp(icmp) = queued {
            return answered(number, icmp, false, None).map_or(Look::GivenUp, Look::Over);
        }
    }
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    let is_over = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    if !is_over {
        return Look::Waiting;
    }
    let error = socket.take_error().ok().flatten();
    let errno = error.as_ref().and_then(Errno::from_io_error);
    let is_connected = errno.is_none() && socket.peer_addr().is_ok();
    let answer = match errno {
        None if is_connected => HopAnswer::Open,
        None | Some(Errno::CONNREFUSED | Errno::CONNRESET) => HopAnswer::Closed,
        // The next hop did not answer ARP or neighbour solicitations, so this error is from this
        // host.
        Some(_) => return Look::GivenUp,
    };
    let info = is_connected.then(|| TcpInfo::of(socket));
    Look::Over(Seen::Answered(Answered {
        number,
        answer,
        from: Some(target.ip()),
        at: None,
        rtt: info.and_then(|info| info.rtt),
        ttl: None,
        labels: Vec::new(),
        mtu: 0,
        translation: None,
    }))
}
