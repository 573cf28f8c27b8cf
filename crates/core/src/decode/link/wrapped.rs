//! Link types that occur in few captures. They are in a separate module so that the usual types are
//! recognized immediately.

use super::{
    LinkType, ethertype_header, family_header, is_family, llc, mpls_header, serial, wireless,
};
use crate::decode::byte_order::ByteOrder;

/// Numbers of the link types that are read here.
mod number {
    pub(super) const TOKEN_RING: u16 = 6;
    pub(super) const FDDI: u16 = 10;
    pub(super) const ATM_RFC1483: u16 = 100;
    pub(super) const IEEE802_11: u16 = 105;
    pub(super) const ATM_CLIP: u16 = 106;
    pub(super) const FRAME_RELAY: u16 = 107;
    pub(super) const ENC: u16 = 109;
    pub(super) const PFLOG: u16 = 117;
    pub(super) const PRISM: u16 = 119;
    pub(super) const IP_OVER_FC: u16 = 122;
    pub(super) const RADIOTAP: u16 = 127;
    pub(super) const IP_OVER_1394: u16 = 138;
    pub(super) const AVS: u16 = 163;
    pub(super) const PPP_PPPD: u16 = 166;
    pub(super) const PPI: u16 = 192;
    pub(super) const PPP_WITH_DIRECTION: u16 = 204;
    pub(super) const C_HDLC_WITH_DIRECTION: u16 = 205;
    pub(super) const FRAME_RELAY_WITH_DIRECTION: u16 = 206;
    pub(super) const MPLS: u16 = 219;
    pub(super) const NFLOG: u16 = 239;
    pub(super) const NETANALYZER: u16 = 240;
    pub(super) const NETANALYZER_TRANSPARENT: u16 = 241;
    pub(super) const IPOIB: u16 = 242;
    pub(super) const PKTAP: u16 = 258;
}

/// Returns the offset of the IP packet in a frame of one of the types in this module.
#[cold]
pub(super) fn header(link: LinkType, bytes: &[u8]) -> Option<usize> {
    match link.0 {
        number::PPI => ppi(bytes),
        number::PKTAP => pktap(bytes),
        _ => unnested(link, bytes),
    }
}

/// Returns the offset of the IP packet in a frame whose type wraps no other link type.
fn unnested(link: LinkType, bytes: &[u8]) -> Option<usize> {
    match link.0 {
        number::IEEE802_11 => wireless::frame(bytes, 0),
        number::RADIOTAP => wireless::with_radiotap(bytes),
        number::PRISM => wireless::with_prism(bytes),
        number::AVS => wireless::with_avs(bytes),
        number::PPP_PPPD | number::PPP_WITH_DIRECTION => serial::ppp_with_direction(bytes),
        number::FRAME_RELAY => serial::frame_relay(bytes, 0),
        number::FRAME_RELAY_WITH_DIRECTION => serial::frame_relay(bytes, 1),
        number::C_HDLC_WITH_DIRECTION => ethertype_header(bytes, 3, 5),
        number::MPLS => mpls_header(bytes, 0),
        number::NFLOG => nflog(bytes),
        // The header consists of a family, an index and flags, one word of four bytes each.
        number::ENC => family_header(bytes).map(|_| 12),
        number::PFLOG => pflog(bytes),
        // Two addresses of twenty bytes precede the header of RFC 4391.
        number::IPOIB => ethertype_header(bytes, 40, 44),
        number::IP_OVER_1394 => ethertype_header(bytes, 16, 18),
        // The capturing device adds a header of four bytes. In the second type, eight bytes of
        // preamble follow it.
        number::NETANALYZER => ethertype_header(bytes, 4 + 12, 4 + 14),
        number::NETANALYZER_TRANSPARENT => ethertype_header(bytes, 12 + 12, 12 + 14),
        number::FDDI => llc::header(bytes, 13),
        number::TOKEN_RING => token_ring(bytes),
        number::IP_OVER_FC => llc::header(bytes, 16),
        number::ATM_RFC1483 | number::ATM_CLIP => llc::header(bytes, 0),
        _ => None,
    }
}

/// Returns true if this module reads frames of this type.
pub(super) fn is_read(link: LinkType) -> bool {
    use number::*;
    matches!(
        link.0,
        TOKEN_RING
            | FDDI
            | ATM_RFC1483..=FRAME_RELAY
            | ENC
            | PFLOG
            | PRISM
            | IP_OVER_FC
            | RADIOTAP
            | IP_OVER_1394
            | AVS
            | PPP_PPPD
            | PPI
            | PPP_WITH_DIRECTION..=FRAME_RELAY_WITH_DIRECTION
            | MPLS
            | NFLOG..=IPOIB
            | PKTAP
    )
}

/// Returns the offset of the IP packet after a PPI (per-packet information) header: a version,
/// flags, the header's length and the link type of the frame that follows.
fn ppi(bytes: &[u8]) -> Option<usize> {
    let len = usize::from(ByteOrder::Little.u16(bytes, 2)?);
    let link = u16::try_from(ByteOrder::Little.u32(bytes, 4)?).ok()?;
    if *bytes.first()? != 0 || len < 8 {
        return None;
    }
    inner(LinkType(link), bytes, len)
}

/// Returns the offset of the IP packet after the header that macOS writes for captures on several
/// interfaces: the header's length, the kind of the next header, and the link type of the inner
/// frame.
fn pktap(bytes: &[u8]) -> Option<usize> {
    const IS_PACKET: u32 = 1;
    let word = |at| ByteOrder::Little.u32(bytes, at);
    let (len, link) = (word(0)? as usize, u16::try_from(word(8)?).ok()?);
    if word(4)? != IS_PACKET || len < 12 {
        return None;
    }
    inner(LinkType::from_dlt(link), bytes, len)
}

/// Returns the offset in `bytes` of the IP packet, if a frame of type `link` follows a header of
/// `len` bytes.
fn inner(link: LinkType, bytes: &[u8], len: usize) -> Option<usize> {
    let frame = bytes.get(len..)?;
    let at = super::usual_header(link, frame).unwrap_or_else(|| unnested(link, frame))?;
    Some(len + at)
}

/// Returns the offset of the IP packet in a log record of Linux's netfilter: a family, a version,
/// an identifier, then attributes, one of which is the packet.
fn nflog(bytes: &[u8]) -> Option<usize> {
    let [family, 0, _, _] = *bytes.first_chunk()? else {
        return None;
    };
    if !is_family(family) {
        return None;
    }
    // The attributes are in the byte order of the capturing host, which is unknown.
    let orders = [ByteOrder::Little, ByteOrder::Big];
    orders
        .into_iter()
        .find_map(|order| nflog_payload(bytes, order))
}

fn nflog_payload(bytes: &[u8], order: ByteOrder) -> Option<usize> {
    const PAYLOAD: u16 = 9;
    const ATTRIBUTE: usize = 4;
    let mut at = 4;
    while let Some(len) = order.u16(bytes, at).map(usize::from) {
        if len < ATTRIBUTE {
            break;
        }
        if order.u16(bytes, at + 2)? == PAYLOAD {
            return Some(at + ATTRIBUTE);
        }
        at += len.next_multiple_of(4);
    }
    None
}

/// Returns the offset of the IP packet in a log record of OpenBSD's packet filter. The record's
/// header contains the address family and the header's length, without its padding to a multiple of
/// four bytes.
fn pflog(bytes: &[u8]) -> Option<usize> {
    let [len, family] = *bytes.first_chunk()?;
    is_family(family).then(|| usize::from(len).next_multiple_of(4))
}

/// Returns the offset of the IP packet in a Token Ring frame: access control, frame control, two
/// addresses, and possibly a route.
fn token_ring(bytes: &[u8]) -> Option<usize> {
    const HEADER: usize = 14;
    let has_route = bytes.get(8)? & 0x80 != 0;
    let route = if has_route {
        usize::from(bytes.get(HEADER)? & 0x1f)
    } else {
        0
    };
    llc::header(bytes, HEADER + route)
}
