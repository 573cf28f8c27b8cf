//! The bytes of a SYN, and what its answer says (RFC 9293 §3.1).

use core::net::{IpAddr, SocketAddr};

use lagtrace_core::event::ProbeAnswer;

/// Control bits (RFC 9293 §3.1).
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// Header and one option, in bytes.
const LEN: u8 = 24;
/// The protocol number of TCP.
const TCP: u8 = 6;

/// A SYN with a maximum segment size and nothing else to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syn {
    /// Our address and port.
    pub(super) source: SocketAddr,
    /// The probed ones.
    pub(super) destination: SocketAddr,
    /// Its sequence number.
    pub(super) sequence: u32,
}

impl Syn {
    /// The segment with its checksum, without an IP header.
    pub(super) fn to_bytes(self) -> [u8; LEN as usize] {
        let mss: u16 = if self.destination.is_ipv4() {
            1460
        } else {
            1440
        };
        let mut bytes = [0; LEN as usize];
        let mut put = |at: usize, field: &[u8]| {
            for (byte, value) in bytes.iter_mut().skip(at).zip(field) {
                *byte = *value;
            }
        };
        put(0, &self.source.port().to_be_bytes());
        put(2, &self.destination.port().to_be_bytes());
        put(4, &self.sequence.to_be_bytes());
        put(12, &[(LEN / 4) << 4, SYN]);
        put(14, &64_240_u16.to_be_bytes());
        put(20, &[2, 4]);
        put(22, &mss.to_be_bytes());
        let checksum = checksum(&bytes, self.source.ip(), self.destination.ip());
        for (byte, value) in bytes.iter_mut().skip(16).zip(checksum.to_be_bytes()) {
            *byte = value;
        }
        bytes
    }

    /// Whether `packet` is the beginning of this segment, as an ICMP error
    /// quotes it: at least both ports and the sequence number.
    pub(super) fn is_begun_by(&self, packet: &[u8]) -> bool {
        packet.get(..8) == self.to_bytes().get(..8)
    }
}

/// The Internet checksum of a segment and its pseudo-header (RFC 1071).
fn checksum(segment: &[u8], source: IpAddr, destination: IpAddr) -> u16 {
    let address = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => sum(&ip.octets()),
        IpAddr::V6(ip) => sum(&ip.octets()),
    };
    let mut total = address(source)
        + address(destination)
        + u32::from(TCP)
        + u32::try_from(segment.len()).unwrap_or(0)
        + sum(segment);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// The sum of big-endian words; an odd byte is padded.
fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| {
        let byte = |at: usize| u32::from(pair.get(at).copied().unwrap_or(0));
        byte(0) << 8 | byte(1)
    };
    bytes.chunks(2).map(word).sum()
}

/// The answer to a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// What it says.
    pub(super) answer: ProbeAnswer,
    /// Its time to live; `None` where the IP header was not read (IPv6).
    pub(super) ttl: Option<u8>,
}

impl Reply {
    /// Reads what a raw socket delivered; `None` when it does not answer `syn`.
    pub(super) fn parse(bytes: &[u8], syn: &Syn) -> Option<Self> {
        let (segment, ttl) = match syn.destination {
            SocketAddr::V4(_) => {
                let header_len = usize::from(bytes.first()? & 0xf) * 4;
                (bytes.get(header_len..)?, Some(*bytes.get(8)?))
            }
            SocketAddr::V6(_) => (bytes, None),
        };
        let word = |at: usize| {
            Some(u16::from_be_bytes(
                segment.get(at..at + 2)?.try_into().ok()?,
            ))
        };
        let long = |at: usize| {
            Some(u32::from_be_bytes(
                segment.get(at..at + 4)?.try_into().ok()?,
            ))
        };
        let is_ours = word(0)? == syn.destination.port()
            && word(2)? == syn.source.port()
            && long(8)? == syn.sequence.wrapping_add(1);
        let answer = match segment.get(13)? & (SYN | RST | ACK) {
            flags if flags == SYN | ACK => ProbeAnswer::Open,
            flags if flags == RST | ACK => ProbeAnswer::Refused,
            _ => return None,
        };
        is_ours.then_some(Self { answer, ttl })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn syn(is_v4: bool) -> Syn {
        let (source, destination) = if is_v4 {
            ("192.0.2.1:40000", "198.51.100.7:80")
        } else {
            ("[2001:db8::1]:40000", "[2001:db8::7]:80")
        };
        Syn {
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            sequence: 0xffff_ffff,
        }
    }

    /// The answer to [`syn`], as a raw socket delivers it.
    fn reply(is_v4: bool, flags: u8, ack: u32) -> Vec<u8> {
        let mut bytes = if is_v4 {
            let mut header = vec![0; 24];
            (header[0], header[8]) = (0x46, 61);
            header
        } else {
            Vec::new()
        };
        let mut segment = [0; 20];
        segment[..4].copy_from_slice(&[0, 80, 0x9c, 0x40]);
        segment[8..12].copy_from_slice(&ack.to_be_bytes());
        (segment[12], segment[13]) = (0x50, flags);
        bytes.extend_from_slice(&segment);
        bytes
    }

    #[test]
    fn the_checksum_holds() {
        for is_v4 in [true, false] {
            let syn = syn(is_v4);
            let bytes = syn.to_bytes();
            assert_ne!(bytes[16..18], [0, 0]);
            assert_eq!(checksum(&bytes, syn.source.ip(), syn.destination.ip()), 0);
        }
    }

    #[test]
    fn only_an_answer_to_this_very_syn_counts() {
        for is_v4 in [true, false] {
            let syn = syn(is_v4);
            let parse = |bytes: &[u8]| Reply::parse(bytes, &syn).map(|reply| reply.answer);
            assert_eq!(parse(&reply(is_v4, SYN | ACK, 0)), Some(ProbeAnswer::Open));
            assert_eq!(
                parse(&reply(is_v4, RST | ACK, 0)),
                Some(ProbeAnswer::Refused)
            );
            for other in [ACK, RST, SYN, SYN | RST | ACK] {
                assert_eq!(parse(&reply(is_v4, other, 0)), None, "{other:x}");
            }
            assert_eq!(parse(&reply(is_v4, SYN | ACK, 1)), None);
            let other_port = Syn {
                source: SocketAddr::new(syn.source.ip(), 40001),
                ..syn
            };
            assert_eq!(Reply::parse(&reply(is_v4, SYN | ACK, 0), &other_port), None);
        }
        let ttl = Reply::parse(&reply(true, SYN | ACK, 0), &syn(true)).and_then(|r| r.ttl);
        assert_eq!(ttl, Some(61));
    }

    #[test]
    fn an_icmp_error_quotes_the_syn_it_is_about() {
        let syn = syn(true);
        assert!(syn.is_begun_by(&syn.to_bytes()[..8]));
        assert!(!syn.is_begun_by(&syn.to_bytes()[..7]));
        assert!(!Syn { sequence: 1, ..syn }.is_begun_by(&syn.to_bytes()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..80), v4: bool) {
            let _ = Reply::parse(&bytes, &syn(v4));
            let _ = syn(v4).is_begun_by(&bytes);
        }
    }
}
