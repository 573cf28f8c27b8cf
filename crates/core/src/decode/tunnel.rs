//! Tunnels: finds the innermost packet.
//!
//! The input is an IP packet that is not TCP. The output is the packet in it, if its protocol
//! carries other packets. Only the innermost flow counts.

mod gre;
mod gtp;
mod l2tp;

use super::byte_order::ByteOrder;
use super::fragment::MAX_LEN;
use super::ip::{self, Datagram, protocol};
use super::link::{behind, ethernet, mpls, ppp};

/// Maximum depth of nested tunnels. An overlay network over a site-to-site tunnel needs two.
pub(super) const MAX_NESTING: usize = 4;

/// UDP ports that identify the content of a datagram.
mod port {
    /// Ports of VXLAN: RFC 7348, and the port that Linux used before (`vxlan_udp_port` in
    /// `drivers/net/vxlan/vxlan_core.c`), which overlays still use.
    pub(super) const VXLAN: [u16; 2] = [4789, 8472];
    /// Port of Geneve (RFC 8926).
    pub(super) const GENEVE: u16 = 6081;
    /// Port of GTP-U (3GPP TS 29.281 §4.4.2).
    pub(super) const GTP_U: u16 = 2152;
    /// Port of L2TP (RFC 2661 §8.1). The answering side may choose another port for its own end.
    pub(super) const L2TP: u16 = 1701;
}

/// EtherTypes with which tunnels name their content.
mod content {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    /// Transparent Ethernet bridging.
    pub(super) const ETHERNET: u16 = 0x6558;
    /// MPLS, unicast and multicast.
    pub(super) const MPLS: [u16; 2] = [0x8847, 0x8848];
    /// PPP (RFC 2637).
    pub(super) const PPP: u16 = 0x880b;
    /// ERSPAN type I and II, and III (`draft-foschiano-erspan`).
    pub(super) const ERSPAN: u16 = 0x88be;
    pub(super) const ERSPAN_III: u16 = 0x22eb;
}

const UDP_HEADER: usize = 8;
const VXLAN_HEADER: usize = 8;
const GENEVE_HEADER: usize = 8;

/// A packet's bytes and its length on the wire.
type Bytes<'a> = (&'a [u8], u32);

/// Returns the packet in the innermost tunnel of `datagram`: `datagram` itself if it is not a
/// tunnel, or the first fragment encountered. `None` if the tunnel's content is not IP.
#[inline]
pub(super) fn innermost(datagram: Datagram<'_>) -> Option<Datagram<'_>> {
    for_each_tunnel(datagram, |datagram| datagram.fragment.is_some())
}

/// Returns the innermost packet in a first fragment, which is read without the other fragments.
pub(super) fn innermost_of_first(datagram: Datagram<'_>) -> Option<Datagram<'_>> {
    for_each_tunnel(datagram, |datagram| !datagram.has_header())
}

#[inline]
fn for_each_tunnel<'a>(
    mut datagram: Datagram<'a>,
    is_end: impl Fn(&Datagram<'a>) -> bool,
) -> Option<Datagram<'a>> {
    for _ in 0..MAX_NESTING {
        if datagram.protocol == protocol::TCP || is_end(&datagram) {
            return Some(datagram);
        }
        match inner(&datagram) {
            Some(bytes) => datagram = ip::read(bytes)?,
            None => return Some(datagram),
        }
    }
    Some(datagram)
}

/// Returns the IP packet in `outer`; `None` if `outer` is not a known tunnel.
fn inner<'a>(outer: &Datagram<'a>) -> Option<Bytes<'a>> {
    // The length of a fragmented packet is known only from its last fragment.
    let len = match outer.fragment {
        Some(_) => MAX_LEN,
        None => outer.payload_len,
    };
    let whole = (outer.payload, len);
    match outer.protocol {
        protocol::UDP => in_udp(whole),
        protocol::IPV4 | protocol::IPV6 => Some(whole),
        protocol::GRE => gre::inner(whole),
        _ => None,
    }
}

#[inline]
fn in_udp<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    let [source, port] = [0, 2].map(|at| ByteOrder::Big.u16(bytes, at));
    let (source, port) = (source?, port?);
    let content = behind(bytes, UDP_HEADER, wire_len)?;
    match port {
        port if port::VXLAN.contains(&port) => in_vxlan(content),
        port::GENEVE => in_geneve(content),
        port::GTP_U => gtp::inner(content),
        port if port == port::L2TP || source == port::L2TP => l2tp::inner(content),
        _ => None,
    }
}

fn in_vxlan<'a>((bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    // RFC 7348 §5: the flag for a valid network identifier must be set.
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

fn of_kind<'a>(kind: u16, (bytes, wire_len): Bytes<'a>) -> Option<Bytes<'a>> {
    match kind {
        content::IPV4 | content::IPV6 => Some((bytes, wire_len)),
        content::ETHERNET => ethernet(bytes, wire_len),
        content::PPP => ppp(bytes, wire_len),
        kind if content::MPLS.contains(&kind) => mpls(bytes, wire_len),
        _ => None,
    }
}

/// Returns `bytes` if they are certainly an IP packet: the header is complete, and its length field
/// does not exceed the container's length. This check is needed because a port alone does not prove
/// a tunnel.
fn certain((bytes, wire_len): Bytes<'_>) -> Option<Bytes<'_>> {
    let half = |at| ByteOrder::Big.u16(bytes, at).map(u32::from);
    let (least, len) = match bytes.first()? {
        first @ 0x45..=0x4f => (u32::from(first & 0x0f) * 4, half(2)?),
        0x60..=0x6f => (40, half(4)? + 40),
        _ => return None,
    };
    let is_whole = bytes.len() >= least as usize;
    (is_whole && (least..=wire_len).contains(&len)).then_some((bytes, wire_len))
}
