//! TCP headers (RFC 9293 §3.1) and the options relevant to latency.

use super::byte_order::ByteOrder;
use super::ip::Datagram;
use crate::observed::flow::{Direction, Endpoint, FlowKey, Transport};
use crate::observed::segment::{TcpFlags, TcpOptions};

/// Option kinds, from IANA's TCP parameters.
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// Maximum window scale: a greater one is read as this one (RFC 7323 §2.3).
const MAX_WINDOW_SCALE: u8 = 14;

/// Minimum payload of an IPv4 packet in an Ethernet frame, in bytes: shorter frames are padded.
const LEAST_FRAME: u32 = 46 - 20;

/// A TCP header's fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    source_port: u16,
    destination_port: u16,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: TcpFlags,
    pub(super) window: u16,
    pub(super) payload_len: u32,
    pub(super) options: TcpOptions,
}

impl Header {
    pub(super) fn flow(&self, datagram: &Datagram<'_>) -> (FlowKey, Direction) {
        FlowKey::new(
            Transport::Tcp,
            Endpoint::new(datagram.source, self.source_port),
            Endpoint::new(datagram.destination, self.destination_port),
        )
    }
}

/// Reads the header at the beginning of a datagram, and the captured part of the payload. `None` if
/// the header does not fit into the datagram, or was not captured up to the window, the last of the
/// fixed fields that are read.
pub(super) fn read<'a>(datagram: &Datagram<'a>) -> Option<(Header, &'a [u8])> {
    let fixed: &[u8; 16] = datagram.payload.first_chunk()?;
    let half = |at| ByteOrder::Big.u16(fixed, at);
    let word = |at| ByteOrder::Big.u32(fixed, at);
    let [.., offset, bits, _, _] = *fixed;
    let options_len = usize::from(offset >> 4).checked_sub(5)? * 4;
    let header_len = 20 + u32::try_from(options_len).ok()?;
    let payload_len = datagram.payload_len.checked_sub(header_len)?;
    let rest = datagram.payload.get(20..).unwrap_or_default();
    let (options, payload) = rest.split_at_checked(options_len).unwrap_or((rest, &[]));
    let flags = TcpFlags(bits);
    let is_padded = datagram.source.is_ipv4() && is_padded(header_len, payload_len, payload, flags);
    let (payload_len, payload) = if is_padded {
        (0, Default::default())
    } else {
        (payload_len, payload)
    };
    let is_syn = flags.contains(TcpFlags::SYN);
    let header = Header {
        source_port: half(0)?,
        destination_port: half(2)?,
        seq: word(4)?,
        ack: word(8)?,
        flags,
        window: half(14)?,
        payload_len,
        options: usual_options(options, is_syn).unwrap_or_else(|| read_options(options, is_syn)),
    };
    Some((header, payload))
}

/// Returns true if the apparent payload of a segment in IPv4 is padding: the sender's network card
/// padded a short frame, and a device on the path then included the padding in the datagram's
/// length. Real payload differs. A sender sets PSH on so little data (RFC 9293 §3.9.1.2), and a
/// window probe has at most one byte. Padding has no PSH and is all zeros.
#[inline]
pub(super) fn is_padded(
    header_len: u32,
    payload_len: u32,
    payload: &[u8],
    flags: TcpFlags,
) -> bool {
    let is_short = payload_len > 1 && header_len + payload_len <= LEAST_FRAME;
    is_short
        && payload.len() == payload_len as usize
        && !flags.contains(TcpFlags::PSH)
        && payload.iter().all(|&byte| byte == 0)
}

/// Returns the options of nearly every segment of an established connection: timestamps and nothing
/// else. `None` if there are other options, or in a SYN.
#[inline]
pub(super) fn usual_options(bytes: &[u8], is_syn: bool) -> Option<TcpOptions> {
    #[rustfmt::skip]
    let [kind::NO_OPERATION, kind::NO_OPERATION, kind::TIMESTAMPS, 10,
        v0, v1, v2, v3, e0, e1, e2, e3] = *bytes else {
        return None;
    };
    if is_syn {
        return None;
    }
    let value = u32::from_be_bytes([v0, v1, v2, v3]);
    Some(TcpOptions {
        timestamps: Some((value, u32::from_be_bytes([e0, e1, e2, e3]))),
        ..TcpOptions::default()
    })
}

/// Reads the options. Options that belong only in a SYN are ignored elsewhere, as in every kernel.
#[inline(never)]
pub(super) fn read_options(mut bytes: &[u8], is_syn: bool) -> TcpOptions {
    let mut options = TcpOptions::default();
    let mut order = 0;
    while let Some((kind, rest)) = bytes.split_first() {
        if is_syn {
            options.layout |= layout(*kind, &mut order);
        }
        match *kind {
            kind::END => break,
            kind::NO_OPERATION => {
                bytes = rest;
                continue;
            }
            _ => {}
        }
        let Some(value) = rest
            .first()
            .and_then(|len| rest.get(1..usize::from(*len).checked_sub(1)?))
        else {
            break;
        };
        read_option(&mut options, *kind, value, is_syn);
        bytes = rest.get(1 + value.len()..).unwrap_or_default();
    }
    options
}

/// Returns the bits of the next option for [`TcpOptions::layout`]; `order` is the number of options
/// before it.
fn layout(kind: u8, order: &mut u32) -> u32 {
    let code = match kind {
        kind::END..=kind::SACK_PERMITTED | kind::TIMESTAMPS => u32::from(kind) + 1,
        _ => 15,
    };
    let bits = code.checked_shl(*order * 4).unwrap_or_default();
    *order += 1;
    bits
}

fn read_option(options: &mut TcpOptions, kind: u8, value: &[u8], is_syn: bool) {
    match (kind, value) {
        (kind::TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            options.timestamps = Some((value, u32::from_be_bytes([e0, e1, e2, e3])));
        }
        (kind::SACK, blocks) if blocks.len() % 8 == 0 => read_sack(options, blocks),
        (kind::MSS, &[m0, m1]) if is_syn => options.mss = Some(u16::from_be_bytes([m0, m1])),
        (kind::WINDOW_SCALE, &[shift]) if is_syn => {
            options.window_scale = Some(shift.min(MAX_WINDOW_SCALE));
        }
        (kind::SACK_PERMITTED, []) if is_syn => options.sack_permitted = true,
        _ => {}
    }
}

fn read_sack(options: &mut TcpOptions, blocks: &[u8]) {
    options.sack_count = 0;
    for (slot, block) in options.sack.iter_mut().zip(blocks.chunks_exact(8)) {
        if let [l0, l1, l2, l3, r0, r1, r2, r3] = *block {
            let left = u32::from_be_bytes([l0, l1, l2, l3]);
            *slot = (left, u32::from_be_bytes([r0, r1, r2, r3]));
            options.sack_count += 1;
        }
    }
}
