//! Tests of fragmented IP packets.

use proptest::prelude::*;

use super::super::*;
use super::record;
use super::writing::{ethernet, ipv4, ipv6, tcp};
use crate::observed::segment::TcpFlags;

/// A function that makes a fragment. Its arguments are the identification, the offset, true if more
/// fragments follow, the protocol and the payload.
type Cut = fn(u16, usize, bool, u8, &[u8]) -> Vec<u8>;

fn v4_part(id: u16, offset: usize, more: bool, protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(&[], body);
    let part = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&part.to_be_bytes());
    packet[9] = protocol;
    packet
}

fn v6_part(id: u16, offset: usize, more: bool, protocol: u8, body: &[u8]) -> Vec<u8> {
    let [o0, o1] = (offset as u16 | u16::from(more)).to_be_bytes();
    let [i0, i1] = id.to_be_bytes();
    ipv6(44, &[&[protocol, 0, o0, o1, 9, 9, i0, i1], body].concat())
}

const CUTS: [Cut; 2] = [v4_part, v6_part];

/// Cuts a packet's payload into fragments of `size` bytes.
fn pieces(cut: Cut, id: u16, protocol: u8, whole: &[u8], size: usize) -> Vec<Vec<u8>> {
    let places = (0..whole.len()).step_by(size);
    places
        .map(|at| {
            let end = whole.len().min(at + size);
            cut(id, at, end < whole.len(), protocol, &whole[at..end])
        })
        .collect()
}

/// The facts read from a packet: sequence number, flags, payload length, captured payload.
type Seen = Option<(u32, TcpFlags, u32, Vec<u8>)>;

/// A decoder that has already seen a later fragment, and therefore waits for fragments.
fn decoder() -> Decoder {
    let mut decoder = Decoder::new();
    seen(&mut decoder, &v4_part(1, 8, true, 6, &[0; 8]), 1);
    decoder
}

fn seen(decoder: &mut Decoder, packet: &[u8], second: i64) -> Seen {
    seen_of(decoder, LinkType::RAW, packet, second)
}

fn seen_of(decoder: &mut Decoder, link: LinkType, packet: &[u8], second: i64) -> Seen {
    let mut record = record(link, packet);
    record.at = Some(Timestamp::from_parts(second, 0));
    match decoder.packet(&record, PointId(0)) {
        Packet::Tcp(s, payload) => Some((s.seq, s.flags, s.payload_len, payload.to_vec())),
        Packet::Udp(header, payload) => {
            let len = header.payload_len.into();
            Some((0, TcpFlags::default(), len, payload.to_vec()))
        }
        _ => None,
    }
}

fn drawn(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 % 251) as u8).collect()
}

proptest! {
    /// A segment counts once, complete, when its last fragment has arrived, in any order of the
    /// fragments. Bytes that were not captured are not invented.
    #[test]
    fn a_segment_counts_when_its_fragments_are_there(
        len in 0_usize..5_000,
        units in 1_usize..180,
        order in any::<prop::sample::Index>(),
        is_reversed in any::<bool>(),
        is_v6 in any::<bool>(),
    ) {
        let payload = drawn(len);
        let whole = tcp(0x19, &[1; 12], &payload);
        let cut = CUTS[usize::from(is_v6)];
        let size = (units * 8).max(whole.len().div_ceil(200).next_multiple_of(8));
        let mut parts = pieces(cut, 77, 6, &whole, size);
        let count = parts.len();
        parts.rotate_left(order.index(count));
        if is_reversed {
            parts.reverse();
        }
        let mut decoder = decoder();
        for (index, part) in parts.iter().enumerate() {
            let told = seen(&mut decoder, part, 2);
            if index + 1 < count {
                prop_assert_eq!(told, None);
            } else {
                prop_assert_eq!(told, Some((1, TcpFlags(0x19), len as u32, payload.clone())));
            }
        }
    }

    /// A datagram also counts once, and its payload is contiguous again.
    #[test]
    fn a_datagram_counts_when_its_fragments_are_there(len in 0_usize..9_000, units in 1_usize..180) {
        let payload = drawn(len);
        let size = (units * 8).max((len + 8).div_ceil(200).next_multiple_of(8));
        for cut in CUTS {
            let head = [0xc0, 0, 0, 53, ((len + 8) >> 8) as u8, (len + 8) as u8, 0, 0];
            let parts = pieces(cut, 78, 17, &[&head[..], &payload].concat(), size);
            let mut decoder = decoder();
            let told: Vec<Seen> = parts.iter().map(|part| seen(&mut decoder, part, 2)).collect();
            let (last, before) = told.split_last().expect("at least one");
            prop_assert!(before.iter().all(Option::is_none));
            let expected = (0, TcpFlags::default(), len as u32, payload.clone());
            prop_assert_eq!(last, &Some(expected));
        }
    }

    #[test]
    fn arbitrary_fragments_never_panic(
        parts in prop::collection::vec(
            (0_u16..3, 0_usize..40, any::<bool>(), 0_usize..90, any::<bool>(), 0_usize..130),
            0..40,
        ),
    ) {
        let mut decoder = Decoder::new();
        for (id, units, more, len, is_v6, kept) in parts {
            let protocol = [6, 17, 47][usize::from(id)];
            let body = tcp(0x10, &[], &drawn(len));
            let mut packet = CUTS[usize::from(is_v6)](id, units * 8, more, protocol, &body);
            packet.truncate(kept.max(20));
            if let Some((_, _, len, payload)) = seen(&mut decoder, &packet, 2) {
                prop_assert!(payload.len() as u64 <= u64::from(len));
            }
        }
    }
}

#[test]
fn what_was_cut_off_by_the_snap_length_is_no_payload() {
    let payload = drawn(40);
    let whole = tcp(0x18, &[], &payload);
    for (short, captured) in [(0, 4 - 2), (1, 20 - 2), (2, 36 - 2)] {
        let mut decoder = decoder();
        let mut told = None;
        // The first fragment contains the header of 20 bytes and 4 bytes of payload; the others
        // have 16 and 20 bytes.
        for (index, (from, to)) in [(0, 24), (24, 40), (40, 60)].into_iter().enumerate() {
            let mut part = v4_part(5, from, to < 60, 6, &whole[from..to]);
            if index == short {
                part.truncate(part.len() - 2 - usize::from(to == 60) * 4);
            }
            told = seen(&mut decoder, &part, 2);
        }
        let expected = (1, TcpFlags(0x18), 40, payload[..captured].to_vec());
        assert_eq!(told, Some(expected), "fragment {short} is cut");
    }
}

#[test]
fn fragments_seen_twice_count_once() {
    let whole = tcp(0x19, &[], &drawn(40));
    let parts = pieces(v6_part, 5, 6, &whole, 32);
    let mut decoder = decoder();
    let told: Vec<bool> = [&parts[0], &parts[0], &parts[1], &parts[1]]
        .map(|part| seen(&mut decoder, part, 2).is_some())
        .to_vec();
    assert_eq!(told, [false, false, true, false]);
}

#[test]
fn what_overlaps_or_lies_behind_the_end_is_no_packet() {
    let whole = tcp(0x19, &[], &drawn(60));
    let part = |from: usize, to: usize| v4_part(5, from, to < 80, 6, &whole[from..to]);
    let behind = v4_part(5, 80, true, 6, &[0; 8]);
    let end = v4_part(5, 72, false, 6, &[0; 16]);
    for strange in [part(24, 48), behind, end] {
        let mut decoder = decoder();
        for before in [part(0, 32), part(64, 80), strange] {
            assert_eq!(seen(&mut decoder, &before, 2), None);
        }
        assert_eq!(seen(&mut decoder, &part(32, 64), 2), None);
    }
    // Fragments whose end is not a multiple of eight bytes, or is beyond IP's maximum, are rejected
    // too.
    let mut decoder = decoder();
    assert_eq!(
        seen(&mut decoder, &v4_part(5, 0, true, 6, &whole[..30]), 2),
        None
    );
    assert_eq!(
        seen(&mut decoder, &v4_part(5, 65_528, false, 6, &[0; 9]), 2),
        None
    );
}

#[test]
fn packets_are_told_apart() {
    let (one, other) = (tcp(0x19, &[], &drawn(40)), tcp(0x19, &[], &[b'y'; 40]));
    let mut decoder = decoder();
    let ones = pieces(v4_part, 5, 6, &one, 32);
    let others = pieces(v4_part, 6, 6, &other, 32);
    for part in [&ones[0], &others[0]] {
        assert_eq!(seen(&mut decoder, part, 2), None);
    }
    let payload = |seen: Seen| seen.expect("it is whole").3;
    assert_eq!(payload(seen(&mut decoder, &others[1], 2)), [b'y'; 40]);
    assert_eq!(payload(seen(&mut decoder, &ones[1], 2)), drawn(40));
    // A fragment with another protocol, address or observation point belongs to another packet.
    let mut of_udp = ones[1].clone();
    of_udp[9] = 17;
    let mut elsewhere = ones[1].clone();
    elsewhere[15] = 9;
    for foreign in [of_udp, elsewhere] {
        assert_eq!(seen(&mut decoder, &ones[0], 2), None);
        assert_eq!(seen(&mut decoder, &foreign, 2), None);
    }
    let here = record(LinkType::RAW, &ones[1]);
    assert_eq!(decoder.packet(&here, PointId(1)), Packet::Other);
}

#[test]
fn others_are_waited_for_so_long_and_of_so_many_packets() {
    let whole = tcp(0x19, &[], &drawn(40));
    let parts = pieces(v4_part, 5, 6, &whole, 32);
    for (later, is_told) in [(32, true), (33, false)] {
        let mut decoder = decoder();
        seen(&mut decoder, &parts[0], 2);
        assert_eq!(seen(&mut decoder, &parts[1], later).is_some(), is_told);
    }
    let mut decoder = decoder();
    for id in 0..1_000 {
        seen(&mut decoder, &v4_part(id, 0, true, 6, &whole[..32]), 2);
    }
    for (id, is_told) in [(0, false), (900, false), (950, true), (999, true)] {
        let last = v4_part(id, 32, false, 6, &whole[32..]);
        assert_eq!(seen(&mut decoder, &last, 2).is_some(), is_told, "{id}");
    }
}

/// A capture filter for ports passes only first fragments, so nothing else is seen.
#[test]
fn first_fragments_alone_count_as_what_they_hold() {
    let whole = tcp(0x19, &[], &drawn(40));
    let mut decoder = Decoder::new();
    for id in 0..3 {
        let first = v4_part(id, 0, true, 6, &whole[..32]);
        let expected = (1, TcpFlags::ACK, 12, drawn(40)[..12].to_vec());
        assert_eq!(seen(&mut decoder, &first, 2), Some(expected));
    }
    // The first fragment was already counted, so this one adds only the rest of the payload. After
    // that, packets are reassembled.
    let last = v4_part(2, 32, false, 6, &whole[32..]);
    let expected = (13, TcpFlags(0x19), 28, drawn(40)[12..].to_vec());
    assert_eq!(seen(&mut decoder, &last, 2), Some(expected));
    assert_eq!(
        seen(&mut decoder, &v4_part(3, 0, true, 6, &whole[..32]), 2),
        None
    );
    // A datagram whose first fragment was already counted is not counted again.
    let mut decoder = Decoder::new();
    let datagram = [&[0xc0, 0, 0, 53, 0, 48, 0, 0][..], &drawn(40)].concat();
    let parts = pieces(v4_part, 7, 17, &datagram, 32);
    let told = seen(&mut decoder, &parts[0], 2).map(|seen| (seen.2, seen.3.len()));
    assert_eq!(told, Some((40, 24)));
    assert_eq!(seen(&mut decoder, &parts[1], 2), None);
}

#[test]
fn a_header_may_be_cut_itself() {
    let whole = tcp(0x19, &[1; 20], &drawn(40));
    let mut decoder = Decoder::new();
    let told: Vec<Seen> = pieces(v6_part, 5, 6, &whole, 8)
        .iter()
        .map(|part| seen(&mut decoder, part, 2))
        .collect();
    let (last, before) = told.split_last().expect("several");
    assert!(before.iter().all(Option::is_none));
    assert_eq!(last, &Some((1, TcpFlags(0x19), 40, drawn(40))));
}

#[test]
fn a_whole_packet_may_have_a_fragment_header() {
    let packet = v6_part(5, 0, false, 6, &tcp(0x19, &[], &drawn(40)));
    let expected = (1, TcpFlags(0x19), 40, drawn(40));
    assert_eq!(seen(&mut Decoder::new(), &packet, 2), Some(expected));
}

#[test]
fn a_fragmented_extension_header_moves_the_payload() {
    // Destination options after the fragment header are part of the fragmented payload.
    let whole = [&[6, 0, 0, 0, 0, 0, 0, 0][..], &tcp(0x19, &[], &drawn(40))].concat();
    let mut decoder = decoder();
    let told: Vec<Seen> = pieces(v6_part, 5, 60, &whole, 32)
        .iter()
        .map(|part| seen(&mut decoder, part, 2))
        .collect();
    assert_eq!(told[0], None);
    assert_eq!(told[1], None);
    assert_eq!(told[2], Some((1, TcpFlags(0x19), 40, drawn(40))));
}

/// A packet in a tunnel is reassembled too, even if both the inner and the outer packet were
/// fragmented.
#[test]
fn tunnels_in_fragments() {
    let inner = ipv4(&[], &tcp(0x19, &[], &drawn(90)));
    let gre = [&[0, 0, 0x08, 0][..], &inner].concat();
    let mut decoder = decoder();
    let told: Vec<Seen> = pieces(v6_part, 5, 47, &gre, 48)
        .iter()
        .map(|part| seen(&mut decoder, part, 2))
        .collect();
    let (last, before) = told.split_last().expect("several");
    assert!(before.iter().all(Option::is_none));
    assert_eq!(last, &Some((1, TcpFlags(0x19), 90, drawn(90))));

    let segment = tcp(0x19, &[], &drawn(90));
    let halves = pieces(v4_part, 8, 6, &segment, 56);
    let mut told = Vec::new();
    for (id, half) in (10..).zip(halves) {
        let gre = [&[0, 0, 0x65, 0x58][..], &ethernet(&[], 0x0800, &half)].concat();
        for part in pieces(v4_part, id, 47, &gre, 48) {
            told.push(seen(&mut decoder, &part, 2));
        }
    }
    let (last, before) = told.split_last().expect("several");
    assert!(before.iter().all(Option::is_none));
    assert_eq!(last, &Some((1, TcpFlags(0x19), 90, drawn(90))));
}

#[test]
fn a_later_fragment_alone_is_no_packet() {
    let whole = tcp(0x19, &[], &drawn(40));
    for cut in CUTS {
        let part = cut(5, 24, false, 6, &whole[24..]);
        assert_eq!(seen(&mut Decoder::new(), &part, 2), None);
        let bare = record(LinkType::RAW, &part);
        assert_eq!(packet(&bare, PointId(0)), Packet::Other);
    }
}
