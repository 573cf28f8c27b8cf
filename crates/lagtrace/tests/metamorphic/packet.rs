//! Parsed packets, of which every part can be changed before they are serialized again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// An IP packet without IP options, extension headers or fragmentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) class: u8,
    pub(crate) hops: u8,
    /// The identification. For IPv6 it is unused.
    pub(crate) id: u16,
    pub(crate) dont_fragment: bool,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Tcp(Tcp),
    Udp(Udp),
    Icmp(Payload),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) ports: [u16; 2],
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Udp {
    pub(crate) ports: [u16; 2],
    pub(crate) payload: Payload,
}

/// The captured part of a payload, and its length on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) len: usize,
}

impl Packet {
    /// Parses an IP packet whose length on the wire is `len`; `None` for a packet that these types
    /// cannot represent.
    pub(crate) fn read(bytes: &[u8], len: usize) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::read_v4(bytes, len),
            6 => Self::read_v6(bytes, len),
            _ => None,
        }
    }

    fn read_v4(bytes: &[u8], len: usize) -> Option<Self> {
        let head: &[u8; 20] = bytes.first_chunk()?;
        let fragment = u16::from_be_bytes([head[6], head[7]]);
        if head[0] != 0x45 || fragment & 0x3fff != 0 {
            return None;
        }
        // If a segment is too long for the length field, the field is zero.
        let total = match u16::from_be_bytes([head[2], head[3]]) {
            0 => len,
            total => usize::from(total),
        };
        let rest = &bytes[20..bytes.len().min(total)];
        Some(Self {
            class: head[1],
            hops: head[8],
            id: u16::from_be_bytes([head[4], head[5]]),
            dont_fragment: fragment & 0x4000 != 0,
            source: Ipv4Addr::from([head[12], head[13], head[14], head[15]]).into(),
            destination: Ipv4Addr::from([head[16], head[17], head[18], head[19]]).into(),
            body: Body::read(head[9], rest, total.checked_sub(20)?)?,
        })
    }

    fn read_v6(bytes: &[u8], len: usize) -> Option<Self> {
        let head: &[u8; 40] = bytes.first_chunk()?;
        let total = match u16::from_be_bytes([head[4], head[5]]) {
            0 => len.checked_sub(40)?,
            total => usize::from(total),
        };
        let address = |at: usize| -> Option<IpAddr> {
            let octets: &[u8; 16] = head[at..].first_chunk()?;
            Some(Ipv6Addr::from(*octets).into())
        };
        let rest = &bytes[40..bytes.len().min(40 + total)];
        Some(Self {
            class: head[0] << 4 | head[1] >> 4,
            hops: head[7],
            id: 0,
            dont_fragment: false,
            source: address(8)?,
            destination: address(24)?,
            body: Body::read(head[6], rest, total)?,
        })
    }

    /// Returns the packet's captured bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // As in the kernel, a length that does not fit into its field is written as zero.
        let length = |len: usize| u16::try_from(len).unwrap_or(0).to_be_bytes();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend([0x45, self.class]);
                bytes.extend(length(20 + self.body.len()));
                bytes.extend(self.id.to_be_bytes());
                bytes.extend([u8::from(self.dont_fragment) << 6, 0, self.hops]);
                bytes.extend([self.body.protocol(false), 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
            (source, destination) => {
                bytes.extend([0x60 | self.class >> 4, self.class << 4, 0, 0]);
                bytes.extend(length(self.body.len()));
                bytes.extend([self.body.protocol(true), self.hops]);
                bytes.extend(v6(source).octets());
                bytes.extend(v6(destination).octets());
            }
        }
        self.body.write(&mut bytes);
        bytes
    }

    /// Returns the packet's length on the wire.
    pub(crate) fn len(&self) -> usize {
        let head = if self.source.is_ipv4() { 20 } else { 40 };
        head + self.body.len()
    }

    pub(crate) fn tcp(&self) -> Option<&Tcp> {
        match &self.body {
            Body::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    pub(crate) fn tcp_mut(&mut self) -> Option<&mut Tcp> {
        match &mut self.body {
            Body::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// Returns the packet's ports, the sender's first; zeros if it has none.
    pub(crate) fn ports(&self) -> [u16; 2] {
        match &self.body {
            Body::Tcp(tcp) => tcp.ports,
            Body::Udp(udp) => udp.ports,
            Body::Icmp(_) => [0; 2],
        }
    }

    /// Returns the sender and the receiver.
    pub(crate) fn way(&self) -> Way {
        let [from, to] = self.ports();
        Way((self.source, from), (self.destination, to))
    }
}

/// A sender's and a receiver's address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Way(pub(crate) (IpAddr, u16), pub(crate) (IpAddr, u16));

impl Way {
    pub(crate) fn back(self) -> Self {
        Self(self.1, self.0)
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(address) => address.to_ipv6_mapped(),
    }
}

impl Body {
    fn read(protocol: u8, bytes: &[u8], len: usize) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let ports = || Some([word(0)?, word(2)?]);
        let rest = |head: usize| {
            Some(Payload {
                bytes: bytes.get(head..)?.to_vec(),
                len: len.checked_sub(head)?,
            })
        };
        Some(match protocol {
            TCP => {
                let head: &[u8; 20] = bytes.first_chunk()?;
                let number = |at: usize| head[at..].first_chunk().copied().map(u32::from_be_bytes);
                let head_len = usize::from(head[12] >> 4) * 4;
                Self::Tcp(Tcp {
                    ports: ports()?,
                    seq: number(4)?,
                    ack: number(8)?,
                    flags: head[13],
                    window: word(14)?,
                    options: bytes.get(20..head_len)?.to_vec(),
                    payload: rest(head_len)?,
                })
            }
            UDP => Self::Udp(Udp {
                ports: ports()?,
                payload: rest(8)?,
            }),
            ICMP | ICMPV6 => Self::Icmp(rest(0)?),
            _ => return None,
        })
    }

    fn protocol(&self, is_v6: bool) -> u8 {
        match self {
            Self::Tcp(_) => TCP,
            Self::Udp(_) => UDP,
            Self::Icmp(_) if is_v6 => ICMPV6,
            Self::Icmp(_) => ICMP,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Tcp(tcp) => 20 + tcp.options.len() + tcp.payload.len,
            Self::Udp(udp) => 8 + udp.payload.len,
            Self::Icmp(payload) => payload.len,
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let payload = match self {
            Self::Tcp(tcp) => {
                tcp.ports
                    .iter()
                    .for_each(|port| bytes.extend(port.to_be_bytes()));
                bytes.extend(tcp.seq.to_be_bytes());
                bytes.extend(tcp.ack.to_be_bytes());
                let words = 5 + tcp.options.len() / 4;
                bytes.extend([(words << 4) as u8, tcp.flags]);
                bytes.extend(tcp.window.to_be_bytes());
                bytes.extend([0; 4]);
                bytes.extend(&tcp.options);
                &tcp.payload
            }
            Self::Udp(udp) => {
                udp.ports
                    .iter()
                    .for_each(|port| bytes.extend(port.to_be_bytes()));
                bytes.extend((8 + udp.payload.len as u16).to_be_bytes());
                bytes.extend([0; 2]);
                &udp.payload
            }
            Self::Icmp(payload) => payload,
        };
        bytes.extend(&payload.bytes);
    }
}

impl Tcp {
    /// Returns the offset of the option of this kind and length.
    fn option(&self, kind: u8, len: u8) -> Option<usize> {
        let mut at = 0;
        while let [found, rest @ ..] = self.options.get(at..)? {
            match (*found, rest.first()) {
                (0, _) => return None,
                (1, _) => at += 1,
                (found, Some(&has)) if found == kind && has == len => return Some(at),
                (_, Some(&has)) if has >= 2 => at += usize::from(has),
                _ => return None,
            }
        }
        None
    }

    /// Returns the MSS option (RFC 9293 §3.7.1).
    pub(crate) fn largest_segment(&self) -> Option<u16> {
        let at = self.option(2, 4)?;
        let bytes = self.options.get(at + 2..)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    }

    /// Returns TSval and TSecr (RFC 7323 §3).
    pub(crate) fn timestamps(&self) -> Option<[u32; 2]> {
        let at = self.option(8, 10)?;
        let number = |at: usize| self.options.get(at..)?.first_chunk().copied();
        Some([number(at + 2)?, number(at + 6)?].map(u32::from_be_bytes))
    }

    pub(crate) fn set_timestamps(&mut self, values: [u32; 2]) {
        if let Some(at) = self.option(8, 10) {
            for (at, value) in [at + 2, at + 6].into_iter().zip(values) {
                self.options[at..at + 4].copy_from_slice(&value.to_be_bytes());
            }
        }
    }

    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const PSH: u8 = 0x08;
    pub(crate) const ACK: u8 = 0x10;
    pub(crate) const CWR: u8 = 0x80;

    pub(crate) fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
