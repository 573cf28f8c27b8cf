//! Views of single connections and of two captures, which packets feed directly.

use lagtrace_core::observed::segment::TcpFlags;
use lagtrace_core::views::stream_numbers::StreamNumbers;
use lagtrace_core::views::stream_view::{Bytes, Samples};
use lagtrace_core::views::two_point::Joining;

use crate::subject::{ACK, Concludes, Ends, Fed, START, SYN, Subject, Tcp, end};

const PIECE: u32 = 100;
const BYTES: [u8; PIECE as usize] = [b'x'; PIECE as usize];
const STEP: i64 = 10_000;

/// The bytes and the samples of one connection.
#[derive(Default)]
struct Viewed {
    bytes: Bytes,
    samples: Samples,
    number: u64,
}

impl Concludes for Viewed {
    fn conclude(self) {
        let (turns, _) = self.bytes.finish();
        let [one, other] = self.samples.finish();
        assert!(turns.len() + one.windows.len() + other.windows.len() > 0 || self.number < 2);
    }
}

impl Viewed {
    fn tcp(&mut self, tcp: &Tcp, payload: &[u8]) {
        self.number += 1;
        let segment = tcp.segment(START + self.number as i64 * STEP, self.number, payload);
        self.bytes.observe_segment(&segment, payload);
        self.samples.observe_segment(&segment);
    }
}

fn fed(feed: impl Fn(&mut Viewed, &Ends, u32) + 'static) -> Box<dyn Subject> {
    let (mut viewed, ends) = (Viewed::default(), Ends::usual());
    viewed.tcp(&ends.up(0, 0).flags(SYN), b"");
    viewed.tcp(&ends.down(0, 1).flags(SYN.with(ACK)), b"");
    Fed::by(viewed, move |viewed, key| feed(viewed, &ends, key))
}

pub(super) fn viewed_pieces(_: u32) -> Box<dyn Subject> {
    fed(|viewed, ends, key| viewed.tcp(&ends.up(1 + key * PIECE, 1), &BYTES))
}

pub(super) fn viewed_islands(_: u32) -> Box<dyn Subject> {
    fed(|viewed, ends, key| viewed.tcp(&ends.up(1 + key * PIECE * 2, 1), &BYTES))
}

pub(super) fn viewed_turns(_: u32) -> Box<dyn Subject> {
    fed(|viewed, ends, key| {
        viewed.tcp(&ends.up(1 + key * PIECE, 1 + key * PIECE), &BYTES);
        viewed.tcp(&ends.down(1 + key * PIECE, 1 + key * PIECE), &BYTES);
    })
}

/// Segments that nobody acknowledges, and then repeats of them.
pub(super) fn viewed_repeats(count: u32) -> Box<dyn Subject> {
    let (mut viewed, ends) = (Viewed::default(), Ends::usual());
    for key in 0..count {
        viewed.tcp(&ends.up(1 + key * PIECE, 1), &BYTES);
    }
    Fed::by(viewed, move |viewed, key| {
        viewed.tcp(&ends.up(1 + key * PIECE, 1), &BYTES);
    })
}

/// The numbers of connections.
struct Numbers(StreamNumbers, u64);

impl Concludes for Numbers {
    fn conclude(self) {
        assert!(self.0.count() <= self.1);
    }
}

pub(super) fn numbers(_: u32) -> Box<dyn Subject> {
    Fed::by(Numbers(StreamNumbers::new(1), 0), |numbers, key| {
        let port = 1_024 + (key & 0x7fff) as u16;
        let ends = Ends::new(end(1 + (key >> 15), port), end(9_000_000, 80));
        for _ in 0..2 {
            numbers.1 += 1;
            let syn = ends.up(key, 0).flags(TcpFlags::SYN);
            numbers
                .0
                .number_segment(&syn.segment(START, numbers.1, b""));
        }
    })
}

/// Two captures of the same packets, in the second of which they come in another order.
struct Two {
    joining: Joining,
    number: u64,
}

impl Concludes for Two {
    fn conclude(self) {
        if let Some(recognised) = self.joining.recognise() {
            let joined = recognised.conclude(["one", "two"], &[]);
            assert!(joined.packets <= self.number);
        }
    }
}

impl Two {
    fn see(&mut self, capture: usize, tcp: &Tcp, payload: &[u8]) {
        self.number += 1;
        let segment = tcp.segment(START + self.number as i64 * STEP, self.number, payload);
        self.joining.observe_segment(capture, &segment);
    }
}

fn joined(count: u32, segment: fn(u32) -> Tcp) -> Box<dyn Subject> {
    let (joining, ends) = (Joining::new(1), Ends::usual());
    let mut two = Two { joining, number: 0 };
    let answer = ends.down(0, 1).flags(SYN.with(ACK));
    for capture in [0, 1] {
        two.see(capture, &ends.up(0, 0).flags(SYN), b"");
        two.see(capture, &answer, b"");
    }
    for key in 0..count {
        two.see(0, &segment(key), &BYTES);
    }
    Fed::by(two, move |two, key| two.see(1, &segment(key), &BYTES))
}

pub(super) fn joined_pieces(count: u32) -> Box<dyn Subject> {
    joined(count, |key| Ends::usual().up(1 + key * PIECE, 1))
}

/// Packets of which many are equal.
pub(super) fn joined_copies(count: u32) -> Box<dyn Subject> {
    joined(count, |key| Ends::usual().up(1 + key / 128 * PIECE, 1))
}

/// Packets whose first bytes lie in many others.
pub(super) fn joined_overlaps(count: u32) -> Box<dyn Subject> {
    joined(count, |key| Ends::usual().up(1 + key, 1))
}
