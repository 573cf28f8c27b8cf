//! Batches of packets, with the bytes of their payloads.

use std::fmt;
use std::ops::Range;

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::segment::Segment;

/// Packets in order, each with the position of its payload.
#[derive(Default)]
pub struct Packets {
    /// The packets without their payloads, each with the position of its payload.
    list: Vec<(Packet<'static>, Range<usize>)>,
    pub(super) bytes: Vec<u8>,
    /// Payloads of packets that were reassembled from fragments, which are not part of the bytes
    /// read. Their positions begin at [`ASIDE`].
    aside: Vec<u8>,
}

/// Position of the first byte of `aside`; positions in `bytes` are smaller.
const ASIDE: usize = 1 << (usize::BITS - 1);

impl Packets {
    /// Returns no packets, with room for this many bytes of payloads.
    pub fn with_room(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// Returns true if the payload fits into the memory that the payloads already take.
    pub fn has_room(&self, payload: &[u8]) -> bool {
        payload.len() <= self.bytes.capacity() - self.bytes.len()
    }

    /// Returns the packets, each with its payload.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Packet<'static>, &[u8])> {
        let packets = self.list.iter();
        packets.map(|(packet, place)| (packet, self.payload(place)))
    }

    /// Returns packet `index` and its payload.
    #[inline]
    pub fn at(&self, index: usize) -> Option<(&Packet<'static>, &[u8])> {
        let (packet, place) = self.list.get(index)?;
        Some((packet, self.payload(place)))
    }

    #[inline]
    fn payload(&self, place: &Range<usize>) -> &[u8] {
        match self.bytes.get(place.clone()) {
            Some(payload) => payload,
            None => self.payload_aside(place),
        }
    }

    #[cold]
    fn payload_aside(&self, place: &Range<usize>) -> &[u8] {
        let [begin, end] = [place.start, place.end].map(|at| at.wrapping_sub(ASIDE));
        self.aside.get(begin..end).unwrap_or_default()
    }

    /// Returns the packets together with their payloads.
    pub fn whole(&self) -> impl Iterator<Item = Packet<'_>> {
        self.iter()
            .map(|(packet, payload)| packet.with_payload(payload))
    }

    /// Returns the TCP segments, each with the captured part of its payload.
    pub fn segments(&self) -> impl Iterator<Item = (&Segment, &[u8])> {
        self.iter().filter_map(|(packet, payload)| match packet {
            Packet::Tcp(segment, _) => Some((segment, payload)),
            _ => None,
        })
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are no packets.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if packets were reassembled from fragments.
    pub(super) fn has_fragments(&self) -> bool {
        !self.aside.is_empty()
    }

    /// Returns the number of payload bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.aside.len()
    }

    /// Returns the memory that the packets and their bytes take, in bytes.
    pub fn memory(&self) -> usize {
        self.bytes() + self.list.len() * size_of::<(Packet<'static>, Range<usize>)>()
    }

    /// Keeps a packet, with a copy of its payload.
    pub fn push(&mut self, packet: &Packet<'_>, payload: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.list.push((bare(packet), begin..self.bytes.len()));
    }

    /// Removes all packets and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.forget();
        self.bytes.clear();
    }

    /// Removes all packets, but not their bytes.
    pub(super) fn forget(&mut self) {
        self.list.clear();
        self.aside.clear();
    }

    /// Keeps a packet that was reassembled from fragments, with a copy of its payload.
    #[cold]
    pub(super) fn put_aside(&mut self, packet: &Packet<'_>) {
        let begin = ASIDE + self.aside.len();
        self.aside.extend_from_slice(packet.payload());
        self.list
            .push((bare(packet), begin..ASIDE + self.aside.len()));
    }

    /// Keeps a packet whose payload is at position `payload` of the bytes read.
    #[inline]
    pub(super) fn place(&mut self, packet: &Packet<'_>, payload: Range<usize>) {
        match *packet {
            // Most packets are TCP. This branch writes them into the list without an intermediate
            // copy.
            Packet::Tcp(segment, _) => self.list.push((Packet::Tcp(segment, &[]), payload)),
            _ => self.list.push((bare(packet), payload)),
        }
    }
}

/// Returns the packet without its payload.
#[inline]
fn bare(packet: &Packet<'_>) -> Packet<'static> {
    packet.with_payload(&[])
}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (packets, bytes) = (self.list.len(), self.bytes.len());
        write!(f, "{packets} packets, {bytes} bytes")
    }
}
