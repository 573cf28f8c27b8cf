//! Fragmented packets in files.

use std::io::Cursor;

use lagtrace_core::decode::{Packet, Sieve};
use lagtrace_core::observed::event::PointId;
use lagtrace_sources::capture::{FileCapture, Packets};

/// Returns a pcap file of raw IP with these packets.
fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0]);
    for word in [0, 0, 262_144, link] {
        file.extend(word.to_le_bytes());
    }
    for (second, packet) in (1_700_000_000_u32..).zip(packets) {
        let len = packet.len() as u32;
        for word in [second, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

fn ipv4(protocol: u8, part: u16, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + body.len() as u16).to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(part.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(body);
    packet
}

/// Returns the fragments of a packet, after a later fragment of another packet. The capture
/// contains both.
fn fragments(payload: &[u8]) -> Vec<Vec<u8>> {
    let mut segment = vec![0x03, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0];
    segment.extend([0; 4]);
    segment.extend(payload);
    let middle = (segment.len() / 2).next_multiple_of(8);
    let other = ipv4(1, 1, &[0; 8]);
    let first = ipv4(6, 0x2000, &segment[..middle]);
    let last = ipv4(6, middle as u16 / 8, &segment[middle..]);
    vec![other, last, ipv4(6, 0x4000, &segment), first]
}

#[test]
fn their_payload_is_whole_however_they_are_read() {
    for len in [40, 1_000, 3_333] {
        let payload: Vec<u8> = (0..len).map(|index| (index % 249) as u8).collect();
        let file = pcap(101, &fragments(&payload));
        let open = || {
            let input = Cursor::new(file.clone());
            FileCapture::from_reader("a file".to_owned(), input, PointId(0)).expect("a capture")
        };
        let mut one_by_one = open();
        let mut numbers = Vec::new();
        while let Some((segment, seen)) = one_by_one.next_segment() {
            assert_eq!((segment.payload_len as usize, seen), (len, &payload[..]));
            numbers.push(segment.number);
        }
        assert_eq!(numbers, [3, 4]);
        let mut capture = open();
        while let Some(packet) = capture.next_packet() {
            assert_eq!(packet.payload(), payload);
        }
        let (mut in_bulk, mut packets) = (open(), Packets::default());
        in_bulk.keep_landmarks();
        assert_eq!(in_bulk.next_packets(&mut packets, u64::MAX), 2);
        let seen: Vec<&[u8]> = packets.segments().map(|(_, payload)| payload).collect();
        assert_eq!(seen, [&payload[..]; 2]);
        assert!(packets.at(1).is_some_and(|(_, seen)| seen == payload));
        assert!(
            packets
                .whole()
                .all(|packet| matches!(packet, Packet::Tcp(_, p) if p == payload))
        );
        assert_eq!(in_bulk.next_packets(&mut packets, u64::MAX), 0);
        assert_eq!(in_bulk.summary().undecoded, 2);
        // A fragment may lie in another part of the file.
        assert_eq!(in_bulk.ranges(&Sieve::of([])), None);
    }
}

#[test]
fn what_is_of_a_link_type_that_is_not_read_is_counted_by_it() {
    let file = pcap(147, &vec![vec![9; 60]; 3]);
    let input = Cursor::new(file);
    let capture = FileCapture::from_reader("a file".to_owned(), input, PointId(0));
    let mut capture = capture.expect("a capture");
    assert!(capture.next_packet().is_none());
    let summary = capture.summary();
    assert_eq!(
        summary.unread_links.into_iter().collect::<Vec<_>>(),
        [(147, 3)]
    );
    let span = summary
        .beside_tcp
        .map(|(first, last)| last.since(first).as_secs());
    assert_eq!((summary.undecoded, span), (3, Some(2)));
}
