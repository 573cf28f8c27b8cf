//! Reassembly of fragmented IP packets.
//!
//! As in a kernel (RFC 791 §3.2, RFC 8200 §4.5), a packet counts when all its fragments have
//! arrived, in any order. A packet with overlapping fragments is dropped as a whole (RFC 5722).
//! Memory is bounded: [`MAX_PACKETS`] packets of at most [`MAX_LEN`] bytes each, for [`REASSEMBLY_TIME`].

use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use super::Packet;
use super::ip::{Datagram, Fragment, protocol};
use crate::observed::event::PointId;
use crate::observed::segment::TcpFlags;
use crate::observed::time::Timestamp;

/// Maximum number of incomplete packets kept at one time. Few are incomplete at once, because the
/// fragments of a packet usually arrive together.
const MAX_PACKETS: usize = 64;
/// Maximum payload of an IP packet in bytes; no fragment may extend beyond it.
pub(super) const MAX_LEN: u32 = 65_535;
/// Maximum number of fragments of one packet. A packet of 64 KiB exceeds it only if the MTU is
/// below 300 bytes, where such packets do not occur.
const MAX_PIECES: usize = 256;
/// The time for which missing fragments are awaited: Linux's `ipfrag_time`.
const REASSEMBLY_TIME: Duration = Duration::from_secs(30);

/// The packets with missing fragments.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    partial: VecDeque<Partial>,
    /// True if later fragments were seen. A capture filter for ports passes only first fragments,
    /// because later ones have no ports.
    has_later: bool,
}

/// A packet being reassembled.
#[derive(Debug)]
struct Partial {
    key: Key,
    begun: Timestamp,
    /// The packet's headers from the first fragment, and the offset at which its payload begins.
    head: Option<(Datagram<'static>, u32)>,
    /// The end of the packet, from its last fragment.
    end: Option<u32>,
    pieces: Vec<Piece>,
    /// The captured payload, each fragment at its offset.
    bytes: Vec<u8>,
    is_told: bool,
}

/// The fields that the fragments of one packet share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    point: PointId,
    source: IpAddr,
    destination: IpAddr,
    /// The protocol, of IPv4 only: in IPv6 it may differ between fragments.
    protocol: Option<u8>,
    id: u32,
}

/// A fragment's range in its packet, and the end of its captured part.
#[derive(Clone, Copy, Debug)]
struct Piece {
    begin: u32,
    end: u32,
    captured_to: u32,
}

/// The result of processing a fragment.
#[derive(Debug)]
pub(super) enum Progress {
    /// Other fragments of the packet are still missing.
    Waiting,
    /// Other fragments are missing and may never come, so the first fragment is used alone.
    /// Contains the index of its packet.
    Alone(usize),
    /// The packet is complete.
    Whole(WholePacket),
}

/// A completely reassembled packet.
#[derive(Debug)]
pub(super) struct WholePacket {
    head: Datagram<'static>,
    payload_len: u32,
    /// The captured payload up to the first hole.
    pub(super) bytes: Vec<u8>,
    /// The length of payload in the first fragment, if that fragment was already counted on its
    /// own.
    told: Option<u32>,
}

impl WholePacket {
    pub(super) fn datagram(&self) -> Datagram<'_> {
        self.head.with_payload(&self.bytes, self.payload_len)
    }

    /// Returns the position of the slice `part` within the bytes.
    pub(super) fn place(&self, part: &[u8]) -> Range<usize> {
        let begin = part
            .as_ptr()
            .addr()
            .wrapping_sub(self.bytes.as_ptr().addr());
        if part.is_empty() {
            0..0
        } else {
            begin..begin.wrapping_add(part.len())
        }
    }

    /// Returns the part of the packet that was not yet counted with its first fragment: the whole
    /// packet, the rest of a segment, or nothing.
    pub(super) fn untold<'a>(&self, packet: Packet<'a>) -> Option<Packet<'a>> {
        let Some(told) = self.told else {
            return Some(packet);
        };
        let Packet::Tcp(mut segment, payload) = packet else {
            return None;
        };
        if self.head.protocol != protocol::TCP {
            return None;
        }
        let header_len = self.payload_len.checked_sub(segment.payload_len)?;
        let Some(skipped) = told.checked_sub(header_len) else {
            return Some(packet);
        };
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        segment.seq = segment.seq.wrapping_add(skipped + u32::from(is_syn));
        segment.flags = TcpFlags(segment.flags.0 & !TcpFlags::SYN.0);
        segment.payload_len = segment.payload_len.checked_sub(skipped)?;
        let payload = payload.get(skipped as usize..).unwrap_or_default();
        Some(Packet::Tcp(segment, payload))
    }
}

impl Fragments {
    /// Processes a fragment. `None` if it is malformed or does not match the others.
    pub(super) fn add_fragment(
        &mut self,
        at: Timestamp,
        point: PointId,
        datagram: &Datagram<'_>,
    ) -> Option<Progress> {
        let part = datagram.fragment?;
        let piece = Piece::new(datagram, part)?;
        self.has_later |= !part.is_first;
        let index = self.find_or_begin(at, Key::new(point, datagram, part));
        let packet = self.partial.get_mut(index)?;
        match packet.add(datagram, part, piece) {
            Added::Fits => {}
            Added::Again => return None,
            Added::Conflicts => {
                self.partial.remove(index);
                return None;
            }
        }
        if packet.is_whole() {
            return self.partial.remove(index)?.whole().map(Progress::Whole);
        }
        if part.is_first && !self.has_later {
            return Some(Progress::Alone(index));
        }
        Some(Progress::Waiting)
    }

    /// Records that the first fragment of the packet at `index` was counted on its own.
    pub(super) fn was_told(&mut self, index: usize) {
        if let Some(packet) = self.partial.get_mut(index) {
            packet.is_told = true;
        }
    }

    fn find_or_begin(&mut self, at: Timestamp, key: Key) -> usize {
        let is_late = |packet: &Partial| at.since(packet.begun) > REASSEMBLY_TIME;
        while self.partial.front().is_some_and(is_late) {
            self.partial.pop_front();
        }
        if let Some(index) = self.partial.iter().rposition(|packet| packet.key == key) {
            return index;
        }
        if self.partial.len() == MAX_PACKETS {
            self.partial.pop_front();
        }
        self.partial.push_back(Partial::new(at, key));
        self.partial.len() - 1
    }
}

impl Key {
    fn new(point: PointId, datagram: &Datagram<'_>, part: Fragment) -> Self {
        Self {
            point,
            source: datagram.source,
            destination: datagram.destination,
            protocol: datagram.source.is_ipv4().then_some(datagram.protocol),
            id: part.id,
        }
    }
}

impl Piece {
    /// Returns a fragment's range; `None` if it is not valid for a fragment.
    fn new(datagram: &Datagram<'_>, part: Fragment) -> Option<Self> {
        let (begin, len) = (part.offset, datagram.payload_len);
        let end = begin.checked_add(len)?;
        // The end of every fragment but the last is a multiple of eight bytes. The length need not
        // be, because extension headers have been skipped.
        if len == 0 || end > MAX_LEN || !part.is_last && end % 8 != 0 {
            return None;
        }
        let captured = u32::try_from(datagram.payload.len()).ok()?;
        Some(Self {
            begin,
            end,
            captured_to: begin + captured.min(len),
        })
    }
}

/// The relation of a fragment to the other fragments of its packet.
enum Added {
    Fits,
    /// A duplicate of a fragment.
    Again,
    /// A fragment that overlaps another, or extends beyond the end of the packet.
    Conflicts,
}

impl Partial {
    fn new(begun: Timestamp, key: Key) -> Self {
        Self {
            key,
            begun,
            head: None,
            end: None,
            pieces: Vec::new(),
            bytes: Vec::new(),
            is_told: false,
        }
    }

    fn add(&mut self, datagram: &Datagram<'_>, part: Fragment, piece: Piece) -> Added {
        let is_same = |other: &Piece| (other.begin, other.end) == (piece.begin, piece.end);
        if self.pieces.iter().any(is_same) {
            return Added::Again;
        }
        let overlaps = |other: &Piece| other.begin < piece.end && piece.begin < other.end;
        let ends_before = self.end.is_some_and(|end| end < piece.end || part.is_last);
        let ends_behind = part.is_last && self.pieces.iter().any(|other| other.end > piece.end);
        let is_full = self.pieces.len() == MAX_PIECES;
        if is_full || ends_before || ends_behind || self.pieces.iter().any(overlaps) {
            return Added::Conflicts;
        }
        if part.is_first {
            self.head = Some((datagram.with_payload(&[], 0), part.offset));
        }
        if part.is_last {
            self.end = Some(piece.end);
        }
        self.pieces.push(piece);
        self.keep(piece, datagram.payload);
        Added::Fits
    }

    fn keep(&mut self, piece: Piece, captured: &[u8]) {
        let place = piece.begin as usize..piece.captured_to as usize;
        if self.bytes.len() < place.end {
            self.bytes.resize(place.end, 0);
        }
        if let Some(to) = self.bytes.get_mut(place)
            && let Some(from) = captured.get(..to.len())
        {
            to.copy_from_slice(from);
        }
    }

    /// Returns true if the fragments, which do not overlap, cover the whole packet.
    fn is_whole(&self) -> bool {
        let (Some((_, begin)), Some(end)) = (&self.head, self.end) else {
            return false;
        };
        let lengths = self.pieces.iter().map(|piece| piece.end - piece.begin);
        end.checked_sub(*begin) == Some(lengths.sum())
    }

    fn whole(mut self) -> Option<WholePacket> {
        let (head, begin) = self.head?;
        self.pieces.sort_unstable_by_key(|piece| piece.begin);
        let first_len = self.pieces.first().map(|piece| piece.end - piece.begin);
        let mut known_to = begin;
        for piece in self.pieces {
            known_to = piece.captured_to;
            if known_to < piece.end {
                break;
            }
        }
        self.bytes.truncate(known_to as usize);
        self.bytes.drain(..(begin as usize).min(self.bytes.len()));
        Some(WholePacket {
            head,
            payload_len: self.end?.checked_sub(begin)?,
            bytes: self.bytes,
            told: first_len.filter(|_| self.is_told),
        })
    }
}
