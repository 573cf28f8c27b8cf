//! Segments that IP cut into fragments.

use super::super::*;
use super::record;
use super::writing::{ipv4, ipv6, tcp};
use crate::segment::TcpFlags;

/// A segment with FIN and 40 bytes of payload.
fn whole() -> Vec<u8> {
    tcp(0x19, &[], &[b'x'; 40])
}

fn v4_part(offset: usize, more: bool, body: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(&[], body);
    let part = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
    packet[6..8].copy_from_slice(&part.to_be_bytes());
    packet
}

fn v6_part(offset: usize, more: bool, body: &[u8]) -> Vec<u8> {
    let [o0, o1] = (offset as u16 | u16::from(more)).to_be_bytes();
    ipv6(44, &[&[6, 0, o0, o1, 9, 9, 0x12, 0x34], body].concat())
}

type Seen = Option<(u32, TcpFlags, u32, usize)>;

fn seen(decoder: &mut Decoder, packet: &[u8]) -> Seen {
    match decoder.packet(&record(LinkType::RAW, packet), PointId(0)) {
        Packet::Tcp(s, payload) => Some((s.seq, s.flags, s.payload_len, payload.len())),
        _ => None,
    }
}

#[test]
fn every_byte_counts_and_the_flags_of_the_end_come_with_the_end() {
    let (ack, end) = (TcpFlags::ACK, TcpFlags(0x19));
    for part in [v4_part, v6_part] {
        let mut decoder = Decoder::new();
        let whole = whole();
        let parts = [(0, true), (32, true), (48, false)].map(|(at, more)| {
            let len = if at == 0 {
                32
            } else {
                whole.len().min(at + 16) - at
            };
            seen(&mut decoder, &part(at, more, &whole[at..at + len]))
        });
        let expected = [
            Some((1, ack, 12, 12)),
            Some((13, ack, 16, 16)),
            Some((29, end, 12, 12)),
        ];
        assert_eq!(parts, expected);
    }
}

#[test]
fn the_flow_and_identification_are_the_first_ones() {
    let mut decoder = Decoder::new();
    let whole = whole();
    let parts = [
        v4_part(0, true, &whole[..24]),
        v4_part(24, false, &whole[24..]),
    ];
    let segments =
        parts.map(
            |part| match decoder.packet(&record(LinkType::RAW, &part), PointId(0)) {
                Packet::Tcp(segment, _) => segment,
                other => panic!("no segment: {other:?}"),
            },
        );
    assert_eq!(segments[0].flow, segments[1].flow);
    assert_eq!(segments[0].ip.id, segments[1].ip.id);
}

#[test]
fn a_later_fragment_alone_is_no_segment() {
    let whole = whole();
    for packet in [
        v4_part(24, false, &whole[24..]),
        v6_part(24, true, &whole[24..48]),
    ] {
        assert_eq!(seen(&mut Decoder::new(), &packet), None);
    }
    // Nor is one that claims to lie within the header.
    let mut decoder = Decoder::new();
    seen(&mut decoder, &v4_part(0, true, &whole[..24]));
    assert_eq!(seen(&mut decoder, &v4_part(8, false, &whole[8..])), None);
}

#[test]
fn a_whole_packet_may_have_a_fragment_header() {
    let packet = v6_part(0, false, &whole());
    let expected = Some((1, TcpFlags(0x19), 40, 40));
    assert_eq!(seen(&mut Decoder::new(), &packet), expected);
}

#[test]
fn a_fragmented_extension_header_moves_the_payload() {
    // Destination options stand behind the fragment header and are its content.
    let whole = [&[6, 0, 0, 0, 0, 0, 0, 0][..], &whole()].concat();
    let part = |offset: usize, more: bool, body: &[u8]| {
        let mut packet = v6_part(offset, more, body);
        packet[40] = 60;
        packet
    };
    let mut decoder = Decoder::new();
    let first = seen(&mut decoder, &part(0, true, &whole[..32]));
    let second = seen(&mut decoder, &part(32, false, &whole[32..]));
    assert_eq!(
        (first.map(|s| s.2), second.map(|s| (s.0, s.2))),
        (Some(4), Some((5, 36)))
    );
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut decoder = Decoder::new();
    let whole = whole();
    for id in 0..1000_u16 {
        let mut packet = v4_part(0, true, &whole[..24]);
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        assert!(seen(&mut decoder, &packet).is_some());
    }
    let mut last = v4_part(24, false, &whole[24..]);
    for (id, is_known) in [(0_u16, false), (999, true)] {
        last[4..6].copy_from_slice(&id.to_be_bytes());
        assert_eq!(seen(&mut decoder, &last).is_some(), is_known);
    }
}
