//! Layer two tunnelling protocol, version 2 (RFC 2661 §3.1): PPP in UDP.

use super::{Bytes, certain};
use crate::decode::byte_order::ByteOrder;
use crate::decode::link::{behind, ppp};

const IS_CONTROL: u16 = 0x8000;
const HAS_LENGTH: u16 = 0x4000;
const HAS_SEQUENCE: u16 = 0x0800;
const HAS_OFFSET: u16 = 0x0200;
/// Bits that must be zero.
const RESERVED: u16 = 0x34f0;
const VERSION: u16 = 0x000f;

/// Returns the IP packet in a data message.
pub(super) fn inner<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    let flags = ByteOrder::Big.u16(bytes, 0)?;
    if flags & VERSION != 2 || flags & (IS_CONTROL | RESERVED) != 0 {
        return None;
    }
    let mut header = 2;
    if flags & HAS_LENGTH != 0 {
        if u32::from(ByteOrder::Big.u16(bytes, header)?) > wire_len {
            return None;
        }
        header += 2;
    }
    // The tunnel and session ids.
    header += 4;
    if flags & HAS_SEQUENCE != 0 {
        header += 4;
    }
    if flags & HAS_OFFSET != 0 {
        header += 2 + usize::from(ByteOrder::Big.u16(bytes, header)?);
    }
    let (frame, wire_len) = behind(bytes, header, wire_len)?;
    certain(ppp(frame, wire_len)?)
}
