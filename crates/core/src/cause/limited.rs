//! Messages held back by a window, a buffer or a rate; used by the causes of limits.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use super::evidence::{self, human, median, percent};
use super::wording::{Wording, filled};
use super::{Case, Conclusion, Features, Id};
use crate::exchange::delivery::{Delivery, Limit};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Side};
use crate::observed::tcp::TCP_INIT_CWND;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::nanos;
use crate::report::{Evidence, EvidenceKind, Finding, counted};
use crate::service::tally::{Cost, Tally};

/// Minimum number of rounds for which a window must stay below the initial window to be low; fewer
/// rounds are the end of a message.
const LOW_ROUNDS: u32 = 3;
/// Minimum growth factor of a window that is not low: older systems begin with two to four segments
/// (RFC 3390), and their windows grow.
const GROWN: u64 = 2;
/// Minimum number of stops for recognising the growth of slow start.
const GROWING_STOPS: u32 = 4;
/// Minimum growth factor over these stops for slow start. The window grows by half per round trip
/// if each acknowledgement covers two segments, else it doubles. A constant window has another
/// limit, and a window that grows by a segment or two is in congestion avoidance (RFC 5681 §3.1).
const GROWING: u64 = 3;
/// The divisor of a round trip: shorter stops of equal length are pacing, because a window that is
/// filled in a burst opens again only a round trip later.
const ROUND_PART: u32 = 8;
/// Maximum number of round trips within which a full window opens on a path with varying delay.
const LATE_TRIPS: u32 = 2;
/// Minimum size of a preserved window, in percent of its earlier size.
const KEPT: u64 = 80;
/// The divisor of a full segment: a sender's smaller segments are tiny writes.
const TINY_PART: u64 = 4;

/// The index, from 0, of a connection's first exchange in which a receiver's window has been tuned:
/// Linux tunes by the bytes read in a round trip (`tcp_rcv_space_adjust()` in
/// `net/ipv4/tcp_input.c`), and in the first exchanges it has not seen as many bytes as they carry.
const TUNED_FROM: u32 = 2;

/// The reason that the congestion window was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Congestion {
    /// The window grows as it should.
    SlowStart,
    /// The window was large, and the sender started again after an idle period.
    AfterIdle,
    /// The window stays below the initial window.
    Low,
    /// The window counts segments, and the segments are tiny.
    TinyWrites,
    /// Losses made the window small: the losses are the cause.
    AfterLoss,
}

/// Returns the reason that the sender's congestion window was full; `None` if there was another
/// limit.
pub(super) fn congestion(delivery: &Delivery) -> Option<Congestion> {
    if delivery.limit != Limit::CongestionWindow {
        return None;
    }
    let whole = delivery
        .size
        .bytes
        .div_ceil(u64::from(delivery.size.mss.max(1)));
    let size = delivery.size.bytes / delivery.size.segments.max(1);
    let is_tiny = size < u64::from(delivery.size.mss) / TINY_PART
        && delivery.size.segments >= whole + TCP_INIT_CWND;
    let has_rested = delivery.rested.is_some_and(|rested| rested >= TCP_RTO_MIN);
    let was_larger = delivery.in_flight.earlier * KEPT / 100 > delivery.in_flight.first;
    Some(if is_tiny {
        Congestion::TinyWrites
    } else if delivery.has_losses {
        Congestion::AfterLoss
    } else if delivery.in_flight.most_segments < TCP_INIT_CWND {
        // Data in the sender's own host's queue counts too: a socket may have two super-segments
        // there (`tcp_small_queue_check()` in `net/ipv4/tcp_output.c`).
        let most = delivery.in_flight.most_segments * u64::from(delivery.size.mss);
        let grows = most >= delivery.in_flight.first.saturating_mul(GROWN);
        if delivery.stops >= LOW_ROUNDS && !delivery.has_queue && !grows {
            Congestion::Low
        } else {
            return None;
        }
    } else if delivery.stalled.stopped * ROUND_PART < delivery.round_trip * delivery.stops {
        return None;
    } else if has_rested && was_larger {
        Congestion::AfterIdle
    } else if is_level(delivery) {
        return None;
    } else {
        Congestion::SlowStart
    })
}

/// Returns the cost of a window that losses have reduced (RFC 5681 §3.1): the time for which the
/// message stalled minus the time with the largest window that its sender had. The estimate errs
/// downward, because without the losses the window would have grown further. The upper bound is the
/// whole stall minus the time of slow start, the lower bound zero.
pub(super) fn beyond_largest_window(delivery: &Delivery) -> Cost {
    // A full window opens within a round trip; a longer stop waited for something else.
    let is_by_trip = delivery.stalled.stopped <= delivery.round_trip * delivery.stops * LATE_TRIPS;
    if congestion(delivery) != Some(Congestion::AfterLoss) || !is_by_trip {
        return Cost::default();
    }
    let window = delivery.in_flight.most.max(delivery.in_flight.earlier);
    let rounds = delivery.size.bytes as f64 / window.max(1) as f64;
    let needed = Duration::try_from_secs_f64(delivery.round_trip.as_secs_f64() * rounds);
    let least = needed.unwrap_or(Duration::MAX).max(delivery.stalled.spared);
    Cost {
        low: 0,
        likely: nanos(delivery.stalled.stopped.saturating_sub(least)),
        high: nanos(
            delivery
                .stalled
                .stopped
                .saturating_sub(delivery.stalled.spared),
        ),
    }
}

/// Returns true if the bytes in flight at the stops stayed about the same, round after round: a
/// buffer's size, a rate, a window that hardly grows, but not slow start.
fn is_level(delivery: &Delivery) -> bool {
    // The bytes at the stops, not after the last segment, whose sender may know of fewer
    // acknowledgements.
    let most = delivery
        .in_flight
        .most_segments
        .saturating_mul(u64::from(delivery.size.mss));
    let first = delivery.in_flight.first;
    delivery.stops >= GROWING_STOPS && most < first.saturating_mul(GROWING)
}

/// Minimum number of round trips that a receiver's window takes to be acknowledged for a standing
/// queue.
const QUEUED_TRIPS: u32 = 3;
/// Minimum additional time, because acknowledgements may be delayed.
const QUEUED_FOR: Duration = Duration::from_millis(100);
/// Minimum share of the window, in percent, that must be in flight rather than unread.
const LEAST_IN_FLIGHT: u64 = 80;
/// Minimum share, in percent, to which the receiver must reopen the window: if a program reads at
/// its own pace, some of the data stays in the window.
const OPEN: u64 = 90;

/// Returns the time that a full window was in flight, if a queue on the path held the receiver's
/// whole window: a larger window would only lengthen that queue.
pub(super) fn standing(delivery: &Delivery) -> Option<Duration> {
    let windows = delivery.windows;
    let is_read = windows.last.saturating_mul(100) >= windows.first.saturating_mul(OPEN);
    let is_in_flight = delivery.in_flight.most.saturating_mul(100)
        >= windows.first.saturating_mul(LEAST_IN_FLIGHT);
    passed_late(delivery).filter(|_| is_read && is_in_flight)
}

/// Returns the time that a full window took to be acknowledged, if its receiver was slow to reopen
/// it: the receiver, not the path, takes the time.
pub(super) fn read_late(delivery: &Delivery) -> Option<Duration> {
    let windows = delivery.windows;
    let is_read = windows.last.saturating_mul(100) >= windows.first.saturating_mul(OPEN);
    passed_late(delivery).filter(|_| !is_read)
}

/// Returns the time that a full window took to be acknowledged, if that is far longer than the path
/// takes.
fn passed_late(delivery: &Delivery) -> Option<Duration> {
    let window = delivery.windows.first;
    let is_full = delivery.limit == Limit::ReceiveWindow && delivery.windows.zero == 0;
    if !is_full || window == 0 || delivery.size.bytes < window {
        return None;
    }
    let whole = delivery.stalled.stopped.as_secs_f64() * window as f64 / delivery.size.bytes as f64;
    let whole = Duration::try_from_secs_f64(whole).ok()?;
    (whole >= delivery.round_trip * QUEUED_TRIPS + QUEUED_FOR).then_some(whole)
}

/// A cause that limits messages.
pub(super) trait Kind: Default + Clone + fmt::Debug {
    /// The cause.
    const ID: Id;
    /// Minimum number of messages that is more than one message's bad luck.
    const REPEATS: u64 = evidence::REPEATS;

    /// Returns the cost for this message; `None` if the cause did not limit it.
    fn cost(delivery: &Delivery) -> Option<Duration>;

    /// Returns the side at fault.
    fn culprit(sender: Side) -> Owner {
        owner(sender)
    }

    /// Returns the evidence on the wire and the wording, given the message that lost most.
    fn words(worst: &Delivery) -> (&'static str, &'static Wording);

    /// Adds the parts of the finding that only some cases have.
    fn complete(finding: &mut Finding, case: &Case<'_>, worst: &Delivery) {
        let _ = (finding, case, worst);
    }

    /// Returns true if the limit is a fault, and not intended.
    fn is_fault(limited: &Limited<Self>, case: &Case<'_>) -> bool {
        let _ = (limited, case);
        true
    }
}

/// The messages that one cause held back, by sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limited<K> {
    server: Messages,
    client: Messages,
    kind: PhantomData<K>,
}

/// The messages of one side.
#[derive(Clone, Debug, Default)]
struct Messages {
    tally: Tally,
    stops: u64,
    /// Messages of the first exchanges of connections.
    opening: u64,
    /// The message that lost most.
    worst: Option<Delivery>,
}

impl<K: Kind> super::Rule for Limited<K> {
    const CONCERNS: Features = Features::DELIVERIES;

    fn observe(&mut self, exchange: &Exchange) {
        for delivery in &exchange.sending.deliveries {
            // Slow start would have taken this time in any case, so it costs nothing.
            let Some(cost) = K::cost(delivery).filter(|cost| !cost.is_zero()) else {
                continue;
            };
            let side = match delivery.sender {
                Side::Server => &mut self.server,
                Side::Client => &mut self.client,
            };
            side.tally
                .add(exchange, Cost::exactly(cost), Duration::ZERO);
            side.stops += u64::from(delivery.stops);
            side.opening += u64::from(exchange.id.ordinal < TUNED_FROM);
            side.offer(delivery);
        }
    }

    fn merge(&mut self, other: Self) {
        self.server.merge(other.server);
        self.client.merge(other.client);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let sides = [(Side::Server, &self.server), (Side::Client, &self.client)];
        let largest = sides
            .into_iter()
            .rev()
            .max_by_key(|(_, side)| side.tally.cost.likely);
        let Some((side, messages)) = largest else {
            return Conclusion::Nothing;
        };
        let matters = evidence::is_material(case, &messages.tally)
            && messages.are_repeated::<K>(case)
            && K::is_fault(self, case);
        match messages.worst.as_ref().filter(|_| matters) {
            Some(worst) => Conclusion::Finding(Box::new(finding::<K>(case, side, messages, worst))),
            None => Conclusion::Nothing,
        }
    }
}

impl<K> Limited<K> {
    /// Returns true if the cause affected at least half of the exchanges, including those whose
    /// responses were cut short.
    pub(super) fn is_common(&self, case: &Case<'_>) -> bool {
        self.affected() * 2 >= case.ledger.uncut() + case.ledger.counts.cut
    }

    /// Returns true if the cause affected only the first exchanges of connections, but not most
    /// others: the window was still being tuned.
    pub(super) fn is_of_openings(&self, case: &Case<'_>) -> bool {
        let is_opening = |side: &Messages| side.opening >= side.tally.affected;
        let is_rare = self.affected() * 2 < case.ledger.counts.count;
        is_rare && is_opening(&self.server) && is_opening(&self.client)
    }

    fn affected(&self) -> u64 {
        self.server.tally.affected.max(self.client.tally.affected)
    }
}

/// Returns the time for which a message stalled minus the time that slow start would have taken.
pub(super) fn beyond_slow_start(delivery: &Delivery) -> Duration {
    delivery
        .stalled
        .held
        .saturating_sub(delivery.stalled.spared)
}

impl Messages {
    /// Returns true if the cause is more than one message's bad luck: several messages stopped, or
    /// one stopped often enough and lost most of the total time.
    fn are_repeated<K: Kind>(&self, case: &Case<'_>) -> bool {
        let is_most = self.tally.cost.likely.saturating_mul(2) >= case.ledger.total();
        let is_steady = self.stops >= evidence::REPEATS * 4;
        let has_come_again = self.tally.affected >= K::REPEATS;
        has_come_again || evidence::is_repeated(case, &self.tally) || (is_most && is_steady)
    }

    /// Keeps the worse message; of equal ones the one with the lower packet numbers, whichever
    /// closed first.
    fn offer(&mut self, delivery: &Delivery) {
        let key = |d: &Delivery| (core::cmp::Reverse(d.stalled.stopped), d.packets);
        if self
            .worst
            .as_ref()
            .is_none_or(|worst| key(delivery) < key(worst))
        {
            self.worst = Some(delivery.clone());
        }
    }

    fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.stops += other.stops;
        self.opening += other.opening;
        if let Some(worst) = other.worst {
            self.offer(&worst);
        }
    }
}

/// Returns the finding on the side with the larger cost.
fn finding<K: Kind>(
    case: &Case<'_>,
    sender: Side,
    messages: &Messages,
    worst: &Delivery,
) -> Finding {
    let mut finding = evidence::finding(K::ID, K::culprit(sender), case, &messages.tally);
    let even = worst.size.bytes as f64 / worst.stalled.stopped.as_secs_f64().max(1e-9);
    let queued = standing(worst).or(read_late(worst));
    let values: [(&str, &dyn fmt::Display); 20] = [
        ("from", &name(sender)),
        ("to", &name(sender.peer())),
        ("message", &message(case, sender)),
        ("cost", &share(messages, &finding)),
        ("trip", &human(worst.round_trip)),
        ("stops", &messages.stops),
        ("stops_of_worst", &worst.stops),
        ("stopped", &human(worst.stalled.stopped)),
        ("rested", &human(worst.rested.unwrap_or_default())),
        ("queued", &human(queued.unwrap_or_default())),
        ("rate", &bits(worst.rate.unwrap_or(even))),
        ("window", &bytes(worst.windows.first)),
        ("first", &bytes(worst.in_flight.first)),
        ("most", &bytes(worst.in_flight.most)),
        ("earlier", &bytes(worst.in_flight.earlier)),
        ("whole", &bytes(worst.size.bytes)),
        ("segments", &worst.size.segments),
        ("most_segments", &worst.in_flight.most_segments),
        ("first_segments", &first_segments(worst)),
        ("bytes", &worst.size.bytes),
    ];
    let (seen, wording) = K::words(worst);
    let seen = filled(seen, &finding, &values);
    finding.evidence.push(
        Evidence::mechanism(EvidenceKind::Wire, seen)
            .count(messages.stops)
            .median(&messages.tally.saved)
            .packets(&worst.packets.numbers()),
    );
    finding.verdict = evidence::judge(&finding.evidence, messages.stops, false);
    wording.tell(&mut finding, &values);
    K::complete(&mut finding, case, worst);
    finding
}

/// Returns the cost, worded as the end of a summary.
fn share(messages: &Messages, finding: &Finding) -> String {
    let [one, many] = finding.unit.words();
    format!(
        "{} (median) in {} of {} {many}, {} of all {one} time",
        median(&messages.tally.saved),
        finding.affected.exchanges,
        finding.affected.of,
        percent(finding.share)
    )
}

/// Returns the number of segments in the sender's first flight.
pub(super) fn first_segments(delivery: &Delivery) -> u64 {
    let size = u64::from(delivery.size.mss.max(1));
    delivery.in_flight.first.div_ceil(size)
}

/// Returns the side's name for a sentence.
fn name(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

/// Returns the name of a side's messages for a sentence.
fn message(case: &Case<'_>, side: Side) -> &'static str {
    match side {
        _ if !case.ledger.unit.is_requests() => "transfer",
        Side::Client => "request",
        Side::Server => "response",
    }
}

pub(super) fn owner(side: Side) -> Owner {
    match side {
        Side::Client => Owner::Client,
        Side::Server => Owner::Server,
    }
}

/// Formats bytes for a sentence.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => counted(count, "byte", "bytes"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

/// Formats a rate in bits per second for a sentence.
pub(super) fn bits(rate: f64) -> String {
    let bits = rate * 8.0;
    if bits >= 1e6 {
        format!("{:.1} Mbit/s", bits / 1e6)
    } else {
        format!("{:.0} kbit/s", bits / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::delivery::{
        InFlight, MessageSize, ReceiverWindows, StallTimes, StopPackets,
    };
    use crate::observed::packet::PacketNumber;

    /// Returns a response of forty segments that stopped five times for a round trip each, with
    /// `segments` in flight.
    fn stopped(segments: u64) -> Delivery {
        let trip = Duration::from_millis(40);
        Delivery {
            sender: Side::Server,
            limit: Limit::CongestionWindow,
            stops: 5,
            stalled: StallTimes {
                stopped: trip * 5,
                held: trip * 5,
                ..StallTimes::default()
            },
            round_trip: trip,
            size: MessageSize {
                bytes: 40 * 1448,
                segments: 40,
                mss: 1448,
            },
            in_flight: InFlight {
                first: segments * 1448,
                most: segments * 1448,
                most_segments: segments,
                earlier: 0,
            },
            windows: ReceiverWindows::default(),
            rate: None,
            rested: None,
            has_losses: false,
            has_queue: false,
            pauses: Vec::new(),
            packets: StopPackets {
                before: 1,
                release: PacketNumber::new(2),
                next: 3,
            },
        }
    }

    /// Returns the same response with `first` segments in flight at the first stop.
    fn stopped_first(segments: u64, first: u64) -> Delivery {
        let mut delivery = stopped(segments);
        delivery.in_flight.first = first * 1448;
        delivery
    }

    #[test]
    fn what_its_own_hosts_queue_holds_is_no_low_window() {
        assert_eq!(congestion(&stopped(4)), Some(Congestion::Low));
        let queued = Delivery {
            has_queue: true,
            ..stopped(4)
        };
        assert_eq!(congestion(&queued), None);
        let grown = stopped_first(9, 4);
        assert_eq!(congestion(&grown), None, "an older system's slow start");
    }

    #[test]
    fn a_window_opens_a_round_trip_after_it_filled() {
        let growing = stopped_first(34, 10);
        assert_eq!(congestion(&growing), Some(Congestion::SlowStart));
        let avoiding = stopped_first(20, 10);
        assert_eq!(congestion(&avoiding), None, "it avoids congestion");
        assert_eq!(congestion(&stopped(20)), None, "it stays as it is");
        let mut paced = growing;
        paced.stalled.stopped = Duration::from_millis(7);
        assert_eq!(congestion(&paced), None);
    }

    #[test]
    fn what_a_cut_window_costs_is_beyond_the_largest_one() {
        let cut = |earlier: u64| {
            let mut delivery = stopped(8);
            delivery.has_losses = true;
            delivery.in_flight.earlier = earlier * 1448;
            delivery
        };
        let ms = |n: u64| n * 1_000_000;
        // Five round trips of 40 ms with eight segments in flight, with and without the loss.
        assert_eq!(beyond_largest_window(&cut(8)).likely, 0);
        // With twenty segments in flight, two round trips would have sufficed.
        let cost = beyond_largest_window(&cut(20));
        assert_eq!((cost.low, cost.likely, cost.high), (0, ms(120), ms(200)));
        assert_eq!(
            beyond_largest_window(&stopped(8)),
            Cost::default(),
            "nothing was lost"
        );
        let late = Delivery {
            round_trip: Duration::from_millis(1),
            ..cut(20)
        };
        assert_eq!(
            beyond_largest_window(&late),
            Cost::default(),
            "no window opens so late"
        );
        // Timestamps may be centuries apart, and there may be as many bytes as numbers allow.
        let mut hostile = cut(0);
        hostile.round_trip = Duration::from_nanos(u64::MAX);
        hostile.size.bytes = u64::MAX;
        (hostile.in_flight.first, hostile.in_flight.most) = (1, 1);
        assert_eq!(beyond_largest_window(&hostile).likely, 0);
    }
}
