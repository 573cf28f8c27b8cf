//! The route to a target, found hop by hop by varying the TTL of probes.
//!
//! Input: a [`TracePlan`]. Output: a `Trace` event, a `Hop` event for each probe and, if requested,
//! a `PathMtu` event. If possible, ICMP errors are read from the error queues of the sockets that
//! sent the probes. This needs no privilege and provides the kernel's timestamps. Raw sockets are
//! used only for the probe methods that need them.
//!
//! All hops are probed in parallel. Each hop has at most one unanswered probe at a time, and there
//! is a gap between any two packets. A silent hop is probed again only after more than a second.
//! Otherwise, the router's rate limit of ICMP errors (Linux: `net.ipv4.icmp_ratelimit`) could
//! suppress its answers.

mod channel;
mod connect;
mod distance;
mod engine;
mod form;
mod header;
mod held;
mod mtu;
mod name;
mod pace;
mod packet;
mod single_packets;
mod socket;

use std::io;
use std::sync::atomic::AtomicBool;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use lagtrace_core::observed::event::Event;
use lagtrace_core::observed::route::RouteMethod;

pub use name::Names;

/// First port of traceroute's UDP probes (its option `-p`).
pub const UDP_PORT: u16 = 33_434;
/// Default number of consecutive silent hops after which the search ends.
pub const MAX_UNKNOWN: u8 = 8;
/// Maximum number of flows that are tried in parallel.
pub const MAX_PATHS: u16 = 128;
/// Maximum size of a probe in bytes, including the IP header.
pub const MAX_SIZE: u16 = 65_000;

/// The plan of a trace.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// Address of the target, and the port for TCP and UDP probes.
    pub target: SocketAddr,
    /// Probe method.
    pub method: RouteMethod,
    /// True to use raw sockets even if the method does not need them.
    pub is_raw: bool,
    /// TTL of the first hop to probe.
    pub first_ttl: u8,
    /// TTL of the last hop to probe.
    pub max_ttl: u8,
    /// Number of consecutive silent hops after which the search ends.
    pub max_unknown: u8,
    /// Number of answers requested from each hop. With rounds, each hop gives one answer in each
    /// round.
    pub probes: u32,
    /// Timeout after which an answer does not count any more.
    pub timeout: Duration,
    /// Interval between two probes to the same hop.
    pub interval: Duration,
    /// Minimum time between any two packets.
    pub gap: Duration,
    /// Repeated rounds of probes to all hops; `None`: stop when each hop is known.
    pub rounds: Option<Rounds>,
    /// Number of flows that are tried to find parallel paths; 1: no search.
    pub paths: u16,
    /// True to determine the path MTU.
    pub mtu: bool,
    /// Header fields, size and interface of the packets.
    pub dress: Dress,
}

/// The header fields, size and interface of a trace's packets.
#[derive(Clone, Debug, Default)]
pub struct Dress {
    /// Size in bytes, including the IP header; `None`: the minimum.
    pub size: Option<u16>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
    /// Source address; `None`: the kernel chooses.
    pub source: Option<IpAddr>,
    /// Interface; `None`: the kernel chooses.
    pub interface: Option<String>,
    /// Source port of the first flow; further flows use the next ports. `None`: the kernel chooses.
    /// Probes by `connect` ignore this port.
    pub source_port: Option<u16>,
    /// True to bypass the routing table (`SO_DONTROUTE`). Only hosts on a directly attached link
    /// can be reached in this way.
    pub bypasses_routing: bool,
    /// Firewall mark (`SO_MARK`). Setting it needs a privilege.
    pub mark: Option<u32>,
}

/// The settings of repeated rounds of probes to all hops.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Number of rounds; `None`: no limit until stopped.
    pub count: Option<u32>,
    /// Interval between the beginnings of two rounds.
    pub interval: Duration,
}

impl TracePlan {
    /// Creates a plan that requests three answers from each of up to 30 hops.
    pub fn new(target: SocketAddr, method: RouteMethod) -> Self {
        Self {
            target,
            method,
            is_raw: true,
            first_ttl: 1,
            max_ttl: 30,
            max_unknown: MAX_UNKNOWN,
            probes: 3,
            timeout: Duration::from_secs(3),
            interval: Duration::from_millis(100),
            gap: Duration::from_millis(5),
            rounds: None,
            paths: 1,
            mtu: false,
            dress: Dress::default(),
        }
    }
}

/// A reason on this host why a route could not be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A capability is missing.
    #[error("{operation} needs {needs}")]
    NotPermitted {
        /// The attempted operation.
        operation: &'static str,
        /// The capability that allows the operation.
        needs: &'static str,
    },
    /// The target does not accept the connection through which probes would be sent.
    #[error("no connection with {target} could be made: {source}")]
    NotConnected {
        /// Address and port.
        target: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// Some probes could not be sent. The results of the other probes were reported.
    #[error("{count} probes to {target} could not be sent: {source}")]
    NotSent {
        /// Number of probes that could not be sent.
        count: u32,
        /// The target.
        target: IpAddr,
        /// The kernel's error for the last probe that could not be sent.
        source: io::Error,
    },
    /// The kernel rejected the operation for another reason.
    #[error("{operation} for a trace to {target} failed")]
    Socket {
        /// The attempted operation.
        operation: &'static str,
        /// The target.
        target: IpAddr,
        /// The error from the kernel.
        source: io::Error,
    },
}

/// Runs the trace of `plan` until it is complete or `stop` is set.
///
/// # Errors
/// Returns [`TraceError::NotPermitted`] if the method needs a raw socket or an unprivileged echo
/// socket, and the user may not open one. Events that were sent before an error remain valid.
pub fn trace(
    plan: &TracePlan,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<(), TraceError> {
    let mut engine = engine::Engine::new(plan, stop, &mut sink)?;
    engine.run()?;
    let (known, unsent) = (engine.known(), engine.unsent());
    if plan.mtu {
        mtu::discover(plan, &known, stop, &mut sink)?;
    }
    unsent.map_or(Ok(()), Err)
}
