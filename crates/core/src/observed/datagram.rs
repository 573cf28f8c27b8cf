//! The header facts of what is no TCP segment and yet comes before one: UDP
//! datagrams, and the search for a neighbour's hardware address.

use core::net::IpAddr;

use crate::observed::event::PointId;
use crate::observed::flow::{Direction, FlowKey};
use crate::observed::time::Timestamp;

/// One UDP datagram as a packet source saw it. Its payload travels beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When the observation point saw it, on that point's clock.
    pub at: Timestamp,
    /// The record's number in its source, from 1: what Wireshark shows.
    pub number: u64,
    /// Where it was seen.
    pub point: PointId,
    /// Its 5-tuple.
    pub flow: FlowKey,
    /// Which way it went.
    pub direction: Direction,
    /// Payload bytes on the wire; fewer may have been captured.
    pub payload_len: u16,
}

/// A step in the search for a neighbour's hardware address (ARP, RFC 826;
/// neighbour discovery, RFC 4861 §7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// When the observation point saw it, on that point's clock.
    pub at: Timestamp,
    /// The record's number in its source, from 1: what Wireshark shows.
    pub number: u64,
    /// Where it was seen.
    pub point: PointId,
    /// The host that wants to know.
    pub asker: IpAddr,
    /// The host whose address is wanted.
    pub target: IpAddr,
    /// Whether the target tells it, or the asker asks.
    pub is_answer: bool,
}
