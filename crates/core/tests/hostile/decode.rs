//! Decodes any bytes as a capture file. The decoder must neither panic nor loop, and its result
//! must not depend on how the file is split.

use lagtrace_core::decode::{Container, Decoder, Found, LinkType, Packet, Record, Sieve};
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::time::Timestamp;

/// The length of the frames into which the bytes are split.
const FRAME: usize = 300;
/// The link types below this number are tested.
const LINKS: u16 = 304;

/// Reads the bytes at once and in pieces.
pub(crate) fn check(bytes: &[u8]) {
    let whole = read(bytes, usize::MAX);
    let piece = 1 + bytes.first().map_or(0, |byte| usize::from(*byte));
    assert_eq!(whole, read(bytes, piece), "in pieces of {piece}");
    read_as_frames(bytes);
}

/// Reads the bytes as frames, each with the next link type that the decoder supports.
fn read_as_frames(bytes: &[u8]) {
    let links = (0..LINKS).map(LinkType).filter(|link| link.is_read());
    let mut decoder = Decoder::new();
    for (link, frame) in links.cycle().zip(bytes.chunks(FRAME)) {
        let record = Record {
            number: 1,
            at: Some(Timestamp::from_parts(1, 0)),
            link,
            interface: 0,
            original_len: frame.len() as u32,
            bytes: frame,
        };
        if let Packet::Tcp(segment, payload) = decoder.packet(&record, PointId(0)) {
            assert!(payload.len() as u64 <= u64::from(segment.payload_len));
            assert!(!Sieve::of([segment.flow]).excludes(&record), "{record:?}");
        }
    }
}

/// Returns the number of records, the number of segments, and a checksum over fields of the
/// segments.
fn read(bytes: &[u8], piece: usize) -> (u64, u64, u64) {
    let (mut container, mut decoder) = (Container::new(), Decoder::new());
    let (mut records, mut segments, mut sum) = (0, 0, 0_u64);
    let (mut begin, mut end) = (0, piece.min(bytes.len()));
    loop {
        let step = container.next(&bytes[begin..end]);
        begin += step.consumed;
        match step.found {
            Found::Record(record) => {
                records += 1;
                if let Packet::Tcp(segment, payload) = decoder.packet(&record, PointId(0)) {
                    segments += 1;
                    assert!(payload.len() as u64 <= u64::from(segment.payload_len));
                    assert!(!Sieve::of([segment.flow]).excludes(&record));
                    sum = sum.wrapping_mul(31).wrapping_add(u64::from(segment.seq));
                    sum = sum.wrapping_add(payload.len() as u64);
                }
            }
            Found::NeedMore(_) if end == bytes.len() => break,
            Found::NeedMore(len) => {
                assert!(len <= Container::LONGEST);
                end = end.saturating_add(piece).min(bytes.len());
            }
            Found::Damaged(_) => break,
        }
    }
    container.finish(&bytes[begin..]);
    (records, segments, sum)
}
