//! The bytes of probes after the IP header, and the assignment of quotes and replies to probes.

use lagtrace_core::observed::route::HopAnswer;
use lagtrace_core::observed::segment::TcpFlags;

use crate::checksum::{fold, sum};
use crate::headers::{Ends, TcpSegment, UDP};

/// First bytes of all payloads. The probe's number follows.
const MAGIC: [u8; 4] = *b"lagt";
/// Minimum length of a payload, in bytes.
pub(super) const PAYLOAD: usize = 8;
/// Number of bytes in the headers after the IP header.
pub(super) const UDP_HEADER: usize = 8;
pub(super) const ECHO_HEADER: usize = 8;
pub(super) const SYN_LEN: usize = 24;
/// Control bits that show the result of a SYN.
const HANDSHAKE: TcpFlags = SYN_ACK.with(TcpFlags::RST);
const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);
const RST_ACK: TcpFlags = TcpFlags::RST.with(TcpFlags::ACK);
/// Number of probes that can be distinguished by the sequence number of a SYN, and the difference
/// between two of these numbers. It is larger than one, because the answer to a SYN acknowledges
/// its sequence number plus one.
const SYN_NUMBERS: u32 = 1 << 20;
const SYN_STEP: u32 = 1 << 12;
/// Number of different UDP checksums. 0 is left out, because it means that there is no checksum.
const CHECKSUMS: u32 = 65_535;

/// Returns the latest probe number, up to `last`, whose remainder modulo `modulus` is `rest`.
pub(super) fn recall(last: u32, rest: u32, modulus: u32) -> Option<u32> {
    let back = (last % modulus + modulus).checked_sub(rest)? % modulus;
    (rest < modulus).then(|| last.checked_sub(back)).flatten()
}

/// Returns a payload that contains the probe's number.
pub(super) fn payload(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(PAYLOAD));
    bytes.extend(MAGIC);
    bytes.extend(number.to_be_bytes());
    bytes.resize(len.max(PAYLOAD), b'.');
    bytes
}

/// Returns the probe's number in a payload; `None` if the payload is truncated or another
/// program's.
pub(super) fn payload_number(bytes: &[u8]) -> Option<u32> {
    let number = bytes.strip_prefix(&MAGIC)?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Returns a UDP datagram whose checksum is `wanted`, which is not 0. Routers quote the checksum
/// even if they quote only eight bytes, and load balancing by flow ignores it.
pub(super) fn udp(ends: &Ends, wanted: u16, number: u32, len: usize) -> Vec<u8> {
    let payload = payload(number, len.saturating_sub(UDP_HEADER));
    let length = u16::try_from(UDP_HEADER + payload.len()).unwrap_or(u16::MAX);
    let mut bytes = Vec::with_capacity(UDP_HEADER + payload.len() + 2);
    bytes.extend(ends.source_port.to_be_bytes());
    bytes.extend(ends.destination_port.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(wanted.to_be_bytes());
    bytes.extend(payload);
    // The third 16-bit word of the payload is adjusted, so that the checksum has the wanted value.
    if let Some(word) = bytes.get_mut(UDP_HEADER + 4..UDP_HEADER + 6) {
        word.fill(0);
    }
    let without = fold(sum(&bytes) + ends.pseudo(UDP, bytes.len()));
    let word = fold(0xffff + 0xffff - u32::from(without));
    if let Some(place) = bytes.get_mut(UDP_HEADER + 4..UDP_HEADER + 6) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// Returns the checksum for probe number `number`.
pub(super) fn udp_tag(number: u32) -> u16 {
    u16::try_from(number % CHECKSUMS + 1).unwrap_or(1)
}

/// Returns the number of the probe whose datagram is quoted.
pub(super) fn udp_number(ends: &Ends, quoted: &[u8], last: u32) -> Option<u32> {
    let is_ours = word(quoted, 0)? == ends.source_port && word(quoted, 2)? == ends.destination_port;
    let rest = u32::from(word(quoted, 6)?).checked_sub(1)?;
    is_ours.then(|| recall(last, rest, CHECKSUMS)).flatten()
}

/// Returns the number of the probe whose datagram is echoed. Only the lower 16 bits of the number
/// in the payload are used, because the upper ones were adjusted for the checksum.
pub(super) fn udp_echoed(datagram: &[u8], last: u32) -> Option<u32> {
    let payload = datagram.get(UDP_HEADER..)?;
    let rest = word(payload.strip_prefix(&MAGIC)?, 2)?;
    recall(last, rest.into(), 1 << 16)
}

/// Returns a SYN. Its sequence number identifies the probe.
pub(super) fn syn(ends: &Ends, base: u32, number: u32, len: usize) -> Vec<u8> {
    let mss: u16 = if ends.destination.is_ipv4() {
        1460
    } else {
        1440
    };
    let [high, low] = mss.to_be_bytes();
    let segment = TcpSegment {
        sequence: sequence(base, number),
        acknowledged: 0,
        flags: TcpFlags::SYN,
        options: &[2, 4, high, low],
        payload: &vec![0; len.saturating_sub(SYN_LEN)],
    };
    segment.between(ends)
}

fn sequence(base: u32, number: u32) -> u32 {
    base.wrapping_add((number % SYN_NUMBERS) * SYN_STEP)
}

fn sequence_number(base: u32, sequence: u32, last: u32) -> Option<u32> {
    let distance = sequence.wrapping_sub(base);
    let is_ours = distance.is_multiple_of(SYN_STEP);
    is_ours
        .then(|| recall(last, distance / SYN_STEP, SYN_NUMBERS))
        .flatten()
}

/// Returns the number of the probe whose SYN is quoted.
pub(super) fn syn_number(ends: &Ends, base: u32, quoted: &[u8], last: u32) -> Option<u32> {
    let is_ours = word(quoted, 0)? == ends.source_port && word(quoted, 2)? == ends.destination_port;
    let sequence = long(quoted, 4)?;
    is_ours
        .then(|| sequence_number(base, sequence, last))
        .flatten()
}

/// Returns the number of the probe that a segment from the target answers, and the answer.
pub(super) fn syn_reply(
    ends: &Ends,
    base: u32,
    segment: &[u8],
    last: u32,
) -> Option<(u32, HopAnswer)> {
    let is_ours =
        word(segment, 0)? == ends.destination_port && word(segment, 2)? == ends.source_port;
    let acknowledged = long(segment, 8)?.wrapping_sub(1);
    let answer = match TcpFlags(segment.get(13)? & HANDSHAKE.0) {
        flags if flags == SYN_ACK => HopAnswer::Open,
        flags if flags == RST_ACK => HopAnswer::Closed,
        _ => return None,
    };
    let number = is_ours.then(|| sequence_number(base, acknowledged, last))??;
    Some((number, answer))
}

/// Returns an echo request. Its checksum does not depend on the probe's number, so that load
/// balancing by checksum sends all probes along the same path.
pub(super) fn echo(is_v4: bool, id: u16, number: u32, len: usize) -> Vec<u8> {
    let sequence = (number & 0xffff) as u16;
    let mut bytes = vec![if is_v4 { 8 } else { 128 }, 0, 0, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend((!sequence).to_be_bytes());
    bytes.resize(len.max(ECHO_HEADER + PAYLOAD), b'.');
    // For IPv6 and for unprivileged sockets, the kernel computes the checksum.
    if is_v4 {
        let checksum = !fold(sum(&bytes));
        if let Some(place) = bytes.get_mut(2..4) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
    }
    bytes
}

/// Returns the number of the probe whose echo request is quoted or answered. `id` is `None` if the
/// kernel delivers only messages of this socket.
pub(super) fn echo_number(id: Option<u16>, kind: u8, message: &[u8], last: u32) -> Option<u32> {
    let is_ours = *message.first()? == kind && id.is_none_or(|id| word(message, 4) == Some(id));
    let sequence = word(message, 6)?;
    is_ours
        .then(|| recall(last, sequence.into(), 1 << 16))
        .flatten()
}

/// Returns the bytes after an IPv4 header.
pub(super) fn behind_v4(packet: &[u8]) -> Option<&[u8]> {
    packet.get(usize::from(packet.first()? & 0xf) * 4..)
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::headers::TCP;
    use crate::headers::tests::ends;

    #[test]
    fn numbers_are_recalled_across_the_turn() {
        assert_eq!(recall(5, 3, 128), Some(3));
        assert_eq!(recall(130, 2, 128), Some(130));
        assert_eq!(recall(130, 127, 128), Some(127));
        // No probe has this remainder.
        assert_eq!(recall(5, 6, 128), None);
        assert_eq!(recall(5, 128, 128), None);
        assert_eq!(recall(5, u32::MAX, 128), None);
    }

    #[test]
    fn every_probe_is_known_by_eight_bytes_of_it() {
        for is_v4 in [true, false] {
            let ends = ends(is_v4, 80);
            for number in [0, 1, 77, 65_534, 65_535, 65_536, 2_000_000] {
                let bytes = udp(&ends, udp_tag(number), number, 40);
                assert_eq!(udp_number(&ends, &bytes[..8], number + 9), Some(number));
                let total = sum(&bytes) + ends.pseudo(UDP, bytes.len());
                assert_eq!(fold(total), 0xffff, "a right checksum");
                let bytes = syn(&ends, 7, number, 0);
                assert_eq!(syn_number(&ends, 7, &bytes[..8], number + 9), Some(number));
                let total = sum(&bytes) + ends.pseudo(TCP, bytes.len());
                assert_eq!(fold(total), 0xffff);
                let bytes = echo(is_v4, 9, number, 0);
                assert_eq!(
                    echo_number(Some(9), bytes[0], &bytes[..8], number + 9),
                    Some(number)
                );
                assert_eq!(bytes[2..4], echo(is_v4, 9, 4, 0)[2..4], "the same checksum");
                assert_eq!(payload_number(&payload(number, 30)), Some(number));
            }
        }
    }

    #[test]
    fn only_answers_to_our_syn_count() {
        let ends = ends(true, 80);
        let reply = |flags: TcpFlags, acknowledged: u32| {
            let mut segment = [0; 20];
            segment[..4].copy_from_slice(&[0, 80, 0x9c, 0x40]);
            segment[8..12].copy_from_slice(&acknowledged.to_be_bytes());
            segment[13] = flags.0;
            syn_reply(&ends, 7, &segment, 9)
        };
        let acknowledged = sequence(7, 4) + 1;
        assert_eq!(reply(SYN_ACK, acknowledged), Some((4, HopAnswer::Open)));
        assert_eq!(reply(RST_ACK, acknowledged), Some((4, HopAnswer::Closed)));
        // A challenge ACK (RFC 5961 §4) does not answer a SYN.
        assert_eq!(reply(TcpFlags::ACK, acknowledged), None);
        assert_eq!(reply(SYN_ACK, acknowledged + 1), None);
        assert_eq!(reply(SYN_ACK, sequence(7, 10) + 1), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            is_v4: bool,
            last: u32,
        ) {
            let ends = ends(is_v4, 80);
            let _ = udp_number(&ends, &bytes, last);
            let _ = syn_number(&ends, last, &bytes, last);
            let _ = syn_reply(&ends, last, &bytes, last);
            let _ = echo_number(None, 8, &bytes, last);
            let _ = payload_number(&bytes);
            let _ = udp_echoed(&bytes, last);
            let _ = behind_v4(&bytes);
        }
    }
}
