//! The sequence space of a connection, and what else its segments say.

use lagtrace_core::observed::segment::{TcpFlags, TcpOptions};

use super::{HEAD, REQUEST};
use crate::subject::{ACK, Analysis, Ends, Fed, START, SYN, Subject, Tcp};

/// The bytes of each key.
const PIECE: u32 = 100;
const BYTES: [u8; PIECE as usize] = [b'x'; PIECE as usize];
/// The next sequence number of a client after its request, and of a server after its head.
const ASKED: u32 = 1 + REQUEST.len() as u32;
const BEGUN: u32 = 1 + HEAD.len() as u32;

fn begun() -> (Analysis, Ends) {
    let (mut analysis, ends) = (Analysis::new(), Ends::usual());
    analysis.open(&ends);
    analysis.tcp(&ends.up(1, 1), REQUEST);
    analysis.tcp(&ends.down(1, ASKED), HEAD);
    (analysis, ends)
}

/// Returns a subject that is fed a piece of the response for each key, and what `then` adds.
fn fed(apart: u32, mut then: impl FnMut(&mut Analysis, &Ends, u32) + 'static) -> Box<dyn Subject> {
    let (analysis, ends) = begun();
    Fed::by(analysis, move |analysis, key| {
        let begin = BEGUN + key * apart;
        analysis.tcp(&ends.down(begin, ASKED), &BYTES);
        then(analysis, &ends, begin);
    })
}

fn selective(blocks: &[(u32, u32)]) -> TcpOptions {
    let mut options = TcpOptions {
        sack_permitted: true,
        sack_count: blocks.len() as u8,
        ..TcpOptions::default()
    };
    options.sack[..blocks.len()].copy_from_slice(blocks);
    options
}

/// The server's segments, apart from each other.
pub(super) fn islands(_: u32) -> Box<dyn Subject> {
    fed(PIECE * 2, |_, _, _| ())
}

/// The server's segments, each next to another.
pub(super) fn pieces(_: u32) -> Box<dyn Subject> {
    fed(PIECE, |_, _, _| ())
}

/// The server's segments, each of which is acknowledged with all before it.
pub(super) fn acknowledged_pieces(_: u32) -> Box<dyn Subject> {
    fed(PIECE, |analysis, ends, begin| {
        analysis.tcp(&ends.up(ASKED, begin + PIECE).flags(ACK), b"");
    })
}

/// The server's segments, each of which is acknowledged only selectively.
pub(super) fn reported_pieces(_: u32) -> Box<dyn Subject> {
    fed(PIECE * 2, |analysis, ends, begin| {
        let blocks = [0, 2, 4].map(|before: u32| {
            let begin = begin.saturating_sub(before * PIECE);
            (begin, begin + PIECE)
        });
        let ack = ends.up(ASKED, BEGUN).flags(ACK);
        let options = selective(&blocks);
        analysis.tcp(&Tcp { options, ..ack }, b"");
    })
}

/// The server's segments, as above, with a pause after each.
pub(super) fn slow_pieces(_: u32) -> Box<dyn Subject> {
    fed(PIECE, |analysis, ends, begin| {
        analysis.nanos += 300_000_000;
        let ack = ends.up(ASKED, BEGUN).flags(ACK);
        let options = selective(&[(begin, begin + PIECE)]);
        analysis.tcp(&Tcp { options, ..ack }, b"");
    })
}

/// Pieces of a request's body.
pub(super) fn request_pieces(_: u32) -> Box<dyn Subject> {
    let (mut analysis, ends) = (Analysis::new(), Ends::usual());
    let head = b"POST / HTTP/1.1\r\nContent-Length: 900000000\r\n\r\n";
    analysis.open(&ends);
    analysis.tcp(&ends.up(1, 1), head);
    Fed::by(analysis, move |analysis, key| {
        let begin = 1 + head.len() as u32 + key * PIECE;
        analysis.tcp(&ends.up(begin, 1), &BYTES);
    })
}

/// Bytes of no known protocol from both ends.
pub(super) fn both_ways(_: u32) -> Box<dyn Subject> {
    let (mut analysis, ends) = (Analysis::new(), Ends::usual());
    analysis.open(&ends);
    Fed::by(analysis, move |analysis, key| {
        let begin = 1 + key * PIECE;
        analysis.tcp(&ends.up(begin, begin), &BYTES);
        analysis.tcp(&ends.down(begin, begin + PIECE), &BYTES);
    })
}

/// Bytes of no known protocol from the client alone.
pub(super) fn one_way(_: u32) -> Box<dyn Subject> {
    let (mut analysis, ends) = (Analysis::new(), Ends::usual());
    analysis.open(&ends);
    Fed::by(analysis, move |analysis, key| {
        analysis.tcp(&ends.up(1 + key * PIECE, 1), &BYTES);
    })
}

/// Records of TLS in any order from both ends.
pub(super) fn records(_: u32) -> Box<dyn Subject> {
    const RECORD: &[u8] = b"\x17\x03\x03\0\x0bhello there";
    let (mut analysis, ends) = (Analysis::new(), Ends::usual());
    let hello = b"\x16\x03\x01\0\x05\x01\0\0\x01\0";
    analysis.open(&ends);
    analysis.tcp(&ends.up(1, 1), hello);
    Fed::by(analysis, move |analysis, key| {
        let begin = 1 + key * RECORD.len() as u32;
        analysis.tcp(&ends.up(begin + hello.len() as u32, begin), RECORD);
        analysis.tcp(&ends.down(begin, begin), RECORD);
    })
}

/// Returns a subject whose response was captured without its bytes before the keys come.
fn sent(count: u32, feed: impl FnMut(&mut Analysis, &Ends, u32) + 'static) -> Box<dyn Subject> {
    let (mut analysis, ends) = begun();
    for part in 0..count.div_ceil(10) {
        let begin = BEGUN + part * PIECE * 10;
        let unseen = PIECE * 10;
        let segment = ends.down(begin, ASKED);
        analysis.tcp(&Tcp { unseen, ..segment }, b"");
    }
    let mut feed = feed;
    Fed::by(analysis, move |analysis, key| feed(analysis, &ends, key))
}

/// Acknowledgements of what was sent.
pub(super) fn acknowledgements(count: u32) -> Box<dyn Subject> {
    sent(count, |analysis, ends, key| {
        analysis.tcp(&ends.up(ASKED, BEGUN + key * PIECE).flags(ACK), b"");
    })
}

/// Windows that differ.
pub(super) fn windows(count: u32) -> Box<dyn Subject> {
    sent(count, |analysis, ends, key| {
        let window = (key % 60_000) as u16;
        let ack = ends.up(ASKED, BEGUN + key).flags(ACK);
        analysis.tcp(&Tcp { window, ..ack }, b"");
    })
}

/// Segments that repeat data sent before.
pub(super) fn repeats(count: u32) -> Box<dyn Subject> {
    sent(count, |analysis, ends, key| {
        analysis.tcp(&ends.down(BEGUN + key * PIECE, ASKED), &BYTES);
    })
}

/// Segments that repeat data sent before, with acknowledgements that report the repeats (D-SACK).
pub(super) fn needless_repeats(count: u32) -> Box<dyn Subject> {
    sent(count, |analysis, ends, key| {
        let begin = BEGUN + key * PIECE;
        analysis.tcp(&ends.down(begin, ASKED), &BYTES);
        let ack = ends.up(ASKED, BEGUN + PIECE).flags(ACK);
        let options = selective(&[(begin, begin + PIECE)]);
        analysis.tcp(&Tcp { options, ..ack }, b"");
    })
}

/// Selective acknowledgements of what was sent.
pub(super) fn reports(count: u32) -> Box<dyn Subject> {
    sent(count, |analysis, ends, key| {
        let begin = BEGUN + key * PIECE;
        let ack = ends.up(ASKED, BEGUN).flags(ACK);
        let options = selective(&[(begin, begin + PIECE / 2)]);
        analysis.tcp(&Tcp { options, ..ack }, b"");
    })
}

/// Bare acknowledgements whose sequence numbers tell of bytes that were not seen.
pub(super) fn revealed(_: u32) -> Box<dyn Subject> {
    let (analysis, ends) = begun();
    Fed::by(analysis, move |analysis, key| {
        let bare = ends.down(BEGUN + key * PIECE, ASKED);
        analysis.tcp(&bare.flags(ACK), b"");
    })
}

/// Bytes that the capture missed: only their acknowledgement is seen.
pub(super) fn missed(_: u32) -> Box<dyn Subject> {
    let (analysis, ends) = begun();
    Fed::by(analysis, move |analysis, key| {
        let begin = BEGUN + key * PIECE * 2;
        analysis.tcp(&ends.down(begin, ASKED), &BYTES);
        analysis.tcp(&ends.up(ASKED, begin + PIECE * 2).flags(ACK), b"");
    })
}

/// FINs, each at another place.
pub(super) fn fins(_: u32) -> Box<dyn Subject> {
    let (analysis, ends) = begun();
    Fed::by(analysis, move |analysis, key| {
        let fin = ends.down(BEGUN + key * PIECE, ASKED);
        analysis.tcp(&fin.flags(ACK.with(TcpFlags::FIN)), b"");
    })
}

/// SYNs of one flow, each with another number.
pub(super) fn syns(_: u32) -> Box<dyn Subject> {
    let ends = Ends::usual();
    Fed::by(Analysis::new(), move |analysis, key| {
        analysis.tcp(&ends.up(key * 77_777, 0).flags(SYN), b"");
    })
}

/// A SYN that is sent again and again, at times in any order.
pub(super) fn syn_repeats(_: u32) -> Box<dyn Subject> {
    let ends = Ends::usual();
    Fed::by(Analysis::new(), move |analysis, key| {
        analysis.nanos = START + i64::from(key) * 1_000_000_000;
        analysis.tcp(&ends.up(0, 0).flags(SYN), b"");
    })
}

/// Resets, each at another place.
pub(super) fn resets(_: u32) -> Box<dyn Subject> {
    let (analysis, ends) = begun();
    Fed::by(analysis, move |analysis, key| {
        let reset = ends.down(BEGUN + key * PIECE, ASKED);
        analysis.tcp(&reset.flags(ACK.with(TcpFlags::RST)), b"");
    })
}

/// Returns a subject that is fed an exchange for each key, on one connection: `set` changes the
/// segments.
fn exchanges(set: impl Fn(Tcp, u32) -> Tcp + 'static, pace: i64) -> Box<dyn Subject> {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (mut analysis, ends) = (Analysis::new(), Ends::usual());
    analysis.open(&ends);
    let (mut asked, mut told) = (1, 1);
    Fed::by(analysis, move |analysis, key| {
        if pace != 0 {
            analysis.nanos = START + i64::from(key) * pace;
        }
        analysis.tcp(&set(ends.up(asked, told), key), REQUEST);
        asked += REQUEST.len() as u32;
        analysis.tcp(&set(ends.down(told, asked), key), RESPONSE);
        told += RESPONSE.len() as u32;
        analysis.tcp(&set(ends.up(asked, told).flags(ACK), key), b"");
    })
}

/// Times of packets.
pub(super) fn times(_: u32) -> Box<dyn Subject> {
    exchanges(|tcp, _| tcp, 1_000_000)
}

/// Times of packets that are seconds apart.
pub(super) fn days(_: u32) -> Box<dyn Subject> {
    exchanges(|tcp, _| tcp, 61_000_000_000)
}

/// TCP timestamps.
pub(super) fn clocks(_: u32) -> Box<dyn Subject> {
    let set = |tcp: Tcp, key| {
        let options = TcpOptions {
            timestamps: Some((key, key)),
            ..tcp.options
        };
        Tcp { options, ..tcp }
    };
    exchanges(set, 0)
}

/// IP identifications.
pub(super) fn identifications(_: u32) -> Box<dyn Subject> {
    exchanges(
        |tcp, key| Tcp {
            id: Some(key as u16),
            ..tcp
        },
        0,
    )
}

/// Observation points.
pub(super) fn points(_: u32) -> Box<dyn Subject> {
    exchanges(
        |tcp, key| Tcp {
            point: key as u16,
            ..tcp
        },
        0,
    )
}
