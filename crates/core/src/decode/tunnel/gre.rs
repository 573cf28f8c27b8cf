//! Generic routing encapsulation (GRE), ERSPAN in it, and PPTP's variant.

use super::{Bytes, content, of_kind};
use crate::decode::byte_order::ByteOrder;
use crate::decode::link::{behind, ppp};

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// The flag for an acknowledgement number, in version 1 only (RFC 2637 §4.1).
const ACKNOWLEDGMENT: u16 = 0x0080;
const VERSION: u16 = 0x0007;

const ERSPAN_II_HEADER: usize = 8;
const ERSPAN_III_HEADER: usize = 12;
const ERSPAN_III_SUBHEADER: usize = 8;

/// Returns the packet after a GRE header (RFC 2784) with its optional key and sequence number (RFC
/// 2890).
pub(super) fn inner<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    let flags = ByteOrder::Big.u16(bytes, 0)?;
    let kind = ByteOrder::Big.u16(bytes, 2)?;
    if flags & VERSION == 1 {
        return in_pptp(flags, kind, (bytes, wire_len));
    }
    // Source routes (RFC 1701) are not supported.
    if flags & (ROUTING | VERSION) != 0 {
        return None;
    }
    let fields = fields(flags, [CHECKSUM, KEY, SEQUENCE]);
    let content = behind(bytes, 4 + fields, wire_len)?;
    match kind {
        // Unlike type II, type I has no sequence number.
        content::ERSPAN if flags & SEQUENCE == 0 => of_kind(content::ETHERNET, content),
        content::ERSPAN => {
            let (bytes, wire_len) = content;
            of_kind(
                content::ETHERNET,
                behind(bytes, ERSPAN_II_HEADER, wire_len)?,
            )
        }
        content::ERSPAN_III => in_erspan_iii(content),
        _ => of_kind(kind, content),
    }
}

/// Returns the total length in bytes of the fields that are present; each is a word of four bytes.
fn fields<const N: usize>(flags: u16, of: [u16; N]) -> usize {
    4 * of.iter().filter(|&&field| flags & field != 0).count()
}

/// Returns the packet after a header of version 1. Its key is always present, and consists of the
/// payload's length and the call id.
fn in_pptp<'a>(flags: u16, kind: u16, (bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    if kind != content::PPP || flags & KEY == 0 || flags & (CHECKSUM | ROUTING) != 0 {
        return None;
    }
    let header = 4 + fields(flags, [KEY, SEQUENCE, ACKNOWLEDGMENT]);
    let (frame, wire_len) = behind(bytes, header, wire_len)?;
    ppp(frame, wire_len)
}

fn in_erspan_iii<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    let has_subheader = bytes.get(ERSPAN_III_HEADER - 1)? & 1 == 1;
    let header = ERSPAN_III_HEADER + usize::from(has_subheader) * ERSPAN_III_SUBHEADER;
    of_kind(content::ETHERNET, behind(bytes, header, wire_len)?)
}
