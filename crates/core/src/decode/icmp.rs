//! ICMP errors (RFC 792, RFC 4443) and the headers that they quote.

use super::Record;
use super::byte_order::ByteOrder;
use super::ip::{self, Datagram, protocol};
use crate::event::PointId;
use crate::flow::{Endpoint, FlowKey, Transport};
use crate::icmp::{IcmpError, IcmpKind};
use crate::segment::TcpFlags;

/// Type, code, checksum and four bytes whose meaning depends on the type.
const HEADER: usize = 8;

/// Reads the error that `datagram` holds. `None` for what is no error (echoes,
/// redirects, neighbour discovery) or quotes neither TCP nor UDP.
///
/// Kept out of line: the path of a segment does not come here.
#[cold]
pub(super) fn read(
    record: &Record<'_>,
    point: PointId,
    datagram: &Datagram<'_>,
) -> Option<IcmpError> {
    let at = record.at?;
    let (header, rest) = datagram.payload.split_first_chunk::<HEADER>()?;
    let kind = kind(datagram.protocol, header)?;
    // How long the quoted packet was, its own header tells.
    let quoted = ip::read((rest, u32::try_from(rest.len()).unwrap_or(u32::MAX)))?;
    let (transport, seq) = match quoted.protocol {
        protocol::TCP => (Transport::Tcp, ByteOrder::Big.u32(quoted.payload, 4)),
        protocol::UDP => (Transport::Udp, None),
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
    Some(IcmpError {
        at,
        number: record.number,
        point,
        reporter: datagram.source,
        flow,
        direction,
        seq,
        flags: quoted_flags(&quoted),
        kind,
    })
}

/// The flags of a TCP header of which so much is quoted.
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
