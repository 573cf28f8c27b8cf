//! Constant rates of messages, and what limits them.

mod rate;

use core::time::Duration;

use super::Trace;
use super::release::bare_release;
use crate::attribution::packet::Arrival;
use crate::exchange::Side;
use crate::observed::time::Timestamp;
use rate::even;
pub(super) use rate::{Even, Keeper, QUEUE, burst_rate, has_queue, has_sure_queue, latest_queue};

/// Minimum send time of a message for its rate to be examined.
const LEAST_SENDING: Duration = Duration::from_millis(5);
/// Maximum gap between segments of one piece: a kernel sends everything that it may send in one go,
/// microseconds apart.
const PIECE: Duration = Duration::from_micros(500);
/// Minimum number of pieces for determining a rate.
const PIECES: usize = 6;
/// Approximate number of full segments that the smallest send buffer holds (`SOCK_MIN_SNDBUF`). If
/// less was sent before a stop, the program wrote just that much, and the ACK coincided by chance.
const LEAST_BUFFER: u64 = 2;
/// Minimum number of writes in a full send buffer: one write may overshoot a buffer, and a program
/// that writes on a timer writes one at a time.
const LEAST_WRITES: u32 = 2;
/// Minimum number of stops that look like a full buffer: a single one may be coincidence.
const LEAST_STOPS: usize = 2;
/// Minimum number of consecutive small segments, at most half a round trip apart, that cannot be
/// coincidence.
const EAGER: u32 = 3;

/// The flow of a message's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// The constant rate at which most of the message's bytes came.
    pub(super) even: Option<Even>,
    /// True if ACKs released the message's stops although the last segment before each was not
    /// full: the program could not write more.
    pub(super) is_buffered: bool,
    /// True if several small segments in a row left before an ACK could come: Nagle's algorithm is
    /// off.
    pub(super) is_eager: bool,
    /// True if the receiver closed its window during the message.
    pub(super) is_closed: bool,
    /// True if the message's full segments follow each other through a queue on the path: its
    /// sender has more to send than the path carries, at whatever rate its share changes.
    pub(super) is_queued: bool,
    /// The typical time from one piece of the message to the next, if the sender's kernel cuts the
    /// pieces, and not the program's writes; zero if not.
    pub(super) pace: Duration,
}

/// Segments sent in one go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    start: Timestamp,
    last: Timestamp,
    bytes: u64,
    ends_small: bool,
    /// Number of consecutive small segments at the end of the piece.
    small: u32,
    /// Total number of small segments.
    partial: u32,
    /// Bytes in segments that are shorter than a full one.
    short: u64,
    /// Index of the piece's first packet.
    index: usize,
}

impl Flow {
    /// Returns true if a queue passes the message on at the queue's own rate, however fast that is.
    pub(super) fn is_drained(&self) -> bool {
        self.even.is_some_and(|even| even.keeper == Keeper::Queue)
    }

    /// Measures the whole message of `sender`; `pieces` is scratch memory.
    pub(super) fn of(trace: &Trace<'_>, sender: Side, pieces: &mut Vec<Piece>) -> Self {
        if trace.packets.len() < PIECES || trace.end.since(trace.begin) < LEAST_SENDING {
            return Self::default();
        }
        cut(trace, sender, pieces);
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Self::default();
        };
        if last.last.since(first.start) < LEAST_SENDING {
            return Self::default();
        }
        Self {
            even: even(trace, sender, pieces),
            is_buffered: is_buffered(trace, sender, pieces),
            is_eager: trace.whole_trip() > PIECE * 2 && pieces.iter().any(|p| p.small >= EAGER),
            is_closed: closes(trace, sender),
            is_queued: rate::is_queued(trace, sender, pieces),
            pace: rate::pace(pieces),
        }
    }
}

/// Cuts the message into pieces: segments that were sent in one go.
fn cut(trace: &Trace<'_>, sender: Side, pieces: &mut Vec<Piece>) {
    pieces.clear();
    let span = trace.span(sender);
    let mss = u64::from(trace.pipe(sender).mss);
    for (index, packet) in trace.packets.iter().enumerate() {
        let Some(data) = packet
            .data
            .filter(|_| packet.by == sender && packet.at <= trace.end)
        else {
            continue;
        };
        let is_new = matches!(data.arrival, Arrival::InOrder | Arrival::PastHole);
        if !is_new || data.span.start >= span.end || data.span.end <= span.start {
            continue;
        }
        let bytes = data.span.end - data.span.start;
        let short = if bytes < mss { bytes } else { 0 };
        match pieces.last_mut() {
            Some(piece) if packet.at.since(piece.last) <= PIECE => {
                piece.last = packet.at;
                piece.bytes += bytes;
                piece.ends_small = data.is_small;
                piece.partial += u32::from(data.is_small);
                piece.short += short;
                piece.small = if data.is_small { piece.small + 1 } else { 0 };
            }
            _ => pieces.push(Piece {
                start: packet.at,
                last: packet.at,
                bytes,
                ends_small: data.is_small,
                small: u32::from(data.is_small),
                partial: u32::from(data.is_small),
                short,
                index,
            }),
        }
    }
}

/// Returns true if the peer advertised a window of zero.
fn closes(trace: &Trace<'_>, sender: Side) -> bool {
    let span = trace.span(sender);
    let words = trace
        .packets
        .iter()
        .filter(|packet| packet.by == sender.peer() && packet.edge > 0);
    words.into_iter().any(|packet| {
        packet.edge == packet.ack && packet.ack >= span.start && packet.ack < span.end
    })
}

fn is_released(trace: &Trace<'_>, piece: &Piece) -> bool {
    let packet = trace.packets.get(piece.index);
    packet.is_some_and(|packet| bare_release(trace, packet, piece.index).is_some())
}

/// Returns true if the message fills its send buffer. A partial segment is the end of a write. If
/// most stops that ACKs end come after several partial segments, each ACK makes room for the next
/// write.
fn is_buffered(trace: &Trace<'_>, sender: Side, pieces: &[Piece]) -> bool {
    let mss = u64::from(trace.pipe(sender).mss);
    let ends_writes = |piece: &Piece| {
        let is_large = piece.bytes >= LEAST_BUFFER * mss;
        piece.ends_small && is_large && piece.partial >= LEAST_WRITES
    };
    if pieces.iter().filter(|piece| ends_writes(piece)).count() < LEAST_STOPS {
        return false;
    }
    let next = pieces.iter().skip(1);
    let stops = pieces
        .iter()
        .zip(next)
        .filter(|(_, next)| is_released(trace, next));
    let (mut small, mut all) = (0, 0);
    for (before, _) in stops {
        all += 1;
        small += usize::from(ends_writes(before));
    }
    small >= LEAST_STOPS && small * 2 > all
}
