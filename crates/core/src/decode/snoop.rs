//! The capture format of Solaris' snoop (RFC 1761). All its numbers are in network byte order, and
//! records are padded.

use super::byte_order::ByteOrder;
use super::frame::{Advance, Frame, MAX_CAPTURED};
use super::{Fault, LinkType};
use crate::observed::time::Timestamp;

const MAGIC: [u8; 8] = *b"snoop\0\0\0";
const VERSION: u32 = 2;
/// Length of a record's header in bytes: length on the wire, captured length, length of the record,
/// drops, seconds and microseconds.
const RECORD_HEADER: usize = 24;
/// Maximum padding of a record in bytes; writers align records to at most eight bytes.
const MAX_PADDING: usize = 64;

/// Datalink types in the file header whose frames begin like Ethernet.
mod datalink {
    pub(super) const IEEE_802_3: u32 = 0;
    pub(super) const ETHERNET: u32 = 4;
}

/// The state of reading one snoop file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snoop {
    dropped: u64,
}

impl Snoop {
    pub(super) const FILE_HEADER: usize = 16;

    pub(super) fn is_magic(bytes: [u8; 4]) -> bool {
        MAGIC.starts_with(&bytes)
    }

    pub(super) fn open(header: &[u8; Self::FILE_HEADER]) -> Result<Self, Fault> {
        let word = |at| ByteOrder::Big.u32(header, at).unwrap_or_default();
        if !header.starts_with(&MAGIC) {
            return Err(Fault::NotCapture);
        }
        if word(8) != VERSION {
            return Err(Fault::SnoopVersion(word(8)));
        }
        match word(12) {
            datalink::IEEE_802_3 | datalink::ETHERNET => Ok(Self::default()),
            other => Err(Fault::SnoopDatalink(other)),
        }
    }

    /// Returns the number of packets dropped so far, according to the last record.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn advance<'a>(&mut self, bytes: &'a [u8]) -> Advance<'a> {
        let Some(header) = bytes.first_chunk::<RECORD_HEADER>() else {
            return Advance::NeedMore(RECORD_HEADER);
        };
        let field = |at| ByteOrder::Big.u32(header, at).unwrap_or_default();
        let (captured, len) = (field(4), field(8) as usize);
        if captured > MAX_CAPTURED {
            return Advance::Bad(Fault::RecordTooLong(captured));
        }
        let end = RECORD_HEADER + captured as usize;
        if len < end || len > end + MAX_PADDING {
            return Advance::Bad(Fault::SnoopRecord(field(8)));
        }
        let Some(frame) = bytes
            .get(..len)
            .and_then(|whole| whole.get(RECORD_HEADER..end))
        else {
            return Advance::NeedMore(len);
        };
        self.dropped = field(12).into();
        let nanos = i64::from(field(16)) * 1_000_000_000 + i64::from(field(20)) * 1_000;
        let frame = Frame {
            at: Some(Timestamp::from_nanos(nanos)),
            link: LinkType::ETHERNET,
            interface: 0,
            original_len: field(0),
            bytes: frame,
        };
        Advance::Frame(len, frame)
    }
}
