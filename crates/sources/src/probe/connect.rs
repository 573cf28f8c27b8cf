//! Probes by `connect(2)`: no privilege, the kernel's own round trip.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::event::{Event, ProbeAnswer, ProbeMethod, ProbeSample, Stamp};
use lagtrace_core::time::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::errors::{Queued, queue_icmp, take_queued, unreachable_by};
use super::tcp_info::TcpInfo;
use super::{ProbeError, ProbePlan, Probed, STOP_INTERVAL, series};
use crate::clock::Clock;

/// Connects as `plan` says, each time from another port, and closes at once.
///
/// The round trip of an open port is the kernel's measurement of the handshake
/// (`tcpi_min_rtt`), in microseconds, good to some ten of them; in
/// milliseconds where the SYN was repeated. Where the kernel has none, and for
/// a refusal, it is this program's time, which errs upward:
/// [`ProbeSample::stamp`] says which.
pub fn connect(
    plan: &ProbePlan,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    let clock = Clock::new();
    series(plan, stop, &mut sink, || connect_once(plan, &clock, stop))
}

fn connect_once(plan: &ProbePlan, clock: &Clock, stop: &AtomicBool) -> Result<Probed, ProbeError> {
    let attempt = open(plan.address, plan.timeout, clock, stop)?;
    let mut sample = plan.sample(ProbeMethod::TcpConnect, attempt.answer);
    sample.syn_retransmissions = attempt.syn_retransmissions;
    if attempt.answer != ProbeAnswer::Silence {
        sample.rtt = Some(attempt.ended.since(attempt.begun));
    }
    if let Some(rtt) = attempt.kernel_rtt {
        (sample.rtt, sample.stamp) = (Some(rtt), Stamp::Kernel);
    }
    Ok((sample, attempt.ended))
}

/// An attempt to connect.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The socket, connected and blocking, if the port was open.
    pub(super) socket: Option<OwnedFd>,
    /// What came back.
    pub(super) answer: ProbeAnswer,
    /// When `connect` was called.
    pub(super) begun: Timestamp,
    /// When the answer was noticed, or waiting given up.
    pub(super) ended: Timestamp,
    /// The handshake's round trip, if the kernel measured it.
    pub(super) kernel_rtt: Option<Duration>,
    /// How often the SYN was sent again.
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
        move |error: Errno| ProbeError::Socket {
            operation,
            address,
            source: error.into(),
        }
    };
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
        .map_err(failed("opening a socket"))?;
    // Without it ICMP errors are still noticed, but not their type.
    let _ = queue_icmp(&socket, address);
    let begun = clock.now();
    let outcome = match rustix::net::connect(&socket, &address) {
        Err(Errno::INPROGRESS) => wait(&socket, begun + timeout, clock, stop)
            .map_err(failed("waiting for a connection"))?,
        done => Some(done),
    };
    let ended = clock.now();
    let info = TcpInfo::of(&socket);
    let answer = match outcome {
        None => ProbeAnswer::Silence,
        Some(outcome) => answer_to(&socket, outcome, address).map_err(failed("connecting"))?,
    };
    let is_open = answer == ProbeAnswer::Open;
    if is_open {
        rustix::io::ioctl_fionbio(&socket, false).map_err(failed("making a socket wait"))?;
    }
    Ok(Attempt {
        socket: is_open.then_some(socket),
        answer,
        begun,
        ended,
        kernel_rtt: info.rtt.filter(|_| is_open),
        syn_retransmissions: u8::try_from(info.retransmissions).unwrap_or(u8::MAX),
    })
}

/// Waits until the handshake is over one way or another; `None` when it took
/// too long.
fn wait(
    socket: &OwnedFd,
    deadline: Timestamp,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Option<Result<(), Errno>>, Errno> {
    loop {
        let left = deadline.since(clock.now()).min(STOP_INTERVAL);
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if wait_for(socket, PollFlags::OUT, left)? {
            return Ok(Some(sockopt::socket_error(socket)?));
        }
    }
}

/// Waits for `events` or an error on a socket, for at most `timeout`.
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

/// What the end of a handshake says of the target; an error where it says
/// something of our own side only.
pub(super) fn answer_to(
    socket: impl AsFd,
    outcome: Result<(), Errno>,
    address: SocketAddr,
) -> Result<ProbeAnswer, Errno> {
    let Err(error) = outcome else {
        return Ok(ProbeAnswer::Open);
    };
    // A firewall's ICMP refusal looks like an RST but for this queue.
    if let Some(Queued::Icmp { kind, code, .. }) = take_queued(socket) {
        return Ok(ProbeAnswer::Unreachable(kind, code));
    }
    match error {
        Errno::CONNREFUSED | Errno::CONNRESET => Ok(ProbeAnswer::Refused),
        Errno::TIMEDOUT => Ok(ProbeAnswer::Silence),
        other => unreachable_by(other, address).ok_or(other),
    }
}
