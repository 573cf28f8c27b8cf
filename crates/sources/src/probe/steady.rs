//! Probes at a constant rate, independent of the answers, as `ping` and `hping3` send them.
//!
//! Input: an address, a method, the number of probes, their ports and header fields. Output: a
//! `Probe` event for each answer and for each probe without a timely answer, and notes that explain
//! the probes. An answer after the timeout is marked as late, and a repeated answer as a duplicate.

mod connect;
mod heard;
mod icmp;
mod pending;
mod plan;
mod segment;
mod series;
mod sweep;
mod syn;
mod udp;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use lagtrace_core::observed::event::{Event, ProbeAnswer};
use rustix::io::Errno;
use socket2::Socket;

use super::unreachable::unreachable_by;
use super::{ProbeError, note, pause};
use crate::clock::Clock;
use crate::stamped::set_whole;
use heard::{Answered, Heard};
pub use plan::{LEAST_INTERVAL, PacketPlan, SteadyMethod, SteadyPlan, Turn};
use series::Series;
pub use sweep::{Sizes, SourcePorts};

/// Maximum number of sockets in a series that wait for answers at the same time.
const MAX_OPEN: usize = 512;
/// Name of the kernel's operation before a probe is sent.
const FINDING_ROUTE: &str = "finding a route";
/// Time that the kernel needs to enable timestamping.
const STAMPS_BEGIN: Duration = Duration::from_millis(10);

/// A probe method.
trait Asker {
    /// Sends probe number `number`. The numbers increase by one from call to call.
    fn ask(&mut self, number: u32) -> Result<(), Errno>;
    /// Waits for data to arrive, at most for `timeout`.
    fn wait(&mut self, timeout: Duration) -> Result<(), Errno>;
    /// Appends the answers and timestamps that have arrived.
    fn hear(&mut self, heard: &mut Vec<Heard>) -> Result<(), Errno>;
    /// Discards the state of a probe that has timed out or is not needed any more. Returns the
    /// number of SYN retransmissions by the kernel.
    fn forget(&mut self, number: u32) -> u8;
    /// Returns true if another probe can be sent now.
    fn has_room(&self) -> bool {
        true
    }
}

/// Returns a number that is unique among the current series on this host. If several series probe
/// the same host, each recognizes its own answers.
fn identity() -> u32 {
    static SERIES: AtomicU32 = AtomicU32::new(0);
    let series = SERIES.fetch_add(1, Ordering::Relaxed);
    // A PID has at most 22 bits (`PID_MAX_LIMIT`).
    std::process::id().wrapping_add(series << 22)
}

/// Probes `plan.address` until all probes have been answered or have timed out, too many probes
/// stayed unanswered, or `stop` is set. For a target without a route, a single probe with this
/// answer is reported.
///
/// A round trip is the difference between two kernel timestamps: that of the probe at the device,
/// and that of the answer's arrival. [`SteadyMethod::Connect`] uses the kernel's measurement of the
/// handshake instead (`tcpi_min_rtt`). It is accurate to some ten microseconds, or to milliseconds
/// if the SYN was retransmitted. If the kernel measured nothing, lagtrace's own time is used, which
/// is too long rather than too short. `ProbeSample::stamp` says which of them was used.
///
/// # Errors
/// Returns [`ProbeError::NotPermitted`] if the method needs a privilege that the user lacks.
pub fn steady(
    plan: &SteadyPlan,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<(), ProbeError> {
    let clock = Clock::new();
    let mut series = Series::new(plan, clock);
    let mut asker: Box<dyn Asker + '_> = match open(plan) {
        Ok(asker) => asker,
        Err(error) => {
            let answer = unrouted(&error, plan.address).ok_or(error)?;
            series.tell(answer, &mut sink);
            return Ok(());
        }
    };
    // When a first socket requests timestamps, the kernel begins to stamp arrivals a little later.
    pause(STAMPS_BEGIN, stop);
    series.run(asker.as_mut(), stop, &mut sink)?;
    if series.is_unsent() {
        let in_use = io::Error::from(io::ErrorKind::AddrInUse);
        return Err(failure("taking the source port", plan.address)(in_use));
    }
    for (id, text) in series.notes() {
        sink(note(clock.now(), id, text));
    }
    Ok(())
}

fn open(plan: &SteadyPlan) -> Result<Box<dyn Asker + '_>, ProbeError> {
    Ok(match plan.method {
        SteadyMethod::Syn => Box::new(syn::BySyn::new(plan)?),
        SteadyMethod::Connect => Box::new(connect::ByConnect::new(plan)),
        SteadyMethod::Icmp => Box::new(icmp::ByEcho::new(plan)?),
        SteadyMethod::Udp => Box::new(udp::ByDatagram::new(plan)?),
    })
}

/// Returns the answer to report if the target has no route; `None` for other errors.
fn unrouted(error: &ProbeError, address: SocketAddr) -> Option<ProbeAnswer> {
    match error {
        ProbeError::Socket {
            operation: FINDING_ROUTE,
            source,
            ..
        } => unreachable_by(Errno::from_io_error(source)?, address),
        _ => None,
    }
}

/// Sets the socket options for the packets of the plan.
fn dress(socket: &Socket, address: SocketAddr, packet: &PacketPlan) -> io::Result<()> {
    if let Some(interface) = &packet.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if packet.dont_fragment {
        set_whole(socket, address.is_ipv4())?;
    }
    match (address.is_ipv4(), packet.ttl) {
        (true, Some(ttl)) => socket.set_ttl_v4(ttl.into())?,
        (false, Some(ttl)) => socket.set_unicast_hops_v6(ttl.into())?,
        (_, None) => {}
    }
    match (address.is_ipv4(), packet.tos) {
        (true, Some(tos)) => socket.set_tos_v4(tos.into())?,
        (false, Some(tos)) => socket.set_tclass_v6(tos.into())?,
        (_, None) => {}
    }
    Ok(())
}

/// Returns a function that creates the error of an operation on a socket for probes of `address`.
fn failure<E: Into<io::Error>>(
    operation: &'static str,
    address: SocketAddr,
) -> impl Fn(E) -> ProbeError {
    move |error| ProbeError::Socket {
        operation,
        address,
        source: error.into(),
    }
}

/// Like [`failure`], for operations for which a privilege may be missing.
fn opening(operation: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> ProbeError {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => ProbeError::NotPermitted {
            operation,
            needs: "CAP_NET_RAW",
        },
        _ => failure(operation, address)(error),
    }
}

/// Returns the error number of an I/O error.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Returns the unspecified address of the same family.
fn any(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
