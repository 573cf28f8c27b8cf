//! Packets as a path sees them. Headers are parsed only when they are needed.
//!
//! Hosts may send any bytes into a TUN device: a malformed header is `None`, and no length in a
//! packet is trusted beyond the packet's end.

use std::cell::OnceCell;
use std::net::IpAddr;

use super::chance::mix;

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP6: u8 = 58;

/// Bits of the TCP header's flags (RFC 9293 §3.1).
pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;

/// An IP packet, or a super-segment that a network card would segment into packets.
#[derive(Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    segment: Option<usize>,
    headers: OnceCell<Option<Headers>>,
}

/// The identity of a flow, in the direction of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    /// Source and destination port; 0 if there are none.
    pub(super) ports: (u16, u16),
}

/// The fields of a packet's headers that the stages need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) flow: Flow,
    /// The offset of the transport header.
    pub(super) transport: usize,
    /// True for a fragment other than the first, which has no transport header.
    pub(super) is_later_fragment: bool,
    pub(super) tcp: Option<Tcp>,
}

/// The fields of the TCP header that the stages need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tcp {
    pub(super) sequence: u32,
    pub(super) flags: u8,
    /// The number of bytes of data.
    pub(super) payload: usize,
    /// The offset of the data.
    pub(super) data: usize,
}

impl<'a> Packet<'a> {
    /// Returns a packet that crosses links unchanged.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::cut_to(bytes, None)
    }

    /// Returns a super-segment that links carry as several packets, each with this number of data
    /// bytes.
    pub(super) fn cut_to(bytes: &'a [u8], segment: Option<usize>) -> Self {
        Self {
            bytes,
            segment,
            headers: OnceCell::new(),
        }
    }

    /// Returns the bytes, starting with the IP header.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the length in bytes, IP header included.
    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the length of the largest packet that crosses a link when this one is segmented.
    pub(super) fn largest_on_a_link(&self) -> usize {
        let (Some(segment), Some(headers)) = (self.segment, self.headers()) else {
            return self.bytes.len();
        };
        let data = headers.tcp.map_or(headers.transport, |tcp| tcp.data);
        self.bytes.len().min(data.saturating_add(segment))
    }

    pub(super) fn headers(&self) -> Option<&Headers> {
        self.headers.get_or_init(|| read(self.bytes)).as_ref()
    }

    pub(super) fn tcp(&self) -> Option<&Tcp> {
        self.headers()?.tcp.as_ref()
    }

    /// Returns true if the packet is a pure acknowledgement.
    pub(super) fn is_pure_ack(&self) -> bool {
        let bare = |tcp: &Tcp| tcp.payload == 0 && tcp.flags & (ACK | SYN | FIN | RST) == ACK;
        self.tcp().is_some_and(bare)
    }

    /// Returns a 64-bit hash of the packet's flow; 0 if the packet is not IP.
    pub(super) fn flow_hash(&self, seed: u64) -> u64 {
        let Some(headers) = self.headers() else {
            return 0;
        };
        let flow = headers.flow;
        let address = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6),
        };
        let ports = u64::from(flow.ports.0) << 16 | u64::from(flow.ports.1);
        let words = [
            address(flow.source) as u64,
            address(flow.destination) as u64,
            ports << 8 | u64::from(flow.protocol),
        ];
        let fold = |hash: u64, word| mix(hash ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
        words.into_iter().fold(mix(seed), fold)
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read(bytes: &[u8]) -> Option<Headers> {
    match bytes.first()? >> 4 {
        4 => read_v4(bytes),
        6 => read_v6(bytes),
        _ => None,
    }
}

fn read_v4(bytes: &[u8]) -> Option<Headers> {
    let transport = usize::from(bytes[0] & 15) * 4;
    if transport < 20 || bytes.len() < transport {
        return None;
    }
    let address = |at| u32_at(bytes, at).map(|word| IpAddr::from(word.to_be_bytes()));
    let end = bytes.len().min(u16_at(bytes, 2)?.into());
    let is_later_fragment = u16_at(bytes, 6)? & 0x1FFF != 0;
    let addresses = (address(12)?, address(16)?);
    Some(read_transport(
        &bytes[..end.max(transport)],
        (addresses, bytes[9], transport, is_later_fragment),
    ))
}

/// Parses the headers of an IPv6 packet. Fragment headers are the only extension headers that are
/// skipped.
fn read_v6(bytes: &[u8]) -> Option<Headers> {
    let address = |at: usize| {
        let octets: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::from(octets))
    };
    let addresses = (address(8)?, address(24)?);
    let end = bytes.len().min(40 + usize::from(u16_at(bytes, 4)?));
    let bytes = &bytes[..end];
    const FRAGMENT: u8 = 44;
    let (mut protocol, mut transport, mut is_later_fragment) = (bytes[6], 40, false);
    if protocol == FRAGMENT {
        protocol = *bytes.get(40)?;
        transport = 48;
        is_later_fragment = u16_at(bytes, 42)? & 0xFFF8 != 0;
    }
    Some(read_transport(
        bytes,
        (addresses, protocol, transport, is_later_fragment),
    ))
}

type Network = ((IpAddr, IpAddr), u8, usize, bool);

fn read_transport(bytes: &[u8], network: Network) -> Headers {
    let ((source, destination), protocol, transport, is_later_fragment) = network;
    let has_ports = !is_later_fragment && matches!(protocol, TCP | UDP);
    let port = |at: usize| u16_at(bytes, transport + at).filter(|_| has_ports);
    let flow = Flow {
        source,
        destination,
        protocol,
        ports: (port(0).unwrap_or(0), port(2).unwrap_or(0)),
    };
    let is_tcp = has_ports && protocol == TCP;
    Headers {
        flow,
        transport,
        is_later_fragment,
        tcp: is_tcp.then(|| read_tcp(bytes, transport)).flatten(),
    }
}

fn read_tcp(bytes: &[u8], transport: usize) -> Option<Tcp> {
    let sequence = u32_at(bytes, transport + 4)?;
    let length = usize::from(bytes.get(transport + 12)? >> 4) * 4;
    let flags = *bytes.get(transport + 13)?;
    let data = transport + length;
    (length >= 20 && data <= bytes.len()).then(|| Tcp {
        sequence,
        flags,
        payload: bytes.len() - data,
        data,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns an IPv4 TCP segment from 10.77.0.1 to 10.77.0.2, TTL 64, DF.
    pub(in super::super) fn segment(
        ports: (u16, u16),
        flags: u8,
        sequence: u32,
        payload: usize,
    ) -> Vec<u8> {
        let length = u16::try_from(40 + payload).expect("fits");
        let mut bytes = vec![0x45, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend([
            0x12, 0x34, 0x40, 0, 64, TCP, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2,
        ]);
        let sum = super::super::icmp::checksum(0, &bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(ports.0.to_be_bytes());
        bytes.extend(ports.1.to_be_bytes());
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
        bytes.resize(40 + payload, b'x');
        bytes
    }

    /// Returns an IPv6 UDP datagram from fd77::1 to fd77::2, hop limit 64.
    pub(in super::super) fn datagram_v6(payload: usize) -> Vec<u8> {
        let length = u16::try_from(8 + payload).expect("fits");
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend([UDP, 64]);
        for host in [1u16, 2] {
            bytes.extend(std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host).octets());
        }
        bytes.extend([0x30, 0x39, 0, 53]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.resize(48 + payload, b'x');
        bytes
    }

    #[test]
    fn headers_read() {
        let bytes = segment((1025, 80), ACK | PSH, 7, 10);
        let packet = Packet::new(&bytes);
        let headers = packet.headers().expect("reads");
        assert_eq!(headers.flow.ports, (1025, 80));
        assert_eq!(headers.flow.source, IpAddr::from([10, 77, 0, 1]));
        let tcp = packet.tcp().expect("is TCP");
        assert_eq!((tcp.sequence, tcp.payload, tcp.data), (7, 10, 40));
        assert!(!packet.is_pure_ack());
        assert!(Packet::new(&segment((1, 2), ACK, 7, 0)).is_pure_ack());
        assert!(!Packet::new(&segment((1, 2), ACK | FIN, 7, 0)).is_pure_ack());
        let bytes = datagram_v6(10);
        let headers = *Packet::new(&bytes).headers().expect("reads");
        assert_eq!(
            (headers.flow.protocol, headers.flow.ports),
            (UDP, (12345, 53))
        );
    }

    #[test]
    fn a_super_segment_is_as_large_as_its_parts() {
        let bytes = segment((1, 2), ACK, 7, 5000);
        assert_eq!(Packet::cut_to(&bytes, Some(1000)).largest_on_a_link(), 1040);
        assert_eq!(Packet::new(&bytes).largest_on_a_link(), 5040);
    }

    #[test]
    fn whatever_is_sent_nothing_breaks() {
        for whole in [segment((1, 2), ACK, 7, 20), datagram_v6(20)] {
            for cut in 0..whole.len() {
                let _ = Packet::new(&whole[..cut]).headers();
                for value in [0, 0x0F, 0x45, 0x4F, 0x60, 44, 0xFF] {
                    let mut bytes = whole.clone();
                    bytes[cut] = value;
                    let packet = Packet::cut_to(&bytes, Some(65_535));
                    let _ = (
                        packet.flow_hash(1),
                        packet.largest_on_a_link(),
                        packet.is_pure_ack(),
                    );
                }
            }
        }
    }

    #[test]
    fn the_hash_spreads_flows_and_depends_on_the_seed() {
        let member = |port, seed| Packet::new(&segment((port, 80), ACK, 0, 0)).flow_hash(seed) % 4;
        let counts = (40_000..44_000).fold([0; 4], |mut counts, port| {
            counts[member(port, 1) as usize] += 1;
            counts
        });
        assert!(counts.iter().all(|n| (900..1100).contains(n)), "{counts:?}");
        assert!((40_000..40_020).any(|port| member(port, 1) != member(port, 2)));
    }
}
