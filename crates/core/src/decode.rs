//! From bytes to [`Segment`]s: capture containers, link layers, IP, TCP; to
//! the [`IcmpError`]s about them; and to what comes before them, [`Datagram`]s
//! and the search for [`Neighbour`]s.
//!
//! A [`Container`] is fed the bytes of a capture file, split anywhere, and
//! yields [`Record`]s; a [`Decoder`] turns a record of a file or of a live
//! capture into a segment and its payload, borrowed from the record. Tunnels
//! are looked into: what counts is the innermost packet. Nothing here allocates
//! per packet or does I/O, and no byte sequence makes it panic or
//! keep more than [`Container::LONGEST`] bytes waiting. What cannot be read is
//! [`Packet::Other`] or a [`Damage`], never an `Err`.

mod byte_order;
mod container;
mod damage;
mod fragment;
mod icmp;
mod ip;
mod link;
mod neighbour;
mod pcap;
mod pcapng;
mod plain;
mod tcp;
#[cfg(test)]
mod tests;
mod tunnel;
mod udp;

pub use container::{Container, Found, MAX_CAPTURED, Step};
pub use damage::{Damage, Fault};
pub use link::LinkType;

use fragment::Fragments;
use ip::protocol;
use plain::Plain;

use crate::datagram::{Datagram, Neighbour};
use crate::event::PointId;
use crate::icmp::{Echo, IcmpError};
use crate::segment::Segment;
use crate::time::Timestamp;

/// One captured frame, its bytes borrowed from the buffer they were read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in its source, from 1: what Wireshark shows.
    pub number: u64,
    /// When it was captured; `None` where the container does not say (simple
    /// packet blocks of pcapng).
    pub at: Option<Timestamp>,
    /// How its bytes begin.
    pub link: LinkType,
    /// The interface within a pcapng section, from 0; 0 elsewhere.
    pub interface: u16,
    /// Length on the wire in bytes, at least `bytes.len()`.
    pub original_len: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// Whether the snap length cut bytes off.
    #[inline]
    pub fn is_cut(&self) -> bool {
        u64::from(self.original_len) > self.bytes.len() as u64
    }
}

/// What a record amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A TCP segment and what was captured of its payload.
    Tcp(Segment, &'a [u8]),
    /// What a router or host says about a packet of a TCP or UDP flow.
    Icmp(IcmpError),
    /// A ping, its answer, or what a router or host says about it.
    Echo(Echo),
    /// A UDP datagram and what was captured of its payload.
    Udp(Datagram, &'a [u8]),
    /// A host asks for its neighbour's hardware address, or is told.
    Neighbour(Neighbour),
    /// Anything else: another protocol, a later fragment, malformed or cut
    /// within the fixed TCP header.
    Other,
}

impl<'a> Packet<'a> {
    /// When it was seen; `None` for what bears on no flow.
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Tcp(segment, _) => Some(segment.at),
            Self::Udp(header, _) => Some(header.at),
            Self::Icmp(error) => Some(error.at),
            Self::Echo(echo) => Some(echo.at),
            Self::Neighbour(step) => Some(step.at),
            Self::Other => None,
        }
    }

    /// What was captured of its payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Self::Tcp(_, payload) | Self::Udp(_, payload) => payload,
            Self::Icmp(_) | Self::Echo(_) | Self::Neighbour(_) | Self::Other => &[],
        }
    }

    /// The same with another payload.
    #[inline]
    pub fn with_payload<'b>(&self, payload: &'b [u8]) -> Packet<'b> {
        match *self {
            Self::Tcp(segment, _) => Packet::Tcp(segment, payload),
            Self::Udp(header, _) => Packet::Udp(header, payload),
            Self::Icmp(error) => Packet::Icmp(error),
            Self::Echo(echo) => Packet::Echo(echo),
            Self::Neighbour(step) => Packet::Neighbour(step),
            Self::Other => Packet::Other,
        }
    }
}

/// Reads the headers of a record seen at `point`, without regard to others.
///
/// A first fragment counts as a segment of what it holds; later fragments have
/// no TCP header and are [`Packet::Other`]. Checksums are not verified: on the
/// sending host they are mostly filled in after the capture.
#[inline]
pub fn packet<'a>(record: &Record<'a>, point: PointId) -> Packet<'a> {
    Decoder::default().packet(record, point)
}

/// Reads the headers of one source's records, one after the other.
///
/// Unlike [`packet`] it knows the first fragments of segments, so that the
/// later ones count as segments that go on where the first one ended.
#[derive(Debug, Default)]
pub struct Decoder {
    fragments: Fragments,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the headers of a record seen at `point`.
    #[inline]
    pub fn packet<'a>(&mut self, record: &Record<'a>, point: PointId) -> Packet<'a> {
        let network = link::network(record);
        let plain = network.and_then(|(bytes, _)| Plain::of(bytes));
        match (plain, record.at) {
            (Some(plain), Some(at)) => match plain.usual_segment(record, at, point) {
                Some(segment) => Packet::Tcp(segment, plain.payload),
                None => Packet::Tcp(plain.segment(record, at, point), plain.payload),
            },
            _ => self.read(record, point, network).unwrap_or(Packet::Other),
        }
    }

    /// Reads the headers of any record that holds this IP packet, if one.
    #[inline(never)]
    fn read<'a>(
        &mut self,
        record: &Record<'a>,
        point: PointId,
        network: Option<(&'a [u8], u32)>,
    ) -> Option<Packet<'a>> {
        let Some(network) = network else {
            return neighbour::arp(record, point).map(Packet::Neighbour);
        };
        let datagram = ip::read(network)?;
        let datagram = match datagram.protocol {
            protocol::TCP => datagram,
            _ => tunnel::innermost(datagram)?,
        };
        if let Some(part) = datagram.fragment.filter(|part| !part.is_first) {
            let mut segment = self.fragments.go_on(&datagram, part)?;
            (segment.at, segment.number, segment.point) = (record.at?, record.number, point);
            return Some(Packet::Tcp(segment, datagram.payload));
        }
        match datagram.protocol {
            protocol::TCP => self.segment(record, point, &datagram),
            protocol::UDP => udp::read(record, point, &datagram)
                .map(|(header, payload)| Packet::Udp(header, payload)),
            protocol::ICMP | protocol::ICMPV6 => icmp::read(record, point, &datagram)
                .or_else(|| neighbour::ndp(record, point, &datagram).map(Packet::Neighbour)),
            _ => None,
        }
    }

    fn segment<'a>(
        &mut self,
        record: &Record<'a>,
        point: PointId,
        datagram: &ip::Datagram<'a>,
    ) -> Option<Packet<'a>> {
        let at = record.at?;
        let (header, payload) = tcp::read(datagram)?;
        let (flow, direction) = header.flow(datagram);
        let segment = Segment {
            at,
            number: record.number,
            point,
            flow,
            direction,
            seq: header.seq,
            ack: header.ack,
            flags: header.flags,
            window: header.window,
            payload_len: header.payload_len,
            options: header.options,
            ip: datagram.facts,
        };
        if datagram.fragment.is_some() {
            let segment = self.fragments.begin(segment, datagram);
            return Some(Packet::Tcp(segment, payload));
        }
        Some(Packet::Tcp(segment, payload))
    }
}
