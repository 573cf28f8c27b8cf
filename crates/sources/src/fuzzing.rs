//! The parsers of bytes that others can choose, for the fuzz targets. Each function parses such
//! bytes and discards the result. This module exists only with the feature `fuzzing`.

#![allow(
    clippy::duplicate_mod,
    reason = "with eBPF, some parsers are compiled twice"
)]

use std::io::Cursor;

use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::Endpoint;

use crate::capture::FileCapture;
use crate::clock::Clock;
use crate::firewall::FilteredTraffic;
use crate::http::{Progress, ResponseReader};
use crate::netlink::message::{Attributes, Messages};
use crate::socket;
use crate::url::Url;

pub use crate::config::fuzzing::{apache, haproxy, launch, nginx};
pub use crate::http2::fuzzing::http2_answer;

// These parsers belong to modules that are compiled only with eBPF, which the fuzz targets do
// without, or are private to a module that does more than parse.
#[path = "kernel/calls/record.rs"]
mod call_record;
#[path = "firewall/rule.rs"]
#[allow(unreachable_pub, dead_code, reason = "the firewall uses more of it")]
mod rule;
#[path = "tls/validity.rs"]
mod validity;
#[path = "kernel/attached/record.rs"]
#[allow(dead_code, reason = "the source uses more of it")]
mod watch_record;

/// Number of bytes after which the answer of a server arrives in a further piece.
const PIECES: [usize; 4] = [usize::MAX, 1, 7, 100];

/// Reads requests to a keeper whose command line names nothing, and asks it for what it allows: that
/// concerns only what earlier requests have made, so nothing is opened.
pub fn keeper_request(bytes: &[u8]) {
    crate::keeper::ask_for_nothing(bytes);
}

/// Parses the records of both eBPF programs.
pub fn kernel_records(bytes: &[u8]) {
    let clock = Clock::new();
    if let Some(call) = call_record::read(bytes, &clock, Some(1)) {
        let _ = call.syntax_with_socket();
    }
    if let Some(watch_record::Told::Opening(opening)) = watch_record::read(bytes, 1, &clock) {
        let _ = opening.segments(u64::from(u32::MAX), PointId(0));
    }
}

/// Parses a datagram from netlink: sockets, routes, and rules of the packet filter.
pub fn netlink(datagram: &[u8]) {
    let traffic = FilteredTraffic {
        target: Endpoint::new([10, 0, 0, 2].into(), 80),
        is_forwarded: false,
        first_ephemeral_port: 32_768,
    };
    for message in Messages::new(datagram) {
        let _ = socket::record::parse(message.payload);
        let _ = socket::unix::parse(message.payload);
        let _ = rule::effect(message.payload, &traffic);
        for (_, value) in Attributes::new(message.payload) {
            let _ = rule::effect(value, &traffic);
        }
    }
    let _ = socket::record::parse(datagram);
    let _ = socket::unix::parse(datagram);
    let _ = rule::effect(datagram, &traffic);
}

/// Parses a server's answers to our own HTTP/1 requests. Their end must not depend on how they
/// are split.
pub fn http_answer(bytes: &[u8]) {
    let (first, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let whole = responses(bytes, usize::MAX, first & 1 > 0);
    let piece = PIECES[usize::from(first >> 1 & 3)];
    assert_eq!(
        whole,
        responses(bytes, piece, first & 1 > 0),
        "in pieces of {piece}"
    );
}

/// Returns the statuses of all responses, and true if the bytes are no HTTP.
fn responses(bytes: &[u8], piece: usize, is_head: bool) -> (Vec<u16>, bool) {
    let mut reader = ResponseReader::new(is_head);
    reader.keep_field("set-cookie");
    let mut found = Vec::new();
    for mut part in bytes.chunks(piece.min(bytes.len().max(1))) {
        while !part.is_empty() {
            match reader.feed(part) {
                Ok(Progress::More) => break,
                Ok(Progress::Complete { head, used }) => {
                    found.push(head.status);
                    part = part.get(used..).unwrap_or_default();
                }
                Err(_) => return (found, true),
            }
        }
        reader.take_values();
    }
    let is_bad = reader.close().is_err();
    (found, is_bad)
}

/// Parses a server's certificate.
pub fn certificate(der: &[u8]) {
    let _ = validity::certificate_end(der);
}

/// Parses a URL of the command line, and what is written of it.
pub fn url(text: &str) {
    if let Ok(url) = text.parse::<Url>() {
        let again = format!(
            "{}://{}{}",
            url.scheme().as_str(),
            url.authority(),
            url.path()
        );
        let read = again.parse::<Url>();
        assert_eq!(read.as_ref(), Ok(&url), "{again}");
    }
}

/// Reads a capture file, compressed or not, to the end.
pub fn capture(bytes: &[u8]) {
    /// Of a compressed file, this many packets are read.
    const MOST: usize = 100_000;
    let input = Cursor::new(bytes.to_vec());
    if let Ok(mut file) = FileCapture::from_reader("fuzzed".to_owned(), input, PointId(0)) {
        file.keep_comments();
        let mut read = 0;
        while read < MOST && file.next_packet().is_some() {
            read += 1;
        }
        let _ = file.summary();
    }
}
