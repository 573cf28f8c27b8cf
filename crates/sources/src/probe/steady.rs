//! Probes at a steady pace, whether answers come or not: as `ping` and
//! `hping3` send them.
//!
//! In: an address, a method, how often, from which ports, with which header
//! fields. Out: a `Probe` event for each answer and for each probe that none
//! came to in time, and notes that are needed to read them. An answer that
//! comes later is told as late, one that comes again as such.

mod connect;
mod icmp;
mod pending;
mod segment;
mod series;
mod sweep;
mod syn;
mod udp;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use lagtrace_core::event::{Event, ProbeAnswer, ProbeReply, ProbeStep, TargetId};
use lagtrace_core::segment::TcpFlags;
use lagtrace_core::time::Timestamp;
use rustix::io::Errno;
use socket2::Socket;

use super::unreachable::unreachable_by;
use super::{ProbeError, note, pause};
use crate::clock::Clock;
use crate::stamped::queue::{Icmp, Stage};
use crate::stamped::set_whole;
use series::Series;
pub use sweep::{Sizes, SourcePorts};

/// The least time between two probes: 10,000 a second are no flood.
pub const LEAST_INTERVAL: Duration = Duration::from_micros(100);
/// Sockets of a series that wait for an answer at a time.
const MAX_OPEN: usize = 512;
/// What the kernel does before anything is sent.
const FINDING_ROUTE: &str = "finding a route";
/// How long the kernel is given to begin stamping.
const STAMPS_BEGIN: Duration = Duration::from_millis(10);

/// How probes ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyMethod {
    /// By a SYN from a raw socket: needs `CAP_NET_RAW`.
    Syn,
    /// By `connect`.
    Connect,
    /// By ICMP echo, from a datagram socket where the kernel lets this user
    /// (`net.ipv4.ping_group_range`), else from a raw one.
    Icmp,
    /// By UDP datagrams.
    Udp,
}

/// When the next probe is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// An interval after the last one, whether that was answered or not.
    ByTheClock,
    /// An interval after the last one's answer, or after that was given up.
    AfterTheAnswer {
        /// Silent probes, or ICMP errors, after which a target that never
        /// answered is given up; at least one.
        silences: u32,
    },
}

/// A steady series of probes.
#[derive(Clone, Debug)]
pub struct SteadyPlan {
    /// Which target it is.
    pub target: TargetId,
    /// The address and port to probe; ICMP has no use for the port.
    pub address: SocketAddr,
    /// How to ask.
    pub method: SteadyMethod,
    /// How many probes; `None` until stopped.
    pub count: Option<u32>,
    /// Whether a probe waits for the last one's answer.
    pub turn: Turn,
    /// The time between two probes; at least [`LEAST_INTERVAL`].
    pub interval: Duration,
    /// How long an answer may take. What comes later is late, not lost.
    pub timeout: Duration,
    /// The ports to send from.
    pub ports: SourcePorts,
    /// What their packets look like.
    pub packet: PacketPlan,
}

/// What the packets of probes look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketPlan {
    /// Time to live, or hop limit; `None` for the system's.
    pub ttl: Option<u8>,
    /// Type of service, or traffic class; `None` for zero.
    pub tos: Option<u8>,
    /// Payload bytes: behind a SYN, in a datagram, in an echo request.
    pub sizes: Sizes,
    /// Sent whole or not at all, whatever the kernel knows of the path.
    pub dont_fragment: bool,
    /// The control bits of segments, in turn; none for a SYN
    /// ([`SteadyMethod::Syn`] only).
    pub flags: Vec<TcpFlags>,
    /// The maximum segment size that a SYN offers; `None` for Ethernet's.
    pub mss: Option<u16>,
    /// The interface to send over; `None` for the kernel's choice.
    pub interface: Option<String>,
}

impl PacketPlan {
    /// The control bits of the segment of this number.
    fn flags(&self, number: u32) -> TcpFlags {
        let count = self.flags.len().max(1);
        let flags = self.flags.get(number as usize % count);
        flags.copied().unwrap_or(TcpFlags::SYN)
    }
}

impl SteadyPlan {
    /// What the probes differ in: how many values it has.
    pub fn steps(&self) -> Option<u32> {
        let flags = u32::try_from(self.packet.flags.len()).unwrap_or(u32::MAX);
        let sizes = self.packet.sizes.count();
        let ports = self.ports.count().unwrap_or(1);
        [flags, sizes, ports].into_iter().find(|count| *count > 1)
    }

    /// Bytes before the payload of the probe of this number.
    fn headers(&self, number: u32) -> u16 {
        let ip = if self.address.is_ipv4() { 20 } else { 40 };
        match self.method {
            SteadyMethod::Syn => ip + u16::from(segment::header_len(self.packet.flags(number))),
            SteadyMethod::Connect => 0,
            // Both have the same.
            SteadyMethod::Icmp | SteadyMethod::Udp => ip + 8,
        }
    }

    /// What the probe of this number differs in.
    fn step(&self, number: u32) -> Option<ProbeStep> {
        self.steps()?;
        Some(if self.packet.flags.len() > 1 {
            ProbeStep::Flags(self.packet.flags(number).0)
        } else if self.packet.sizes.count() > 1 {
            ProbeStep::Size(self.packet.sizes.of(number))
        } else {
            ProbeStep::SourcePort(self.ports.of(number))
        })
    }
}

/// What a method hears.
#[derive(Clone, Debug)]
enum Heard {
    /// The probe of this number came so far on its way out.
    Sent {
        number: u32,
        stage: Stage,
        at: Timestamp,
    },
    /// The probe of this number was answered.
    Answered {
        number: u32,
        answer: ProbeAnswer,
        /// When, by the kernel.
        at: Option<Timestamp>,
        /// The round trip, where the kernel itself measured it.
        rtt: Option<Duration>,
        ttl: Option<u8>,
        syn_retransmissions: u8,
        reply: Option<Box<ProbeReply>>,
    },
}

impl Heard {
    /// An ICMP error about a probe from this port, 0 where there are none.
    fn icmp(number: u32, icmp: &Icmp, source_port: u16) -> Self {
        let reply = |from| {
            Box::new(ProbeReply {
                from,
                source_port,
                len: None,
                id: None,
                dont_fragment: None,
                segment: None,
            })
        };
        Self::Answered {
            number,
            answer: ProbeAnswer::Unreachable(icmp.kind, icmp.code),
            at: icmp.at,
            rtt: None,
            ttl: None,
            syn_retransmissions: 0,
            reply: icmp.from.map(reply),
        }
    }
}

/// A way to ask.
trait Asker {
    /// Sends the probe of this number, greater by one each time.
    fn ask(&mut self, number: u32) -> Result<(), Errno>;
    /// Waits until something may have come, at most so long.
    fn wait(&mut self, timeout: Duration) -> Result<(), Errno>;
    /// Hands out what came.
    fn hear(&mut self, heard: &mut Vec<Heard>) -> Result<(), Errno>;
    /// The probe of this number was given up, or is no longer of interest; how
    /// often its SYN was repeated by the kernel.
    fn forget(&mut self, number: u32) -> u8;
    /// Whether another probe may be awaited beside those that are.
    fn has_room(&self) -> bool {
        true
    }
}

/// A number for a series that no other one of this host has at the time: of
/// several that ask one host each knows its own.
fn identity() -> u32 {
    static SERIES: AtomicU32 = AtomicU32::new(0);
    let series = SERIES.fetch_add(1, Ordering::Relaxed);
    // A process has less than 22 bits (`PID_MAX_LIMIT`).
    std::process::id().wrapping_add(series << 22)
}

/// Probes `plan.address` until all probes are sent and answered or given up,
/// the target is given up, or `stop` is set. A target without a route is a
/// probe that cannot reach it, and the only one.
///
/// Round trips lie between the kernel's stamps of the probe at the device and
/// of its answer, for [`SteadyMethod::Connect`] they are the kernel's measure
/// of the handshake (`tcpi_min_rtt`, in microseconds, good to some ten of them;
/// in milliseconds where the SYN was repeated). Where the kernel has none they
/// are this program's time, which errs upward: `ProbeSample::stamp` says which.
///
/// # Errors
/// [`ProbeError::NotPermitted`] where the method needs a privilege that this
/// user lacks.
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
    // The kernel begins to stamp arrivals on all interfaces a little after the
    // first socket asks for it.
    pause(STAMPS_BEGIN, stop);
    series.run(asker.as_mut(), stop, &mut sink)?;
    if series.is_unsent() {
        let in_use = io::Error::from(io::ErrorKind::AddrInUse);
        return Err(failure("taking the source port", plan.address)(in_use));
    }
    for (id, text) in series.notes() {
        sink(note(clock.now(), id, text));
    }
    if series.opened() > 0 && plan.method == SteadyMethod::Syn {
        let text = resets_note(series.opened());
        sink(note(clock.now(), "probe-embryonic-resets", text));
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

/// What a target without a route is told to be; `None` for other errors.
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

/// What this host's kernel did to the target with so many SYN/ACKs.
fn resets_note(opened: usize) -> String {
    format!(
        "This host's kernel answered {opened} SYN/ACKs to our SYN probes with RST, so that the \
         target keeps no half-open connection: it counts them as EmbryonicRsts (resets \
         received for embryonic SYN_RECV sockets)."
    )
}

/// Gives a socket what the plan says of its packets.
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

/// The error of an operation on a socket for probes of `address`.
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

/// The same where a privilege may be missing.
fn opening(operation: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> ProbeError {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => ProbeError::NotPermitted {
            operation,
            needs: "CAP_NET_RAW",
        },
        _ => failure(operation, address)(error),
    }
}

/// The kernel's word for an error.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The address that stands for any of this host's.
fn any(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
