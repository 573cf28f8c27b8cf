//! Decoding of captured bytes into [`Segment`]s: capture formats, link layers, IP and TCP. The
//! decoder also finds [`IcmpError`]s about segments, [`Datagram`]s, and the resolution of a
//! [`Neighbour`]'s hardware address.
//!
//! A [`Container`] takes the bytes of a capture file in chunks of any size, and yields [`Record`]s.
//! A [`Decoder`] turns a record of a file or of a live capture into a segment and its payload,
//! which is borrowed from the record. Tunnels are unwrapped, and the innermost packet counts.
//! Nothing here does I/O or allocates per packet, except for fragments. No byte sequence causes a
//! panic or makes this code buffer more than [`Container::LONGEST`] bytes. Bytes that cannot be
//! read become [`Packet::Other`] or a [`Damage`], never an `Err`.

mod byte_order;
mod container;
mod damage;
mod fragment;
mod frame;
mod icmp;
mod ip;
mod link;
mod neighbour;
mod pcap;
mod pcapng;
pub mod pieces;
mod plain;
mod read;
mod sieve;
mod snoop;
mod tcp;
#[cfg(test)]
mod tests;
mod tunnel;
mod udp;

pub use container::{Container, Found, Position, Step};
pub use damage::{Damage, Fault};
pub use frame::MAX_CAPTURED;
pub use link::LinkType;
pub use pcap::Lengths;
pub use sieve::{SeenFlows, Sieve};

use core::ops::Range;

use fragment::{Fragments, Progress};
use plain::Plain;
use read::{Read, alone, first_part, read, transport};

use crate::observed::datagram::{Datagram, Neighbour};
use crate::observed::event::PointId;
use crate::observed::icmp::{Echo, IcmpError};
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;

/// A captured frame. It borrows its bytes from the buffer into which they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Number of the record in its source, from 1, as Wireshark shows it.
    pub number: u64,
    /// Time of the capture; `None` if the container does not record it (simple packet blocks of
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
    /// A TCP segment and the captured part of its payload.
    Tcp(Segment, &'a [u8]),
    /// An ICMP error from a router or host about a packet of a TCP or UDP flow.
    Icmp(IcmpError),
    /// A ping, a ping reply, or an ICMP error about a ping.
    Echo(Echo),
    /// A UDP datagram and the captured part of its payload.
    Udp(Datagram, &'a [u8]),
    /// A step of the resolution of a neighbour's hardware address: a host's request, or the answer.
    Neighbour(Neighbour),
    /// Anything else: another protocol, a later fragment, a malformed packet, or one cut within the
    /// fixed TCP header.
    Other,
}

impl<'a> Packet<'a> {
    /// Returns the time of the capture; `None` for [`Packet::Other`], which belongs to no flow.
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

/// Reads the headers of a record seen at `point`, independently of other records.
///
/// A first fragment counts as a packet with the payload of that fragment. Later fragments have no
/// transport header and are [`Packet::Other`]. Checksums are not verified, because on the sending
/// host most of them are filled in after the capture.
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
/// Unlike [`packet`], it reassembles fragments: a packet counts when its last fragment has arrived.
#[derive(Debug, Default)]
pub struct Decoder {
    fragments: Fragments,
    /// The last reassembled packet, and the position of its payload.
    whole: Vec<u8>,
    last: Range<usize>,
}

impl Decoder {
    /// Creates a decoder without pending fragments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the headers of a record seen at `point`. The payload is a slice of the record's bytes,
    /// unless the packet was fragmented.
    #[inline]
    pub fn packet<'a>(&'a mut self, record: &Record<'a>, point: PointId) -> Packet<'a> {
        let network = link::network(record);
        match Plain::of_record(record, network) {
            Some((plain, at)) => plain.packet(record, at, point),
            None => self.read(record, point, network),
        }
    }

    /// Returns the payload of the last reassembled packet.
    pub fn last_whole(&self) -> &[u8] {
        self.whole.get(self.last.clone()).unwrap_or_default()
    }

    /// Reads the headers of any record; `network` is the IP packet in the record, if there is one.
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

    /// Processes a fragment; returns the packet that it completes.
    #[cold]
    fn take_part<'a>(
        &'a mut self,
        record: &Record<'a>,
        point: PointId,
        part: ip::Datagram<'a>,
    ) -> Option<Packet<'a>> {
        let at = record.at?;
        let mut whole = match self.fragments.add_fragment(at, point, &part)? {
            Progress::Waiting => return None,
            Progress::Alone(index) => {
                let packet = first_part(record, point, part)?;
                self.fragments.was_told(index);
                return Some(packet);
            }
            Progress::Whole(whole) => whole,
        };
        // A fragmented tunnel packet may carry fragments of an inner packet.
        for _ in 0..tunnel::MAX_NESTING {
            let inner = tunnel::innermost(whole.datagram())?;
            if inner.fragment.is_some() {
                whole = match self.fragments.add_fragment(at, point, &inner)? {
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
