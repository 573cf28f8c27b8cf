//! Resolution of hardware addresses: ARP (RFC 826), and the solicitations and advertisements of
//! neighbour discovery (RFC 4861 §4.3, §4.4).

use core::net::{IpAddr, Ipv4Addr};

use super::ip::{Datagram, protocol};
use super::{Record, link};
use crate::observed::datagram::Neighbour;
use crate::observed::event::PointId;

/// The first bytes of an ARP packet for IPv4 over Ethernet: Ethernet's hardware type, IPv4's
/// protocol type, and the lengths of their addresses.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// Reads the ARP packet of a frame. `None` for anything else, and for a host's announcement of its
/// own address (RFC 5227), because nobody waits for it.
#[cold]
pub(super) fn arp(record: &Record<'_>, point: PointId) -> Option<Neighbour> {
    let bytes: &[u8; 28] = link::arp(record)?.first_chunk()?;
    let (begin, rest) = bytes.split_first_chunk::<6>()?;
    if *begin != ETHERNET_IPV4 {
        return None;
    }
    let address = |at: usize| {
        let octets: [u8; 4] = *bytes.get(at..)?.first_chunk()?;
        Some(IpAddr::from(octets))
    };
    let (sender, target) = (address(14)?, address(24)?);
    let is_answer = match rest.first_chunk()? {
        [0, 1] => false,
        [0, 2] => true,
        _ => return None,
    };
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if sender == target || sender == nobody || target == nobody {
        return None;
    }
    let (asker, target) = if is_answer {
        (target, sender)
    } else {
        (sender, target)
    };
    Some(Neighbour {
        at: record.at?,
        number: record.number,
        point,
        asker,
        target,
        is_answer,
    })
}

/// Reads a solicitation or advertisement. `None` for other ICMPv6 messages, for duplicate address
/// detection (sent from the unspecified address) and for unsolicited advertisements.
#[cold]
pub(super) fn ndp(
    record: &Record<'_>,
    point: PointId,
    datagram: &Datagram<'_>,
) -> Option<Neighbour> {
    let bytes: &[u8; 24] = datagram.payload.first_chunk()?;
    let target = IpAddr::from(*bytes.last_chunk::<16>()?);
    let (asker, is_answer) = match bytes.first()? {
        135 => (datagram.source, false),
        136 => (datagram.destination, true),
        _ => return None,
    };
    if datagram.protocol != protocol::ICMPV6 || asker.is_unspecified() || asker.is_multicast() {
        return None;
    }
    Some(Neighbour {
        at: record.at?,
        number: record.number,
        point,
        asker,
        target,
        is_answer,
    })
}
