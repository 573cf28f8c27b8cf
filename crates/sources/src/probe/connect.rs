//! Connection attempts, and the target's answers that their results represent.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::observed::event::ProbeAnswer;
use lagtrace_core::observed::time::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use super::tcp_info::TcpInfo;
use super::unreachable::unreachable_by;
use super::{ProbeError, STOP_INTERVAL};
use crate::clock::Clock;
use crate::stamped::prepare;
use crate::stamped::queue::{HEADER_V4, Queued, take_queued};

/// Maximum number of entries read from an error queue.
const MAX_QUEUED: usize = 64;

/// An attempt to connect.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The socket in blocking mode, if the port was open.
    pub(super) socket: Option<OwnedFd>,
    /// Answer of the target.
    pub(super) answer: ProbeAnswer,
    /// Time at which the answer was noticed or the wait ended.
    pub(super) ended: Timestamp,
    /// Number of SYN retransmissions.
    pub(super) syn_retransmissions: u8,
}

/// Connects to `address`, for at most `timeout`.
pub(super) fn open(
    address: SocketAddr,
    timeout: Duration,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Attempt, ProbeError> {
    let failed = |operation: &'static str| {
        move |source| ProbeError::Socket {
            operation,
            address,
            source,
        }
    };
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )
    .map_err(failed("opening a socket"))?;
    prepare(&socket, address).map_err(failed("preparing a socket"))?;
    let begun = clock.now();
    let outcome = match rustix::net::connect(&socket, &address) {
        Err(Errno::INPROGRESS) => wait(&socket, begun + timeout, clock, stop)
            .map_err(|error| failed("waiting for a connection")(error.into()))?,
        done => Some(done),
    };
    let ended = clock.now();
    let info = TcpInfo::of(&socket);
    let answer = match outcome {
        None => ProbeAnswer::Silence,
        Some(outcome) => answer_to(&socket, outcome, address)
            .map_err(|error| failed("connecting")(error.into()))?,
    };
    let is_open = answer == ProbeAnswer::Open;
    if is_open {
        socket
            .set_nonblocking(false)
            .map_err(failed("making a socket wait"))?;
    }
    Ok(Attempt {
        socket: is_open.then(|| socket.into()),
        answer,
        ended,
        syn_retransmissions: u8::try_from(info.retransmissions).unwrap_or(u8::MAX),
    })
}

/// Waits for the result of the handshake; `None` if there is no result in time. After a stop of this
/// process, the result may be there although the time is over.
fn wait(
    socket: &Socket,
    deadline: Timestamp,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Option<Result<(), Errno>>, Errno> {
    loop {
        let left = deadline.since(clock.now()).min(STOP_INTERVAL);
        if wait_for(socket, PollFlags::OUT, left)? {
            return Ok(Some(sockopt::socket_error(socket)?));
        }
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
}

/// Waits until one of `events` or an error occurs on a socket, at most for `timeout`. Returns true
/// if one occurred.
pub(super) fn wait_for(
    socket: impl AsFd,
    events: PollFlags,
    timeout: Duration,
) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(&socket, events)];
    let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the target's answer that corresponds to the result of a handshake. Errors that concern
/// only this host are returned as errors.
pub(super) fn answer_to(
    socket: impl AsFd,
    outcome: Result<(), Errno>,
    address: SocketAddr,
) -> Result<ProbeAnswer, Errno> {
    let Err(error) = outcome else {
        return Ok(ProbeAnswer::Open);
    };
    // Only the error queue shows whether a refusal was an ICMP error (as from a firewall) or an
    // RST.
    let queued = (0..MAX_QUEUED).map_while(|_| take_queued(&socket, HEADER_V4));
    for queued in queued {
        if let Queued::Icmp(icmp) = queued {
            return Ok(ProbeAnswer::Unreachable(icmp.kind, icmp.code));
        }
    }
    match error {
        Errno::CONNREFUSED | Errno::CONNRESET => Ok(ProbeAnswer::Refused),
        Errno::TIMEDOUT => Ok(ProbeAnswer::Silence),
        other => unreachable_by(other, address).ok_or(other),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_connection_that_was_made_in_a_stop_of_this_process_is_seen_after_it() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).expect("one");
        socket.connect(&address.into()).unwrap_or_default();
        let (clock, stop) = (Clock::new(), AtomicBool::new(false));
        let waited = wait(&socket, clock.now(), &clock, &stop);
        assert_eq!(waited, Ok(Some(Ok(()))));
    }
}
