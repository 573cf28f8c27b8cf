//! The plan of a series of probes.

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::observed::event::{ProbeStep, TargetId};
use lagtrace_core::observed::segment::TcpFlags;

use super::segment;
use super::sweep::{Sizes, SourcePorts};

/// Minimum interval between two probes: at most 10,000 probes per second are sent, which is not yet
/// a flood.
pub const LEAST_INTERVAL: Duration = Duration::from_micros(100);

/// The kind of packet or call that a probe consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyMethod {
    /// A SYN from a raw socket: needs `CAP_NET_RAW`.
    Syn,
    /// A call of `connect`.
    Connect,
    /// An ICMP echo, from a datagram socket if the kernel allows this user to open one
    /// (`net.ipv4.ping_group_range`), otherwise from a raw socket.
    Icmp,
    /// A UDP datagram.
    Udp,
}

/// The rule for when the next probe is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// An interval after the last probe, whether that probe was answered or not.
    ByTheClock,
    /// An interval after the last probe was answered or given up.
    AfterTheAnswer {
        /// Number of unanswered probes, or of ICMP errors, after which a target that never answered
        /// is given up; at least one.
        silences: u32,
    },
}

/// A steady series of probes.
#[derive(Clone, Debug)]
pub struct SteadyPlan {
    /// Role of the target.
    pub target: TargetId,
    /// The address and port to probe; ICMP does not use the port.
    pub address: SocketAddr,
    /// Probe method.
    pub method: SteadyMethod,
    /// Number of probes; `None`: until stopped.
    pub count: Option<u32>,
    /// Rule for when the next probe is sent.
    pub turn: Turn,
    /// Time between two probes; at least [`LEAST_INTERVAL`].
    pub interval: Duration,
    /// Timeout of an answer. An answer after the timeout counts as late, not as lost.
    pub timeout: Duration,
    /// Source ports of the probes.
    pub ports: SourcePorts,
    /// Header fields and sizes of the packets.
    pub packet: PacketPlan,
}

/// The header fields and sizes of probe packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketPlan {
    /// Time to live or hop limit; `None` for the system's default.
    pub ttl: Option<u8>,
    /// Type of service, or traffic class; `None` for zero.
    pub tos: Option<u8>,
    /// Payload sizes in bytes: of data in a SYN, of a datagram, or of an echo request.
    pub sizes: Sizes,
    /// True if packets are never fragmented, regardless of the path MTU known to the kernel.
    pub dont_fragment: bool,
    /// Control bits of segments, in turn; empty for a SYN ([`SteadyMethod::Syn`] only).
    pub flags: Vec<TcpFlags>,
    /// Maximum segment size that a SYN advertises; `None` for Ethernet's.
    pub mss: Option<u16>,
    /// Interface to send through; `None` for the kernel's choice.
    pub interface: Option<String>,
}

impl PacketPlan {
    /// Returns the control bits of the segment with this number.
    pub(super) fn flags(&self, number: u32) -> TcpFlags {
        let count = self.flags.len().max(1);
        let flags = self.flags.get(number as usize % count);
        flags.copied().unwrap_or(TcpFlags::SYN)
    }
}

impl SteadyPlan {
    /// Returns the number of values of the property in which the probes differ; `None` if all
    /// probes are alike.
    pub fn steps(&self) -> Option<u32> {
        let flags = u32::try_from(self.packet.flags.len()).unwrap_or(u32::MAX);
        let sizes = self.packet.sizes.count();
        let ports = self.ports.count().unwrap_or(1);
        [flags, sizes, ports].into_iter().find(|count| *count > 1)
    }

    /// Returns the number of bytes before the payload in the probe with this number.
    pub(super) fn headers(&self, number: u32) -> u16 {
        let ip = if self.address.is_ipv4() { 20 } else { 40 };
        match self.method {
            SteadyMethod::Syn => ip + u16::from(segment::header_len(self.packet.flags(number))),
            SteadyMethod::Connect => 0,
            // ICMP and UDP headers have the same length.
            SteadyMethod::Icmp | SteadyMethod::Udp => ip + 8,
        }
    }

    /// Returns the property in which the probe with this number differs, and its value.
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
