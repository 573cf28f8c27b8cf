//! The plan of a series of probes.

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::observed::event::{ProbeStep, TargetId};
use lagtrace_core::observed::segment::TcpFlags;

use super::segment;
use super::sweep::{Sizes, SourcePorts};

/// Minimum interval between two probes. At most 10,000 probes per second are sent, so that a series
/// is no flood.
pub const LEAST_INTERVAL: Duration = Duration::from_micros(100);

/// The method of probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyMethod {
    /// A SYN from a raw socket. Needs `CAP_NET_RAW`.
    Syn,
    /// A call of `connect`.
    Connect,
    /// An ICMP echo request. It is sent from a datagram socket if the user may open one
    /// (`net.ipv4.ping_group_range`), otherwise from a raw socket.
    Icmp,
    /// A UDP datagram.
    Udp,
}

/// The rule that determines when the next probe is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// After the interval, even if the last probe is not answered yet.
    ByTheClock,
    /// After the interval that begins when the last probe is answered or times out.
    AfterTheAnswer {
        /// Number of unanswered probes or ICMP errors after which the series ends, if the target
        /// has never answered. At least one.
        silences: u32,
    },
}

/// A series of probes at regular intervals.
#[derive(Clone, Debug)]
pub struct SteadyPlan {
    /// Role of the target: the server under investigation or its twin.
    pub target: TargetId,
    /// The address and port to probe. ICMP does not use the port.
    pub address: SocketAddr,
    /// Probe method.
    pub method: SteadyMethod,
    /// Number of probes; `None`: no limit until stopped.
    pub count: Option<u32>,
    /// The rule that determines when the next probe is sent.
    pub turn: Turn,
    /// Interval between two probes, at least [`LEAST_INTERVAL`].
    pub interval: Duration,
    /// Timeout of a probe. An answer after the timeout counts as late, not as lost.
    pub timeout: Duration,
    /// Source ports of the probes.
    pub ports: SourcePorts,
    /// Header fields and payload sizes of the packets.
    pub packet: PacketPlan,
}

/// The header fields and payload sizes of probe packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketPlan {
    /// Time to live or hop limit; `None`: the system's default.
    pub ttl: Option<u8>,
    /// Type of service or traffic class; `None`: zero.
    pub tos: Option<u8>,
    /// Payload sizes in bytes: of a SYN, a datagram or an echo request.
    pub sizes: Sizes,
    /// True to forbid fragmentation, even above the path MTU that the kernel knows.
    pub dont_fragment: bool,
    /// Control bits of successive segments, repeated. If empty, each segment is a SYN
    /// ([`SteadyMethod::Syn`] only).
    pub flags: Vec<TcpFlags>,
    /// Maximum segment size that a SYN advertises; `None`: the value for Ethernet.
    pub mss: Option<u16>,
    /// Interface to send through; `None`: the kernel chooses.
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
    /// Returns the number of values of the property in which the probes differ; `None` if they do
    /// not differ.
    pub fn steps(&self) -> Option<u32> {
        let flags = u32::try_from(self.packet.flags.len()).unwrap_or(u32::MAX);
        let sizes = self.packet.sizes.count();
        let ports = self.ports.count().unwrap_or(1);
        [flags, sizes, ports].into_iter().find(|count| *count > 1)
    }

    /// Returns the number of header bytes before the payload of probe number `number`.
    pub(super) fn headers(&self, number: u32) -> u16 {
        let ip = if self.address.is_ipv4() { 20 } else { 40 };
        match self.method {
            SteadyMethod::Syn => ip + u16::from(segment::header_len(self.packet.flags(number))),
            SteadyMethod::Connect => 0,
            // ICMP and UDP headers have the same length.
            SteadyMethod::Icmp | SteadyMethod::Udp => ip + 8,
        }
    }

    /// Returns the property in which the probes differ, with its value for probe number `number`.
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
