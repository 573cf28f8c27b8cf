//! The place and the reason of damage in a capture file.

use core::fmt;

/// The position at which reading a container ended early, and the reason.
///
/// A damaged capture is read up to this position. The reader does not search for the next record,
/// because a wrong guess would invent packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Byte offset in the file of the record or block that could not be read.
    pub offset: u64,
    /// The number of the record that could not be read, from 1.
    pub record: u64,
    /// The fault at that position.
    pub fault: Fault,
}

/// A fault in a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The file is empty.
    Empty,
    /// The first bytes do not belong to any supported capture format.
    NotCapture,
    /// The input ends within a header, record or block.
    Truncated,
    /// An unsupported version (major, minor) of a capture format.
    Version(u16, u16),
    /// An unsupported version of the snoop format.
    SnoopVersion(u32),
    /// A snoop file with an unsupported datalink type.
    SnoopDatalink(u32),
    /// A snoop record whose length does not match its stated content.
    SnoopRecord(u32),
    /// A record claims more captured bytes than any capture holds.
    RecordTooLong(u32),
    /// A pcapng block's total length is impossible or beyond the limit.
    BlockLength(u32),
    /// A pcapng block's length at its end differs from the one at its beginning.
    BlockLengthsDiffer(u32, u32),
    /// A pcapng block's content is longer than the block.
    BlockContent,
    /// A pcapng section without a valid byte-order magic.
    ByteOrderMagic,
    /// A packet names an interface that its section does not describe.
    UnknownInterface(u32),
    /// A section describes more interfaces than the limit.
    TooManyInterfaces,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, record, .. } = self;
        match self.fault {
            Fault::Empty => write!(f, "empty"),
            Fault::NotCapture => write!(f, "neither pcap nor pcapng nor snoop"),
            Fault::Truncated => write!(
                f,
                "cut short: ends within what begins at byte {offset}, before record {record} is whole"
            ),
            fault => write!(
                f,
                "damaged at byte {offset}, where record {record} should follow: {fault}"
            ),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "empty"),
            Self::NotCapture => write!(f, "neither pcap nor pcapng nor snoop"),
            Self::Truncated => write!(f, "cut short"),
            Self::Version(major, minor) => write!(f, "unknown version {major}.{minor}"),
            Self::SnoopVersion(version) => write!(f, "unknown version {version} of snoop"),
            Self::SnoopDatalink(datalink) => {
                write!(
                    f,
                    "a snoop capture of datalink type {datalink}, not Ethernet"
                )
            }
            Self::SnoopRecord(len) => write!(f, "a snoop record of {len} bytes"),
            Self::RecordTooLong(len) => write!(f, "a packet of {len} captured bytes"),
            Self::BlockLength(len) => write!(f, "a block of {len} bytes"),
            Self::BlockLengthsDiffer(begin, end) => {
                write!(f, "a block of {begin} bytes that ends as one of {end}")
            }
            Self::BlockContent => write!(f, "a block that is shorter than its content"),
            Self::ByteOrderMagic => write!(f, "a section without byte order"),
            Self::UnknownInterface(id) => write!(f, "a packet of undescribed interface {id}"),
            Self::TooManyInterfaces => write!(f, "too many interfaces"),
        }
    }
}
