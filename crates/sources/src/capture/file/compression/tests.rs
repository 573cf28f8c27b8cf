use std::io::Write as _;

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression as Level, GzBuilder};
use lz4_flex::frame::{FrameEncoder, FrameInfo};
use proptest::prelude::*;

use super::*;

/// Returns compressible data that spans several zstd blocks.
fn plain() -> Vec<u8> {
    words(30_000)
}

fn words(count: u32) -> Vec<u8> {
    let word = |n: u32| format!("{} {}; ", n.wrapping_mul(2_654_435_761) >> 12, n % 7);
    let text: String = (0..count).map(word).collect();
    text.into_bytes()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
    encoder.write_all(data).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn zstd(data: &[u8]) -> Vec<u8> {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    encoder.include_checksum(true).expect("it can");
    encoder.write_all(data).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn lz4(data: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new().content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(data).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

type Compress = fn(&[u8]) -> Vec<u8>;

const FORMATS: [(&str, Compress); 3] = [("gzip", gzip), ("zstd", zstd), ("lz4", lz4)];

/// Returns the decompressed bytes and the final error message.
fn read(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
    read_from(io::Cursor::new(bytes.to_vec()))
}

fn read_from(input: impl Read + Send + 'static) -> (Vec<u8>, Option<String>) {
    let mut out = Vec::new();
    let mut input = decompressed(Box::new(input)).expect("memory can be read");
    let mut buffer = vec![0; 300_000];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return (out, None),
            Ok(len) => out.extend_from_slice(&buffer[..len]),
            Err(error) => return (out, Some(error.to_string())),
        }
    }
}

/// A reader that returns one byte at a time, with an interruption before each byte.
struct Drop(io::Cursor<Vec<u8>>, bool);

impl Read for Drop {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        match to.first_mut() {
            Some(_) if self.1 => Err(io::ErrorKind::Interrupted.into()),
            Some(byte) => self.0.read(std::slice::from_mut(byte)),
            None => Ok(0),
        }
    }
}

#[test]
fn what_is_not_compressed_stays_as_it_is() {
    for bytes in [&b""[..], b"a", b"\x1f", b"\xd4\xc3\xb2\xa1 and more"] {
        assert_eq!(read(bytes), (bytes.to_vec(), None));
    }
}

#[test]
fn each_format_is_undone_however_often_it_follows_itself() {
    let plain = plain();
    for (name, compress) in FORMATS {
        let packed = compress(&plain);
        assert!(packed.len() < plain.len(), "{name}");
        assert_eq!(read(&packed), (plain.clone(), None), "{name}");
        let twice = [packed.clone(), compress(b""), packed].concat();
        assert_eq!(
            read(&twice),
            ([&plain[..], &plain].concat(), None),
            "{name}"
        );
    }
}

#[test]
fn interrupted_and_short_reads_change_nothing() {
    let plain = words(500);
    for (name, compress) in FORMATS {
        let packed = [compress(&plain), compress(&plain)].concat();
        let mut input =
            decompressed(Box::new(Drop(io::Cursor::new(packed), false))).expect("it reads");
        let mut out = Vec::new();
        input.read_to_end(&mut out).expect("it reads to its end");
        assert_eq!(out, [&plain[..], &plain].concat(), "{name}");
    }
}

#[test]
fn a_cut_stream_gives_all_blocks_before_the_cut_and_says_so() {
    let plain = plain();
    // Block size of each format in bytes. At most one block is lost.
    let blocks = [
        ("gzip", 400),
        ("zstd", 128 * 1024),
        ("lz4", 4 * 1024 * 1024),
    ];
    for ((name, compress), (_, block)) in FORMATS.into_iter().zip(blocks) {
        let packed = compress(&plain);
        for len in (5..packed.len())
            .step_by(packed.len() / 12)
            .chain([packed.len() - 1])
        {
            let (out, said) = read(&packed[..len]);
            assert!(plain.starts_with(&out), "{name} cut at {len}");
            let expected = plain.len() * len / packed.len();
            assert!(
                out.len() + block + expected / 4 >= expected,
                "{name} cut at {len}"
            );
            assert_eq!(said, Some(format!("its {name} stream ends early")), "{len}");
        }
    }
}

#[test]
fn what_stands_before_a_damage_is_read() {
    let plain = plain();
    for (name, compress) in FORMATS {
        let mut packed = compress(&plain);
        let middle = packed.len() / 2;
        packed[middle..middle + 8].fill(0xff);
        let (out, said) = read(&packed);
        let said = said.expect("it is damaged");
        assert!(
            said.starts_with(&format!("its {name} stream is damaged: ")),
            "{said}"
        );
        let same = out.iter().zip(&plain).take_while(|(a, b)| a == b).count();
        let lost = if name == "gzip" { 1000 } else { 256 * 1024 };
        assert!(
            same + lost > plain.len() / 3,
            "{name}: {same} of {}",
            plain.len()
        );
    }
}

#[test]
fn a_wrong_checksum_is_said_after_the_data() {
    let plain = plain();
    for (name, compress) in FORMATS {
        let mut packed = compress(&plain);
        let at = packed.len() - if name == "gzip" { 5 } else { 1 };
        packed[at] ^= 1;
        let (out, said) = read(&packed);
        assert_eq!(out, plain, "{name}");
        let said = said.expect("the checksum is wrong");
        assert!(
            said.starts_with(&format!("its {name} stream is damaged: ")),
            "{said}"
        );
    }
}

#[test]
fn gzip_headers_may_hold_names_and_files_may_be_padded() {
    let builder = GzBuilder::new()
        .filename("a.pcap")
        .comment("of today")
        .extra(vec![7; 300]);
    let mut encoder = builder.write(Vec::new(), Level::best());
    encoder.write_all(b"content").expect("memory takes all");
    let mut packed = encoder.finish().expect("memory takes all");
    packed.extend([0; 600]);
    assert_eq!(read(&packed), (b"content".to_vec(), None));
    packed.push(7);
    let said = Some("the data after its gzip stream is not another one".to_owned());
    assert_eq!(read(&packed), (b"content".to_vec(), said));
}

#[test]
fn frames_of_different_blocks_and_skippable_ones_are_read() {
    let plain = plain();
    let mut encoder = FrameEncoder::with_frame_info(
        FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB),
        Vec::new(),
    );
    encoder.write_all(&plain).expect("memory takes all");
    let small = encoder.finish().expect("memory takes all");
    let (out, said) = read(&[lz4(&plain), small].concat());
    assert_eq!((out.len(), said), (2 * plain.len(), None));
    // Parallel zstd begins each frame with such a skippable frame.
    let skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
    assert_eq!(
        read(&[skippable, &zstd(&plain)[..]].concat()),
        (plain, None)
    );
}

#[test]
fn a_bomb_unpacks_in_little_room() {
    let mut encoder = DeflateEncoder::new(Vec::new(), Level::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..64 {
        encoder.write_all(&zeros).expect("memory takes all");
    }
    let mut packed = b"\x1f\x8b\x08\0\0\0\0\0\0\0".to_vec();
    packed.extend(encoder.finish().expect("memory takes all"));
    let mut input = decompressed(Box::new(io::Cursor::new(packed))).expect("memory can be read");
    let mut buffer = [0; 4096];
    let mut total = 0_u64;
    while let Ok(len @ 1..) = input.read(&mut buffer) {
        total += len as u64;
    }
    assert_eq!(total, 64 << 20);
}

proptest! {
    #[test]
    fn no_input_is_too_much(
        which in 0..3_usize,
        at in 0.0..1.0,
        bytes in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut packed = FORMATS[which].1(&words(1_000));
        let at = (at * packed.len() as f64) as usize;
        let end = (at + bytes.len()).min(packed.len());
        packed[at..end].copy_from_slice(&bytes[..end - at]);
        let (out, _) = read(&packed);
        prop_assert!(out.len() < 100_000_000);
    }
}
