//! ICMP messages of the routers of a path: time exceeded, packet too big, echo replies.
//!
//! Input: the packet to be answered, as it arrived at the router. Output: a complete IP packet with
//! correct checksums; `None` if a router must not answer (RFC 1812 §4.3.2.7, RFC 4443 §2.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::packet::{ICMP, ICMP6, Packet, u16_at};

/// The ICMP message of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Time exceeded: the packet's time to live ended at the router.
    TimeExceeded,
    /// Packet too big: the next link has this MTU in bytes.
    TooBig(u16),
    /// Echo reply.
    Echo,
}

/// A router's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RouterAddress {
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Ipv6Addr,
}

/// The time to live of the routers' packets.
const TIME_TO_LIVE: u8 = 255;

/// Maximum length of an ICMP error, in bytes (RFC 1812 §4.3.2.3).
const LONGEST_V4: usize = 576;

/// Maximum length of an ICMPv6 error, in bytes (RFC 4443 §2.4 c).
const LONGEST_V6: usize = 1280;

impl Answer {
    /// Returns the message as a packet from a router to the sender of `packet`.
    pub(super) fn to(self, packet: &Packet<'_>, router: RouterAddress) -> Option<Vec<u8>> {
        let flow = packet.headers()?.flow;
        match (flow.source, flow.destination) {
            (IpAddr::V4(sender), IpAddr::V4(_)) => self.to_v4(packet, router.v4, sender),
            (IpAddr::V6(sender), IpAddr::V6(_)) => self.to_v6(packet, router.v6, sender),
            _ => None,
        }
    }

    fn to_v4(self, packet: &Packet<'_>, router: Ipv4Addr, sender: Ipv4Addr) -> Option<Vec<u8>> {
        let mut message = match self {
            Self::Echo => echo_reply(packet, 8, 0)?,
            _ if may_answer_v4(packet, sender) => {
                let (kind, code, next) = match self {
                    Self::TooBig(mtu) => (3, 4, u32::from(mtu)),
                    _ => (11, 0, 0),
                };
                error(packet, [kind, code], next, LONGEST_V4 - 20)
            }
            _ => return None,
        };
        let sum = checksum(0, &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let length = u16::try_from(20 + message.len()).ok()?;
        let mut whole = vec![0x45, 0];
        whole.extend(length.to_be_bytes());
        whole.extend([0, 0, 0, 0, TIME_TO_LIVE, ICMP, 0, 0]);
        whole.extend(router.octets());
        whole.extend(sender.octets());
        let sum = checksum(0, &whole);
        whole[10..12].copy_from_slice(&sum.to_be_bytes());
        whole.extend(message);
        Some(whole)
    }

    fn to_v6(self, packet: &Packet<'_>, router: Ipv6Addr, sender: Ipv6Addr) -> Option<Vec<u8>> {
        let mut message = match self {
            Self::Echo => echo_reply(packet, 128, 129)?,
            _ if may_answer_v6(packet, sender) => {
                let (kind, code, next) = match self {
                    Self::TooBig(mtu) => (2, 0, u32::from(mtu)),
                    _ => (3, 0, 0),
                };
                error(packet, [kind, code], next, LONGEST_V6 - 40)
            }
            _ => return None,
        };
        let length = u16::try_from(message.len()).ok()?;
        let mut whole = vec![0x60, 0, 0, 0];
        whole.extend(length.to_be_bytes());
        whole.extend([ICMP6, TIME_TO_LIVE]);
        whole.extend(router.octets());
        whole.extend(sender.octets());
        // RFC 8200 §8.1: the pseudo-header is the addresses, the length and the next header.
        let pseudo = u32::from(length) + u32::from(ICMP6);
        let sum = checksum(sum_of(pseudo, &whole[8..40]), &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        whole.extend(message);
        Some(whole)
    }
}

/// Returns an error message with as much of the packet as fits into `limit` bytes.
fn error(packet: &Packet<'_>, kind_and_code: [u8; 2], next: u32, limit: usize) -> Vec<u8> {
    let mut message = kind_and_code.to_vec();
    message.extend([0, 0]);
    message.extend(next.to_be_bytes());
    let quoted = packet.bytes().len().min(limit - message.len());
    message.extend_from_slice(&packet.bytes()[..quoted]);
    message
}

/// Returns the reply to an echo request; its checksum is 0.
fn echo_reply(packet: &Packet<'_>, request: u8, reply: u8) -> Option<Vec<u8>> {
    let headers = packet.headers()?;
    if headers.is_later_fragment || !matches!(headers.flow.protocol, ICMP | ICMP6) {
        return None;
    }
    let asked = packet.bytes().get(headers.transport..)?;
    if asked.len() < 8 || asked[0] != request {
        return None;
    }
    let mut message = asked.to_vec();
    message[..4].copy_from_slice(&[reply, 0, 0, 0]);
    Some(message)
}

/// Returns true if a packet may be answered with an error: it is not an ICMP error and not a later
/// fragment, and its addresses belong to single hosts.
fn may_answer_v4(packet: &Packet<'_>, sender: Ipv4Addr) -> bool {
    let Some(headers) = packet.headers() else {
        return false;
    };
    let is_host = !sender.is_unspecified() && !sender.is_multicast() && !sender.is_broadcast();
    let IpAddr::V4(to) = headers.flow.destination else {
        return false;
    };
    // Echo, timestamp and information messages are not errors.
    let kind = packet.bytes().get(headers.transport);
    let is_error =
        headers.flow.protocol == ICMP && kind.is_none_or(|kind| !matches!(kind, 0 | 8 | 13..=18));
    is_host && !to.is_multicast() && !to.is_broadcast() && !is_error && !headers.is_later_fragment
}

fn may_answer_v6(packet: &Packet<'_>, sender: Ipv6Addr) -> bool {
    let Some(headers) = packet.headers() else {
        return false;
    };
    let IpAddr::V6(to) = headers.flow.destination else {
        return false;
    };
    let kind = packet.bytes().get(headers.transport);
    let is_error = headers.flow.protocol == ICMP6 && kind.is_none_or(|kind| *kind < 128);
    let is_host = !sender.is_unspecified() && !sender.is_multicast();
    is_host && !to.is_multicast() && !is_error && !headers.is_later_fragment
}

/// Returns the internet checksum (RFC 1071) over two parts: preceding words with the sum `before`,
/// and `bytes`, which begin at an even offset.
pub(super) fn checksum(before: u32, bytes: &[u8]) -> u16 {
    let mut sum = sum_of(before, bytes);
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sums the words of at most 64 kB, which cannot overflow a 32-bit sum.
fn sum_of(before: u32, bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(before, |sum, pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        sum.wrapping_add(u32::from(u16::from_be_bytes([pair[0], low])))
    })
}

/// Decreases a packet's time to live by `hops`, and updates the checksum of an IPv4 header (RFC
/// 1624). The time to live must be at least `hops`.
pub(super) fn age(packet: &mut [u8], hops: u8) {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            packet[8] = packet[8].saturating_sub(hops);
            let Some(old) = u16_at(packet, 10) else {
                return;
            };
            // HC' = ~(~HC + ~m + m'), and the word m decreases by hops · 256.
            let sum = u32::from(!old) + (0xFFFF - (u32::from(hops) << 8));
            let folded = (sum & 0xFFFF) + (sum >> 16);
            let new = !((folded & 0xFFFF) as u16).wrapping_add((folded >> 16) as u16);
            packet[10..12].copy_from_slice(&new.to_be_bytes());
        }
        Some(6) if packet.len() >= 40 => packet[7] = packet[7].saturating_sub(hops),
        _ => {}
    }
}

/// Returns a packet's time to live or hop limit; `None` if it is not IP.
pub(super) fn time_to_live(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 => Some(packet[8]),
        6 if packet.len() >= 40 => Some(packet[7]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::{datagram_v6, segment};
    use super::super::packet::{ACK, SYN};
    use super::*;

    const ROUTER: RouterAddress = RouterAddress {
        v4: Ipv4Addr::new(10, 77, 1, 3),
        v6: Ipv6Addr::new(0xfd77, 0, 0, 1, 0, 0, 0, 3),
    };

    /// Returns the checksum over a whole ICMPv6 packet; 0 if the packet's checksum is correct.
    fn check_v6(whole: &[u8]) -> u16 {
        let pseudo = (whole.len() - 40) as u32 + u32::from(ICMP6);
        checksum(sum_of(pseudo, &whole[8..40]), &whole[40..])
    }

    #[test]
    fn time_exceeded_quotes_the_packet_with_right_checksums() {
        let asked = segment((1025, 80), SYN, 7, 0);
        let answer = Answer::TimeExceeded
            .to(&Packet::new(&asked), ROUTER)
            .expect("answers");
        assert_eq!((answer[20], answer[21]), (11, 0));
        assert_eq!(&answer[28..], &asked[..]);
        assert_eq!(checksum(0, &answer[..20]), 0);
        assert_eq!(checksum(0, &answer[20..]), 0);
        assert_eq!(&answer[12..20], [10, 77, 1, 3, 10, 77, 0, 1]);
        let asked = datagram_v6(5);
        let answer = Answer::TimeExceeded
            .to(&Packet::new(&asked), ROUTER)
            .expect("answers");
        assert_eq!((answer[40], answer[41], &answer[48..]), (3, 0, &asked[..]));
        assert_eq!(check_v6(&answer), 0);
    }

    #[test]
    fn too_big_names_the_mtu_and_is_no_longer_than_allowed() {
        let asked = segment((1025, 80), ACK, 7, 1460);
        let answer = Answer::TooBig(1400)
            .to(&Packet::new(&asked), ROUTER)
            .expect("answers");
        assert_eq!(
            (&answer[20..22], &answer[24..28]),
            (&[3, 4][..], &[0, 0, 5, 0x78][..])
        );
        assert_eq!((answer.len(), checksum(0, &answer[20..])), (576, 0));
        let asked = datagram_v6(1400);
        let answer = Answer::TooBig(1300)
            .to(&Packet::new(&asked), ROUTER)
            .expect("answers");
        assert_eq!(
            (&answer[40..42], &answer[44..48]),
            (&[2, 0][..], &[0, 0, 5, 0x14][..])
        );
        assert_eq!((answer.len(), check_v6(&answer)), (1280, 0));
    }

    #[test]
    fn an_echo_is_answered_with_its_own_data() {
        let mut asked = segment((0, 0), 0, 0, 0)[..20].to_vec();
        asked[9] = ICMP;
        asked[2..4].copy_from_slice(&32u16.to_be_bytes());
        asked.extend([8, 0, 1, 2, 3, 4, 5, 6, b'a', b'b', b'c', b'd']);
        let answer = Answer::Echo
            .to(&Packet::new(&asked), ROUTER)
            .expect("answers");
        assert_eq!((answer[20], &answer[24..]), (0, &asked[24..]));
        assert_eq!(checksum(0, &answer[20..]), 0);
        // An echo reply is not an echo request, so it is not answered.
        assert_eq!(Answer::Echo.to(&Packet::new(&answer), ROUTER), None);
    }

    #[test]
    fn no_error_answers_an_error() {
        for asked in [segment((1, 2), SYN, 7, 0), datagram_v6(5)] {
            let error = Answer::TimeExceeded
                .to(&Packet::new(&asked), ROUTER)
                .expect("answers");
            assert_eq!(Answer::TimeExceeded.to(&Packet::new(&error), ROUTER), None);
        }
    }

    #[test]
    fn ageing_keeps_the_checksum_right() {
        for hops in [1, 3, 63, 64] {
            for identification in 0..=u16::MAX {
                let mut packet = segment((1, 2), SYN, 7, 0);
                packet[4..6].copy_from_slice(&identification.to_be_bytes());
                packet[10..12].fill(0);
                let sum = checksum(0, &packet[..20]);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
                age(&mut packet, hops);
                assert_eq!((packet[8], checksum(0, &packet[..20])), (64 - hops, 0));
            }
        }
        let mut packet = datagram_v6(0);
        age(&mut packet, 3);
        assert_eq!(time_to_live(&packet), Some(61));
    }

    #[test]
    fn nonsense_is_answered_with_silence() {
        let whole = segment((1, 2), SYN, 7, 0);
        for cut in 0..20 {
            for answer in [Answer::TimeExceeded, Answer::TooBig(1300), Answer::Echo] {
                assert_eq!(answer.to(&Packet::new(&whole[..cut]), ROUTER), None);
            }
            age(&mut whole[..cut].to_vec(), 1);
        }
    }
}
