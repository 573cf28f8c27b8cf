//! Processor time that grows with the length of a capture and no faster, and memory that does not
//! grow with it: traffic of single kinds, written to be expensive.

use super::cost::{is_linear, plain_exchanges};
use super::ends::{ACK, CLIENT, Ends, PUSH, REQUEST, RESPONSE, SERVER, SYN, client, frame};

#[test]
fn connections_that_stay_open() {
    is_linear(|capture, count| {
        for index in 0..count / 4 {
            let (address, port) = client(index);
            let mut ends = Ends::open(capture, address, port, SERVER);
            ends.say(capture, REQUEST);
        }
    });
}

#[test]
fn whole_connections_to_one_server() {
    is_linear(|capture, count| {
        for index in 0..count / 8 {
            let (address, port) = client(index);
            let mut ends = Ends::open(capture, address, port, SERVER);
            ends.say(capture, REQUEST);
            ends.answer(capture, RESPONSE);
            ends.close(capture);
        }
    });
}

#[test]
fn a_server_of_its_own_for_each_connection() {
    is_linear(|capture, count| {
        for index in 0..count / 8 {
            let mut ends = Ends::open(capture, CLIENT, 2000, 0x0c00_0000 + index);
            ends.say(capture, REQUEST);
            ends.answer(capture, RESPONSE);
            ends.close(capture);
        }
    });
}

#[test]
fn exchanges_of_one_connection() {
    is_linear(plain_exchanges);
}

#[test]
fn requests_in_a_pipeline() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        for _ in 0..count / 2 {
            ends.say(capture, REQUEST);
        }
        for _ in 0..count / 2 {
            ends.answer(capture, RESPONSE);
        }
    });
}

#[test]
fn holes_that_are_filled_from_the_end() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(capture, REQUEST);
        let begin = ends.server.seq;
        let mut send = |index: u32| {
            ends.server.seq = begin.wrapping_add(index * 100);
            ends.answer(capture, &[b'x'; 100]);
        };
        (0..count / 2).for_each(|index| send(index * 2 + 1));
        (0..count / 2).rev().for_each(|index| send(index * 2));
    });
}

#[test]
fn data_that_nobody_acknowledges() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(capture, REQUEST);
        ends.answer(capture, b"HTTP/1.1 200 OK\r\n\r\n");
        for _ in 0..count {
            ends.answer(capture, b"x");
        }
    });
}

#[test]
fn the_same_data_again_and_again() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        for _ in 0..count {
            let before = ends.client.seq;
            ends.say(capture, REQUEST);
            ends.client.seq = before;
        }
    });
}

#[test]
fn selective_acknowledgements_of_anything() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(capture, REQUEST);
        for index in 0..count / 2 {
            ends.answer(capture, &[b'x'; 100]);
            let edge = |n: u32| {
                let begin = index.wrapping_mul(7919).wrapping_add(n * 31) % (index + 1) * 100;
                (
                    ends.server.seq.wrapping_sub(begin),
                    ends.server.seq.wrapping_sub(begin) + 50,
                )
            };
            let blocks = [edge(1), edge(2), edge(3)];
            let ack = ends.client.flags(ACK).ack(1).selective(&blocks);
            capture.tcp(&ack);
        }
    });
}

#[test]
fn handshakes_with_the_same_ports() {
    is_linear(|capture, count| {
        let mut ends = Ends::new(CLIENT, 2000, SERVER);
        for index in 0..count {
            ends.client.seq = index.wrapping_mul(77_777);
            capture.tcp(&ends.client.flags(SYN));
        }
    });
}

#[test]
fn fragments_that_never_meet() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        for index in 0..count {
            ends.client.seq = ends.client.seq.wrapping_add(64);
            let segment = ends.client.flags(PUSH).ack(1).with(&[b'x'; 64]);
            capture.fragment(&segment, index as u16, (index % 3) as u16 * 8);
        }
    });
}

#[test]
fn streams_of_one_connection() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(
            capture,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        );
        ends.answer(capture, b"\0\0\0\x04\0\0\0\0\0");
        for index in 0..count {
            // The header fields GET, http and `/`, from the static table (RFC 7541 appendix A).
            let mut frame = vec![0, 0, 3, 1, 5];
            frame.extend((index * 2 + 1).to_be_bytes());
            frame.extend([0x82, 0x86, 0x84]);
            ends.say(capture, &frame);
        }
    });
}

/// The maximum number of streams that are followed at the same time. All stay open while
/// many packets arrive twice, and then end one after the other.
#[test]
fn streams_that_wait_for_each_other() {
    const TOGETHER: u32 = 400;
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(
            capture,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        );
        ends.answer(capture, b"\0\0\0\x04\0\0\0\0\0");
        for round in 0..count / (TOGETHER * 5) {
            let stream = |index: u32| (round * TOGETHER + index) * 2 + 1;
            for index in 0..TOGETHER {
                ends.say(capture, &frame(1, 5, stream(index), &[0x82, 0x86, 0x84]));
            }
            for _ in 0..TOGETHER {
                let before = ends.server.seq;
                ends.answer(capture, &frame(0, 0, stream(0), b"x"));
                let after = ends.server.seq;
                capture.pause(300_000);
                ends.server.seq = before;
                ends.answer(capture, &frame(0, 0, stream(0), b"x"));
                ends.server.seq = after;
            }
            for index in 0..TOGETHER {
                ends.answer(capture, &frame(1, 5, stream(index), &[0x88]));
                ends.acknowledge(capture);
            }
        }
    });
}

#[test]
fn a_head_byte_by_byte() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(capture, b"GET / HTTP/1.1\r\n");
        for index in 0..count {
            ends.say(capture, if index % 8 < 6 { b"a" } else { b":" });
        }
    });
}

#[test]
fn heads_byte_by_byte_in_both_directions() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        for _ in 0..count / (REQUEST.len() + RESPONSE.len()) as u32 {
            REQUEST.iter().for_each(|byte| ends.say(capture, &[*byte]));
            RESPONSE
                .iter()
                .for_each(|byte| ends.answer(capture, &[*byte]));
        }
    });
}

#[test]
fn bytes_of_no_protocol_by_turns() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        for _ in 0..count / 2 {
            ends.say(capture, b"\x01");
            ends.answer(capture, b"\x02");
        }
    });
}

#[test]
fn windows_that_open_and_close() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        ends.say(capture, REQUEST);
        ends.answer(capture, b"HTTP/1.1 200 OK\r\n\r\n");
        for index in 0..count / 2 {
            ends.answer(capture, &[b'x'; 10]);
            let window = if index % 2 == 0 { 0 } else { 10 };
            let ack = ends.client.flags(ACK).ack(ends.server.seq).window(window);
            capture.tcp(&ack);
        }
    });
}

#[test]
fn names_that_are_asked_for_in_vain() {
    is_linear(|capture, count| {
        for index in 0..count {
            let mut query = Vec::from((index as u16).to_be_bytes());
            query.extend(b"\x01\0\0\x01\0\0\0\0\0\0\x08");
            query.extend(format!("{index:08x}").bytes());
            query.extend(b"\x07example\0\0\x01\0\x01");
            let port = 1024 + (index % 50_000) as u16;
            capture.udp((CLIENT, port), (SERVER, 53), &query);
        }
    });
}

#[test]
fn neighbours_that_are_searched_in_vain() {
    is_linear(|capture, count| {
        for index in 0..count {
            capture.neighbour_wanted(CLIENT, 0x0a10_0000 + index);
        }
    });
}

#[test]
fn errors_about_connections() {
    is_linear(|capture, count| {
        let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
        for _ in 0..count / 2 {
            ends.say(capture, REQUEST);
            let last = ends.client.flags(PUSH).ack(1);
            capture.unreachable(0x0a00_0009, &last);
        }
    });
}

#[test]
fn datagrams_of_many_flows() {
    is_linear(|capture, count| {
        for index in 0..count {
            let (address, port) = client(index);
            let mut initial = vec![0xc3, 0, 0, 0, 1, 8];
            initial.extend(u64::from(index).to_be_bytes());
            initial.extend([0, 0, 0x40, 0x20]);
            initial.extend([0; 32]);
            capture.udp((address, port), (SERVER, 443), &initial);
        }
    });
}
