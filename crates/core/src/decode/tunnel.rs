//! Packets within packets: what a tunnel carries.
//!
//! In comes an IP packet that is no TCP; out goes the packet within it, if its
//! protocol is one that carries others. The flow that counts is the innermost.

use super::byte_order::ByteOrder;
use super::ip::{self, Datagram, protocol};
use super::link::{behind, ethernet};

/// Tunnels within tunnels that are followed: an overlay within IPsec-less
/// site links needs two.
const MAX_NESTING: usize = 4;

/// UDP ports that say what a datagram carries.
mod port {
    /// RFC 7348, and what Linux used before (`vxlan_udp_port` in
    /// `drivers/net/vxlan/vxlan_core.c`), which overlays still do.
    pub(super) const VXLAN: [u16; 2] = [4789, 8472];
    /// RFC 8926.
    pub(super) const GENEVE: u16 = 6081;
}

/// EtherTypes that tunnels name their content by.
mod content {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    /// Transparent Ethernet bridging.
    pub(super) const ETHERNET: u16 = 0x6558;
    /// ERSPAN type I and II, and III (`draft-foschiano-erspan`).
    pub(super) const ERSPAN: u16 = 0x88be;
    pub(super) const ERSPAN_III: u16 = 0x22eb;
}

const UDP_HEADER: usize = 8;
const VXLAN_HEADER: usize = 8;
const GENEVE_HEADER: usize = 8;
const ERSPAN_II_HEADER: usize = 8;
const ERSPAN_III_HEADER: usize = 12;
const ERSPAN_III_SUBHEADER: usize = 8;

/// A packet's bytes and its length on the wire.
type Bytes<'a> = (&'a [u8], u32);

/// The packet within all the tunnels that `outer` is, itself if it is none;
/// `None` where what they carry is no IP.
#[inline]
pub(super) fn innermost(mut datagram: Datagram<'_>) -> Option<Datagram<'_>> {
    for _ in 0..MAX_NESTING {
        if datagram.protocol == protocol::TCP || !datagram.has_header() {
            return Some(datagram);
        }
        match inner(&datagram) {
            Some(bytes) => datagram = ip::read(bytes)?,
            None => return Some(datagram),
        }
    }
    Some(datagram)
}

/// The IP packet within `outer`; `None` where it is no tunnel that is known.
fn inner<'a>(outer: &Datagram<'a>) -> Option<Bytes<'a>> {
    let whole = (outer.payload, outer.payload_len);
    match outer.protocol {
        protocol::UDP => in_udp(whole),
        protocol::IPV4 | protocol::IPV6 => Some(whole),
        protocol::GRE => in_gre(whole),
        _ => None,
    }
}

#[inline]
fn in_udp<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    let port = ByteOrder::Big.u16(bytes, 2)?;
    if port::VXLAN.contains(&port) {
        return in_vxlan(behind(bytes, UDP_HEADER, wire_len)?);
    }
    (port == port::GENEVE).then(|| in_geneve(behind(bytes, UDP_HEADER, wire_len)?))?
}

fn in_vxlan<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    // RFC 7348 §5: the flag that there is a network identifier must be set.
    if bytes.first()? & 0x08 == 0 {
        return None;
    }
    let (frame, wire_len) = behind(bytes, VXLAN_HEADER, wire_len)?;
    ethernet(frame, wire_len)
}

fn in_geneve<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    let options = usize::from(bytes.first()? & 0x3f) * 4;
    let kind = ByteOrder::Big.u16(bytes, 2)?;
    of_kind(kind, behind(bytes, GENEVE_HEADER + options, wire_len)?)
}

/// RFC 2784 with the key and the sequence number of RFC 2890.
fn in_gre<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    const CHECKSUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    let flags = ByteOrder::Big.u16(bytes, 0)?;
    let kind = ByteOrder::Big.u16(bytes, 2)?;
    // Source routes (RFC 1701) and version 1 (RFC 2637) are not read.
    if flags & 0x4007 != 0 {
        return None;
    }
    let fields = [CHECKSUM, KEY, SEQUENCE];
    let present = fields.iter().filter(|&&field| flags & field != 0).count();
    let content = behind(bytes, 4 + 4 * present, wire_len)?;
    match kind {
        // What tells type I from type II is that it has no sequence number.
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

fn in_erspan_iii<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    let has_subheader = bytes.get(ERSPAN_III_HEADER - 1)? & 1 == 1;
    let header = ERSPAN_III_HEADER + usize::from(has_subheader) * ERSPAN_III_SUBHEADER;
    of_kind(content::ETHERNET, behind(bytes, header, wire_len)?)
}

fn of_kind<'a>(kind: u16, (bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    match kind {
        content::IPV4 | content::IPV6 => Some((bytes, wire_len)),
        content::ETHERNET => ethernet(bytes, wire_len),
        _ => None,
    }
}
