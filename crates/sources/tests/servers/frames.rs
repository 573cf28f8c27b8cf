//! A small HTTP/2 server that treats all requests in the same way.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frame types and flags (RFC 9113 §6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PREFACE_LEN: usize = 24;

/// Returns the bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (body.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags], &id.to_be_bytes()[..], body].concat()
}

/// Returns SETTINGS with the largest windows and stream limits.
pub(crate) fn generous() -> Vec<u8> {
    let largest = (1_u32 << 31) - 1;
    let body = [&4_u16.to_be_bytes()[..], &largest.to_be_bytes()].concat();
    let more = (largest - 65_535).to_be_bytes();
    [
        frame(SETTINGS, 0, 0, &body),
        frame(WINDOW_UPDATE, 0, 0, &more),
    ]
    .concat()
}

/// Returns a complete response without a body.
pub(crate) fn ok(id: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, id, b"\x88")
}

/// Sends `greeting`, and answers each frame (type, flags, stream) with the bytes from `answer`.
/// `None` ends the connection. The length of DATA is added to `bodies`.
pub(crate) fn serve(
    mut stream: TcpStream,
    greeting: &[u8],
    bodies: &AtomicU64,
    mut answer: impl FnMut(u8, u8, u32) -> Option<Vec<u8>>,
) {
    stream.set_nodelay(true).expect("an option");
    let mut preface = [0; PREFACE_LEN];
    if stream.read_exact(&mut preface).is_err() || stream.write_all(greeting).is_err() {
        return;
    }
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        if kind == DATA {
            bodies.fetch_add(body.len() as u64, Ordering::SeqCst);
        }
        match answer(kind, flags, u32::from_be_bytes(id)) {
            Some(bytes) if stream.write_all(&bytes).is_ok() => {}
            _ => return,
        }
    }
}
