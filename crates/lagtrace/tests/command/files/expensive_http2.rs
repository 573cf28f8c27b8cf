//! HTTP/2 connections that make the other end work (RFC 9113 §10.5).

use super::cost::is_linear;
use super::ends::{CLIENT, Ends, SERVER, client, frame};
use super::frames::Capture;

/// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// Flags: the field section ends, and the stream too.
const WHOLE: u8 = 4;
const WHOLE_AND_LAST: u8 = 5;
/// A field section: GET, http and `/`, from the static table (RFC 7541 appendix A).
const GET: &[u8] = &[0x82, 0x86, 0x84];

/// The packets of a shape with many frames in each, of a number of small packets.
const SMALL_PER_LARGE: u32 = 64;

fn open(capture: &mut Capture, address: u32, port: u16) -> Ends {
    let mut ends = Ends::open(capture, address, port, SERVER);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    ends.say(capture, preface);
    ends.answer(capture, b"\0\0\0\x04\0\0\0\0\0");
    ends
}

/// The client sends a segment of frames again and again.
#[track_caller]
fn is_linear_for(frames: &[u8]) {
    is_linear(|capture, count| {
        let mut ends = open(capture, CLIENT, 2000);
        ends.say(capture, &frame(HEADERS, WHOLE, 1, GET));
        for _ in 0..count / SMALL_PER_LARGE {
            ends.say(capture, frames);
        }
    });
}

/// Returns this many requests, from a stream on.
fn requests(count: u32, next: &mut u32, then: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.extend(frame(HEADERS, WHOLE_AND_LAST, *next, GET));
        bytes.extend(then(*next));
        *next += 2;
    }
    bytes
}

#[test]
fn settings() {
    is_linear_for(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]).repeat(90));
}

#[test]
fn pings() {
    is_linear_for(&frame(PING, 0, 0, b"lagtrace").repeat(80));
}

#[test]
fn priorities() {
    is_linear_for(&frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]).repeat(90));
}

#[test]
fn empty_data() {
    is_linear_for(&frame(DATA, 0, 1, b"").repeat(150));
}

#[test]
fn window_updates() {
    is_linear_for(&frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]).repeat(100));
}

#[test]
fn continuations_without_end() {
    is_linear(|capture, count| {
        let mut ends = open(capture, CLIENT, 2000);
        ends.say(capture, &frame(HEADERS, 0, 1, GET));
        for _ in 0..count / 8 {
            ends.say(capture, &frame(CONTINUATION, 0, 1, &[0x82; 1_300]));
        }
    });
}

/// A field of 4,000 bytes is put into the table, and then referred to by each byte.
#[test]
fn references_to_a_large_field() {
    is_linear(|capture, count| {
        let mut ends = open(capture, CLIENT, 2000);
        // A literal field with indexing: the name `a`, and a value of 4,000 bytes.
        let value = [b"\x40\x01a\x7f\xa1\x1e", [b'b'; 4_000].as_slice()].concat();
        ends.say(capture, &frame(HEADERS, WHOLE_AND_LAST, 1, &value));
        for index in 0..count / SMALL_PER_LARGE {
            let section = [GET, &[0xbe; 1_300]].concat();
            ends.say(
                capture,
                &frame(HEADERS, WHOLE_AND_LAST, 3 + 2 * index, &section),
            );
        }
    });
}

/// A path of 60,000 bytes that are no text is put into a table that the client has enlarged, and then
/// referred to by each byte.
#[test]
fn references_to_the_largest_path() {
    is_linear(|capture, count| {
        let mut ends = open(capture, CLIENT, 2000);
        // A table of 64 KiB, and a literal field with indexing: the name `:path`, and its length.
        let start = b"\x3f\xe1\xff\x03\x44\x7f\xe1\xd3\x03";
        let field = [start.as_slice(), &[0xff; 60_000]].concat();
        ends.say(capture, &frame(HEADERS, WHOLE_AND_LAST, 1, &field));
        for index in 0..count / SMALL_PER_LARGE {
            let section = [0xbe; 1_300];
            let stream = 3 + 2 * index;
            ends.say(capture, &frame(HEADERS, WHOLE_AND_LAST, stream, &section));
        }
    });
}

#[test]
fn streams_that_are_reset_at_once() {
    is_linear(|capture, count| {
        let mut ends = open(capture, CLIENT, 2000);
        let mut next = 1;
        for _ in 0..count / SMALL_PER_LARGE {
            let reset = |stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
            ends.say(capture, &requests(50, &mut next, reset));
        }
    });
}

#[test]
fn streams_on_many_connections() {
    is_linear(|capture, count| {
        for index in 0..count / SMALL_PER_LARGE {
            let (address, port) = client(index);
            let mut ends = open(capture, address, port);
            let mut next = 1;
            for _ in 0..3 {
                ends.say(capture, &requests(50, &mut next, |_| Vec::new()));
            }
        }
    });
}
