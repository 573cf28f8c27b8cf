//! Constant rates of messages, and what limits them.

use core::time::Duration;

use super::{PIECE, PIECES, Piece};
use crate::attribution::Trace;
use crate::attribution::packet::Arrival;
use crate::attribution::packet_record::PacketRecord;
use crate::exchange::Side;
use crate::observed::time::Timestamp;

/// Maximum relative deviation of a piece from the rate: a token bucket and a kernel's pacing timer
/// (`tcp_pacing_check()`) are exact, hosts are not.
const OFF: f64 = 0.2;
/// Minimum share of the time that must be at the rate; the rest is slow start's.
const SHARE: f64 = 0.7;
/// The interval, in round trips, at which pieces belong to one window each, whatever their rate.
const ROUND: core::ops::RangeInclusive<f64> = 0.75..=1.25;
/// Maximum time after an ACK's arrival within which a departing piece counts as clocked by that
/// ACK.
const CLOCKED: Duration = Duration::from_micros(150);
/// Minimum share of pieces that coincide with an ACK this closely if ACKs clock them; with a sender
/// that paces, few do.
const CLOCKED_SHARE: f64 = 0.7;
/// Number of pieces in flight from which ACKs arrive at the pieces' own rate. Whether an ACK
/// coincides with a piece is then chance, and shows nothing.
const UNPHASED_PIECES: u32 = 8;
/// Minimum share of a kernel's pieces that end with a full segment.
const FULL_SHARE: f64 = 0.8;
/// Minimum share of a queue's bytes that comes in full segments.
const FILLED_SHARE: f64 = 0.5;
/// Minimum queueing delay for a queue, beyond a tick of the sender's timestamps.
pub(in crate::attribution) const QUEUE: Duration = Duration::from_millis(2);
/// Minimum number of acknowledgements that show a queue beyond doubt: a single one may be delayed.
const LEAST_TRIPS: usize = 3;
/// Maximum number of packets before a segment among which the latest acknowledgement is looked for.
const LATEST: usize = 256;

/// A constant rate.
#[derive(Clone, Copy, Debug)]
pub(in crate::attribution) struct Even {
    /// Bytes per second.
    pub(in crate::attribution) rate: f64,
    /// The longest gap that is consistent with the rate.
    pub(in crate::attribution) longest: Duration,
    pub(in crate::attribution) keeper: Keeper,
}

/// The cause of a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::attribution) enum Keeper {
    /// The sender's kernel.
    Sender,
    /// A draining queue.
    Queue,
    /// The sender's program, which writes at its own speed.
    Program,
    /// A cause that cannot be determined.
    Untold,
}

/// Returns the rate of the pieces, or of their ACKs: at its sender a message leaves as ACKs release
/// it, and the ACKs come at the rate of the queue.
pub(super) fn even(trace: &Trace<'_>, sender: Side, pieces: &[Piece]) -> Option<Even> {
    let is_near = trace.is_near(sender);
    // A rate is visible in pieces, in the ACKs of a queue's segments, or in the segments after a
    // queue.
    let by = if is_near { sender.peer() } else { sender };
    let told = trace
        .packets
        .iter()
        .filter(|packet| packet.by == by)
        .count();
    if pieces.len() <= PIECES && told <= PIECES {
        return None;
    }
    let fills = fills(pieces);
    if is_near && fills && has_queue(trace, sender) {
        let (rate, longest) = rate_of(trace, &ack_steps(trace, sender))?;
        return Some(Even {
            rate,
            longest,
            keeper: Keeper::Queue,
        });
    }
    let lags = lags(trace, sender);
    if lags && fills && !is_near {
        // Above 20 Mbit/s a queue releases segments so fast that they form one piece.
        let by_piece = rate_of(trace, &steps(pieces));
        let (rate, longest) = by_piece.or_else(|| rate_of(trace, &data_steps(trace, sender)))?;
        return Some(Even {
            rate,
            longest,
            keeper: Keeper::Queue,
        });
    }
    let (rate, longest) = rate_of(trace, &steps(pieces))?;
    let is_kernel = are_cut_by_kernel(pieces);
    let can_tell = is_near || trace.pipe(sender).has_clock;
    let may_be_clocked = longest * UNPHASED_PIECES > trace.whole_trip();
    // Data with a late timestamp at the sender waited in the queue of the sender's own device,
    // which is not on the path. The timestamp of paced data is the time from which it may leave
    // (`tcp_update_skb_after_send()` in `net/ipv4/tcp_output.c`).
    let keeper = if lags || !can_tell || (may_be_clocked && is_clocked(trace, sender, pieces)) {
        Keeper::Untold
    } else if is_kernel {
        Keeper::Sender
    } else {
        Keeper::Program
    };
    Some(Even {
        rate,
        longest,
        keeper,
    })
}

/// Returns true if nearly all pieces end with a full segment: the kernel cuts what it has to send,
/// and a program's writes hardly ever fill their last segment.
fn are_cut_by_kernel(pieces: &[Piece]) -> bool {
    let full = pieces.iter().filter(|piece| !piece.ends_small).count();
    full as f64 >= pieces.len() as f64 * FULL_SHARE
}

/// Returns the median time from one piece to the next, if the sender's kernel cuts the pieces; zero
/// if not, or if there are too few.
pub(super) fn pace(pieces: &[Piece]) -> Duration {
    if pieces.len() <= PIECES || !are_cut_by_kernel(pieces) {
        return Duration::ZERO;
    }
    middle(steps(pieces).into_iter().map(|(took, _)| took))
}

/// Returns true if the message passes a queue on the path, and its sender always had more to send.
/// Other data in the same queue may make its rate uneven.
pub(super) fn is_queued(trace: &Trace<'_>, sender: Side, pieces: &[Piece]) -> bool {
    pieces.len() > PIECES && fills(pieces) && are_cut_by_kernel(pieces) && has_queue(trace, sender)
}

/// Returns true if most bytes came in full segments: a program that writes small amounts evenly has
/// a rate of its own, which is not that of a queue.
fn fills(pieces: &[Piece]) -> bool {
    let all: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let short: u64 = pieces.iter().map(|piece| piece.short).sum();
    short as f64 <= all as f64 * (1.0 - FILLED_SHARE)
}

/// Returns the time from each piece to the next, and the piece's bytes.
fn steps(pieces: &[Piece]) -> Vec<(Duration, u64)> {
    let next = pieces.iter().skip(1);
    pieces
        .iter()
        .zip(next)
        .map(|(piece, next)| (next.start.since(piece.start), piece.bytes))
        .collect()
}

/// Returns the time from each piece's first new segment to that of the next piece, and the bytes in
/// between. A piece ends where the time since its first segment exceeds [`PIECE`].
fn data_steps(trace: &Trace<'_>, sender: Side) -> Vec<(Duration, u64)> {
    let span = trace.span(sender);
    let mut steps = Vec::new();
    let mut open: Option<(Timestamp, u64)> = None;
    let own = trace
        .packets
        .iter()
        .filter(|packet| packet.by == sender && packet.at <= trace.end);
    for (at, data) in own.filter_map(|packet| Some((packet.at, packet.data?))) {
        let is_new = matches!(data.arrival, Arrival::InOrder | Arrival::PastHole);
        if !is_new || data.span.start >= span.end || data.span.end <= span.start {
            continue;
        }
        let bytes = data.span.end - data.span.start;
        match open {
            Some((since, sum)) if at.since(since) > PIECE => {
                steps.push((at.since(since), sum));
                open = Some((at, bytes));
            }
            Some((since, sum)) => open = Some((since, sum + bytes)),
            None => open = Some((at, bytes)),
        }
    }
    steps
}

/// Returns the time from each acknowledgement to the next, and the bytes that it acknowledged.
fn ack_steps(trace: &Trace<'_>, sender: Side) -> Vec<(Duration, u64)> {
    let span = trace.span(sender);
    let mut steps = Vec::new();
    let mut last: Option<(Timestamp, u64)> = None;
    let acks = trace
        .packets
        .iter()
        .filter(|packet| packet.by == sender.peer() && packet.ack > span.start);
    for packet in acks {
        match last {
            Some((at, ack)) if packet.ack > ack && packet.at.since(at) > PIECE => {
                steps.push((packet.at.since(at), packet.ack - ack));
                last = Some((packet.at, packet.ack));
            }
            None => last = Some((packet.at, packet.ack)),
            _ => {}
        }
    }
    steps
}

/// Returns the median rate, in bytes per second, at which the queue on the path let one segment of
/// `sender` follow another, as the segments or their acknowledgements show it. A link that is busy
/// lets them follow at its own rate, or more slowly if it carries other data between them. A path
/// that delays some packets, and holds the others behind them, then lets all go at once.
pub(in crate::attribution) fn burst_rate(trace: &Trace<'_>, sender: Side) -> Option<f64> {
    let is_near = trace.is_near(sender);
    let mut last: Option<(Timestamp, u64)> = None;
    let mut rates = Vec::new();
    for packet in trace.packets.iter().filter(|packet| packet.at <= trace.end) {
        let passed = match packet.data {
            Some(data) if !is_near && packet.by == sender => {
                let is_queued = packet.queued.possible() >= QUEUE;
                let length = data.span.end - data.span.start;
                Some((packet.at, if is_queued { length } else { 0 }))
            }
            None if is_near && packet.by == sender.peer() => Some((packet.at, packet.ack)),
            _ => None,
        };
        let Some((at, number)) = passed else { continue };
        let before = last.replace((at, number));
        let bytes = match before {
            Some((_, acked)) if is_near => number.saturating_sub(acked),
            Some(_) => number,
            None => 0,
        };
        if bytes > 0 {
            let took = before.map_or(Duration::ZERO, |(before, _)| at.since(before));
            rates.push(bytes as f64 / took.as_secs_f64().max(1e-9));
        }
    }
    rates.sort_by(f64::total_cmp);
    (rates.len() >= PIECES).then(|| rates.get(rates.len() / 2).copied())?
}

/// Returns the rate that holds for most of the time, and the longest step consistent with it.
fn rate_of(trace: &Trace<'_>, steps: &[(Duration, u64)]) -> Option<(f64, Duration)> {
    if steps.len() < PIECES {
        return None;
    }
    let mut rates: Vec<(f64, Duration)> = steps
        .iter()
        .map(|&(took, bytes)| (bytes as f64 / took.as_secs_f64().max(1e-9), took))
        .collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole: Duration = rates.iter().map(|rate| rate.1).sum();
    let mut passed = Duration::ZERO;
    let rate = rates.iter().find(|rate| {
        passed += rate.1;
        passed * 2 >= whole
    })?;
    let rate = rate.0;
    let at_rate: Vec<Duration> = rates
        .iter()
        .filter(|other| (other.0 / rate - 1.0).abs() <= OFF)
        .map(|other| other.1)
        .collect();
    let time: Duration = at_rate.iter().sum();
    let is_most = time.as_secs_f64() >= whole.as_secs_f64() * SHARE;
    if at_rate.len() < PIECES || !is_most {
        return None;
    }
    let typical = middle(at_rate.iter().copied()).as_secs_f64();
    let trip = trace.whole_trip().as_secs_f64();
    let is_round = trip > 0.0 && ROUND.contains(&(typical / trip));
    let longest = at_rate.iter().max().copied()?;
    (!is_round).then_some((rate, longest))
}

/// Returns true if most pieces leave at the same time as an ACK arrives.
fn is_clocked(trace: &Trace<'_>, sender: Side, pieces: &[Piece]) -> bool {
    let trip = trace.round_trip(sender);
    let propagation = trip.floor().unwrap_or_default();
    let slack = CLOCKED + trip.error();
    let met = pieces.iter().filter(|piece| {
        let target = piece.start - propagation;
        let from = trace
            .packets
            .partition_point(|packet| packet.at < target - slack);
        let before = trace
            .packets
            .get(from..piece.index)
            .unwrap_or_default()
            .iter();
        let mut near = before.take_while(|packet| packet.at <= target + slack);
        near.any(|packet| packet.by == sender.peer() && packet.is_news)
    });
    met.count() as f64 >= pieces.len() as f64 * CLOCKED_SHARE
}

/// Returns true if data of `sender` waits in a queue on the path to its receiver. At the sender, only
/// ACKs that arrive while more data is in flight show a queue, which spaces them. A receiver that
/// acknowledges whole flights may delay its ACKs itself.
pub(in crate::attribution) fn has_queue(trace: &Trace<'_>, sender: Side) -> bool {
    if trace.is_near(sender) {
        let floor = trace.round_trip(sender.peer()).floor().unwrap_or_default();
        let inflated = floor.saturating_add(least_queue(trace, sender));
        let within_flight = trips(trace, sender).filter(|trip| !trip.ends_flight);
        return within_flight.count() >= LEAST_TRIPS
            && is_median_at_least(inflated, trips(trace, sender).map(|trip| trip.took));
    }
    lags(trace, sender)
}

/// Returns true if data of `sender`, seen at the sender, waits in a queue on the path, as several
/// acknowledgements show.
pub(in crate::attribution) fn has_sure_queue(trace: &Trace<'_>, sender: Side) -> bool {
    let is_sure = trips(trace, sender).nth(LEAST_TRIPS - 1).is_some();
    trace.is_near(sender) && is_sure && has_queue(trace, sender)
}

/// Returns true if the message waits in a queue on its way to the observation point, by its
/// sender's timestamps.
fn lags(trace: &Trace<'_>, sender: Side) -> bool {
    let span = trace.span(sender);
    let own = trace
        .packets
        .iter()
        .filter(|packet| packet.by == sender && packet.at <= trace.end);
    let new = own.filter(|packet| {
        packet.data.is_some_and(|data| {
            matches!(data.arrival, Arrival::InOrder | Arrival::PastHole)
                && data.span.start < span.end
                && data.span.end > span.start
        })
    });
    // Timestamps in units other than milliseconds may stay constant for longer than any queue
    // lasts.
    let has_clock = trace.pipe(sender).has_clock;
    let queued = |packet: &PacketRecord| {
        if has_clock {
            packet.queued.possible()
        } else {
            packet.queued.known()
        }
    };
    is_median_at_least(QUEUE, new.map(queued))
}

/// A round trip that an acknowledgement shows at the sender.
#[derive(Clone, Copy, Debug)]
struct Trip {
    /// The time from the last segment that the ACK covers.
    took: Duration,
    /// True if the ACK covers all that was sent.
    ends_flight: bool,
}

/// Iterates over the round trips of the receiver's ACKs, as seen at the sender.
fn trips<'t>(trace: &'t Trace<'_>, sender: Side) -> impl Iterator<Item = Trip> + 't {
    let span = trace.span(sender);
    let sent = move |packet: &PacketRecord| {
        let data = packet.data.filter(|data| data.arrival == Arrival::InOrder);
        data.filter(|_| packet.by == sender)
            .map(|data| data.span.end)
    };
    // Packets that were already passed are not examined again.
    let mut next = 0;
    let packets = trace.packets.iter().enumerate();
    packets.filter_map(move |(at, ack)| {
        let is_ack = ack.data.is_none() && ack.by == sender.peer() && ack.is_news;
        if !is_ack || ack.ack <= span.start {
            return None;
        }
        let (mut last, mut ends_flight) = (None, true);
        for packet in trace.packets.get(next..at).unwrap_or_default() {
            match sent(packet) {
                Some(end) if end > ack.ack => {
                    ends_flight = false;
                    break;
                }
                Some(_) => last = Some(packet.at),
                None => {}
            }
            next += 1;
        }
        let took = ack.at.since(last?);
        Some(Trip { took, ends_flight })
    })
}

/// Returns the time that data waits in a queue on the path, as seen at its sender: the time by which
/// the latest acknowledgement before the packet at `index` took longer than the path. An
/// acknowledgement that may have waited for the repair of a loss is passed over, as when a sender
/// measures its round trip (RFC 6298 §3).
pub(in crate::attribution) fn latest_queue(
    trace: &Trace<'_>,
    sender: Side,
    index: usize,
) -> Duration {
    let from = index.saturating_sub(LATEST);
    let packets = trace.packets.get(from..index).unwrap_or_default();
    let floor = trace.round_trip(sender.peer()).floor().unwrap_or_default();
    let trip = latest_trip(packets, sender);
    trip.map_or(Duration::ZERO, |trip| trip.saturating_sub(floor))
}

/// Returns the time from the last segment of `sender` that the latest acknowledgement covers to that
/// acknowledgement, passing over those that may have waited for a repair.
fn latest_trip(packets: &[PacketRecord], sender: Side) -> Option<Duration> {
    let mut words = packets
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, packet)| packet.by == sender.peer())
        .peekable();
    while let Some((at, ack)) = words.next() {
        let is_repair = ack.reports.hole || words.peek().is_none_or(|(_, word)| word.reports.hole);
        if is_repair || !ack.is_news || ack.data.is_some() {
            continue;
        }
        let covered = |packet: &PacketRecord| {
            let data = packet.data.filter(|data| data.arrival == Arrival::InOrder);
            packet.by == sender && data.is_some_and(|data| data.span.end <= ack.ack)
        };
        let before = packets.get(..at).unwrap_or_default();
        let sent = before.iter().rposition(covered)?;
        let mut since = before.iter().skip(sent);
        let sent = since.next()?;
        if !since.any(|packet| packet.by == sender && is_repeat(packet)) {
            return Some(ack.at.since(sent.at));
        }
    }
    None
}

fn is_repeat(packet: &PacketRecord) -> bool {
    packet
        .data
        .is_some_and(|data| data.arrival == Arrival::Repeat)
}

fn least_queue(trace: &Trace<'_>, sender: Side) -> Duration {
    let floor = trace.round_trip(sender.peer()).floor().unwrap_or_default();
    QUEUE.max(floor / 8)
}

/// Returns true if the median of `times` is at least `least`, which is not zero; determined by
/// counting.
fn is_median_at_least(least: Duration, times: impl Iterator<Item = Duration>) -> bool {
    let (mut shorter, mut all) = (0_usize, 0);
    for time in times {
        shorter += usize::from(time < least);
        all += 1;
    }
    all > 0 && shorter <= all / 2
}

/// Returns the median of the times.
fn middle(times: impl Iterator<Item = Duration>) -> Duration {
    let mut list: Vec<Duration> = times.collect();
    list.sort_unstable();
    list.get(list.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::packet::{Need, Order, Queued, Reports, Span};
    use crate::attribution::packet_record::Data;

    /// Returns a bare segment of `by` at `ms` that acknowledges up to `ack`.
    fn word(ms: i64, by: Side, ack: u64) -> PacketRecord {
        PacketRecord {
            at: Timestamp::from_nanos(ms * 1_000_000),
            number: 0,
            by,
            queued: Queued::default(),
            ttl: 64,
            idle: None,
            data: None,
            ack,
            edge: 0,
            is_closed: false,
            is_news: true,
            reports: Reports::default(),
            skipped: 0,
        }
    }

    /// Returns a segment of the server at `ms` with the hundred bytes up to `end`.
    fn sent(ms: i64, end: u64, arrival: Arrival) -> PacketRecord {
        let data = Data {
            span: Span {
                start: end - 100,
                end,
            },
            arrival,
            is_small: false,
            has_fin: false,
            was_too_big: false,
            acked: 0,
            edge: 0,
            order: Order::Untold,
            need: Need::Needed,
            after_cut: false,
            in_flight: 0,
            had_no_room: false,
        };
        PacketRecord {
            data: Some(data),
            ..word(ms, Side::Server, 0)
        }
    }

    #[test]
    fn an_ack_that_waited_for_a_repair_shows_no_queue() {
        let latest = |packets: &[PacketRecord]| latest_trip(packets, Side::Server);
        let clean = [
            word(0, Side::Client, 0),
            sent(0, 100, Arrival::InOrder),
            word(30, Side::Client, 100),
        ];
        assert_eq!(latest(&clean), Some(Duration::from_millis(30)));
        // The second hundred bytes are lost, and the ACK of the third waits for their repair.
        let repair = [
            sent(31, 200, Arrival::InOrder),
            sent(31, 300, Arrival::InOrder),
            sent(60, 200, Arrival::Repeat),
            word(90, Side::Client, 300),
        ];
        let both = [&clean[..], &repair[..]].concat();
        assert_eq!(latest(&both), Some(Duration::from_millis(30)));
        let mut reported = both;
        reported[5] = PacketRecord {
            is_news: false,
            reports: Reports {
                hole: true,
                ..Reports::default()
            },
            ..word(60, Side::Client, 100)
        };
        assert_eq!(latest(&reported), Some(Duration::from_millis(30)));
    }

    #[test]
    fn counting_tells_of_the_median_what_sorting_does() {
        let lists: [&[u64]; 6] = [
            &[],
            &[3],
            &[1, 3],
            &[3, 1, 1],
            &[5, 1, 3, 3],
            &[4, 4, 1, 2, 1],
        ];
        for list in lists {
            let times = || list.iter().map(|&ms| Duration::from_millis(ms));
            for least in (1..6).map(Duration::from_millis) {
                let is_long = middle(times()) >= least;
                assert_eq!(is_median_at_least(least, times()), is_long, "{list:?}");
            }
        }
    }
}
