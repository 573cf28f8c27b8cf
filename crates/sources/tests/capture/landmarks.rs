//! Reading of single flows again, in the parts of a file that contain them.

use std::io::Cursor;

use lagtrace_core::decode::Sieve;
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::FlowKey;
use lagtrace_core::observed::segment::Segment;
use lagtrace_sources::capture::{FileCapture, Packets};
use proptest::prelude::*;

/// Returns an IPv4 packet of the client with this port, in either direction.
fn packet(port: u16, from_client: bool, payload: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((40 + payload as u16).to_be_bytes());
    packet.extend([0, 7, 0x40, 0, 64, 6, 0, 0]);
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (ends, ports) = match from_client {
        true => ([client, server], [port, 80]),
        false => ([server, client], [80, port]),
    };
    packet.extend(ends.concat());
    packet.extend(ports.map(u16::to_be_bytes).concat());
    packet.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    packet.extend(vec![0; payload]);
    packet
}

fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0]);
    file.extend([0, 0, 262_144, 101].map(u32::to_le_bytes).concat());
    for (second, packet) in (1_700_000_000_u32..).zip(packets) {
        let len = packet.len() as u32;
        file.extend([second, 0, len, len].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let body = [body, &vec![0; body.len().next_multiple_of(4) - body.len()]].concat();
    let total = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes(), &total[..], &body, &total].concat()
}

/// Returns a pcapng file. Before the packets with these numbers another section begins, and before
/// every hundredth packet there is a block of another kind.
fn pcapng(packets: &[Vec<u8>], sections: &[usize]) -> Vec<u8> {
    let mut file = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        if number == 0 || sections.contains(&number) {
            let head = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat();
            file.extend(block(0x0a0d_0d0a, &head));
            file.extend(block(1, &[101, 0, 0, 0, 0, 0, 0, 0]));
        }
        if number % 100 == 0 {
            file.extend(block(0x0bad, &vec![1; number * 7]));
        }
        let len = packet.len() as u32;
        let head = [0, 0, number as u32, len, len].map(u32::to_le_bytes);
        file.extend(block(6, &[&head.concat()[..], packet].concat()));
    }
    file
}

/// Reads the file whole; returns the reader and the segments.
fn read(file: &[u8], limit: u64) -> (FileCapture, Vec<Segment>) {
    let input = Cursor::new(file.to_vec());
    let capture = FileCapture::from_reader("a file".to_owned(), input, PointId(0));
    let mut capture = capture.expect("a capture");
    capture.keep_landmarks();
    let (mut segments, mut packets) = (Vec::new(), Packets::default());
    while capture.next_packets(&mut packets, limit - segments.len() as u64) > 0 {
        segments.extend(packets.segments().map(|(segment, _)| *segment));
    }
    (capture, segments)
}

/// Reads the segments of a flow again, and the number of bytes which that took.
fn again(capture: &mut FileCapture, file: &[u8], flow: FlowKey) -> Option<(Vec<Segment>, usize)> {
    let sieve = Sieve::of([flow]);
    let (mut segments, mut bytes) = (Vec::new(), 0);
    let mut packets = Packets::default();
    for (begin, range) in capture.ranges(&sieve)? {
        let part = &file[range.start as usize..range.end as usize];
        bytes += part.len();
        if !capture.resume(begin, Cursor::new(part.to_vec())) {
            return None;
        }
        while capture.next_sifted(&mut packets, &sieve) > 0 || !packets.is_empty() {
            segments.extend(packets.segments().map(|(segment, _)| *segment));
        }
    }
    segments.retain(|segment| segment.flow == flow);
    Some((segments, bytes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_flow_is_found_in_a_few_parts_of_the_file(
        flows in 2_u16..400,
        length in 1_usize..40,
        payload in 0_usize..1_400,
        is_pcapng: bool,
        limit in prop_oneof![Just(u64::MAX), 1_u64..3_000],
    ) {
        // Each flow's packets are near each other, and every ninth packet belongs to a flow that
        // lasts as long as the file.
        let count = 3_000 * 700 / (payload + 100);
        let port = |number: usize| match number % 9 {
            0 => 5,
            _ => 1_000 + (number / length) as u16 % flows,
        };
        let packets: Vec<Vec<u8>> = (0..count)
            .map(|number| packet(port(number), number % 2 == 0, payload))
            .collect();
        let file = if is_pcapng { pcapng(&packets, &[]) } else { pcap(&packets) };
        let (mut capture, segments) = read(&file, limit);
        prop_assert_eq!(segments.len() as u64, limit.min(count as u64));
        for &of in [&segments[0], &segments[segments.len() / 2], &segments[segments.len() - 1]] {
            let found = again(&mut capture, &file, of.flow);
            let (found, bytes) = found.expect("a file whose parts can be read alone");
            let expected = segments.iter().filter(|segment| segment.flow == of.flow);
            prop_assert!(found.iter().eq(expected), "{} found", found.len());
            prop_assert!(bytes <= file.len());
        }
    }
}

#[test]
fn only_the_parts_with_the_flow_are_read() {
    let packets: Vec<Vec<u8>> = (0..6_000)
        .map(|number| packet(1_000 + number / 30, number % 2 == 0, 1_000))
        .collect();
    let file = pcap(&packets);
    let (mut capture, segments) = read(&file, u64::MAX);
    let (found, bytes) = again(&mut capture, &file, segments[3_000].flow).expect("parts");
    assert_eq!((found.len(), found[0].number), (30, 3_001));
    assert!(bytes * 4 < file.len(), "{bytes} of {}", file.len());
}

#[test]
fn parts_of_several_sections_are_not_read_alone() {
    let packets: Vec<Vec<u8>> = (0..100).map(|port| packet(port, true, 9)).collect();
    for (sections, is_known) in [(&[][..], true), (&[50][..], false)] {
        let file = pcapng(&packets, sections);
        let (mut capture, segments) = read(&file, u64::MAX);
        assert_eq!(segments.len(), 100);
        let found = again(&mut capture, &file, segments[70].flow);
        assert_eq!(found.is_some(), is_known);
    }
}
