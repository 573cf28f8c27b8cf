//! Traffic that fills what the analysis keeps: connections, holes, fragments, tunnels, names.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

use super::cost::{is_linear, is_linear_file};
use super::ends::{CLIENT, Ends, REQUEST, RESPONSE, SERVER, SYN, client};
use super::frames::{Capture, Tcp, ipv4};

const GRE: u8 = 47;
const IPIP: u8 = 4;
const TCP: u8 = 6;
/// The packets of a shape with large packets, of a number of small ones.
const SMALL_PER_LARGE: u32 = 8;

/// Opens as many connections as there can be with this number of packets each.
fn connections(capture: &mut Capture, count: u32, packets_each: u32) -> Vec<Ends> {
    let all = 0..(count / packets_each).max(1);
    let open = all.map(|index| {
        let (address, port) = client(index);
        Ends::open(capture, address, port, SERVER)
    });
    open.collect()
}

#[test]
fn connections_that_are_never_accepted() {
    is_linear(|capture, count| {
        for index in 0..count {
            let mut tcp = Tcp::new(client(index), (0x0c00_0000 + index % 997, 80));
            tcp.seq = index.wrapping_mul(77_777);
            capture.tcp(&tcp.flags(SYN));
        }
    });
}

#[test]
fn responses_that_stay_open() {
    is_linear(|capture, count| {
        for mut ends in connections(capture, count, 5) {
            ends.say(capture, REQUEST);
            ends.answer(capture, b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx");
        }
    });
}

#[test]
fn heads_that_never_end_on_many_connections() {
    is_linear(|capture, count| {
        let count = count / SMALL_PER_LARGE;
        let field = [b"a: ", [b'b'; 1300].as_slice(), b"\r\n"].concat();
        let mut all = connections(capture, count, 24);
        for ends in &mut all {
            ends.say(capture, b"GET / HTTP/1.1\r\n");
        }
        for _ in 0..20 {
            for ends in &mut all {
                ends.say(capture, &field);
            }
        }
    });
}

#[test]
fn data_behind_holes_on_many_connections() {
    is_linear(|capture, count| {
        let count = count / SMALL_PER_LARGE;
        let mut all = connections(capture, count, 24);
        for ends in &mut all {
            ends.say(capture, REQUEST);
        }
        for _ in 0..20 {
            for ends in &mut all {
                ends.server.seq = ends.server.seq.wrapping_add(1);
                ends.answer(capture, &[b'x'; 1300]);
            }
        }
    });
}

#[test]
fn bytes_in_reverse_order() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(capture, REQUEST);
        let begin = ends.server.seq;
        for index in (0..count).rev() {
            ends.server.seq = begin.wrapping_add(index);
            ends.answer(capture, &RESPONSE[..1]);
        }
    });
}

#[test]
fn many_requests_in_each_segment() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        for _ in 0..count / 64 {
            ends.say(capture, &REQUEST.repeat(32));
        }
        for _ in 0..count / 64 {
            ends.answer(capture, &RESPONSE.repeat(32));
        }
    });
}

#[test]
fn tunnels_in_tunnels() {
    is_linear(|capture, count| {
        let segment = ipv4(TCP, CLIENT, SERVER, 1, 0, &[0; 20]);
        let mut nested = [segment.clone(), segment];
        while nested[0].len() < 1_400 {
            let gre = [&[0, 0, 8, 0], nested[0].as_slice()].concat();
            nested[0] = ipv4(GRE, CLIENT, SERVER, 1, 0, &gre);
        }
        while nested[1].len() < 1_400 {
            nested[1] = ipv4(IPIP, CLIENT, SERVER, 1, 0, &nested[1]);
        }
        for index in 0..count as usize / 2 {
            capture.packet(&nested[index % 2]);
        }
    });
}

#[test]
fn fragments_of_packets_without_a_beginning() {
    const MORE: u16 = 0x2000;
    is_linear(|capture, count| {
        for index in 0..count {
            // Many pieces of few packets, and few pieces of many.
            let (id, place) = match index % 2 {
                0 => (1, (index / 2) % 4_000 * 2),
                _ => (index, index % 3 * 160),
            };
            let content = [0; 8].repeat(1 + (index % 2) as usize * 100);
            let from = CLIENT + (index >> 16);
            let part = MORE | place as u16;
            capture.packet(&ipv4(TCP, from, SERVER, id as u16, part, &content));
        }
    });
}

#[test]
fn empty_records_of_tls() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(capture, b"\x16\x03\x01\0\x05\x01\0\0\x01\0");
        for _ in 0..count / 16 {
            ends.say(capture, &b"\x17\x03\x03\0\0".repeat(200));
            ends.answer(capture, &b"\x17\x03\x03\0\x01x".repeat(200));
        }
    });
}

#[test]
fn names_with_many_answers() {
    is_linear(|capture, count| {
        const ADDRESS: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x01\x02\x03\x04";
        for index in 0..count / 2 {
            let id = (index as u16).to_be_bytes();
            let name = format!("\x0an{index:09}\x03abc\0\0\x01\0\x01");
            let question = [&id, &b"\x01\0\0\x01\0\0\0\0\0\0"[..], name.as_bytes()].concat();
            let flags = &b"\x81\x80\0\x01\0\x40\0\0\0\0"[..];
            let answer = [&id, flags, name.as_bytes(), &ADDRESS.repeat(64)].concat();
            let ends = [(CLIENT, 1024 + (index % 50_000) as u16), (SERVER, 53)];
            capture.udp(ends[0], ends[1], &question);
            capture.udp(ends[1], ends[0], &answer);
        }
    });
}

#[test]
fn lists_in_lists_of_redis() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(capture, b"*1\r\n$4\r\nPING\r\n");
        for _ in 0..count / SMALL_PER_LARGE {
            ends.answer(capture, &b"*9\r\n".repeat(300));
        }
    });
}

/// Returns a block of a pcapng file (draft-ietf-opsawg-pcapng §3.1).
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let len = (12 + body.len() + padding) as u32;
    let [kind, len] = [kind, len].map(u32::to_le_bytes);
    [&kind, &len, body, &[0; 3][..padding], &len].concat()
}

#[test]
fn interfaces_and_comments_of_pcapng() {
    is_linear_file("pcapng", |count| {
        let mut file = block(
            0x0a0d_0d0a,
            b"\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        );
        let comment = [b"\x01\0\x40\0".as_slice(), &[b'c'; 64]].concat();
        for index in 0..count {
            file.extend(block(1, &[&b"\x01\0\0\0\0\0\x04\0"[..], &comment].concat()));
            let mut packet = Vec::from((index & 0xffff).to_le_bytes());
            packet.extend([0; 8]);
            packet.extend([0; 8]);
            packet.extend(comment.repeat(8));
            file.extend(block(6, &packet));
        }
        file
    });
}

#[test]
fn a_compressed_file_of_zeros() {
    is_linear_file("pcap.gz", |count| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(Capture::new().bytes()).unwrap();
        for _ in 0..count / SMALL_PER_LARGE {
            gzip.write_all(&[0; 1 << 14]).unwrap();
        }
        gzip.finish().unwrap()
    });
}
