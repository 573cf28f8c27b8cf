//! What routers and hosts say about packets of a flow.

use core::net::IpAddr;

use crate::event::PointId;
use crate::flow::{Direction, FlowKey};
use crate::segment::TcpFlags;
use crate::time::Timestamp;

/// An ICMP error (RFC 792, RFC 4443) and the packet that it speaks of, from
/// the headers that it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// When the observation point saw it, on that point's clock.
    pub at: Timestamp,
    /// The record's number in its source, from 1: what Wireshark shows.
    pub number: u64,
    /// Where it was seen.
    pub point: PointId,
    /// Who says so: a router on the way, or the destination itself.
    pub reporter: IpAddr,
    /// The flow of the packet that it quotes.
    pub flow: FlowKey,
    /// Which way that packet went; the error goes the other way.
    pub direction: Direction,
    /// That packet's sequence number, where it is TCP.
    pub seq: Option<u32>,
    /// The flags of its TCP header, where that is quoted up to the window and is
    /// no fragment's: what Wireshark takes into account then.
    pub flags: Option<TcpFlags>,
    /// What is said.
    pub kind: IcmpKind,
}

/// What an ICMP error says of a packet, the same for both IP versions but for
/// the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// It does not fit through the next link, which takes packets of this many
    /// bytes; 0 from routers that do not say (RFC 1191 §4, RFC 8201).
    TooBig(u32),
    /// It cannot be delivered, for the reason of this code.
    Unreachable(u8),
    /// It was forwarded too often (code 0) or its fragments came too late (1).
    TimeExceeded(u8),
    /// Its header cannot be processed, for the reason of this code.
    ParameterProblem(u8),
}

impl IcmpError {
    /// Type and code as they were on the wire.
    pub fn wire(&self) -> (u8, u8) {
        match (self.kind, self.reporter.is_ipv4()) {
            (IcmpKind::TooBig(_), true) => (3, 4),
            (IcmpKind::TooBig(_), false) => (2, 0),
            (IcmpKind::Unreachable(code), true) => (3, code),
            (IcmpKind::Unreachable(code), false) => (1, code),
            (IcmpKind::TimeExceeded(code), true) => (11, code),
            (IcmpKind::TimeExceeded(code), false) => (3, code),
            (IcmpKind::ParameterProblem(code), true) => (12, code),
            (IcmpKind::ParameterProblem(code), false) => (4, code),
        }
    }
}
