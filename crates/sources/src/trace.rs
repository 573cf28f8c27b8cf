//! The route to a target, hop by hop, found by the TTL of probes.
//!
//! Input is a [`TracePlan`]; output is a `Trace` event, a `Hop` event for each probe, and a
//! `PathMtu` event where it was asked for. ICMP errors are read from the error queues of the very
//! sockets that sent the probes, which needs no privilege and gives the kernel's timestamps; raw
//! sockets only add probe methods.
//!
//! All hops are probed in parallel, each with one probe at a time, with a gap between any two
//! packets. A hop that left a probe unanswered is probed again only after more than a second, so
//! that a router that limits its answers (Linux: `net.ipv4.icmp_ratelimit`) has one to give.

mod channel;
mod connect;
mod engine;
mod form;
mod header;
mod held;
mod mtu;
mod name;
mod pace;
mod packet;
mod socket;

use std::io;
use std::sync::atomic::AtomicBool;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use lagtrace_core::observed::event::Event;
use lagtrace_core::observed::route::RouteMethod;

pub use engine::hops_of;
pub use name::Names;

/// First port of traceroute's probes (its `-p`).
pub const UDP_PORT: u16 = 33_434;
/// Default number of silent hops in a row that end a search.
pub const MAX_UNKNOWN: u8 = 8;
/// Most flows tried side by side.
pub const MAX_PATHS: u16 = 128;
/// Largest size of a probe with its IP header, in bytes.
pub const MAX_SIZE: u16 = 65_000;

/// The plan of a trace.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// Address, and the port that TCP and UDP probes go to.
    pub target: SocketAddr,
    /// Probe method.
    pub method: RouteMethod,
    /// True if raw sockets are to be used where the method could do without.
    pub is_raw: bool,
    /// First TTL sent.
    pub first_ttl: u8,
    /// Largest TTL sent.
    pub max_ttl: u8,
    /// Number of silent hops in a row that end the search.
    pub max_unknown: u8,
    /// Number of answers wanted from each hop; with rounds, one from each hop in each round.
    pub probes: u32,
    /// Time after which an answer is too late to count.
    pub timeout: Duration,
    /// Time between two probes to one hop.
    pub interval: Duration,
    /// Shortest time between any two packets.
    pub gap: Duration,
    /// Rounds of probes to all hops; `None`: until each hop is known.
    pub rounds: Option<Rounds>,
    /// Number of flows to try, to find parallel paths: 1 for none.
    pub paths: u16,
    /// True if the path MTU is to be found.
    pub mtu: bool,
    /// Header fields, size and interface of the packets.
    pub dress: Dress,
}

/// The header fields, size and interface of a trace's packets.
#[derive(Clone, Debug, Default)]
pub struct Dress {
    /// Size in bytes with the IP header; the smallest for `None`.
    pub size: Option<u16>,
    /// Type of service, or traffic class.
    pub tos: Option<u8>,
    /// Source address; the kernel chooses for `None`.
    pub source: Option<IpAddr>,
    /// Interface; the kernel routes for `None`.
    pub interface: Option<String>,
    /// Source port, the next ones for further flows; the kernel chooses for `None`. Connections
    /// choose their own.
    pub source_port: Option<u16>,
    /// True if packets bypass the routing table, to hosts on a link of this host only
    /// (`SO_DONTROUTE`).
    pub bypasses_routing: bool,
    /// Firewall mark (`SO_MARK`), which needs a privilege.
    pub mark: Option<u32>,
}

/// The repetition of probes to all hops.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Number of rounds; `None`: until stopped.
    pub count: Option<u32>,
    /// Time from the start of one round to the start of the next.
    pub interval: Duration,
}

impl TracePlan {
    /// Creates a plan of three answers from each of up to 30 hops.
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

/// The reason why a route could not be traced: on our own side.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A capability is missing.
    #[error("{operation} needs {needs}")]
    NotPermitted {
        /// Operation that was tried.
        operation: &'static str,
        /// Capability that allows it.
        needs: &'static str,
    },
    /// The target accepts no connection that probes could be sent in.
    #[error("no connection with {target} could be made: {source}")]
    NotConnected {
        /// Address and port.
        target: SocketAddr,
        /// Reason.
        source: io::Error,
    },
    /// A number of probes could not be sent; the outcome of the others was reported.
    #[error("{count} probes to {target} could not be sent: {source}")]
    NotSent {
        /// Number of probes.
        count: u32,
        /// The target.
        target: IpAddr,
        /// Error of the kernel on the last one.
        source: io::Error,
    },
    /// The kernel refused for another reason.
    #[error("{operation} for a trace to {target} failed")]
    Socket {
        /// Operation that was tried.
        operation: &'static str,
        /// The target.
        target: IpAddr,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// Runs the trace of `plan`, until it is complete or `stop` is set.
///
/// # Errors
/// Events sent before an error stand, whatever it is. [`TraceError::NotPermitted`] where the method
/// needs a raw socket, or an unprivileged echo socket, and this user may not have one.
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
