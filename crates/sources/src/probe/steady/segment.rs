//! The bytes of a SYN, and the interpretation of the answer (RFC 9293 §3.1).

use core::net::{IpAddr, SocketAddr};

use lagtrace_core::decode::{self, LinkType, Packet, Record};
use lagtrace_core::observed::event::{PointId, ProbeAnswer, ProbeReply, ReplySegment};
use lagtrace_core::observed::segment::TcpFlags;
use lagtrace_core::observed::time::Timestamp;

use crate::headers::{Ends, TCP, TcpSegment};

/// Window scale shift that a SYN advertises.
const WINDOW_SCALE: u8 = 7;
/// Length of a TCP header without options, in bytes.
const HEADER: u8 = 20;
/// Length of a SYN's header with its options, in bytes.
const LEN: u8 = 40;
/// Length of an IPv6 header, in bytes.
const V6_HEADER: usize = 40;

/// A SYN with the options of a Linux client, in the same order. Filters and servers therefore treat
/// it like a client's SYN, and the answer contains the target's own options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syn {
    /// Address and port of this host.
    pub(super) source: SocketAddr,
    /// Probed address and port.
    pub(super) destination: SocketAddr,
    /// Sequence number. With the ACK flag, it is also the acknowledgement number.
    pub(super) sequence: u32,
    /// Control bits. A segment with SYN has a SYN's options.
    pub(super) flags: TcpFlags,
    /// Maximum segment size that the SYN advertises; `None`: the value for Ethernet.
    pub(super) mss: Option<u16>,
    /// Number of payload bytes, which are zero.
    pub(super) payload: u16,
}

/// Returns the length in bytes of the TCP header of a segment with these control bits, including
/// options.
pub(super) fn header_len(flags: TcpFlags) -> u8 {
    if flags.contains(TcpFlags::SYN) {
        LEN
    } else {
        HEADER
    }
}

impl Syn {
    /// Returns the segment with its checksum, without an IP header.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mss = self.mss.unwrap_or(match self.destination {
            SocketAddr::V4(_) => 1460,
            SocketAddr::V6(_) => 1440,
        });
        let mut options = Vec::new();
        if self.flags.contains(TcpFlags::SYN) {
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
            // SACK permitted; timestamps with a different value for each probe and without an echo;
            // no operation; window scale.
            options.extend([4, 2, 8, 10]);
            options.extend((self.sequence | 1).to_be_bytes());
            options.extend([0, 0, 0, 0, 1, 3, 3, WINDOW_SCALE]);
        }
        let has_ack = self.flags.contains(TcpFlags::ACK);
        let segment = TcpSegment {
            sequence: self.sequence,
            acknowledged: if has_ack { self.sequence } else { 0 },
            flags: self.flags,
            options: &options,
            payload: &vec![0; self.payload.into()],
        };
        segment.between(&Ends::between(self.source, self.destination))
    }
}

/// A segment that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    from: IpAddr,
    /// Destination port of the segment, on this host.
    pub(super) port: u16,
    /// TCP header.
    pub(super) segment: ReplySegment,
    /// Time to live; `None` if the IP header was not read (IPv6).
    pub(super) ttl: Option<u8>,
    len: u32,
    id: Option<u16>,
    dont_fragment: Option<bool>,
}

impl Reply {
    /// Parses a packet that a raw socket with the address `own` received; `None` if the packet is
    /// not a segment from `target`.
    pub(super) fn read(bytes: &[u8], own: IpAddr, target: SocketAddr) -> Option<Self> {
        let mut packet = Vec::with_capacity(V6_HEADER + bytes.len());
        if let (IpAddr::V6(own), SocketAddr::V6(target)) = (own, target) {
            // For IPv6, the kernel returns only the bytes after the IP header.
            let len = u16::try_from(bytes.len()).ok()?;
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(len.to_be_bytes());
            packet.extend([TCP, 0]);
            packet.extend(target.ip().octets());
            packet.extend(own.octets());
        }
        packet.extend(bytes);
        let record = Record {
            number: 1,
            at: Some(Timestamp::default()),
            link: LinkType::RAW,
            interface: 0,
            original_len: u32::try_from(packet.len()).ok()?,
            bytes: &packet,
        };
        let Packet::Tcp(segment, _) = decode::packet(&record, PointId(0)) else {
            return None;
        };
        let from = segment.flow.source(segment.direction);
        let is_target = from.port == target.port() && from.addr == target.ip().to_canonical();
        let is_v4 = target.is_ipv4();
        // DF is the second of the three flags (RFC 791 §3.1).
        let flags = packet.get(6).filter(|_| is_v4);
        is_target.then_some(Self {
            from: from.addr,
            port: segment.flow.destination(segment.direction).port,
            segment: ReplySegment {
                flags: segment.flags,
                seq: segment.seq,
                ack: segment.ack,
                window: segment.window,
                options: segment.options,
            },
            ttl: is_v4.then_some(segment.ip.ttl),
            len: wire_len(&packet)?,
            id: segment.ip.id.filter(|_| is_v4),
            dont_fragment: flags.map(|flags| flags & 0x40 != 0),
        })
    }

    /// Returns the answer to a probe: SYN/ACK or RST/ACK or, for a probe with ACK, an RST without
    /// ACK (RFC 9293 §3.10.7.1). Returns `None` if the segment is none of these.
    pub(super) fn answer(&self) -> Option<ProbeAnswer> {
        let handshake = TcpFlags::SYN.with(TcpFlags::RST).with(TcpFlags::ACK);
        match TcpFlags(self.segment.flags.0 & handshake.0) {
            flags if flags == TcpFlags::SYN.with(TcpFlags::ACK) => Some(ProbeAnswer::Open),
            flags if flags == TcpFlags::RST.with(TcpFlags::ACK) => Some(ProbeAnswer::Refused),
            TcpFlags::RST => Some(ProbeAnswer::Refused),
            _ => None,
        }
    }

    /// Returns the segment in the form of the report.
    pub(super) fn told(&self) -> ProbeReply {
        ProbeReply {
            from: self.from,
            source_port: self.port,
            len: Some(self.len),
            id: self.id,
            dont_fragment: self.dont_fragment,
            segment: Some(self.segment),
        }
    }
}

/// Returns the length of a packet according to its IP header.
fn wire_len(packet: &[u8]) -> Option<u32> {
    let half = |at: usize| {
        let bytes = packet.get(at..)?.first_chunk()?;
        Some(u32::from(u16::from_be_bytes(*bytes)))
    };
    match packet.first()? >> 4 {
        4 => half(2),
        _ => half(4).map(|len| len + V6_HEADER as u32),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::{fold, sum};

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
            flags: TcpFlags::SYN,
            mss: None,
            payload: 0,
        }
    }

    const ACK: TcpFlags = TcpFlags::ACK;
    const RST: TcpFlags = TcpFlags::RST;
    const SYN: TcpFlags = TcpFlags::SYN;

    /// Returns an answer to [`syn`], in the form in which a raw socket returns it.
    fn reply(is_v4: bool, flags: TcpFlags, ack: u32) -> Vec<u8> {
        let mut bytes = if is_v4 {
            vec![
                0x46, 0, 0, 44, 0x12, 0x34, 0x40, 0, 61, 6, 0, 0, 198, 51, 100, 7, 192, 0, 2, 1, 1,
                1, 1, 0,
            ]
        } else {
            Vec::new()
        };
        let mut segment = [0; 20];
        segment[..4].copy_from_slice(&[0, 80, 0x9c, 0x40]);
        segment[8..12].copy_from_slice(&ack.to_be_bytes());
        (segment[12], segment[13]) = (0x50, flags.0);
        bytes.extend_from_slice(&segment);
        bytes
    }

    fn read(bytes: &[u8], syn: &Syn) -> Option<Reply> {
        Reply::read(bytes, syn.source.ip(), syn.destination)
    }

    #[test]
    fn the_checksum_holds() {
        for is_v4 in [true, false] {
            let syn = syn(is_v4);
            let bytes = syn.to_bytes();
            assert_ne!(bytes[16..18], [0, 0]);
            let ends = Ends::between(syn.source, syn.destination);
            assert_eq!(fold(sum(&bytes) + ends.pseudo(TCP, bytes.len())), 0xffff);
            assert_eq!(bytes.len(), 40);
        }
    }

    #[test]
    fn what_lies_before_the_payload_is_as_long_as_told() {
        for (flags, len) in [(SYN, 40), (SYN.with(ACK), 40), (ACK, 20)] {
            let payload = 7;
            let syn = Syn {
                flags,
                payload,
                ..syn(true)
            };
            assert_eq!(header_len(flags), len);
            assert_eq!(
                syn.to_bytes().len(),
                usize::from(payload) + usize::from(len)
            );
        }
    }

    #[test]
    fn what_a_handshake_does_not_say_is_no_answer() {
        for is_v4 in [true, false] {
            let syn = syn(is_v4);
            let answer = |flags| read(&reply(is_v4, flags, 0), &syn)?.answer();
            assert_eq!(answer(SYN.with(ACK)), Some(ProbeAnswer::Open));
            assert_eq!(answer(RST.with(ACK)), Some(ProbeAnswer::Refused));
            assert_eq!(answer(RST), Some(ProbeAnswer::Refused));
            for other in [ACK, SYN, SYN.with(RST), SYN.with(RST).with(ACK)] {
                assert_eq!(answer(other), None, "{other:?}");
            }
        }
    }

    #[test]
    fn the_headers_of_an_answer_are_told() {
        let syn = syn(true);
        let reply = read(&reply(true, SYN.with(ACK), 0), &syn).expect("a segment");
        let told = reply.told();
        assert_eq!(
            (reply.ttl, told.len, told.id),
            (Some(61), Some(44), Some(0x1234))
        );
        assert_eq!((told.dont_fragment, told.source_port), (Some(true), 40000));
        let v6 = self::syn(false);
        let bytes = self::reply(false, SYN.with(ACK), 0);
        let told = read(&bytes, &v6).expect("a segment").told();
        assert_eq!(
            (told.len, told.id, told.dont_fragment),
            (Some(60), None, None)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..80), v4: bool) {
            let _ = read(&bytes, &syn(v4));
        }
    }
}
