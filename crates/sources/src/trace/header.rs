//! UDP datagrams with a constant checksum, so that the quote in an ICMP error shows address
//! translation on the path. Other fields contain the number of the probe.
//!
//! In IPv4, the number is in the identification, which routers keep for packets that may be
//! fragmented (RFC 791, RFC 6864 §4). The quoted header contains the addresses. IPv6 has no
//! identification, so the length contains the number, and only the checksum shows that the
//! addresses were changed.

use core::net::IpAddr;

use lagtrace_core::observed::route::Translation;

use super::packet::{self, behind_v4, recall, word};
use crate::headers::{Ends, UDP};

/// The checksum of all datagrams.
const CHECKSUM: u16 = 0x6c61;
/// Number of identifications in use. 0 is left out, because the kernel would replace it.
const IDS: u32 = 65_535;
/// Number of lengths in use.
const LENGTHS: u32 = 256;

/// Returns the identification for probe number `number`.
pub(super) fn id(number: u32) -> u16 {
    u16::try_from(number % IDS + 1).unwrap_or(1)
}

/// Returns the number of the probe with this identification.
pub(super) fn id_number(id: u16, last: u32) -> Option<u32> {
    recall(last, u32::from(id).checked_sub(1)?, IDS)
}

/// Returns a datagram of at least `len` bytes with the constant checksum.
pub(super) fn datagram(ends: &Ends, number: u32, len: usize) -> Vec<u8> {
    let more = match ends.destination {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => number % LENGTHS,
    };
    packet::udp(ends, CHECKSUM, number, least(len) + more as usize)
}

fn least(len: usize) -> usize {
    len.max(packet::UDP_HEADER + packet::PAYLOAD)
}

/// Returns the probe whose datagram is quoted, and its address translation. `len` is the value that
/// was passed to [`datagram`]. NAT may have changed one end of the quoted datagram; the other end
/// must match.
pub(super) fn datagram_quoted(
    ends: &Ends,
    quoted: &[u8],
    len: usize,
    last: u32,
) -> Option<(u32, Option<Translation>)> {
    let is_v4 = ends.destination.is_ipv4();
    let datagram = if is_v4 { behind_v4(quoted)? } else { quoted };
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 4] = *quoted.get(at..)?.first_chunk()?;
        is_v4.then_some(IpAddr::from(octets))
    };
    let (source_port, destination_port) = (word(datagram, 0)?, word(datagram, 2)?);
    let seen = Translation {
        source: address(12),
        source_port,
        destination: address(16),
        destination_port,
        checksum_shift: shift(CHECKSUM, word(datagram, 6)?),
    };
    let is_udp = !is_v4 || quoted.get(9) == Some(&UDP);
    let same = |seen: Option<IpAddr>, its: IpAddr| seen.is_none_or(|seen| seen == its);
    let is_from_us = same(seen.source, ends.source) && source_port == ends.source_port;
    let is_to_it =
        same(seen.destination, ends.destination) && destination_port == ends.destination_port;
    if !is_udp || !(is_from_us || is_to_it) {
        return None;
    }
    let number = if is_v4 {
        id_number(word(quoted, 4)?, last)?
    } else {
        let len = u16::try_from(least(len)).ok()?;
        recall(last, word(datagram, 4)?.checked_sub(len)?.into(), LENGTHS)?
    };
    let is_same = is_from_us && is_to_it && seen.checksum_shift == 0;
    Some((number, (!is_same).then_some(seen)))
}

/// Returns the ones' complement difference `seen` - `sent`.
fn shift(sent: u16, seen: u16) -> u16 {
    match seen.checked_sub(sent) {
        Some(difference) => difference % u16::MAX,
        None => u16::MAX - (sent - seen),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::{fold, sum};
    use crate::headers::Ipv4Header;
    use crate::headers::tests::ends;

    fn packet(ends: &Ends, number: u32) -> Vec<u8> {
        let message = datagram(ends, number, 0);
        let header = Ipv4Header {
            protocol: UDP,
            id: id(number),
            ttl: 3,
            tos: 0,
        };
        if ends.destination.is_ipv4() {
            header.before(ends, &message)
        } else {
            message
        }
    }

    #[test]
    fn every_probe_is_known_by_its_header_and_has_the_same_checksum() {
        for is_v4 in [true, false] {
            let ends = ends(is_v4, 33_434);
            let quote = if is_v4 { 28 } else { 8 };
            for number in [0, 1, 255, 256, 65_534, 65_535, 1_000_000] {
                let packet = packet(&ends, number);
                let message = if is_v4 { &packet[20..] } else { &packet[..] };
                assert_eq!(fold(sum(message) + ends.pseudo(UDP, message.len())), 0xffff);
                assert_eq!(word(message, 6), Some(CHECKSUM));
                let told = datagram_quoted(&ends, &packet[..quote], 0, number + 9);
                assert_eq!(told, Some((number, None)), "{is_v4}");
            }
        }
    }

    #[test]
    fn what_a_translator_changed_is_told() {
        let ends = ends(true, 33_434);
        let mut packet = packet(&ends, 77);
        // NAT changes the source to 203.0.113.9:50000, and the checksum accordingly.
        packet[12..16].copy_from_slice(&[203, 0, 113, 9]);
        packet[20..22].copy_from_slice(&50_000_u16.to_be_bytes());
        let new = Ends {
            source: IpAddr::from([203, 0, 113, 9]),
            source_port: 50_000,
            ..ends
        };
        packet[26..28].fill(0);
        let checksum = !fold(sum(&packet[20..]) + new.pseudo(UDP, packet.len() - 20));
        packet[26..28].copy_from_slice(&checksum.to_be_bytes());
        let (number, seen) = datagram_quoted(&ends, &packet, 0, 80).expect("it is ours");
        let seen = seen.expect("it was changed");
        assert_eq!(number, 77);
        assert_eq!((seen.source, seen.source_port), (Some(new.source), 50_000));
        assert_eq!(seen.checksum_shift, shift(CHECKSUM, checksum));
        assert_ne!(seen.checksum_shift, 0);
        // Another program's datagram to another host.
        packet[19] ^= 1;
        assert_eq!(datagram_quoted(&ends, &packet, 0, 80), None);
        assert_eq!((shift(5, 3), shift(3, 5), shift(0, 0xffff)), (0xfffd, 2, 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            is_v4: bool,
            last: u32,
        ) {
            let _ = datagram_quoted(&ends(is_v4, 33_434), &bytes, 0, last);
        }
    }
}
