//! Logical link control (IEEE 802.2) and its extension SNAP (RFC 1042). These headers precede the
//! packet if a frame has a length instead of an EtherType.

use super::ethertype_header;

/// The service access points of both sides for SNAP, in an unnumbered frame.
const SNAP: [u8; 3] = [0xaa, 0xaa, 0x03];
/// The service access points of both sides for IP without SNAP (RFC 948), in an unnumbered frame.
const IP: [u8; 3] = [0x06, 0x06, 0x03];
/// Organization codes that are followed by an EtherType: that of RFC 1042, and that of bridges
/// between 802.11 and Ethernet.
const OF_ETHERTYPES: [[u8; 3]; 2] = [[0, 0, 0], [0, 0, 0xf8]];
/// The organization code that is followed by the type of a bridged frame (IEEE 802.1).
const OF_BRIDGES: [u8; 3] = [0x00, 0x80, 0xc2];
/// Types of a bridged Ethernet frame: with its frame check sequence, and without it.
const BRIDGED_ETHERNET: [[u8; 2]; 2] = [[0, 1], [0, 7]];

/// Returns the offset of the IP packet after the logical link control header at `at`.
pub(super) fn header(bytes: &[u8], at: usize) -> Option<usize> {
    let (control, rest) = bytes.get(at..)?.split_first_chunk::<3>()?;
    match *control {
        SNAP if OF_ETHERTYPES.contains(rest.first_chunk()?) => {
            ethertype_header(bytes, at + 6, at + 8)
        }
        IP => Some(at + 3),
        _ => None,
    }
}

/// Returns the offset of the IP packet after SNAP's organization code at `at`. RFC 2427 uses this
/// code without the other fields of logical link control.
pub(super) fn snap(bytes: &[u8], at: usize) -> Option<usize> {
    let (organization, rest) = bytes.get(at..)?.split_first_chunk::<3>()?;
    match *organization {
        code if OF_ETHERTYPES.contains(&code) => ethertype_header(bytes, at + 3, at + 5),
        OF_BRIDGES if BRIDGED_ETHERNET.contains(rest.first_chunk()?) => {
            ethertype_header(bytes, at + 5 + 12, at + 5 + 14)
        }
        _ => None,
    }
}
