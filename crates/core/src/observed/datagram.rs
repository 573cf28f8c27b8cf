//! Header facts of packets that are not TCP but precede a connection: UDP datagrams, and the
//! resolution of a neighbour's hardware address.

use core::net::IpAddr;

use crate::observed::flow::{Direction, FlowKey};
use crate::observed::point::PointId;
use crate::observed::segment::SentBy;
use crate::observed::time::Timestamp;

/// A UDP datagram as a packet source saw it. Its payload is passed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The time at the observation point, on that point's clock.
    pub at: Timestamp,
    /// The record's number in its source, from 1, as Wireshark shows it.
    pub number: u64,
    /// The observation point that saw the datagram.
    pub point: PointId,
    /// The datagram's 5-tuple.
    pub flow: FlowKey,
    /// The datagram's direction.
    pub direction: Direction,
    /// Payload bytes on the wire; fewer may have been captured.
    pub payload_len: u16,
    /// The sender, as seen from the observation point.
    pub sent_by: SentBy,
}

/// A step in the resolution of a neighbour's hardware address (ARP, RFC 826; neighbour discovery,
/// RFC 4861 §7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The time at the observation point, on that point's clock.
    pub at: Timestamp,
    /// The record's number in its source, from 1, as Wireshark shows it.
    pub number: u64,
    /// The observation point that saw the packet.
    pub point: PointId,
    /// The host that asks.
    pub asker: IpAddr,
    /// The host whose address is wanted.
    pub target: IpAddr,
    /// True for the target's answer; false for the asker's request.
    pub is_answer: bool,
}
