//! Sums of a message's stops by their limit.

use core::time::Duration;

use super::Trace;
use super::flow::{Flow, burst_rate, has_queue};
use super::release::heard;
use super::stop::Stop;
use crate::attribution::packet_record::PacketRecord;
use crate::exchange::Side;
use crate::exchange::delivery::{
    Delivery, InFlight, Limit, MessageSize, Pause, ReceiverWindows, StallTimes,
};
use crate::observed::tcp::TCP_INIT_CWND;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::Timestamp;

/// Minimum total stopped time that is reported.
const LEAST_STOPPED: Duration = Duration::from_millis(1);
/// Maximum number of pauses remembered per message.
const MAX_PAUSES: usize = 8;

/// State of the connection before an exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// End of the preceding exchange.
    pub(crate) ended: Option<Timestamp>,
    /// Maximum number of the server's bytes in flight so far.
    pub(crate) flight: u64,
    /// The congestion window that the server would have by now if no idle period had reduced it.
    pub(crate) kept: u64,
}

/// Returns the limit of the message of `sender`; `None` if no limit stopped it for a notable time.
pub(super) fn delivery(
    trace: &Trace<'_>,
    sender: Side,
    flow: &Flow,
    stops: &[Stop],
) -> Option<Delivery> {
    if stops.is_empty() {
        return None;
    }
    let (limit, stopped) = largest(stops)?;
    let mut held: Duration = stops
        .iter()
        .filter(|stop| stop.limit != Limit::Program)
        .map(|stop| stop.took)
        .sum();
    let drain = match limit {
        Limit::Bottleneck => drain(trace, sender),
        _ => Duration::ZERO,
    };
    held += drain;
    if stopped < LEAST_STOPPED {
        return None;
    }
    let span = trace.span(sender);
    let pipe = trace.pipe(sender);
    let rested = trace.before.ended.map(|ended| trace.begin.since(ended));
    let own = || stops.iter().filter(|stop| stop.limit == limit);
    let paused = || stops.iter().filter(|stop| is_pause(stop));
    let window = |stop: Option<&Stop>| stop.map_or(0, |stop| stop.window);
    let mut open = own().filter(|stop| !stop.is_zero_window);
    let (first_open, last_open) = (open.clone().next(), open.next_back());
    let longest = own().max_by_key(|stop| stop.took)?;
    Some(Delivery {
        sender,
        limit,
        stops: u32::try_from(own().count()).unwrap_or(u32::MAX),
        stalled: StallTimes {
            stopped,
            shut: stops
                .iter()
                .filter(|stop| stop.is_zero_window)
                .map(|stop| stop.took)
                .sum(),
            held,
            longest_pause: paused().map(|stop| stop.took).max().unwrap_or_default(),
            pauses: u32::try_from(paused().count()).unwrap_or(u32::MAX),
            drain,
            // A queue that drains may look like an idle period. It also lengthens the round trip,
            // so the sender's timeout is longer than that period and does not reset the window.
            spared: slow_start(trace, sender, rested.filter(|_| limit != Limit::Bottleneck))
                .min(held),
            kept_spared: rounds(trace, sender, trace.before.kept).min(stopped),
        },
        round_trip: trace.whole_trip(),
        size: MessageSize {
            bytes: span.end - span.start,
            segments: segments(trace, sender),
            mss: pipe.mss,
        },
        in_flight: InFlight {
            first: own().next().map_or(0, |stop| stop.in_flight),
            most: most_in_flight(trace, sender, stops),
            most_segments: own().map(|stop| stop.segments).max().unwrap_or_default(),
            earlier: if sender == Side::Server {
                trace.before.flight
            } else {
                0
            },
        },
        windows: ReceiverWindows {
            first: window(first_open),
            last: window(last_open),
            zero: stops.iter().filter(|stop| stop.is_zero_window).count() as u32,
        },
        rate: flow.even.map(|even| even.rate),
        burst_rate: (limit == Limit::Bottleneck && !flow.is_drained())
            .then(|| burst_rate(trace, sender))
            .flatten(),
        rested,
        has_losses: pipe.has_losses,
        has_queue: has_queue(trace, sender),
        pauses: pauses(trace, sender, stops),
        packets: longest.packets,
    })
}

/// Returns the time by which the message's last byte was in transit longer than the path takes, as
/// seen at the sender: the receiver waits for the queue to drain although nothing more is sent.
fn drain(trace: &Trace<'_>, sender: Side) -> Duration {
    if !trace.is_near(sender) {
        return Duration::ZERO;
    }
    let end = trace.span(sender).end;
    let sent = last_sent(trace, sender).map(|(_, packet)| packet.at);
    let ack = trace
        .packets
        .iter()
        .find(|packet| packet.by == sender.peer() && packet.ack >= end);
    let floor = trace.round_trip(sender.peer()).floor();
    match (sent, ack, floor) {
        (Some(sent), Some(ack), Some(floor)) => ack.at.since(sent).saturating_sub(floor),
        _ => Duration::ZERO,
    }
}

fn last_sent<'a>(trace: &Trace<'a>, sender: Side) -> Option<(usize, &'a PacketRecord)> {
    let end = trace.span(sender).end;
    let is_last = |packet: &PacketRecord| {
        packet.by == sender && packet.data.is_some_and(|d| d.span.end >= end)
    };
    trace
        .packets
        .iter()
        .enumerate()
        .find(|(_, packet)| is_last(packet))
}

/// Returns the maximum number of bytes in flight, at a stop or after the last segment.
fn most_in_flight(trace: &Trace<'_>, sender: Side, stops: &[Stop]) -> u64 {
    let at_stops = stops
        .iter()
        .map(|stop| stop.in_flight)
        .max()
        .unwrap_or_default();
    let span = trace.span(sender);
    let at_end = last_sent(trace, sender).and_then(|(index, packet)| {
        let acked = heard(trace, packet, index)?.acked;
        Some(span.end.saturating_sub(acked.max(span.start)))
    });
    at_stops.max(at_end.unwrap_or_default())
}

/// Returns the limit that took the most time, and that time.
fn largest(stops: &[Stop]) -> Option<(Limit, Duration)> {
    let limits = [
        Limit::ReceiveWindow,
        Limit::Pacing,
        Limit::Bottleneck,
        Limit::SendBuffer,
        Limit::CongestionWindow,
        Limit::Program,
    ];
    let sum = |limit| -> Duration {
        stops
            .iter()
            .filter(|stop| stop.limit == limit)
            .map(|stop| stop.took)
            .sum()
    };
    // Of equal limits the first one counts.
    let sums = limits.into_iter().map(|limit| (limit, sum(limit))).rev();
    sums.max_by_key(|&(_, sum)| sum)
}

/// Returns the time that slow start takes for the message. A sender begins with ten segments (RFC
/// 6928), plus what was acknowledged before, and doubles that each round trip (RFC 5681 §3.1).
fn slow_start(trace: &Trace<'_>, sender: Side, rested: Option<Duration>) -> Duration {
    let span = trace.span(sender);
    let pipe = trace.pipe(sender);
    let is_fresh = !pipe.has_start || rested.is_some_and(|rested| rested > TCP_RTO_MIN);
    let before = if is_fresh { 0 } else { span.start };
    rounds(trace, sender, TCP_INIT_CWND * u64::from(pipe.mss) + before)
}

/// Returns the time that the message waits if its sender begins with `window` bytes and doubles
/// that each round trip.
fn rounds(trace: &Trace<'_>, sender: Side, window: u64) -> Duration {
    let span = trace.span(sender);
    let mut window = window.max(1);
    let mut left = (span.end - span.start).saturating_sub(window);
    let mut rounds = 0;
    while left > 0 {
        window = window.saturating_mul(2);
        left = left.saturating_sub(window);
        rounds += 1;
    }
    trace.whole_trip() * rounds
}

fn segments(trace: &Trace<'_>, sender: Side) -> u64 {
    let span = trace.span(sender);
    let mss = u64::from(trace.pipe(sender).mss.max(1));
    let data = trace
        .packets
        .iter()
        .filter(|packet| packet.by == sender)
        .filter_map(|packet| packet.data);
    data.filter(|data| data.span.start < span.end && data.span.end > span.start)
        .map(|data| (data.span.end - data.span.start).div_ceil(mss))
        .sum()
}

/// Returns true for a notable pause of the program.
fn is_pause(stop: &Stop) -> bool {
    stop.limit == Limit::Program && stop.took >= LEAST_STOPPED
}

/// Returns the part of a pause before `packet` in which nothing was in flight, as the sender knew.
fn idle(trace: &Trace<'_>, stop: &Stop, packet: &PacketRecord) -> Option<Duration> {
    let propagation = trace.round_trip(packet.by).floor()?;
    let packets = trace.packets.iter().rev();
    let before = packets.filter(|m| m.by == packet.by.peer() && m.number < packet.number);
    let ack = before.take_while(|m| m.ack >= stop.sent).last()?;
    Some(packet.at.since(ack.at).saturating_sub(propagation))
}

fn pauses(trace: &Trace<'_>, sender: Side, stops: &[Stop]) -> Vec<Pause> {
    let span = trace.span(sender);
    let first = trace.packets.iter().find(|packet| {
        packet.by == sender
            && packet
                .data
                .is_some_and(|d| d.span.start < span.end && d.span.end > span.start)
    });
    let Some(first) = first else {
        return Vec::new();
    };
    let ends = |stop: &Stop| {
        let packets = stop.packets;
        let packet = trace
            .packets
            .iter()
            .find(|packet| packet.number == packets.next)?;
        Some(Pause {
            after: stop.sent.saturating_sub(span.start),
            until: packet.at.since(first.at),
            took: stop.took,
            idle: idle(trace, stop, packet),
            meets_ack: packets.release.is_some(),
        })
    };
    let pauses = stops.iter().filter(|stop| is_pause(stop));
    pauses.take(MAX_PAUSES).filter_map(ends).collect()
}
