//! Messages of one connection: HTTP/1.1 in a pipeline, and other protocols that are read.

use super::{REQUEST, RESPONSE};
use crate::subject::{ACK, Analysis, Ends, Fed, Subject};

fn opened() -> (Analysis, Ends) {
    let (mut analysis, ends) = (Analysis::new(), Ends::usual());
    analysis.open(&ends);
    (analysis, ends)
}

/// Requests in a pipeline.
pub(super) fn requests(_: u32) -> Box<dyn Subject> {
    asked(REQUEST)
}

/// Commands of Redis in a pipeline.
pub(super) fn commands(_: u32) -> Box<dyn Subject> {
    asked(b"*1\r\n$4\r\nPING\r\n")
}

fn asked(request: &'static [u8]) -> Box<dyn Subject> {
    let (mut analysis, ends) = opened();
    analysis.tcp(&ends.up(1, 1), request);
    Fed::by(analysis, move |analysis, key| {
        let begin = 1 + (1 + key) * request.len() as u32;
        analysis.tcp(&ends.up(begin, 1), request);
    })
}

/// Responses to requests in a pipeline.
pub(super) fn responses(count: u32) -> Box<dyn Subject> {
    let (mut analysis, ends) = opened();
    let len = REQUEST.len() as u32;
    for key in 0..count {
        analysis.tcp(&ends.up(1 + key * len, 1), REQUEST);
    }
    let asked = 1 + count * len;
    Fed::by(analysis, move |analysis, key| {
        let begin = 1 + key * RESPONSE.len() as u32;
        analysis.tcp(&ends.down(begin, asked), RESPONSE);
        let ack = begin + RESPONSE.len() as u32;
        analysis.tcp(&ends.up(asked, ack).flags(ACK), b"");
    })
}

/// Pieces of responses to few requests, in which many segments release no other.
pub(super) fn long_responses(count: u32) -> Box<dyn Subject> {
    const LEN: u32 = 4_000;
    let (mut analysis, ends) = opened();
    let len = REQUEST.len() as u32;
    for key in 0..count {
        analysis.tcp(&ends.up(1 + key * len, 1), REQUEST);
    }
    let asked = 1 + count * len;
    let response = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3961\r\n\r\n",
        [b'x'; LEN as usize].as_slice(),
    ]
    .concat();
    Fed::by(analysis, move |analysis, key| {
        let begin = 1 + key * LEN;
        for (place, part) in (0..).zip(response[..LEN as usize].chunks(1_000)) {
            analysis.tcp(&ends.down(begin + place * 1_000, asked), part);
        }
    })
}

/// Exchanges with other targets and statuses.
pub(super) fn targets(_: u32) -> Box<dyn Subject> {
    let (analysis, ends) = opened();
    let (mut from, mut told) = (1, 1);
    Fed::by(analysis, move |analysis, key| {
        let request = format!("GET /{key:08} HTTP/1.1\r\nHost: h{key:08}\r\n\r\n");
        let status = 200 + key % 400;
        let response =
            format!("HTTP/1.1 {status} OK\r\nContent-Length: 0\r\nLocation: /{key:08}\r\n\r\n");
        analysis.tcp(&ends.up(from, told), request.as_bytes());
        from += request.len() as u32;
        analysis.nanos += i64::from(key) * 1_000;
        analysis.tcp(&ends.down(told, from), response.as_bytes());
        told += response.len() as u32;
        analysis.tcp(&ends.up(from, told).flags(ACK), b"");
    })
}
