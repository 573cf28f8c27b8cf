//! The route to a target, hop by hop, by the time to live of probes.
//!
//! In: a [`TracePlan`]. Out: a `Trace` event, a `Hop` event for each probe, and
//! a `PathMtu` event where it was asked for. ICMP errors are read from the error
//! queues of the very sockets that sent the probes, which needs no privilege and
//! bears the kernel's stamps; raw sockets only add ways to ask.
//!
//! All hops are asked side by side, each once at a time, with a gap between any
//! two packets. A hop that let a probe go unanswered is asked again only after
//! more than a second, so that a router that limits its answers (Linux:
//! `net.ipv4.icmp_ratelimit`) has one to give.

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

/// The first port of traceroute's probes (its `-p`).
pub const UDP_PORT: u16 = 33_434;
/// Silent hops in a row that end a search, unless told otherwise.
pub const MAX_UNKNOWN: u8 = 8;
/// Most flows tried beside each other.
pub const MAX_PATHS: u16 = 128;
/// Most bytes of a probe with its IP header.
pub const MAX_SIZE: u16 = 65_000;

/// A trace.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// The address, and the port that TCP and UDP probes go to.
    pub target: SocketAddr,
    /// How to ask.
    pub method: RouteMethod,
    /// Whether raw sockets are to be used for it, where it can do without.
    pub is_raw: bool,
    /// The first time to live sent.
    pub first_ttl: u8,
    /// The greatest time to live sent.
    pub max_ttl: u8,
    /// Silent hops in a row that end the search.
    pub max_unknown: u8,
    /// Answers wanted from each hop; in rounds one from each in each.
    pub probes: u32,
    /// After which time an answer is too late to count.
    pub timeout: Duration,
    /// Between two probes to one hop.
    pub interval: Duration,
    /// Between any two packets, at least.
    pub gap: Duration,
    /// In rounds until stopped, or so many; `None`: until each hop is known.
    pub rounds: Option<Rounds>,
    /// How many flows to try, to find parallel paths: 1 for none.
    pub paths: u16,
    /// Whether to find the largest packet that comes through.
    pub mtu: bool,
    /// How the packets look.
    pub dress: Dress,
}

/// How the packets of a trace look and where they leave.
#[derive(Clone, Debug, Default)]
pub struct Dress {
    /// Bytes with the IP header; the least for `None`.
    pub size: Option<u16>,
    /// Type of service, traffic class.
    pub tos: Option<u8>,
    /// The source address; the kernel chooses for `None`.
    pub source: Option<IpAddr>,
    /// The interface; the kernel routes for `None`.
    pub interface: Option<String>,
    /// The source port, the next ones for further flows; the kernel chooses for
    /// `None`. Connections choose their own.
    pub source_port: Option<u16>,
    /// Whether they leave past the routing table, to what is on a link of this
    /// host only (`SO_DONTROUTE`).
    pub bypasses_routing: bool,
    /// The firewall mark (`SO_MARK`), which needs a privilege.
    pub mark: Option<u32>,
}

/// How often all hops are asked anew.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// How many rounds; `None`: until stopped.
    pub count: Option<u32>,
    /// From one round's begin to the next one's.
    pub interval: Duration,
}

impl TracePlan {
    /// Three answers from each of up to 30 hops.
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

/// Why a route could not be traced: on our own side.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A privilege is missing.
    #[error("{operation} needs {needs}")]
    NotPermitted {
        /// What was tried.
        operation: &'static str,
        /// What allows it.
        needs: &'static str,
    },
    /// The target makes no connection that probes could go in.
    #[error("no connection with {target} could be made: {source}")]
    NotConnected {
        /// Address and port.
        target: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Some probes could not be sent; what became of the others was told.
    #[error("{count} probes to {target} could not be sent: {source}")]
    NotSent {
        /// How many.
        count: u32,
        /// The target.
        target: IpAddr,
        /// The kernel's word on the last one.
        source: io::Error,
    },
    /// The kernel refused something else.
    #[error("{operation} for a trace to {target} failed")]
    Socket {
        /// What was tried.
        operation: &'static str,
        /// The target.
        target: IpAddr,
        /// The kernel's word.
        source: io::Error,
    },
}

/// Traces as `plan` says, until it is done or `stop` is set.
///
/// # Errors
/// What went wrong. Events that were told before stand, whatever it is.
/// [`TraceError::NotPermitted`] where the method needs a raw socket, or an
/// unprivileged echo socket, and this user may not have one.
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
