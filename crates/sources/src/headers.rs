//! TCP and IPv4 headers for raw sockets. The kernel does not build headers for these sockets.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use lagtrace_core::observed::segment::TcpFlags;

use crate::checksum::{fold, pseudo, sum};

/// Protocol numbers of IP.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// Length of a TCP header without options, in bytes.
pub(crate) const TCP_HEADER: usize = 20;
/// Position of the checksum in a TCP header, in bytes (RFC 9293 §3.1).
const CHECKSUM: core::ops::Range<usize> = 16..18;
/// The receive window that the segments advertise, in bytes; Linux begins with the same.
const WINDOW: u16 = 64_240;

/// The endpoints of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

impl Ends {
    /// Returns the endpoints of a flow between two sockets.
    pub(crate) fn between(source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            source: source.ip(),
            destination: destination.ip(),
            source_port: source.port(),
            destination_port: destination.port(),
        }
    }

    /// Returns the sum of the pseudo-header.
    pub(crate) fn pseudo(&self, protocol: u8, len: usize) -> u32 {
        pseudo(self.source, self.destination, protocol, len)
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpSegment<'a> {
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) flags: TcpFlags,
    /// TCP options. Their length is a multiple of four bytes, at most 40 bytes.
    pub(crate) options: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl TcpSegment<'_> {
    /// Returns the segment with its checksum and without an IP header.
    pub(crate) fn between(&self, ends: &Ends) -> Vec<u8> {
        let header = TCP_HEADER + self.options.len();
        let mut bytes = Vec::with_capacity(header + self.payload.len());
        bytes.extend(ends.source_port.to_be_bytes());
        bytes.extend(ends.destination_port.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledged.to_be_bytes());
        bytes.extend([((header / 4) as u8) << 4, self.flags.0]);
        bytes.extend(WINDOW.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(self.options);
        bytes.extend(self.payload);
        let checksum = !fold(sum(&bytes) + ends.pseudo(TCP, bytes.len()));
        if let Some(place) = bytes.get_mut(CHECKSUM) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
        bytes
    }
}

/// An IPv4 header (RFC 791 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv4Header {
    pub(crate) protocol: u8,
    pub(crate) id: u16,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
}

impl Ipv4Header {
    /// Returns the packet without the checksum of its IP header, which the kernel adds.
    pub(crate) fn before(self, ends: &Ends, message: &[u8]) -> Vec<u8> {
        let octets = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED.octets(),
        };
        let len = u16::try_from(20 + message.len()).unwrap_or(u16::MAX);
        let mut packet = vec![0x45, self.tos];
        packet.extend(len.to_be_bytes());
        packet.extend(self.id.to_be_bytes());
        packet.extend([0, 0, self.ttl, self.protocol, 0, 0]);
        packet.extend(octets(ends.source));
        packet.extend(octets(ends.destination));
        packet.extend(message);
        packet
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the endpoints of a flow of either address family.
    pub(crate) fn ends(is_v4: bool, destination_port: u16) -> Ends {
        let (source, destination) = if is_v4 {
            ("192.0.2.1", "198.51.100.7")
        } else {
            ("2001:db8::1", "2001:db8::7")
        };
        Ends {
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            source_port: 40_000,
            destination_port,
        }
    }

    #[test]
    fn a_segment_stands_as_it_should_and_its_checksum_holds() {
        for is_v4 in [true, false] {
            let ends = ends(is_v4, 80);
            let segment = TcpSegment {
                sequence: 7,
                acknowledged: 9,
                flags: TcpFlags::SYN.with(TcpFlags::ACK),
                options: &[2, 4, 5, 180],
                payload: b"odd",
            };
            let bytes = segment.between(&ends);
            assert_eq!(bytes[..4], [0x9c, 0x40, 0, 80]);
            assert_eq!(bytes[4..14], [0, 0, 0, 7, 0, 0, 0, 9, 6 << 4, 0x12]);
            assert_eq!(bytes[20..], *b"\x02\x04\x05\xb4odd");
            assert_eq!(fold(sum(&bytes) + ends.pseudo(TCP, bytes.len())), 0xffff);
        }
    }

    #[test]
    fn a_header_says_how_long_its_packet_is() {
        let header = Ipv4Header {
            protocol: UDP,
            id: 0x1234,
            ttl: 5,
            tos: 0x10,
        };
        let packet = header.before(&ends(true, 80), &[9; 30]);
        assert_eq!(packet[..8], [0x45, 0x10, 0, 50, 0x12, 0x34, 0, 0]);
        assert_eq!(packet[8..12], [5, UDP, 0, 0]);
        assert_eq!(packet[12..20], [192, 0, 2, 1, 198, 51, 100, 7]);
    }
}
