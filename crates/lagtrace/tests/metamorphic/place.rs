//! Changes to other addresses, other ports, the other version of IP.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::capture::{Capture, Frame, Network};
use crate::draw::Draw;
use crate::packet::{Body, Packet, Payload, Tcp, Udp};

/// The ports that the kernel gives to clients (`net.ipv4.ip_local_port_range`): the first port, and
/// their number.
const CLIENT_PORTS: (u16, u16) = (32_768, 28_232);
/// The port of name servers. It is the only property by which a datagram is recognized as DNS.
const NAMES: u16 = 53;
const ARP: [u8; 2] = [8, 6];
const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// The ICMPv6 types of neighbour solicitation and advertisement (RFC 4861).
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// Returns the destination ports of SYNs in `capture`, and `known`.
pub(crate) fn services(capture: &Capture, known: u16) -> BTreeSet<u16> {
    let opens = |tcp: &&Tcp| tcp.has(Tcp::SYN) && !tcp.has(Tcp::ACK);
    let asked = capture.packets().filter_map(Packet::tcp).filter(opens);
    asked.map(|tcp| tcp.ports[1]).chain([known]).collect()
}

/// Returns the capture with other addresses of hosts and other ports of clients. The replacement of
/// each is the same throughout.
pub(crate) fn moved(capture: &Capture, known: u16, draw: &mut Draw) -> Capture {
    let client = client_ports(draw);
    let services = services(capture, known);
    let port = move |port| {
        if services.contains(&port) {
            port
        } else {
            client(port)
        }
    };
    readdressed(capture, &addresses(draw), &port)
}

/// Returns the capture with other addresses and ports as in [`moved`], and also with other ports of
/// servers, so that ports do not reveal the protocol. The port of name servers is kept.
pub(crate) fn all_moved(capture: &Capture, known: u16, draw: &mut Draw) -> Capture {
    let client = client_ports(draw);
    let mut taken = HashSet::new();
    let mut other = HashMap::new();
    for service in services(capture, known)
        .into_iter()
        .filter(|&port| port != NAMES)
    {
        let free = std::iter::repeat_with(|| draw.from(1024, 32_767) as u16);
        let free = free.into_iter().find(|&port| taken.insert(port));
        other.insert(service, free.expect("there are more than services"));
    }
    let port = move |port| other.get(&port).copied().unwrap_or_else(|| client(port));
    readdressed(capture, &addresses(draw), &port)
}

/// Returns a permutation of the ports that the kernel gives to clients.
fn client_ports(draw: &mut Draw) -> impl Fn(u16) -> u16 + use<> {
    let (first, count) = (u64::from(CLIENT_PORTS.0), u64::from(CLIENT_PORTS.1));
    // The number of ports is 8 × 3529. A step that is odd and no multiple of 3529 reaches each port
    // once.
    let step = std::iter::repeat_with(|| (draw.next() % count) | 1).find(|step| step % 3529 != 0);
    let (step, shift) = (step.unwrap_or(1), draw.next() % count);
    move |port| match u64::from(port).checked_sub(first) {
        Some(at) if at < count => (first + (at * step + shift) % count) as u16,
        _ => port,
    }
}

/// Returns a permutation of addresses. Addresses with a special meaning stay the same.
fn addresses(draw: &mut Draw) -> impl Fn(IpAddr) -> IpAddr + use<> {
    // Private addresses stay private, or become public.
    let first = draw.one_of(&[0, 10 ^ 100, 10 ^ 198]);
    let mask = first << 24 | (draw.next() as u32 & 0x00ff_ffff);
    let wide = u128::from(draw.next()) << 56 | u128::from(draw.next() & 0xffff);
    move |address| match address {
        IpAddr::V4(v4) if v4.is_loopback() || v4.is_unspecified() || v4.is_broadcast() => address,
        IpAddr::V4(v4) => {
            let other = Ipv4Addr::from_bits(v4.to_bits() ^ mask);
            let is_usual = !other.is_loopback() && !other.is_multicast() && other.octets()[0] != 0;
            let kept = Ipv4Addr::from_bits(v4.to_bits() ^ mask & 0x00ff_ffff);
            if is_usual { other.into() } else { kept.into() }
        }
        IpAddr::V6(v6) if v6.octets()[0] != 0xfd => address,
        // The first byte stays, because it marks a unique local address.
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() ^ wide & (u128::MAX >> 8)).into(),
    }
}

/// Returns the capture with the addresses of its hosts replaced. The ports stay the same.
pub(crate) fn rehosted(capture: &Capture, address: &impl Fn(IpAddr) -> IpAddr) -> Capture {
    readdressed(capture, address, &|port| port)
}

/// Replaces each address and port: in headers, in packets that ICMP errors quote, and in answers of
/// name servers.
fn readdressed(
    capture: &Capture,
    address: &impl Fn(IpAddr) -> IpAddr,
    port: &impl Fn(u16) -> u16,
) -> Capture {
    let mut capture = capture.clone();
    for frame in &mut capture.frames {
        match &mut frame.network {
            Network::Packet(packet) => {
                let is_v6 = packet.source.is_ipv6();
                packet.source = address(packet.source);
                packet.destination = address(packet.destination);
                match &mut packet.body {
                    Body::Tcp(Tcp { ports, payload, .. }) | Body::Udp(Udp { ports, payload }) => {
                        if ports.contains(&NAMES) {
                            replace_answers(&mut payload.bytes, address);
                        }
                        *ports = ports.map(port);
                    }
                    Body::Icmp(payload) => requote(&mut payload.bytes, is_v6, address, port),
                }
            }
            Network::Other(bytes, _)
                if frame.head.ends_with(&ARP) || frame.head.starts_with(&ARP) =>
            {
                replace(bytes, 14, false, address);
                replace(bytes, 24, false, address);
            }
            Network::Other(..) => {}
        }
    }
    capture
}

/// Replaces the address at this offset, if there is one.
fn replace(bytes: &mut [u8], at: usize, is_v6: bool, address: &impl Fn(IpAddr) -> IpAddr) {
    let place = bytes.get_mut(at..).unwrap_or_default();
    if is_v6 {
        if let Some(place) = place.first_chunk_mut::<16>()
            && let IpAddr::V6(other) = address(IpAddr::from(*place))
        {
            *place = other.octets();
        }
    } else if let Some(place) = place.first_chunk_mut::<4>()
        && let IpAddr::V4(other) = address(IpAddr::from(*place))
    {
        *place = other.octets();
    }
}

/// Replaces the addresses and ports in an ICMP message.
fn requote(
    bytes: &mut [u8],
    is_v6: bool,
    address: &impl Fn(IpAddr) -> IpAddr,
    port: &impl Fn(u16) -> u16,
) {
    let kind = bytes.first().copied().unwrap_or_default();
    if is_v6 && matches!(kind, SOLICITATION | ADVERTISEMENT) {
        return replace(bytes, 8, true, address);
    }
    let is_error = if is_v6 {
        kind < 128
    } else {
        matches!(kind, 3 | 11 | 12)
    };
    if !is_error {
        return;
    }
    let (source, destination, head) = if is_v6 { (16, 32, 40) } else { (20, 24, 20) };
    replace(bytes, source, is_v6, address);
    replace(bytes, destination, is_v6, address);
    for at in [8 + head, 10 + head] {
        if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *place = port(u16::from_be_bytes(*place)).to_be_bytes();
        }
    }
}

/// The beginning of an address record in an answer: its type and the class IN, the length of
/// the address, and true for IPv6.
const RECORDS: [([u8; 4], [u8; 2], bool); 2] = [
    ([0, 1, 0, 1], [0, 4], false),
    ([0, 28, 0, 1], [0, 16], true),
];

/// Replaces the addresses in the answers of a name server (RFC 1035 §4.1.3).
fn replace_answers(bytes: &mut [u8], address: &impl Fn(IpAddr) -> IpAddr) {
    for at in 0..bytes.len().saturating_sub(10) {
        for (begin, len, is_v6) in RECORDS {
            if bytes[at..].starts_with(&begin) && bytes[at + 8..].starts_with(&len) {
                replace(bytes, at + 10, is_v6, address);
            }
        }
    }
}

/// Returns the capture over the other version of IP; `None` if it contains both versions or name
/// lookups, because its events then depend on the version.
pub(crate) fn over_other_version(capture: &Capture) -> Option<Capture> {
    let is_neighbours = |packet: &Packet| match &packet.body {
        Body::Icmp(payload) => {
            let kind = payload.bytes.first().copied().unwrap_or_default();
            packet.source.is_ipv6() && matches!(kind, 133..=137 | 143)
        }
        _ => packet.destination.is_multicast(),
    };
    let speaks = || capture.packets().filter(|packet| !is_neighbours(packet));
    let is_v6 = speaks().next()?.source.is_ipv6();
    let is_unfit =
        |packet: &Packet| packet.source.is_ipv6() != is_v6 || packet.ports().contains(&NAMES);
    if speaks().any(is_unfit) {
        return None;
    }
    let mut other = Others {
        is_v6: !is_v6,
        known: HashMap::new(),
    };
    let frames = capture.frames.iter();
    let frames = frames
        .filter_map(|frame| other.frame(frame, capture.link))
        .collect();
    Some(Capture {
        link: capture.link,
        frames,
    })
}

/// The addresses of the other version, which are assigned in the order of their first packets.
struct Others {
    is_v6: bool,
    known: HashMap<IpAddr, IpAddr>,
}

impl Others {
    fn address(&mut self, address: IpAddr) -> IpAddr {
        let count = self.known.len() as u16;
        let is_v6 = self.is_v6;
        *self
            .known
            .entry(address)
            .or_insert_with(|| match (address.is_loopback(), is_v6) {
                (true, true) => Ipv6Addr::LOCALHOST.into(),
                (true, false) => Ipv4Addr::LOCALHOST.into(),
                (false, true) => Ipv6Addr::new(0xfd90, 0, 0, 0, 0, 0, 0, count + 1).into(),
                (false, false) => Ipv4Addr::from_bits(0x0a5a_0001 + u32::from(count)).into(),
            })
    }

    /// Returns the frame over the other version; `None` if that has no counterpart.
    fn frame(&mut self, frame: &Frame, link: u16) -> Option<Frame> {
        let mut other = frame.clone();
        let mut ethertype = if self.is_v6 { IPV6 } else { IPV4 };
        other.network = match &frame.network {
            Network::Packet(packet) => match self.packet(packet) {
                Some(packet) => Network::Packet(packet),
                None => {
                    ethertype = ARP;
                    let arp = self.arp(packet).filter(|_| !frame.head.is_empty())?;
                    Network::Other(arp, 28)
                }
            },
            Network::Other(bytes, _) if self.is_v6 => Network::Packet(self.search(bytes)?),
            Network::Other(..) => return None,
        };
        if let Some(place) = other.ethertype_mut(link) {
            place.copy_from_slice(&ethertype);
        }
        Some(other)
    }

    /// Returns the packet over the other version; `None` if that has no counterpart.
    fn packet(&mut self, packet: &Packet) -> Option<Packet> {
        let mut other = packet.clone();
        if let Body::Icmp(payload) = &mut other.body {
            *payload = self.error(payload)?;
        } else if packet.destination.is_multicast() {
            return None;
        }
        other.source = self.address(packet.source);
        other.destination = self.address(packet.destination);
        other.dont_fragment = true;
        Some(other)
    }

    /// Returns an ICMP error of the other version, with the packet that it quotes (RFC 7915 §4.2);
    /// `None` for other messages.
    fn error(&mut self, payload: &Payload) -> Option<Payload> {
        let (head, quoted) = payload.bytes.split_first_chunk::<8>()?;
        let mtu = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let ([kind, code], rest) = match (self.is_v6, head[0], head[1]) {
            (true, 3, 4) => ([2, 0], mtu + 20),
            (true, 3, 3) => ([1, 4], 0),
            (true, 3, 9 | 10 | 13) => ([1, 1], 0),
            (true, 3, _) => ([1, 0], 0),
            (true, 11, code) => ([3, code], 0),
            (false, 2, _) => ([3, 4], mtu.saturating_sub(20)),
            (false, 1, 4) => ([3, 3], 0),
            (false, 1, 1) => ([3, 13], 0),
            (false, 1, _) => ([3, 1], 0),
            (false, 3, code) => ([11, code], 0),
            _ => return None,
        };
        let mut bytes = vec![kind, code, 0, 0];
        bytes.extend(rest.to_be_bytes());
        bytes.extend(self.quoted(quoted)?);
        let len = bytes.len();
        Some(Payload { bytes, len })
    }

    /// Returns the beginning of a quoted packet with a header of the other version.
    fn quoted(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let at = |at: usize| bytes.get(at).copied();
        let mut quoted;
        if self.is_v6 {
            let address = |at: usize| bytes.get(at..)?.first_chunk::<4>().copied();
            let ends = [address(12)?, address(16)?].map(|end| self.address(end.into()));
            quoted = vec![0x60, 0, 0, 0, 0, 20, at(9)?, at(8)?];
            ends.iter().for_each(|end| quoted.extend(octets(*end)));
            quoted.extend(bytes.get(20..)?);
        } else {
            let address = |at: usize| bytes.get(at..)?.first_chunk::<16>().copied();
            let ends = [address(8)?, address(24)?].map(|end| self.address(end.into()));
            quoted = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, at(7)?, at(6)?, 0, 0];
            ends.iter().for_each(|end| quoted.extend(octets(*end)));
            quoted.extend(bytes.get(40..)?);
        }
        Some(quoted)
    }

    /// Returns the IPv6 counterpart of an ARP packet (neighbour discovery); `None` for anything
    /// else.
    fn search(&mut self, arp: &[u8]) -> Option<Packet> {
        let is_answer = arp.get(7) == Some(&2);
        let address = |at: usize| arp.get(at..)?.first_chunk::<4>().copied();
        let sender = self.address(address(14)?.into());
        let target = self.address(address(24)?.into());
        let (kind, about) = if is_answer {
            (ADVERTISEMENT, sender)
        } else {
            (SOLICITATION, target)
        };
        let bytes = [vec![kind, 0, 0, 0, 0, 0, 0, 0], octets(about)].concat();
        let len = bytes.len();
        Some(Packet {
            class: 0,
            hops: 255,
            id: 0,
            dont_fragment: false,
            source: sender,
            destination: target,
            body: Body::Icmp(Payload { bytes, len }),
        })
    }

    /// Returns the ARP counterpart of a neighbour discovery packet; `None` for anything else.
    fn arp(&mut self, packet: &Packet) -> Option<Vec<u8>> {
        let Body::Icmp(payload) = &packet.body else {
            return None;
        };
        let about: &[u8; 16] = payload.bytes.get(8..)?.first_chunk()?;
        let about = self.address(Ipv6Addr::from(*about).into());
        let (operation, ends) = match *payload.bytes.first()? {
            SOLICITATION if !packet.source.is_unspecified() => {
                (1, [self.address(packet.source), about])
            }
            ADVERTISEMENT => (2, [about, self.address(packet.destination)]),
            _ => return None,
        };
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, operation];
        for end in ends {
            arp.extend([2; 6]);
            arp.extend(octets(end));
        }
        Some(arp)
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
