//! UDP headers (RFC 768).

use super::Record;
use super::byte_order::ByteOrder;
use super::{ip, link};
use crate::observed::datagram::Datagram;
use crate::observed::event::PointId;
use crate::observed::flow::{Endpoint, FlowKey, Transport};

/// Length of the header in bytes: ports, length and checksum.
const HEADER: u16 = 8;

/// Reads the header at the beginning of `packet`, and the captured part of the payload. `None` if
/// the header was not captured completely, or if its length field is less than the header's own
/// length.
#[cold]
pub(super) fn read<'a>(
    record: &Record<'a>,
    point: PointId,
    packet: &ip::Datagram<'a>,
) -> Option<(Datagram, &'a [u8])> {
    let at = record.at?;
    let (header, rest) = packet.payload.split_first_chunk::<{ HEADER as usize }>()?;
    let half = |at| ByteOrder::Big.u16(header, at);
    let payload_len = half(4)?.checked_sub(HEADER)?;
    let (flow, direction) = FlowKey::new(
        Transport::Udp,
        Endpoint::new(packet.source, half(0)?),
        Endpoint::new(packet.destination, half(2)?),
    );
    let datagram = Datagram {
        at,
        number: record.number,
        point,
        flow,
        direction,
        payload_len,
        sent_by: link::sent_by(record),
    };
    Some((datagram, rest.get(..payload_len.into()).unwrap_or(rest)))
}
