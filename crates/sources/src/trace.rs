//! The route to a target, determined hop by hop with the TTL of probes.
//!
//! Input: a [`TracePlan`]. Output: a `Trace` event, a `Hop` event for each probe, and a `PathMtu`
//! event if it was requested. ICMP errors are read from the error queues of the sockets that sent
//! the probes, which needs no privilege and provides the kernel's timestamps. Raw sockets are
//! needed only for additional probe methods.
//!
//! All hops are probed in parallel, with one probe per hop at a time and a gap between any two
//! packets. A hop that did not answer a probe is probed again only after more than a second, so
//! that the rate limit of a router's ICMP errors (Linux: `net.ipv4.icmp_ratelimit`) does not
//! suppress its answer.

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

/// First port of traceroute's probes (its `-p`).
pub const UDP_PORT: u16 = 33_434;
/// Default number of consecutive silent hops that end a search.
pub const MAX_UNKNOWN: u8 = 8;
/// Maximum number of flows tried in parallel.
pub const MAX_PATHS: u16 = 128;
/// Maximum size of a probe with its IP header, in bytes.
pub const MAX_SIZE: u16 = 65_000;

/// The plan of a trace.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// Address of the target, and the port that TCP and UDP probes are sent to.
    pub target: SocketAddr,
    /// Probe method.
    pub method: RouteMethod,
    /// True to use raw sockets even if the method does not need them.
    pub is_raw: bool,
    /// First TTL sent.
    pub first_ttl: u8,
    /// Maximum TTL sent.
    pub max_ttl: u8,
    /// Number of consecutive silent hops that end the search.
    pub max_unknown: u8,
    /// Number of answers requested from each hop; with rounds, one from each hop in each round.
    pub probes: u32,
    /// Timeout after which an answer no longer counts.
    pub timeout: Duration,
    /// Time between two probes to one hop.
    pub interval: Duration,
    /// Minimum time between any two packets.
    pub gap: Duration,
    /// Repeated rounds of probes to all hops; `None`: only until each hop is known.
    pub rounds: Option<Rounds>,
    /// Number of flows that are tried to find parallel paths; 1: do not search for them.
    pub paths: u16,
    /// True to determine the path MTU.
    pub mtu: bool,
    /// Header fields, size and interface of the packets.
    pub dress: Dress,
}

/// The header fields, size and interface of a trace's packets.
#[derive(Clone, Debug, Default)]
pub struct Dress {
    /// Size in bytes with the IP header; `None`: the minimum.
    pub size: Option<u16>,
    /// Type of service, or traffic class.
    pub tos: Option<u8>,
    /// Source address; `None`: chosen by the kernel.
    pub source: Option<IpAddr>,
    /// Interface; `None`: chosen by the kernel's routing.
    pub interface: Option<String>,
    /// Source port of the first flow; further flows use the following ports. `None`: chosen by the
    /// kernel. Connections always choose their own ports.
    pub source_port: Option<u16>,
    /// True if packets bypass the routing table (`SO_DONTROUTE`), which works only for hosts on a
    /// directly attached link.
    pub bypasses_routing: bool,
    /// Firewall mark (`SO_MARK`); setting it needs a privilege.
    pub mark: Option<u32>,
}

/// Parameters of repeated rounds of probes to all hops.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Number of rounds; `None`: until stopped.
    pub count: Option<u32>,
    /// Time from the start of one round to the start of the next.
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

/// A reason on our own side why a route could not be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A capability is missing.
    #[error("{operation} needs {needs}")]
    NotPermitted {
        /// Operation that was attempted.
        operation: &'static str,
        /// Capability that allows it.
        needs: &'static str,
    },
    /// The target accepts no connection in which probes could be sent.
    #[error("no connection with {target} could be made: {source}")]
    NotConnected {
        /// Address and port.
        target: SocketAddr,
        /// Reason.
        source: io::Error,
    },
    /// Some probes could not be sent; the results of the others were reported.
    #[error("{count} probes to {target} could not be sent: {source}")]
    NotSent {
        /// Number of probes that could not be sent.
        count: u32,
        /// The target.
        target: IpAddr,
        /// Error of the kernel for the last of these probes.
        source: io::Error,
    },
    /// The kernel rejected the operation for another reason.
    #[error("{operation} for a trace to {target} failed")]
    Socket {
        /// Operation that was attempted.
        operation: &'static str,
        /// The target.
        target: IpAddr,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// Runs the trace of `plan` until it is complete or `stop` is set.
///
/// # Errors
/// Events sent before an error remain valid. [`TraceError::NotPermitted`] if the method needs a raw
/// socket or an unprivileged echo socket, and this user may not open one.
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
