//! The headers in a record, from the outermost to the innermost.

use super::ip::{self, protocol};
use super::{Packet, Record, icmp, link, neighbour, tcp, tunnel, udp};
use crate::observed::event::PointId;
use crate::observed::segment::{IpFacts, Segment, TcpFlags};

/// The content of a record.
pub(super) enum Read<'a> {
    Packet(Packet<'a>),
    /// A fragment of an IP packet; tunnels are already removed.
    Part(ip::Datagram<'a>),
}

/// Reads the headers of any record independently of others; `network` is the IP packet in the
/// record, if there is one.
#[inline(never)]
pub(super) fn alone<'a>(
    record: &Record<'a>,
    point: PointId,
    network: Option<(&'a [u8], u32)>,
) -> Packet<'a> {
    let packet = match read(record, point, network) {
        Some(Read::Packet(packet)) => Some(packet),
        Some(Read::Part(part)) => first_part(record, point, part),
        None => None,
    };
    packet.unwrap_or(Packet::Other)
}

#[inline]
pub(super) fn read<'a>(
    record: &Record<'a>,
    point: PointId,
    network: Option<(&'a [u8], u32)>,
) -> Option<Read<'a>> {
    let Some(network) = network else {
        return neighbour::arp(record, point).map(|step| Read::Packet(Packet::Neighbour(step)));
    };
    let datagram = ip::read(network)?;
    let datagram = match datagram.protocol {
        protocol::TCP => datagram,
        _ => tunnel::innermost(datagram)?,
    };
    if datagram.fragment.is_some() {
        return Some(Read::Part(datagram));
    }
    transport(record, point, &datagram).map(Read::Packet)
}

/// Returns the transport packet in an unfragmented IP packet.
#[inline]
pub(super) fn transport<'a>(
    record: &Record<'a>,
    point: PointId,
    datagram: &ip::Datagram<'a>,
) -> Option<Packet<'a>> {
    match datagram.protocol {
        protocol::TCP => segment(record, point, datagram),
        protocol::UDP => {
            udp::read(record, point, datagram).map(|(header, payload)| Packet::Udp(header, payload))
        }
        protocol::ICMP | protocol::ICMPV6 => icmp::read(record, point, datagram)
            .or_else(|| neighbour::ndp(record, point, datagram).map(Packet::Neighbour)),
        _ => None,
    }
}

/// Returns a first fragment as a packet with the payload of that fragment.
#[cold]
pub(super) fn first_part<'a>(
    record: &Record<'a>,
    point: PointId,
    part: ip::Datagram<'a>,
) -> Option<Packet<'a>> {
    let inner = tunnel::innermost_of_first(part)?;
    if !inner.has_header() {
        return None;
    }
    let packet = transport(record, point, &inner)?;
    Some(match packet {
        Packet::Tcp(mut segment, payload) if inner.fragment.is_some_and(|part| !part.is_last) => {
            // FIN and PSH concern the segment's end, so they are added with its last fragment.
            let of_end = TcpFlags::FIN.with(TcpFlags::PSH);
            segment.flags = TcpFlags(segment.flags.0 & !of_end.0);
            Packet::Tcp(segment, payload)
        }
        packet => packet,
    })
}

#[inline]
fn segment<'a>(
    record: &Record<'a>,
    point: PointId,
    datagram: &ip::Datagram<'a>,
) -> Option<Packet<'a>> {
    let at = record.at?;
    let (header, payload) = tcp::read(datagram)?;
    let (flow, direction) = header.flow(datagram);
    let segment = Segment {
        at,
        number: record.number,
        point,
        flow,
        direction,
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        payload_len: header.payload_len,
        options: header.options,
        ip: IpFacts {
            sent_by: link::sent_by(record),
            ..datagram.facts
        },
    };
    Some(Packet::Tcp(segment, payload))
}
