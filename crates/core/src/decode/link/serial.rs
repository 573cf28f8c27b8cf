//! Point-to-point lines: PPP (RFC 1661, RFC 1662) and Frame Relay (RFC 2427).

use super::{ethertype_header, llc, mpls_header};

/// Numbers with which RFC 2427 identifies the protocol in a Frame Relay frame (ISO/IEC TR 9577).
mod nlpid {
    pub(super) const IPV4: u8 = 0xcc;
    pub(super) const IPV6: u8 = 0x8e;
    pub(super) const SNAP: u8 = 0x80;
    pub(super) const PPP: u8 = 0xcf;
}

/// The control field of an unnumbered information frame.
const UNNUMBERED: u8 = 0x03;
/// Maximum length of a Q.922 address in bytes.
const MAX_ADDRESS: usize = 4;

/// Returns the offset of the IP packet in a PPP frame that begins at `at`.
pub(super) fn ppp(bytes: &[u8], mut at: usize) -> Option<usize> {
    if bytes.get(at..)?.starts_with(&[0xff, UNNUMBERED]) {
        at += 2;
    }
    // Protocol numbers of RFC 1332 and RFC 5072. The first byte may be omitted (RFC 1661 §6.5).
    match bytes.get(at..)? {
        [0x00, 0x21 | 0x57, ..] => Some(at + 2),
        [0x21 | 0x57, ..] => Some(at + 1),
        [0x02, 0x81 | 0x83, ..] => mpls_header(bytes, at + 2),
        _ => None,
    }
}

/// Returns the offset of the IP packet in a PPP frame that has a direction in place of the address.
pub(super) fn ppp_with_direction(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [0 | 1, UNNUMBERED, ..] => ppp(bytes, 2),
        [0 | 1, ..] => ppp(bytes, 1),
        _ => None,
    }
}

/// Returns the offset of the IP packet in a Frame Relay frame that begins at `at`.
pub(super) fn frame_relay(bytes: &[u8], at: usize) -> Option<usize> {
    let frame = bytes.get(at..)?;
    // The lowest bit is set only in the last byte of the address.
    let last = frame
        .iter()
        .take(MAX_ADDRESS)
        .position(|byte| byte & 1 == 1)?;
    let control = at + last + 1;
    if last == 0 {
        return None;
    }
    if *bytes.get(control)? != UNNUMBERED {
        // Without this control field, the frame is Cisco's variant, which has an EtherType.
        return ethertype_header(bytes, control, control + 2);
    }
    let padding = usize::from(bytes.get(control + 1) == Some(&0));
    let behind = control + 2 + padding;
    match *bytes.get(behind - 1)? {
        nlpid::IPV4 | nlpid::IPV6 => Some(behind),
        nlpid::SNAP => llc::snap(bytes, behind),
        nlpid::PPP => ppp(bytes, behind),
        _ => None,
    }
}
