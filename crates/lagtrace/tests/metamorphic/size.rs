//! Changes of segment sizes, as segmentation offload would split or join segments.

use std::collections::HashMap;

use crate::capture::{Capture, Frame, Network};
use crate::packet::{Packet, Payload, Tcp, Way};

/// The payload of a full segment if no SYN states an MSS: that of Ethernet, with TCP timestamps.
const USUAL: usize = 1448;
/// The time between the pieces of one segment, in nanoseconds, if the next packet comes later.
const BETWEEN: i64 = 1_000;
/// Maximum time between segments that are joined, in nanoseconds.
const CLOSE: i64 = 30_000;
/// Maximum number of payload bytes of a joined segment.
const MOST: usize = 64_000;

/// Returns the capture with segments longer than the connection's MSS (`TCPOPT_MAXSEG`) split as a
/// device would; `None` if there are no such segments.
pub(crate) fn cut(capture: &Capture) -> Option<Capture> {
    let largest = largest_segments(capture);
    let mut frames = Vec::new();
    let mut is_changed = false;
    for (index, frame) in capture.frames.iter().enumerate() {
        let next = capture
            .frames
            .get(index + 1)
            .map_or(i64::MAX, |next| next.at);
        let largest = frame.packet().and_then(|packet| largest.get(&packet.way()));
        let before = frames.len();
        frames.extend(pieces(frame, largest.copied().unwrap_or(USUAL), next));
        is_changed |= frames.len() > before + 1;
    }
    is_changed.then_some(Capture {
        link: capture.link,
        frames,
    })
}

fn largest_segments(capture: &Capture) -> HashMap<Way, usize> {
    let mut largest: HashMap<Way, usize> = HashMap::new();
    for packet in capture.packets() {
        let Some(tcp) = packet.tcp().filter(|tcp| tcp.has(Tcp::SYN)) else {
            continue;
        };
        let Some(offered) = tcp.largest_segment() else {
            continue;
        };
        let stamped = if tcp.timestamps().is_some() { 12 } else { 0 };
        for way in [packet.way(), packet.way().back()] {
            let known = largest.entry(way).or_insert(usize::MAX);
            *known = (*known).min(usize::from(offered).saturating_sub(stamped).max(1));
        }
    }
    largest
}

fn pieces(frame: &Frame, largest: usize, next: i64) -> Vec<Frame> {
    let tcp = frame.packet().and_then(Packet::tcp);
    let Some(whole) = tcp.filter(|tcp| tcp.payload.len > largest) else {
        return vec![frame.clone()];
    };
    let count = whole.payload.len.div_ceil(largest);
    let room = next.saturating_sub(frame.at).max(0) / (count as i64 + 1);
    let piece = |number: usize| {
        let begin = number * largest;
        let end = (begin + largest).min(whole.payload.len);
        let mut piece = frame.clone();
        piece.at += room.min(BETWEEN) * number as i64;
        let Network::Packet(packet) = &mut piece.network else {
            return piece;
        };
        packet.id = match packet.id {
            0 => 0,
            id => id.wrapping_add(number as u16),
        };
        if let Some(tcp) = packet.tcp_mut() {
            tcp.seq = tcp.seq.wrapping_add(begin as u32);
            let captured = &whole.payload.bytes;
            let bytes = &captured[begin.min(captured.len())..end.min(captured.len())];
            tcp.payload = Payload {
                bytes: bytes.to_vec(),
                len: end - begin,
            };
            if number > 0 {
                tcp.flags &= !Tcp::CWR;
            }
            if number + 1 < count {
                tcp.flags &= !(Tcp::PSH | Tcp::FIN);
            }
        }
        piece
    };
    (0..count).map(piece).collect()
}

/// Returns the capture with segments that follow each other closely joined as in the kernel
/// (`tcp_gro_receive()` in `net/ipv4/tcp_offload.c`); `None` if there are no such segments.
pub(crate) fn joined(capture: &Capture) -> Option<Capture> {
    let mut frames: Vec<Option<Frame>> = Vec::new();
    let mut held: HashMap<Way, Held> = HashMap::new();
    let mut is_changed = false;
    for frame in &capture.frames {
        let mut frame = frame.clone();
        let at = frame.at;
        let Network::Packet(packet) = &mut frame.network else {
            frames.push(Some(frame));
            continue;
        };
        let way = packet.way();
        let before = held.remove(&way);
        held.remove(&way.back());
        let mut size = packet.tcp().map_or(0, |tcp| tcp.payload.len);
        if let Some(before) = before {
            let first = frames.get(before.index).and_then(Option::as_ref);
            let first = first.and_then(Frame::packet);
            let whole = first.and_then(|first| before.joined(first, &*packet, at));
            if let Some(whole) = whole {
                frames[before.index] = None;
                (*packet, size) = (whole, before.size);
                is_changed = true;
            }
        }
        if packet.tcp().is_some_and(may_go_on) {
            held.insert(
                way,
                Held {
                    index: frames.len(),
                    size,
                    at,
                },
            );
        }
        frames.push(Some(frame));
    }
    let frames = frames.into_iter().flatten().collect();
    is_changed.then_some(Capture {
        link: capture.link,
        frames,
    })
}

/// Returns true if another segment may be joined to this one.
fn may_go_on(tcp: &Tcp) -> bool {
    tcp.payload.len > 0 && tcp.flags & !Tcp::CWR == Tcp::ACK
}

/// A segment that may be joined with the next.
struct Held {
    /// The segment's index among the frames.
    index: usize,
    /// The payload length of its first part.
    size: usize,
    /// The arrival time of its last part.
    at: i64,
}

impl Held {
    /// Returns both segments joined into one; `None` if the kernel would not join them.
    fn joined(&self, first: &Packet, next: &Packet, at: i64) -> Option<Packet> {
        let (one, two) = (first.tcp()?, next.tcp()?);
        let (len, more) = (one.payload.len, two.payload.len);
        let is_next = two.seq == one.seq.wrapping_add(len as u32)
            && (one.ack, one.window, &one.options) == (two.ack, two.window, &two.options)
            && two.flags & !(Tcp::PSH | Tcp::FIN) == Tcp::ACK
            && (first.class, first.hops) == (next.class, next.hops);
        let fits = len.is_multiple_of(self.size) && (1..=self.size).contains(&more);
        // If the capture cut off a part's payload, that part must be the last one of a joined
        // segment.
        let is_whole = one.payload.bytes.len() == len || two.payload.bytes.is_empty();
        let is_close = at - self.at <= CLOSE && len + more <= MOST;
        if !(is_next && fits && is_whole && is_close) {
            return None;
        }
        let mut whole = first.clone();
        let tcp = whole.tcp_mut()?;
        tcp.flags |= two.flags;
        tcp.payload.len += more;
        tcp.payload.bytes.extend(&two.payload.bytes);
        Some(whole)
    }
}
