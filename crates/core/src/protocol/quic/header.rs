//! Packet headers, as far as they are readable without keys.

/// Maximum number of packets in a datagram. Handshakes do not have more.
const MAX_COALESCED: usize = 8;
/// Maximum length of a connection id in bytes. These versions drop packets with a longer one (RFC
/// 9000 §17.2).
const MAX_ID: usize = 20;

/// QUIC versions whose packet types are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Version 1 and the drafts that led to it (RFC 9000 §17.2).
    One,
    /// Version 2 (RFC 9369 §3.2): like version 1, with different type bits.
    Two,
}

/// A packet, identified by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    /// An Initial packet.
    Initial {
        /// Length of the destination connection id in bytes.
        destination_id: usize,
    },
    ZeroRtt,
    Handshake,
    Retry,
    VersionNegotiation,
    /// A 1-RTT packet, which has a short header and the latency spin bit (RFC 9000 §17.4).
    OneRtt {
        /// Value of the spin bit.
        spin: bool,
    },
}

impl Version {
    fn of(number: u32) -> Option<Self> {
        match number {
            // draft-ietf-quic-transport-29 to -34.
            1 | 0xff00_001d..=0xff00_0022 => Some(Self::One),
            0x6b33_43cf => Some(Self::Two),
            _ => None,
        }
    }
}

/// Returns the version number of a datagram that begins with a long header. 0 means Version
/// Negotiation (RFC 8999 §5.1, §6).
pub(crate) fn version(payload: &[u8]) -> Option<u32> {
    let (&first, rest) = payload.split_first()?;
    let number = u32::from_be_bytes(*rest.first_chunk()?);
    (first & 0x80 != 0).then_some(number)
}

/// Passes the packets of a datagram to `each`, as far as they were captured and their version is
/// known.
pub(crate) fn packets(mut datagram: &[u8], mut each: impl FnMut(Packet)) {
    for _ in 0..MAX_COALESCED {
        let Some((packet, rest)) = packet(datagram) else {
            return;
        };
        each(packet);
        datagram = rest;
    }
}

/// Returns the first packet, and the bytes that follow it.
fn packet(datagram: &[u8]) -> Option<(Packet, &[u8])> {
    let (&first, rest) = datagram.split_first()?;
    if first & 0x80 == 0 {
        // A packet with a short header extends to the end of the datagram (RFC 9000 §17.3).
        let spin = first & 0x20 != 0;
        return (first & 0x40 != 0).then_some((Packet::OneRtt { spin }, &[]));
    }
    let (number, rest) = rest.split_first_chunk::<4>()?;
    let (destination, rest) = id(rest)?;
    let (_, rest) = id(rest)?;
    let number = u32::from_be_bytes(*number);
    if number == 0 {
        return Some((Packet::VersionNegotiation, &[]));
    }
    let version = Version::of(number)?;
    if first & 0x40 == 0 || destination.len() > MAX_ID {
        return None;
    }
    let bits = (first >> 4) & 3;
    // RFC 9369 §3.2 adds one to the type bits of version 1, modulo 4.
    let kind = match version {
        Version::One => bits,
        Version::Two => bits.wrapping_sub(1) & 3,
    };
    let destination_id = destination.len();
    match kind {
        0 => {
            let (token_len, rest) = integer(rest)?;
            let rest = rest.get(usize::try_from(token_len).ok()?..)?;
            Some((Packet::Initial { destination_id }, body(rest)?))
        }
        1 => Some((Packet::ZeroRtt, body(rest)?)),
        2 => Some((Packet::Handshake, body(rest)?)),
        _ => Some((Packet::Retry, &[])),
    }
}

/// Reads a connection id after its length, and returns the bytes that follow it.
fn id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(len))
}

/// Returns the bytes after a packet whose length field is at the beginning of `bytes`. Empty if the
/// capture cut the packet.
fn body(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = integer(bytes)?;
    let len = usize::try_from(len).ok()?;
    Some(rest.get(len..).unwrap_or_default())
}

/// Reads a variable-length integer (RFC 9000 §16).
fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, _) = bytes.split_first()?;
    let (taken, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let fold = |value: u64, &byte: &u8| (value << 8) | u64::from(byte);
    let value = taken.iter().fold(0, fold);
    let bits = 8 * taken.len() as u32 - 2;
    Some((value & ((1 << bits) - 1), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(datagram: &[u8]) -> Vec<Packet> {
        let mut list = Vec::new();
        packets(datagram, |packet| list.push(packet));
        list
    }

    /// A long header of version 1, with connection ids of 8 and 0 bytes.
    fn long(kind: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xc0 | (kind << 4), 0, 0, 0, 1, 8];
        bytes.extend([7; 8]);
        bytes.push(0);
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn integers_are_those_of_rfc_9000_appendix_a_1() {
        let told = |bytes: &[u8]| integer(bytes).map(|(value, rest)| (value, rest.len()));
        let eight = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(told(&eight), Some((151_288_809_941_952_652, 0)));
        assert_eq!(told(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, 0)));
        assert_eq!(told(&[0x7b, 0xbd, 9]), Some((15_293, 1)));
        assert_eq!(told(&[0x25]), Some((37, 0)));
        assert_eq!(told(&[0x7b]), None);
    }

    #[test]
    fn coalesced_packets_are_told_apart() {
        // An Initial with a token of 2 bytes and 3 bytes of packet, then a Handshake packet of 2
        // bytes.
        let mut datagram = long(0, &[2, 0, 0, 3, 0, 0, 0]);
        datagram.extend(long(2, &[2, 0, 0]));
        datagram.extend([0x60, 1, 2, 3]);
        let initial = Packet::Initial { destination_id: 8 };
        let last = Packet::OneRtt { spin: true };
        assert_eq!(all(&datagram), [initial, Packet::Handshake, last]);
        for len in 0..datagram.len() {
            // At every cut, the result is a prefix of the full result.
            let told = all(&datagram[..len]);
            assert!(told.len() <= 3, "{told:?}");
        }
    }

    #[test]
    fn version_two_turns_the_types_and_unknown_ones_say_nothing() {
        let mut retry = long(0, &[1; 20]);
        retry[1..5].copy_from_slice(&0x6b33_43cf_u32.to_be_bytes());
        assert_eq!(all(&retry), [Packet::Retry]);
        retry[1..5].copy_from_slice(&0x0a0a_0a0a_u32.to_be_bytes());
        assert_eq!(all(&retry), []);
        retry[1..5].copy_from_slice(&[0; 4]);
        assert_eq!(all(&retry), [Packet::VersionNegotiation]);
        assert_eq!(all(&[0x20; 40]), [], "the fixed bit is missing");
    }
}
