//! Writers of captures and packets for tests.

use core::net::IpAddr;

/// A byte order for writing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Big,
    Little,
}

impl Order {
    pub(super) fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    pub(super) fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    pub(super) fn u64(self, value: u64) -> [u8; 8] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }
}

/// The header of a pcap file.
pub(super) fn pcap(order: Order, magic: u32, link: u32) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(order.u32(magic));
    file.extend(order.u16(2));
    file.extend(order.u16(4));
    for word in [0, 0, 262_144, link] {
        file.extend(order.u32(word));
    }
    file
}

/// A record of a pcap file: `s` seconds, `t` ticks, `wire` bytes on the wire, and the captured
/// `bytes`.
pub(super) fn pcap_record(order: Order, (s, t): (u32, u32), wire: u32, bytes: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    for word in [s, t, bytes.len() as u32, wire] {
        record.extend(order.u32(word));
    }
    record.extend(bytes);
    record
}

/// A pcapng block.
pub(super) fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = order.u32(padded as u32 + 12);
    let mut block = Vec::new();
    block.extend(order.u32(kind));
    block.extend(total);
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(total);
    block
}

/// A pcapng option with its padding.
pub(super) fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = Vec::new();
    option.extend(order.u16(code));
    option.extend(order.u16(value.len() as u16));
    option.extend(value);
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

pub(super) fn section(order: Order) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(order.u32(0x1a2b_3c4d));
    body.extend(order.u16(1));
    body.extend(order.u16(0));
    body.extend(order.u64(u64::MAX));
    block(order, 0x0a0d_0d0a, &body)
}

pub(super) fn interface(order: Order, link: u16, snap_len: u32, options: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(order.u16(link));
    body.extend(order.u16(0));
    body.extend(order.u32(snap_len));
    body.extend(options);
    block(order, 1, &body)
}

pub(super) fn enhanced(order: Order, interface: u32, ticks: u64, bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(order.u32(interface));
    body.extend(order.u32((ticks >> 32) as u32));
    body.extend(order.u32(ticks as u32));
    body.extend(order.u32(bytes.len() as u32));
    body.extend(order.u32(bytes.len() as u32));
    body.extend(bytes);
    block(order, 6, &body)
}

pub(super) fn statistics(order: Order, interface: u32, if_drop: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(order.u32(interface));
    body.extend(order.u64(0));
    body.extend(option(order, 4, &order.u64(1_000)));
    body.extend(option(order, 5, &order.u64(if_drop)));
    body.extend(option(order, 0, &[]));
    block(order, 5, &body)
}

/// A TCP segment from port 1000 to port 80, with sequence number 1, acknowledgement number 2 and
/// window 500.
pub(super) fn tcp(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    assert!(
        options.len().is_multiple_of(4),
        "options are padded by the test"
    );
    let mut segment = vec![0x03, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2];
    segment.push(((5 + options.len() / 4) << 4) as u8);
    segment.push(flags);
    segment.extend(500_u16.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(options);
    segment.extend(payload);
    segment
}

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2. The length of the options is a multiple of four bytes.
pub(super) fn ipv4(options: &[u8], body: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let total = (header_len + body.len()) as u16;
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0x03];
    packet.extend(total.to_be_bytes());
    packet.extend([0xab, 0xcd, 0x40, 0, 61, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(options);
    packet.extend(body);
    packet
}

/// An IPv6 packet from fd00::1 to fd00::2; `next` is its Next Header, the type of `body`.
pub(super) fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0x30, 0, 0];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend([next, 60]);
    for address in ["fd00::1", "fd00::2"] {
        match address.parse().expect("a literal address") {
            IpAddr::V6(address) => packet.extend(address.octets()),
            IpAddr::V4(_) => unreachable!("both literals are IPv6"),
        }
    }
    packet.extend(body);
    packet
}

/// An Ethernet frame with VLAN tags.
pub(super) fn ethernet(tags: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for tag in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend(100_u16.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}
