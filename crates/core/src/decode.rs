//! Decoding of bytes to [`Segment`]s: capture containers, link layers, IP, TCP; to the
//! [`IcmpError`]s about them; and to what comes before them, [`Datagram`]s and the search for
//! [`Neighbour`]s.
//!
//! A [`Container`] is fed the bytes of a capture file, split anywhere, and
//! yields [`Record`]s; a [`Decoder`] turns a record of a file or of a live
//! capture into a segment and its payload, borrowed from the record. Tunnels
//! are looked into: what counts is the innermost packet. Nothing here allocates
//! per packet, but for fragments, or does I/O, and no byte sequence makes it
//! panic or keep more than [`Container::LONGEST`] bytes waiting. What cannot be read is
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
mod read;
mod snoop;
mod tcp;
#[cfg(test)]
mod tests;
mod tunnel;
mod udp;

pub use container::{Container, Found, MAX_CAPTURED, Step};
pub use damage::{Damage, Fault};
pub use link::LinkType;
pub use pcap::Lengths;

use core::ops::Range;

use fragment::{Fragments, Progress};
use plain::Plain;
use read::{Read, alone, first_part, read, transport};

use crate::observed::datagram::{Datagram, Neighbour};
use crate::observed::event::PointId;
use crate::observed::icmp::{Echo, IcmpError};
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;

/// A captured frame, its bytes borrowed from the buffer they were read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Number of the record in its source, from 1, as Wireshark shows it.
    pub number: u64,
    /// Time of the capture; `None` where the container does not say (simple packet blocks of
    /// pcapng).
    pub at: Option<Timestamp>,
    /// Link-layer type of the frame.
    pub link: LinkType,
    /// The interface within a pcapng section, from 0; 0 elsewhere.
    pub interface: u16,
    /// Length on the wire in bytes, at least `bytes.len()`.
    pub original_len: u32,
    /// The captured bytes of the frame.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// Returns true if the snap length cut bytes off.
    #[inline]
    pub fn is_cut(&self) -> bool {
        u64::from(self.original_len) > self.bytes.len() as u64
    }
}

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A TCP segment and what was captured of its payload.
    Tcp(Segment, &'a [u8]),
    /// An ICMP error: what a router or host says about a packet of a TCP or UDP flow.
    Icmp(IcmpError),
    /// A ping, its answer, or what a router or host says about it.
    Echo(Echo),
    /// A UDP datagram and what was captured of its payload.
    Udp(Datagram, &'a [u8]),
    /// A search for a neighbour's hardware address: a host asks for it, or is told.
    Neighbour(Neighbour),
    /// Anything else: another protocol, a later fragment, malformed or cut
    /// within the fixed TCP header.
    Other,
}

impl<'a> Packet<'a> {
    /// Returns the time of the capture; `None` for what bears on no flow.
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

    /// Returns the captured payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Self::Tcp(_, payload) | Self::Udp(_, payload) => payload,
            Self::Icmp(_) | Self::Echo(_) | Self::Neighbour(_) | Self::Other => &[],
        }
    }

    /// Returns the packet with another payload.
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
/// A first fragment counts as a packet of what it holds; later fragments have
/// no header and are [`Packet::Other`]. Checksums are not verified: on the
/// sending host they are mostly filled in after the capture.
#[inline]
pub fn packet<'a>(record: &Record<'a>, point: PointId) -> Packet<'a> {
    let network = link::network(record);
    match Plain::of_record(record, network) {
        Some((plain, at)) => plain.packet(record, at, point),
        None => alone(record, point, network),
    }
}

/// Reads the headers of one source's records, one after the other.
///
/// Unlike [`packet`] it puts fragments together: a packet counts when the last
/// one of its fragments has come.
#[derive(Debug, Default)]
pub struct Decoder {
    fragments: Fragments,
    /// The last packet that was put together, and where its payload lies.
    whole: Vec<u8>,
    last: Range<usize>,
}

impl Decoder {
    /// Creates a decoder that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the headers of a record seen at `point`. The payload is a part of
    /// the record's bytes, unless the packet was cut into fragments.
    #[inline]
    pub fn packet<'a>(&'a mut self, record: &Record<'a>, point: PointId) -> Packet<'a> {
        let network = link::network(record);
        match Plain::of_record(record, network) {
            Some((plain, at)) => plain.packet(record, at, point),
            None => self.read(record, point, network),
        }
    }

    /// Returns the payload of the last packet that was put together from fragments.
    pub fn last_whole(&self) -> &[u8] {
        self.whole.get(self.last.clone()).unwrap_or_default()
    }

    /// Reads the headers of any record that holds this IP packet, if one.
    #[inline(never)]
    fn read<'a>(
        &'a mut self,
        record: &Record<'a>,
        point: PointId,
        network: Option<(&'a [u8], u32)>,
    ) -> Packet<'a> {
        let packet = match read(record, point, network) {
            Some(Read::Packet(packet)) => Some(packet),
            Some(Read::Part(part)) => self.take_part(record, point, part),
            None => None,
        };
        packet.unwrap_or(Packet::Other)
    }

    /// Takes in a fragment; returns the packet that it completes.
    #[cold]
    fn take_part<'a>(
        &'a mut self,
        record: &Record<'a>,
        point: PointId,
        part: ip::Datagram<'a>,
    ) -> Option<Packet<'a>> {
        let at = record.at?;
        let mut whole = match self.fragments.take(at, point, &part)? {
            Progress::Waiting => return None,
            Progress::Alone(index) => {
                let packet = first_part(record, point, part)?;
                self.fragments.was_told(index);
                return Some(packet);
            }
            Progress::Whole(whole) => whole,
        };
        // A tunnel's packet that was cut may carry parts of one that was.
        for _ in 0..tunnel::MAX_NESTING {
            let inner = tunnel::innermost(whole.datagram())?;
            if inner.fragment.is_some() {
                whole = match self.fragments.take(at, point, &inner)? {
                    Progress::Whole(whole) => whole,
                    Progress::Waiting | Progress::Alone(_) => return None,
                };
                continue;
            }
            let packet = whole.untold(transport(record, point, &inner)?)?;
            let range = whole.place(packet.payload());
            let packet = packet.with_payload(&[]);
            (self.whole, self.last) = (whole.bytes, range);
            return Some(packet.with_payload(self.last_whole()));
        }
        None
    }
}
