//! Link layers: finds the IP packet in a frame.
//!
//! Sources: the link-layer header types that libpcap registers; IEEE 802.1Q for VLAN tags, RFC 2516
//! for PPPoE, and RFC 3032 for MPLS.

mod llc;
mod names;
mod serial;
mod wireless;
mod wrapped;

use super::Record;
use crate::observed::segment::SentBy;
use serial::ppp as ppp_header;

/// Link-layer type of a frame: the `LINKTYPE_` number of capture files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: the address family in the capturing host's byte order.
    pub const NULL: Self = Self(0);
    /// Ethernet without preamble and usually without frame check sequence.
    pub const ETHERNET: Self = Self(1);
    /// PPP, with or without address and control before the protocol.
    pub(crate) const PPP: Self = Self(9);
    /// PPP in the framing of HDLC.
    pub(crate) const PPP_HDLC: Self = Self(50);
    /// A PPPoE header without an Ethernet header.
    pub(crate) const PPP_ETHER: Self = Self(51);
    /// Cisco's HDLC.
    pub(crate) const C_HDLC: Self = Self(104);
    /// An IP packet of either version.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: the address family in network byte order.
    pub(crate) const LOOP: Self = Self(108);
    /// Linux cooked capture, from the `any` device.
    pub(crate) const LINUX_SLL: Self = Self(113);
    /// An IPv4 packet.
    pub const IPV4: Self = Self(228);
    /// An IPv6 packet.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// Returns the capture file's link type for libpcap's number `dlt`, which differs between
    /// systems for raw IP.
    pub const fn from_dlt(dlt: u16) -> Self {
        match dlt {
            12 | 14 => Self::RAW,
            _ => Self(dlt),
        }
    }

    /// Returns true if frames of this type are supported.
    pub fn is_read(self) -> bool {
        usual_header(self, &[]).is_some() || wrapped::is_read(self)
    }
}

/// The type of the loopback interface (`ARPHRD_LOOPBACK`, 772), as cooked frames contain it.
const ARPHRD_LOOPBACK: [u8; 2] = 772_u16.to_be_bytes();
/// The type of frames that the host sent or forwarded (`PACKET_OUTGOING`, linux/if_packet.h).
const PACKET_OUTGOING: u8 = 4;
const VLAN_TAG: usize = 4;
/// Maximum number of VLAN tags. No real network has more.
const MAX_VLAN_TAGS: usize = 4;
const MPLS_LABEL: usize = 4;
/// Maximum number of MPLS labels. No real network has more.
const MAX_MPLS_LABELS: usize = 8;
/// Maximum value of the EtherType field that is a length and not an EtherType (IEEE 802.3).
const MAX_802_3: u16 = 1500;
/// Length of the PPPoE header in bytes: version, type, code, session, length.
const PPPOE_HEADER: usize = 6;

/// Returns the IP packet of a frame, and its length according to the frame, including link-layer
/// padding. `None` if the frame contains no IP packet.
#[inline(always)]
pub(super) fn network<'a>(record: &Record<'a>) -> Option<(&'a [u8], u32)> {
    let bytes = record.bytes;
    // Most frames have the same type, so it is checked first.
    let header = match record.link {
        LinkType::ETHERNET => ethertype_header(bytes, 12, 14)?,
        link => header(link, bytes)?,
    };
    behind(bytes, header, record.original_len)
}

/// Returns the offset of the IP packet in a frame of any type.
#[inline(never)]
fn header(link: LinkType, bytes: &[u8]) -> Option<usize> {
    match usual_header(link, bytes) {
        Some(header) => header,
        None => wrapped::header(link, bytes),
    }
}

/// Returns the offset of the IP packet in a frame of one of the usual types. `None` for all other
/// types; `Some(None)` if the frame contains no IP packet.
#[inline]
fn usual_header(link: LinkType, bytes: &[u8]) -> Option<Option<usize>> {
    Some(match link {
        LinkType::ETHERNET => ethertype_header(bytes, 12, 14),
        LinkType::C_HDLC => ethertype_header(bytes, 2, 4),
        LinkType::LINUX_SLL => ethertype_header(bytes, 14, 16),
        LinkType::LINUX_SLL2 => ethertype_header(bytes, 0, 20),
        LinkType::NULL | LinkType::LOOP => family_header(bytes),
        LinkType::PPP | LinkType::PPP_HDLC => ppp_header(bytes, 0),
        LinkType::PPP_ETHER => ppp_header(bytes, PPPOE_HEADER),
        // Some systems use 12 and 14 for raw IP in their own files.
        LinkType(12 | 14) | LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => Some(0),
        _ => return None,
    })
}

/// Returns whether the capturing host sent the frame: only cooked captures say so. Over loopback, a
/// frame leaves and arrives.
#[inline]
pub(super) fn sent_by(record: &Record<'_>) -> SentBy {
    match record.link {
        LinkType::ETHERNET => SentBy::Unknown,
        LinkType::LINUX_SLL => cooked(record.bytes, 2, 1),
        LinkType::LINUX_SLL2 => cooked(record.bytes, 8, 10),
        _ => SentBy::Unknown,
    }
}

/// Returns the sender by the type of a cooked frame, at `kind`; the type of its interface is at
/// `interface`.
fn cooked(bytes: &[u8], interface: usize, kind: usize) -> SentBy {
    let interface = bytes.get(interface..).and_then(|rest| rest.first_chunk());
    match (interface, bytes.get(kind)) {
        (Some(&ARPHRD_LOOPBACK), _) => SentBy::Unknown,
        (Some(_), Some(&PACKET_OUTGOING)) => SentBy::ThisHostOrBehind,
        (Some(_), Some(_)) => SentBy::AnotherHost,
        _ => SentBy::Unknown,
    }
}

/// Returns the IP packet of an Ethernet frame of `wire_len` bytes in a tunnel.
pub(super) fn ethernet(bytes: &[u8], wire_len: u32) -> Option<(&[u8], u32)> {
    behind(bytes, ethertype_header(bytes, 12, 14)?, wire_len)
}

/// Returns the IP packet of a PPP frame of `wire_len` bytes in a tunnel.
pub(super) fn ppp(bytes: &[u8], wire_len: u32) -> Option<(&[u8], u32)> {
    behind(bytes, ppp_header(bytes, 0)?, wire_len)
}

/// Returns the IP packet after the MPLS labels in a tunnel.
pub(super) fn mpls(bytes: &[u8], wire_len: u32) -> Option<(&[u8], u32)> {
    behind(bytes, mpls_header(bytes, 0)?, wire_len)
}

/// Returns the bytes that follow a header of `header` bytes.
#[inline]
pub(super) fn behind(bytes: &[u8], header: usize, wire_len: u32) -> Option<(&[u8], u32)> {
    let rest = wire_len.saturating_sub(u32::try_from(header).unwrap_or(u32::MAX));
    Some((bytes.get(header..)?, rest))
}

/// Returns the ARP packet of a frame; `None` if there is none.
pub(super) fn arp<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    let bytes = record.bytes;
    let (at, len) = match record.link {
        LinkType::ETHERNET => (12, 14),
        LinkType::LINUX_SLL => (14, 16),
        LinkType::LINUX_SLL2 => (0, 20),
        _ => return None,
    };
    let (ethertype, len) = ethertype(bytes, at, len)?;
    (ethertype == [0x08, 0x06]).then(|| bytes.get(len..))?
}

/// Returns the EtherType at `at`, or the one after the VLAN tags at `at`. Also returns the length
/// of the header: `len` plus the length of these tags.
fn ethertype(bytes: &[u8], at: usize, mut len: usize) -> Option<([u8; 2], usize)> {
    let mut ethertype = *bytes.get(at..)?.first_chunk()?;
    for _ in 0..MAX_VLAN_TAGS {
        if !matches!(ethertype, [0x81 | 0x91 | 0x92, 0x00] | [0x88, 0xa8]) {
            break;
        }
        ethertype = *bytes.get(len + 2..)?.first_chunk()?;
        len += VLAN_TAG;
    }
    Some((ethertype, len))
}

/// Returns the total length of the headers before the IP packet: `len`, the length of the header
/// whose EtherType is at `at`, plus that of the headers after it.
#[inline]
fn ethertype_header(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    match *bytes.get(at..)?.first_chunk()? {
        ethertype if is_ip(ethertype) => Some(len),
        ethertype => tagged_header(bytes, ethertype, len),
    }
}

/// Returns true if an EtherType is that of IPv4 or of IPv6.
#[inline]
fn is_ip(ethertype: [u8; 2]) -> bool {
    matches!(ethertype, [0x08, 0x00] | [0x86, 0xdd])
}

/// Returns the same length as [`ethertype_header`] if the EtherType is that of a header before the
/// IP packet.
fn tagged_header(bytes: &[u8], mut ethertype: [u8; 2], mut len: usize) -> Option<usize> {
    for _ in 0..=MAX_VLAN_TAGS {
        match ethertype {
            ip if is_ip(ip) => return Some(len),
            // 802.1Q, 802.1ad, and two older EtherTypes of VLAN tags.
            [0x81 | 0x91 | 0x92, 0x00] | [0x88, 0xa8] => {
                ethertype = *bytes.get(len + 2..)?.first_chunk()?;
                len += VLAN_TAG;
            }
            // 0x8864 is a PPPoE session; 0x8847 and 0x8848 are MPLS unicast and multicast.
            [0x88, 0x64] => return ppp_header(bytes, len + PPPOE_HEADER),
            [0x88, 0x47 | 0x48] => return mpls_header(bytes, len),
            // IEEE 802.3: the field is the frame's length.
            [high, low] if u16::from_be_bytes([high, low]) <= MAX_802_3 => {
                return llc::header(bytes, len);
            }
            _ => return None,
        }
    }
    None
}

/// Returns the offset of the packet after the MPLS labels at `at`. The packet's own version field
/// shows if it is IP.
fn mpls_header(bytes: &[u8], at: usize) -> Option<usize> {
    let mut labels = bytes.get(at..)?.chunks_exact(MPLS_LABEL);
    let bottom = labels
        .by_ref()
        .take(MAX_MPLS_LABELS)
        .position(|label| label.get(2).is_some_and(|byte| byte & 1 == 1))?;
    Some(at + (bottom + 1) * MPLS_LABEL)
}

/// Returns the length of an address family header. The capturing host's byte order is unknown, but
/// every family fits into one of the four bytes.
#[inline]
fn family_header(bytes: &[u8]) -> Option<usize> {
    match bytes.first_chunk()? {
        [0, 0, 0, family] | [family, 0, 0, 0] if is_family(*family) => Some(4),
        _ => None,
    }
}

/// Returns true if an address family is IP. IPv4 is 2 everywhere. IPv6 is 10 on Linux, 23 on
/// Windows, 24 on NetBSD and OpenBSD, 28 on FreeBSD, and 30 on Darwin.
#[inline]
fn is_family(family: u8) -> bool {
    matches!(family, 2 | 10 | 23 | 24 | 28 | 30)
}
