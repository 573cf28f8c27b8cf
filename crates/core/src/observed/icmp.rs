//! ICMP errors from routers and hosts about packets of a flow.

use core::net::IpAddr;

use crate::observed::flow::{Direction, FlowKey};
use crate::observed::point::PointId;
use crate::observed::segment::TcpFlags;
use crate::observed::time::Timestamp;

/// An ICMP error (RFC 792, RFC 4443), and the packet that caused it, from the headers that the
/// error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// The time at the observation point, on that point's clock.
    pub at: Timestamp,
    /// The record's number in its source, from 1, as Wireshark shows it.
    pub number: u64,
    /// The observation point that saw the error.
    pub point: PointId,
    /// The sender of the error: a router on the path, or the destination itself.
    pub reporter: IpAddr,
    /// The flow of the quoted packet.
    pub flow: FlowKey,
    /// Direction of the quoted packet; the error goes the other way.
    pub direction: Direction,
    /// Sequence number of the quoted packet, if it is TCP.
    pub seq: Option<u32>,
    /// The flags of the quoted TCP header. `None` if the quote ends before the window field, or if
    /// it is from a fragment: Wireshark shows the flags under the same condition.
    pub flags: Option<TcpFlags>,
    /// The kind of the error.
    pub kind: IcmpKind,
}

/// A ping, or its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The time at the observation point, on that point's clock.
    pub at: Timestamp,
    /// The record's number in its source, from 1, as Wireshark shows it.
    pub number: u64,
    /// The observation point that saw the packet.
    pub point: PointId,
    /// The host that sends the ping.
    pub asker: IpAddr,
    /// The host to which the ping is sent.
    pub target: IpAddr,
    /// The identifier of the ping's series.
    pub id: u16,
    /// The sequence number of the ping in that series.
    pub seq: u16,
    /// The step of the ping represented by this packet.
    pub step: EchoStep,
}

/// A step of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoStep {
    /// The asker's request.
    Request,
    /// The target's reply.
    Reply,
    /// An ICMP error from a router or host: the ping could not be delivered.
    Rejected {
        /// The sender of the error.
        reporter: IpAddr,
        /// The error.
        kind: IcmpKind,
    },
}

/// The kind of an ICMP error, the same for both IP versions except for the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// The packet does not fit through the next link, whose MTU is this many bytes; 0 from routers
    /// that do not report it (RFC 1191 §4, RFC 8201).
    TooBig(u32),
    /// The packet cannot be delivered; the code is the reason.
    Unreachable(u8),
    /// The packet's time to live expired (code 0), or fragments were missing for too long (1).
    TimeExceeded(u8),
    /// The packet's header cannot be processed; the code is the reason.
    ParameterProblem(u8),
}

impl IcmpError {
    /// Returns type and code as on the wire.
    pub fn wire(&self) -> (u8, u8) {
        self.kind.wire(self.reporter.is_ipv4())
    }
}

impl IcmpKind {
    /// Returns the type and code as on the wire: in ICMP if `is_v4` is true, otherwise in ICMPv6.
    pub fn wire(self, is_v4: bool) -> (u8, u8) {
        match (self, is_v4) {
            (Self::TooBig(_), true) => (3, 4),
            (Self::TooBig(_), false) => (2, 0),
            (Self::Unreachable(code), true) => (3, code),
            (Self::Unreachable(code), false) => (1, code),
            (Self::TimeExceeded(code), true) => (11, code),
            (Self::TimeExceeded(code), false) => (3, code),
            (Self::ParameterProblem(code), true) => (12, code),
            (Self::ParameterProblem(code), false) => (4, code),
        }
    }

    /// Returns true if the error comes from a packet filter (RFC 1812 §5.2.7.1, RFC 4443
    /// §3.1).
    pub(crate) fn is_prohibited(self, is_v4: bool) -> bool {
        match self {
            Self::Unreachable(code) if is_v4 => matches!(code, 9 | 10 | 13),
            Self::Unreachable(code) => matches!(code, 1 | 5),
            _ => false,
        }
    }

    /// Returns true if the host itself reports that it does not know the packet's protocol. ICMPv6
    /// has another type for it.
    pub(crate) fn is_protocol_unknown(self, is_v4: bool) -> bool {
        is_v4 && self == Self::Unreachable(2)
    }

    /// Returns true if the host itself reports that nothing listens on the port.
    pub(crate) fn is_port_closed(self, is_v4: bool) -> bool {
        let code = if is_v4 { 3 } else { 4 };
        self == Self::Unreachable(code)
    }
}
