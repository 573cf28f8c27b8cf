//! The classic capture format of libpcap.
//!
//! Sources: the `pcap-savefile(5)` page, and libpcap's `sf-pcap.c` for three variants. The
//! "modified" format has record headers of 24 bytes. Nokia's format has record headers of 20 bytes
//! after the usual file header. Older versions have the two lengths in another order.

use super::byte_order::ByteOrder;
use super::frame::{Advance, Frame, MAX_CAPTURED};
use super::{Fault, LinkType};
use crate::observed::time::Timestamp;

/// The magic of files with seconds and microseconds.
const MICROS: u32 = 0xa1b2_c3d4;
/// The magic of files with seconds and nanoseconds.
const NANOS: u32 = 0xa1b2_3c4d;
/// The magic of files with seconds and microseconds, and eight additional bytes in each record
/// header.
const MODIFIED: u32 = 0xa1b2_cd34;

/// Length in bytes of the fields that all record headers have.
const FIELDS: usize = 16;

/// Number of zero bytes that Nokia's firewalls append to the fields.
const NOKIAS: usize = 4;
/// Length in bytes of an Ethernet header and an IPv4 header without options.
const FRAME: usize = 14 + 20;

/// The major version that all programs but DG/UX's tcpdump write.
const MAJOR: u16 = 2;
/// The version of DG/UX's tcpdump.
const DG_UX: (u16, u16) = (543, 0);

/// Content of a pcap file's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pcap {
    order: ByteOrder,
    lengths: Lengths,
    nanos_per_tick: i64,
    record_header: usize,
    link: LinkType,
}

/// The order of the two lengths in a pcap record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// The captured length, then the length on the wire: version 2.4.
    Usual,
    /// The length on the wire, then the captured length: versions before 2.3, and DG/UX's.
    Swapped,
    /// Either order: some writers of version 2.3 kept the order of earlier versions.
    Either,
}

impl Lengths {
    /// Returns the order of the lengths in this version (major, minor) of the format; `None` if
    /// there is no such version.
    pub fn of(version: (u16, u16)) -> Option<Self> {
        match version {
            (MAJOR, 4) => Some(Self::Usual),
            (MAJOR, 3) => Some(Self::Either),
            (MAJOR, 0..=2) | DG_UX => Some(Self::Swapped),
            _ => None,
        }
    }

    /// Sorts the two lengths of a record: returns the captured length, then the length on the wire.
    pub fn in_order(self, [first, second]: [u32; 2]) -> [u32; 2] {
        match self {
            Self::Either if first <= second => [first, second],
            Self::Usual => [first, second],
            Self::Swapped | Self::Either => [second, first],
        }
    }
}

impl Pcap {
    pub(super) const FILE_HEADER: usize = 24;

    pub(super) fn is_magic(bytes: [u8; 4]) -> bool {
        byte_order(bytes).is_some()
    }

    pub(super) fn open(header: &[u8; Self::FILE_HEADER]) -> Result<Self, Fault> {
        let [m0, m1, m2, m3, rest @ ..] = header;
        let (order, magic) = byte_order([*m0, *m1, *m2, *m3]).ok_or(Fault::NotCapture)?;
        let version = order.u16(rest, 0).zip(order.u16(rest, 2));
        let (major, minor) = version.unwrap_or_default();
        let lengths = Lengths::of((major, minor)).ok_or(Fault::Version(major, minor))?;
        // The upper half of the field describes frame check sequences.
        let link = order.u32(rest, 16).unwrap_or_default() & 0xffff;
        Ok(Self {
            order,
            lengths,
            nanos_per_tick: if magic == NANOS { 1 } else { 1_000 },
            record_header: if magic == MODIFIED { 24 } else { FIELDS },
            link: LinkType(link as u16),
        })
    }

    /// Returns true if the lengths are in the order of the current version.
    pub(super) fn is_current(&self) -> bool {
        self.lengths == Lengths::Usual
    }

    /// Returns true if a file of Nokia's format could have this file header.
    pub(super) fn may_be_nokias(&self) -> bool {
        let is_usual = self.nanos_per_tick == 1_000 && self.record_header == FIELDS;
        self.is_current() && is_usual && self.link == LinkType::ETHERNET
    }

    /// Returns this file header with the length of the record headers, which is determined from
    /// `bytes`, the first record. `Err` contains the number of bytes needed.
    pub(super) fn fitted(mut self, bytes: &[u8]) -> Result<Self, usize> {
        let captured = bytes.get(..FIELDS).ok_or(FIELDS)?;
        let [captured, original_len] = [8, 12].map(|at| self.order.u32(captured, at));
        let held = (captured.unwrap_or_default() as usize).min(NOKIAS + FRAME);
        let needed = FIELDS + held;
        let frame = bytes.get(FIELDS..needed).ok_or(needed)?;
        if is_nokias(frame, original_len.unwrap_or_default() as usize) {
            self.record_header = FIELDS + NOKIAS;
        }
        Ok(self)
    }

    /// Returns the next record of a file of the current version.
    #[inline]
    pub(super) fn advance<'a>(&self, bytes: &'a [u8]) -> Advance<'a> {
        self.advance_by(bytes, |lengths| lengths)
    }

    /// Returns the next record of a file of any version.
    pub(super) fn advance_old<'a>(&self, bytes: &'a [u8]) -> Advance<'a> {
        self.advance_by(bytes, |lengths| self.lengths.in_order(lengths))
    }

    /// Returns the next record; `in_order` sorts its two lengths: first the captured length, then
    /// the length on the wire.
    #[inline(always)]
    fn advance_by<'a>(
        &self,
        bytes: &'a [u8],
        in_order: impl Fn([u32; 2]) -> [u32; 2],
    ) -> Advance<'a> {
        let fields = bytes.first_chunk::<FIELDS>();
        let (Some(fields), Some(body)) = (fields, bytes.get(self.record_header..)) else {
            return Advance::NeedMore(self.record_header);
        };
        let field = |at| self.order.u32(fields, at).unwrap_or_default();
        let [captured, original_len] = in_order([field(8), field(12)]);
        if captured > MAX_CAPTURED {
            return Advance::Bad(Fault::RecordTooLong(captured));
        }
        let len = self.record_header + captured as usize;
        let Some(bytes) = body.get(..captured as usize) else {
            return Advance::NeedMore(len);
        };
        let ticks = i64::from(field(4)) * self.nanos_per_tick;
        let nanos = i64::from(field(0)) * 1_000_000_000 + ticks;
        let frame = Frame {
            at: Some(Timestamp::from_nanos(nanos)),
            link: self.link,
            interface: 0,
            original_len,
            bytes,
        };
        Advance::Frame(len, frame)
    }
}

/// Returns true if a record's bytes show Nokia's format: an Ethernet frame with IPv4 begins at
/// offset four, and none begins at offset zero. `len` is the captured length of the record.
fn is_nokias(bytes: &[u8], len: usize) -> bool {
    const IPV4: [u8; 2] = [8, 0];
    /// EtherTypes of VLAN tags. A frame with a VLAN tag also has the EtherType of IPv4 four bytes
    /// later than usual.
    const TAGS: [[u8; 2]; 3] = [[0x81, 0], [0x88, 0xa8], [0x91, 0]];
    let Some((&[0, 0, 0, 0], frame)) = bytes.split_first_chunk::<NOKIAS>() else {
        return false;
    };
    let kind_of = |frame: &[u8]| frame.get(12..)?.first_chunk::<2>().copied();
    let is_later = kind_of(frame) == Some(IPV4);
    let is_at_once = kind_of(bytes).is_some_and(|kind| kind == IPV4 || TAGS.contains(&kind));
    let Some(&[0x45, _, high, low]) = frame.get(14..).and_then(<[u8]>::first_chunk) else {
        return false;
    };
    let total = usize::from(u16::from_be_bytes([high, low]));
    let fits = total >= 20 && 14 + total <= len;
    is_later && !is_at_once && fits
}

/// Returns the byte order in which `bytes` is a known magic, and that magic.
fn byte_order(bytes: [u8; 4]) -> Option<(ByteOrder, u32)> {
    let is_known = |magic: &u32| [MICROS, NANOS, MODIFIED].contains(magic);
    let little = Some(u32::from_le_bytes(bytes)).filter(is_known);
    let big = Some(u32::from_be_bytes(bytes)).filter(is_known);
    little
        .map(|magic| (ByteOrder::Little, magic))
        .or(big.map(|magic| (ByteOrder::Big, magic)))
}
