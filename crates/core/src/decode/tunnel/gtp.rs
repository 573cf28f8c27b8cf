//! The user plane of mobile networks: GTP-U, version 1 (3GPP TS 29.281 §5).

use super::{Bytes, certain};
use crate::decode::link::behind;

/// Length of the header in bytes: flags, type, length and the tunnel endpoint identifier.
const HEADER: usize = 8;
/// Length in bytes of the sequence number, the N-PDU number and the type of the first extension
/// header. If any of them is used, all three are present.
const OPTIONAL: usize = 4;

const VERSION_AND_PROTOCOL: u8 = 0xf0;
/// Version 1, and the protocol type GTP (not GTP').
const VERSION_1: u8 = 0x30;
const HAS_EXTENSION: u8 = 0x04;
const HAS_ANY: u8 = 0x07;

/// The type of a message that carries a packet.
const G_PDU: u8 = 0xff;
/// Maximum number of extension headers that are skipped. The specification defines six.
const MAX_EXTENSIONS: usize = 8;

/// Returns the IP packet in a message.
pub(super) fn inner<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    let [flags, kind, l0, l1, ..] = *bytes.first_chunk::<HEADER>()?;
    let len = u32::from(u16::from_be_bytes([l0, l1]));
    if flags & VERSION_AND_PROTOCOL != VERSION_1 || kind != G_PDU {
        return None;
    }
    // The length field does not include the header.
    if len + HEADER as u32 > wire_len {
        return None;
    }
    let mut header = HEADER;
    if flags & HAS_ANY != 0 {
        header += OPTIONAL;
    }
    if flags & HAS_EXTENSION != 0 {
        header = pass_extensions(bytes, header)?;
    }
    certain(behind(bytes, header, len + HEADER as u32)?)
}

/// Returns the end of the extension headers; the first one begins at `at`. Each contains its length
/// in words of four bytes, and ends with the type of the next one.
fn pass_extensions(bytes: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..=MAX_EXTENSIONS {
        if *bytes.get(at - 1)? == 0 {
            return Some(at);
        }
        let words = usize::from(*bytes.get(at)?);
        if words == 0 {
            return None;
        }
        at += words * 4;
    }
    None
}
