//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers.

use core::net::IpAddr;

use super::byte_order::ByteOrder;
use crate::observed::segment::{IpFacts, SentBy};

/// IANA protocol numbers.
pub(super) mod protocol {
    pub(in crate::decode) const HOP_BY_HOP: u8 = 0;
    pub(in crate::decode) const ICMP: u8 = 1;
    pub(in crate::decode) const IPV4: u8 = 4;
    pub(in crate::decode) const TCP: u8 = 6;
    pub(in crate::decode) const UDP: u8 = 17;
    pub(in crate::decode) const IPV6: u8 = 41;
    pub(in crate::decode) const ROUTING: u8 = 43;
    pub(in crate::decode) const FRAGMENT: u8 = 44;
    pub(in crate::decode) const GRE: u8 = 47;
    pub(in crate::decode) const AUTHENTICATION: u8 = 51;
    pub(in crate::decode) const ICMPV6: u8 = 58;
    pub(in crate::decode) const DESTINATION_OPTIONS: u8 = 60;
}

/// Maximum number of extension headers. Real chains are shorter: RFC 8200 §4.1 allows each header
/// once, and destination options twice.
const MAX_EXTENSIONS: usize = 8;

/// An IP packet, or a fragment of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    /// Protocol of the payload.
    pub(super) protocol: u8,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) facts: IpFacts,
    pub(super) fragment: Option<Fragment>,
    /// The payload's length on the wire, in bytes.
    pub(super) payload_len: u32,
    /// The captured bytes of the payload.
    pub(super) payload: &'a [u8],
}

/// The position of a datagram within a fragmented packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    /// The identification, which all fragments of one packet share.
    pub(super) id: u32,
    /// Offset of the payload within the original packet's payload, in bytes.
    pub(super) offset: u32,
    /// True if the payload begins with the transport's header.
    pub(super) is_first: bool,
    /// True if this is the last fragment of its packet.
    pub(super) is_last: bool,
}

impl Datagram<'_> {
    /// Returns true if the payload begins with the transport's header.
    #[inline]
    pub(super) fn has_header(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.is_first)
    }

    /// Returns this packet as an unfragmented one, with a payload of `payload_len` bytes.
    pub(super) fn with_payload<'b>(&self, payload: &'b [u8], payload_len: u32) -> Datagram<'b> {
        Datagram {
            protocol: self.protocol,
            source: self.source,
            destination: self.destination,
            facts: self.facts,
            fragment: None,
            payload_len,
            payload,
        }
    }
}

/// Reads the packet at the beginning of `bytes`; `wire_len` is the packet's length on the wire
/// according to the frame. `None` if it is not an IP packet.
///
/// The length in the IP header takes precedence over the frame's length, because frames are padded,
/// and some capturing programs do not record the original length of a cut frame. If the length in
/// the IP header is zero, the frame's length is used: a packet above 64 KiB has a zero there before
/// segmentation offload splits it.
pub(super) fn read((bytes, wire_len): (&[u8], u32)) -> Option<Datagram<'_>> {
    match bytes.first()? >> 4 {
        4 => read_v4(bytes, wire_len),
        6 => read_v6(bytes, wire_len),
        _ => None,
    }
}

fn read_v4(bytes: &[u8], wire_len: u32) -> Option<Datagram<'_>> {
    let header: &[u8; 20] = bytes.first_chunk()?;
    let half = |at| ByteOrder::Big.u16(header, at);
    let [version_ihl, service, _, _, _, _, _, _, ttl, protocol, ..] = *header;
    let header_len = u32::from(version_ihl & 0x0f) * 4;
    let total_len = match u32::from(half(2)?) {
        0 => wire_len,
        len => len,
    };
    if header_len < 20 {
        return None;
    }
    let payload_len = total_len.checked_sub(header_len)?;
    // The field contains three flags, then the offset in units of eight bytes.
    let part = half(6)?;
    let fragment = (part & 0x3fff != 0).then_some(Fragment {
        id: u32::from(half(4)?),
        offset: u32::from(part & 0x1fff) * 8,
        is_first: part & 0x1fff == 0,
        is_last: part & 0x2000 == 0,
    });
    Some(Datagram {
        protocol,
        source: IpAddr::from(*header.get(12..)?.first_chunk::<4>()?),
        destination: IpAddr::from(*header.last_chunk::<4>()?),
        facts: IpFacts {
            ttl,
            id: half(4),
            dont_fragment: part & 0x4000 != 0,
            congestion_marked: service & 3 == 3,
            sent_by: SentBy::Unknown,
        },
        fragment,
        payload_len,
        payload: at_most(bytes.get(header_len as usize..)?, payload_len),
    })
}

fn read_v6(bytes: &[u8], wire_len: u32) -> Option<Datagram<'_>> {
    let (header, rest) = bytes.split_first_chunk::<40>()?;
    let [_, class, _, _, _, _, next, hop_limit, addresses @ ..] = header;
    let body_len = match u32::from(ByteOrder::Big.u16(header, 4)?) {
        // Zero in a jumbogram (RFC 2675), and in a packet that offload has not split yet.
        0 => wire_len.checked_sub(40)?,
        len => len,
    };
    let chain = pass_extensions(*next, at_most(rest, body_len))?;
    let payload_len = body_len.checked_sub(u32::try_from(chain.len).ok()?)?;
    Some(Datagram {
        protocol: chain.protocol,
        source: IpAddr::from(*addresses.first_chunk::<16>()?),
        destination: IpAddr::from(*addresses.last_chunk::<16>()?),
        facts: IpFacts {
            ttl: *hop_limit,
            // The lower half of the identification in the fragment header.
            id: chain.fragment.map(|fragment| fragment.id as u16),
            dont_fragment: false,
            congestion_marked: (class >> 4) & 3 == 3,
            sent_by: SentBy::Unknown,
        },
        fragment: chain
            .fragment
            .filter(|part| !part.is_last || !part.is_first),
        payload_len,
        payload: at_most(rest.get(chain.len..)?, payload_len),
    })
}

/// The extension headers before a transport's header.
struct Chain {
    /// Protocol that follows the headers.
    protocol: u8,
    /// Length of the headers in bytes.
    len: usize,
    /// Content of a fragment header, including that of an unfragmented packet (RFC 6946).
    fragment: Option<Fragment>,
}

fn pass_extensions(next: u8, bytes: &[u8]) -> Option<Chain> {
    let mut chain = Chain {
        protocol: next,
        len: 0,
        fragment: None,
    };
    for _ in 0..=MAX_EXTENSIONS {
        if !is_extension(chain.protocol) {
            return Some(chain);
        }
        let header: &[u8; 8] = bytes.get(chain.len..)?.first_chunk()?;
        let [following, units, o0, o1, i0, i1, i2, i3] = *header;
        let begin = chain.len;
        chain.len += match chain.protocol {
            // RFC 4302 §2.2 counts the length in words of four bytes, without the first two words.
            protocol::AUTHENTICATION => 8 + usize::from(units) * 4,
            protocol::FRAGMENT => 8,
            _ => 8 + usize::from(units) * 8,
        };
        if chain.protocol == protocol::FRAGMENT {
            let part = u16::from_be_bytes([o0, o1]);
            let fragment = Fragment {
                id: u32::from_be_bytes([i0, i1, i2, i3]),
                offset: u32::from(part & 0xfff8),
                is_first: part & 0xfff8 == 0,
                is_last: part & 1 == 0,
            };
            chain.fragment = Some(fragment);
            if !fragment.is_first {
                // The bytes that follow are not a header but the middle of the payload.
                chain.protocol = following;
                return Some(chain);
            }
        } else if let Some(fragment) = &mut chain.fragment {
            // The extension header itself was fragmented together with the payload.
            fragment.offset += chain.len as u32 - begin as u32;
        }
        chain.protocol = following;
    }
    None
}

#[inline]
fn is_extension(next: u8) -> bool {
    matches!(
        next,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
    )
}

#[inline]
fn at_most(bytes: &[u8], len: u32) -> &[u8] {
    bytes.get(..len as usize).unwrap_or(bytes)
}
