//! IEEE 802.11 frames, bare or after a header from the capturing driver.
//!
//! Sources: the descriptions of `LINKTYPE_IEEE802_11` and its variants, and radiotap's description
//! of its header. Encrypted frames contain no readable packet. In an aggregate of frames (A-MSDU)
//! only the first frame is read.

use super::llc;
use crate::decode::byte_order::ByteOrder;

/// Length of the header in bytes: frame control, duration, three addresses, sequence control.
const HEADER: usize = 24;
/// Length of the fourth address in bytes; it is present between two access points.
const FOURTH_ADDRESS: usize = 6;
const QOS_CONTROL: usize = 2;
const HT_CONTROL: usize = 4;
/// Length of the header before each frame of an A-MSDU in bytes: two addresses and a length field.
const SUBFRAME_HEADER: usize = 14;

/// Bits of the first byte of frame control.
const VERSION_AND_TYPE: u8 = 0x0f;
const DATA: u8 = 0x08;
const WITHOUT_DATA: u8 = 0x40;
const WITH_QOS: u8 = 0x80;

/// Bits of the second byte of frame control.
const BETWEEN_ACCESS_POINTS: u8 = 0x03;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;

/// The bit of QoS control that marks an A-MSDU.
const IS_AGGREGATE: u8 = 0x80;

/// Returns the offset of the IP packet in an 802.11 frame that begins at `at`.
pub(super) fn frame(bytes: &[u8], at: usize) -> Option<usize> {
    padded_frame(bytes, at, false)
}

/// Returns the offset of the IP packet in an 802.11 frame. If `is_padded` is true, the frame's
/// header is padded to a multiple of four bytes.
fn padded_frame(bytes: &[u8], at: usize, is_padded: bool) -> Option<usize> {
    let header: &[u8; HEADER] = bytes.get(at..)?.first_chunk()?;
    let [control, flags, ..] = *header;
    let fragment_number = header.get(22)? & 0x0f;
    if control & VERSION_AND_TYPE != DATA || control & WITHOUT_DATA != 0 {
        return None;
    }
    if flags & PROTECTED != 0 || fragment_number != 0 {
        return None;
    }
    let mut len = HEADER;
    if flags & BETWEEN_ACCESS_POINTS == BETWEEN_ACCESS_POINTS {
        len += FOURTH_ADDRESS;
    }
    let mut is_aggregate = false;
    if control & WITH_QOS != 0 {
        is_aggregate = bytes.get(at + len)? & IS_AGGREGATE != 0;
        len += QOS_CONTROL;
        if flags & ORDER != 0 {
            len += HT_CONTROL;
        }
    }
    if is_padded {
        len = len.next_multiple_of(4);
    }
    if is_aggregate {
        len += SUBFRAME_HEADER;
    }
    llc::header(bytes, at + len)
}

/// The fields of radiotap that determine where the frame after it begins.
mod radiotap {
    /// Length of the header in bytes: version, padding, length, and the first bitmask of present
    /// fields.
    pub(super) const HEADER: usize = 8;
    pub(super) const HAS_TIME: u32 = 1;
    pub(super) const HAS_FLAGS: u32 = 1 << 1;
    pub(super) const HAS_MORE_WORDS: u32 = 1 << 31;
    /// Length and alignment of the time field in bytes.
    pub(super) const TIME: usize = 8;
    /// The flag for a padded frame header.
    pub(super) const IS_PADDED: u8 = 0x20;
}

/// Returns the offset of the IP packet in a frame after a radiotap header.
pub(super) fn with_radiotap(bytes: &[u8]) -> Option<usize> {
    let len = usize::from(ByteOrder::Little.u16(bytes, 2)?);
    let header = bytes.get(..len)?;
    if *header.first()? != 0 || len < radiotap::HEADER {
        return None;
    }
    let is_padded = radiotap_flags(header).is_some_and(|flags| flags & radiotap::IS_PADDED != 0);
    padded_frame(bytes, len, is_padded)
}

fn radiotap_flags(header: &[u8]) -> Option<u8> {
    let mut words = header.get(4..)?.chunks_exact(4);
    let present = ByteOrder::Little.u32(words.next()?, 0)?;
    if present & radiotap::HAS_FLAGS == 0 {
        return None;
    }
    let mut at = radiotap::HEADER;
    let mut word = present;
    while word & radiotap::HAS_MORE_WORDS != 0 {
        word = ByteOrder::Little.u32(words.next()?, 0)?;
        at += 4;
    }
    if present & radiotap::HAS_TIME != 0 {
        at = at.next_multiple_of(radiotap::TIME) + radiotap::TIME;
    }
    header.get(at).copied()
}

/// The first bytes of an AVS header: a cookie and a version.
const AVS: u32 = 0x8021_1000;

/// Returns the offset of the IP packet in a frame after an AVS header.
pub(super) fn with_avs(bytes: &[u8]) -> Option<usize> {
    if ByteOrder::Big.u32(bytes, 0)? & 0xffff_f000 != AVS {
        return None;
    }
    let len = ByteOrder::Big.u32(bytes, 4)? as usize;
    frame(bytes, within(bytes, len)?)
}

/// Returns the offset of the IP packet in a frame after a header of Prism's drivers. Some drivers
/// write an AVS header under the same link type.
pub(super) fn with_prism(bytes: &[u8]) -> Option<usize> {
    with_avs(bytes).or_else(|| {
        // The length is in the byte order of the capturing host, which is unknown.
        let orders = [ByteOrder::Little, ByteOrder::Big];
        let len = orders
            .into_iter()
            .find_map(|order| within(bytes, order.u32(bytes, 4)? as usize))?;
        frame(bytes, len)
    })
}

/// Returns `len` as a header's length, if the whole header was captured and is long enough to
/// contain its length field.
fn within(bytes: &[u8], len: usize) -> Option<usize> {
    (8..=bytes.len()).contains(&len).then_some(len)
}
