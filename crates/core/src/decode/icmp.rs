//! ICMP errors (RFC 792, RFC 4443), the headers that they quote, and pings.

use super::byte_order::ByteOrder;
use super::ip::{self, Datagram, protocol};
use super::{Packet, Record};
use crate::observed::event::PointId;
use crate::observed::flow::{Endpoint, FlowKey, Transport};
use crate::observed::icmp::{Echo, EchoStep, IcmpError, IcmpKind};
use crate::observed::segment::TcpFlags;

/// Length of the header in bytes: type, code, checksum and four bytes whose meaning depends on the
/// type.
const HEADER: usize = 8;

/// Reads the ICMP error or the ping in `datagram`. `None` for other messages (redirects, neighbour
/// discovery), and for an error about a packet that is neither TCP nor UDP nor a ping.
///
/// `#[cold]`, because segments never take this path.
#[cold]
pub(super) fn read<'a>(
    record: &Record<'_>,
    point: PointId,
    datagram: &Datagram<'_>,
) -> Option<Packet<'a>> {
    let at = record.at?;
    let (header, rest) = datagram.payload.split_first_chunk::<HEADER>()?;
    let echo = |(is_reply, id, seq): (bool, u16, u16), from, to, step| {
        let (asker, target) = if is_reply { (to, from) } else { (from, to) };
        Packet::Echo(Echo {
            at,
            number: record.number,
            point,
            asker,
            target,
            id,
            seq,
            step,
        })
    };
    let (from, to) = (datagram.source, datagram.destination);
    if let Some(ping) = ping(datagram.protocol, header) {
        let (is_reply, ..) = ping;
        let step = if is_reply {
            EchoStep::Reply
        } else {
            EchoStep::Request
        };
        return Some(echo(ping, from, to, step));
    }
    let kind = kind(datagram.protocol, header)?;
    // The length of the quoted packet is in the quoted header.
    let quoted = ip::read((rest, u32::try_from(rest.len()).unwrap_or(u32::MAX)))?;
    let (transport, seq) = match quoted.protocol {
        protocol::TCP => (Transport::Tcp, ByteOrder::Big.u32(quoted.payload, 4)),
        protocol::UDP => (Transport::Udp, None),
        protocol::ICMP | protocol::ICMPV6 => {
            let header = quoted.payload.first_chunk()?;
            let ping = ping(quoted.protocol, header).filter(|(is_reply, ..)| !is_reply)?;
            let reporter = datagram.source;
            let step = EchoStep::Rejected { reporter, kind };
            return Some(echo(ping, quoted.source, quoted.destination, step));
        }
        _ => return None,
    };
    if !quoted.has_header() {
        return None;
    }
    let port = |at| ByteOrder::Big.u16(quoted.payload, at);
    let (flow, direction) = FlowKey::new(
        transport,
        Endpoint::new(quoted.source, port(0)?),
        Endpoint::new(quoted.destination, port(2)?),
    );
    Some(Packet::Icmp(IcmpError {
        at,
        number: record.number,
        point,
        reporter: datagram.source,
        flow,
        direction,
        seq,
        flags: quoted_flags(&quoted),
        kind,
    }))
}

/// For a ping, returns true if it is a reply, then its identifier and its sequence number.
fn ping(protocol: u8, header: &[u8; HEADER]) -> Option<(bool, u16, u16)> {
    let [kind, code, _, _, i0, i1, s0, s1] = *header;
    let is_reply = match (protocol, kind, code) {
        (protocol::ICMP, 0, 0) | (protocol::ICMPV6, 129, 0) => true,
        (protocol::ICMP, 8, 0) | (protocol::ICMPV6, 128, 0) => false,
        _ => return None,
    };
    let half = |high, low| u16::from_be_bytes([high, low]);
    Some((is_reply, half(i0, i1), half(s0, s1)))
}

/// Returns the flags of a TCP header, if enough of it is quoted.
fn quoted_flags(quoted: &Datagram<'_>) -> Option<TcpFlags> {
    let is_header = quoted.protocol == protocol::TCP && quoted.fragment.is_none();
    let header: &[u8; 16] = quoted.payload.first_chunk()?;
    is_header.then(|| TcpFlags(header[13]))
}

fn kind(protocol: u8, header: &[u8; HEADER]) -> Option<IcmpKind> {
    let [kind, code, _, _, m0, m1, m2, m3] = *header;
    Some(match (protocol, kind) {
        // RFC 1191 §4: the next hop's MTU is the lower half.
        (protocol::ICMP, 3) if code == 4 => {
            IcmpKind::TooBig(u32::from(u16::from_be_bytes([m2, m3])))
        }
        (protocol::ICMPV6, 2) => IcmpKind::TooBig(u32::from_be_bytes([m0, m1, m2, m3])),
        (protocol::ICMP, 3) | (protocol::ICMPV6, 1) => IcmpKind::Unreachable(code),
        (protocol::ICMP, 11) | (protocol::ICMPV6, 3) => IcmpKind::TimeExceeded(code),
        (protocol::ICMP, 12) | (protocol::ICMPV6, 4) => IcmpKind::ParameterProblem(code),
        _ => return None,
    })
}
