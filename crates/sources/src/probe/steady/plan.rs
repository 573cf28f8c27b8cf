//! What a series of probes is to be.

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::observed::event::{ProbeStep, TargetId};
use lagtrace_core::observed::segment::TcpFlags;

use super::segment;
use super::sweep::{Sizes, SourcePorts};

/// The least time between two probes: 10,000 a second are no flood.
pub const LEAST_INTERVAL: Duration = Duration::from_micros(100);

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
    pub(super) fn flags(&self, number: u32) -> TcpFlags {
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
    pub(super) fn headers(&self, number: u32) -> u16 {
        let ip = if self.address.is_ipv4() { 20 } else { 40 };
        match self.method {
            SteadyMethod::Syn => ip + u16::from(segment::header_len(self.packet.flags(number))),
            SteadyMethod::Connect => 0,
            // Both have the same.
            SteadyMethod::Icmp | SteadyMethod::Udp => ip + 8,
        }
    }

    /// What the probe of this number differs in.
    pub(super) fn step(&self, number: u32) -> Option<ProbeStep> {
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
