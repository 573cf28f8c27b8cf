//! Messages that a window, a buffer or a rate held back. The rules on such limits share this file.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use super::evidence::{self, human, percent};
use super::wording::{Wording, filled};
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::delivery::{Delivery, Limit};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome, Side};
use crate::observed::tcp::TCP_INIT_CWND;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, count, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

/// A low window stays below the initial window for at least this many round trips. Fewer may be the
/// end of a message.
const LOW_ROUNDS: u32 = 3;
/// A window that grows by at least this factor is not low. Older systems begin with two to four
/// segments (RFC 3390), but their windows grow.
const GROWN: u64 = 2;
/// Minimum number of stops that show whether the window grows as in slow start.
const GROWING_STOPS: u32 = 4;
/// Minimum growth factor over [`GROWING_STOPS`] stops that shows slow start. In slow start, the
/// window doubles per round trip, or grows by half if each ACK covers two segments. A constant
/// window has another limit. A window that grows by a segment or two is in congestion avoidance
/// (RFC 5681 §3.1).
const GROWING: u64 = 3;
/// In slow start, the window has doubled after a round trip, or grown by half. A window that has
/// not grown by this much, in percent, after [`LEVEL_TRIPS`] round trips of waiting is constant: it
/// is the window of an upper layer, such as HTTP/2 inside TLS, or a buffer.
const GROWN_BY: u64 = 25;
const LEVEL_TRIPS: f64 = 1.5;
/// Stops shorter than a round trip divided by this number are pacing. A window that was filled in a
/// burst opens only a round trip later.
const ROUND_PART: u32 = 8;
/// Maximum number of round trips after which a full window opens, on a path with varying delay.
const LATE_TRIPS: u32 = 2;
/// Minimum size of a window that counts as unchanged, in percent of its earlier size.
const KEPT: u64 = 80;
/// A segment smaller than a full segment divided by this number is a tiny write.
const TINY_PART: u64 = 4;

/// The index, from 0, of a connection's first exchange in which the receive window counts as tuned.
/// Linux tunes the window by the bytes that the program reads per round trip
/// (`tcp_rcv_space_adjust()` in `net/ipv4/tcp_input.c`). In the first exchanges, it has not seen
/// enough bytes yet.
const TUNED_FROM: u32 = 2;

/// The reason why the congestion window was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Congestion {
    /// The window is still growing, as intended.
    SlowStart,
    /// The window was larger before, and the sender restarted slow start after an idle period.
    AfterIdle,
    /// The window stays below the initial window.
    Low,
    /// The window counts segments, and the program writes tiny ones.
    TinyWrites,
    /// Losses reduced the window, so the losses are the cause.
    AfterLoss,
}

/// Returns the reason why the sender's congestion window was full; `None` if it was not, or if
/// something else was the limit.
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
        // Data in the queue of the sender's own host also counts as in flight. A socket may have
        // two super-segments there (`tcp_small_queue_check()` in `net/ipv4/tcp_output.c`).
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

/// Returns the cost of a window that losses have reduced (RFC 5681 §3.1). It is the time for which
/// the message stalled, minus the time that it would have taken with the sender's largest window.
/// The true cost is higher, because the window would have grown further without the losses. The
/// lower bound is zero, and the upper bound is the whole stall minus the time of slow start.
pub(super) fn beyond_largest_window(delivery: &Delivery) -> Cost {
    // A full window opens within a round trip. A longer stop waited for something else.
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

/// Returns true if the bytes in flight were about the same at all stops. In this case, a buffer, a
/// rate or a window that hardly grows is the limit, and not slow start.
fn is_level(delivery: &Delivery) -> bool {
    // The bytes at the stops are used, and not those after the last segment: the sender may not
    // have seen all ACKs then.
    let most = delivery
        .in_flight
        .most_segments
        .saturating_mul(u64::from(delivery.size.mss));
    let first = delivery.in_flight.first;
    let trips = delivery.stalled.stopped.as_secs_f64() / delivery.round_trip.as_secs_f64();
    let is_constant =
        trips >= LEVEL_TRIPS && most.saturating_mul(100) < first.saturating_mul(100 + GROWN_BY);
    is_constant || delivery.stops >= GROWING_STOPS && most < first.saturating_mul(GROWING)
}

/// Minimum number of round trips until a full receive window is acknowledged, if a queue on the
/// path contains the window.
const QUEUED_TRIPS: u32 = 3;
/// Minimum time beyond [`QUEUED_TRIPS`] round trips until the window is acknowledged. Delayed ACKs
/// take less.
const QUEUED_FOR: Duration = Duration::from_millis(100);
/// Minimum number of segments in a window that the receiver's kernel acknowledges while it fills.
const MANY_SEGMENTS: u64 = 8;
/// Minimum time until such a window is open again, if its program reads slowly: in round trips, and
/// beyond them.
const REOPENED_TRIPS: u32 = 2;
const REOPENED_FOR: Duration = Duration::from_millis(5);
/// Minimum share of the window that must be in flight, in percent. The rest may be unread in the
/// receiver's buffer.
const LEAST_IN_FLIGHT: u64 = 80;
/// Minimum share of the window that the receiver must reopen, in percent. If the program reads
/// slowly, more of the data stays in the window.
const OPEN: u64 = 90;

/// Returns the time until a full window was acknowledged, if a queue on the path contained the
/// whole window. A larger window would only lengthen this queue.
pub(super) fn standing(delivery: &Delivery) -> Option<Duration> {
    let windows = delivery.windows;
    let is_read = windows.last.saturating_mul(100) >= windows.first.saturating_mul(OPEN);
    let is_in_flight = delivery.in_flight.most.saturating_mul(100)
        >= windows.first.saturating_mul(LEAST_IN_FLIGHT);
    passed_late(delivery).filter(|_| is_read && is_in_flight)
}

/// Returns the time until a full window was acknowledged, if the receiver was slow to reopen it. In
/// this case, the receiver takes the time, and not the path.
pub(super) fn read_late(delivery: &Delivery) -> Option<Duration> {
    let windows = delivery.windows;
    let is_read = windows.last.saturating_mul(100) >= windows.first.saturating_mul(OPEN);
    passed_late(delivery)
        .filter(|_| !is_read)
        .or_else(|| reopened_late(delivery))
}

/// Returns the time until a window of many segments was open again, if that took longer than its
/// size explains, and nothing queued on the path. The receiver's kernel acknowledges most of such a
/// window at once, so the program had not read it.
fn reopened_late(delivery: &Delivery) -> Option<Duration> {
    let is_large = delivery.windows.first >= u64::from(delivery.size.mss) * MANY_SEGMENTS;
    let whole = until_open(delivery).filter(|_| is_large && !delivery.has_queue)?;
    (whole >= delivery.round_trip * REOPENED_TRIPS + REOPENED_FOR).then_some(whole)
}

/// Returns the time until a full window was acknowledged, if it is far longer than the round trip.
fn passed_late(delivery: &Delivery) -> Option<Duration> {
    until_open(delivery).filter(|&whole| whole >= delivery.round_trip * QUEUED_TRIPS + QUEUED_FOR)
}

/// Returns true if a full window is open again about a round trip later, as its size explains.
/// Otherwise a queue on the path, or the receiver, takes most of that time, and a larger window would
/// not be open sooner.
pub(super) fn takes_a_trip(delivery: &Delivery) -> bool {
    let longest = delivery.round_trip * QUEUED_TRIPS + REOPENED_FOR;
    until_open(delivery).is_none_or(|whole| whole < longest)
}

/// Returns the mean time for which a full window stopped its message.
fn until_open(delivery: &Delivery) -> Option<Duration> {
    let window = delivery.windows.first;
    let is_full = delivery.limit == Limit::ReceiveWindow && !is_closed(delivery);
    if !is_full || window == 0 || delivery.size.bytes < window {
        return None;
    }
    let whole = delivery.stalled.stopped.as_secs_f64() * window as f64 / delivery.size.bytes as f64;
    Duration::try_from_secs_f64(whole).ok()
}

/// The window was closed for at least the time that it was full divided by this number. If it was
/// open but small for longer, its size is the reason.
const SHUT_PART: u32 = 3;

/// Returns true if the window was closed completely for much of the time that it was full.
pub(super) fn is_closed(delivery: &Delivery) -> bool {
    let stalled = delivery.stalled;
    let is_shut = stalled.shut > Duration::ZERO && stalled.shut * SHUT_PART >= stalled.stopped;
    delivery.limit == Limit::ReceiveWindow && is_shut
}

/// A cause that limits the rate of messages.
pub(super) trait LimitRule: Default + Clone + fmt::Debug {
    /// The id of the cause.
    const ID: Id;
    /// Minimum number of affected messages for a claim.
    const REPEATS: u64 = evidence::REPEATS;

    /// Returns the time that the cause cost this message; `None` if it did not limit the message.
    fn cost(delivery: &Delivery) -> Option<Duration>;

    /// Returns the end that is at fault.
    fn culprit(sender: Side) -> Owner {
        owner(sender)
    }

    /// Returns the evidence in the packets, and the wording of the claim. `worst` is the message
    /// that lost most time.
    fn words(worst: &Delivery) -> (&'static str, &'static Wording);

    /// Returns the texts for messages that only all together show the limit; `None` if each does.
    fn words_together(
        worst: &Delivery,
        together: &Together,
    ) -> Option<(&'static str, &'static Wording)> {
        let _ = (worst, together);
        None
    }

    /// Adds parts to the claim that only some cases need.
    fn complete(claim: &mut Claim, case: &Case<'_>, worst: &Delivery, together: &Together) {
        let _ = (claim, case, worst, together);
    }

    /// Returns true if the limit is a fault, and false if it is intended.
    fn is_fault(limited: &Limited<Self>, case: &Case<'_>) -> bool {
        let _ = (limited, case);
        true
    }
}

/// The messages that one cause limited, by sender.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Limited<K> {
    server: Messages,
    client: Messages,
    #[merge(skip = "has no value")]
    kind: PhantomData<K>,
}

/// The limited messages of one side.
#[derive(Clone, Debug, Default)]
struct Messages {
    tally: Tally,
    stops: u64,
    /// Number of limited messages in the first exchanges of connections, when the window is still
    /// being tuned.
    opening: u64,
    /// The length of all limited messages, in bytes.
    bytes: u64,
    /// The least and the highest of their constant rates, in bytes per second.
    rates: Option<[f64; 2]>,
    /// True if the first message of a connection is among them.
    has_first: bool,
    /// The message that lost most time.
    worst: Option<Delivery>,
}

/// The limited messages of one side, taken together while any of them was under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Together {
    /// Bytes per second.
    pub(super) rate: f64,
    /// The mean number of messages at a time.
    pub(super) side_by_side: f64,
    /// The least and the highest rate of single messages, in bytes per second, of those with a constant
    /// rate.
    pub(super) rates: Option<[f64; 2]>,
    /// True if the first message of a connection is among them.
    pub(super) has_first: bool,
}

impl<K: LimitRule> super::Rule for Limited<K> {
    const CONCERNS: Features = Features::DELIVERIES;

    fn observe(&mut self, exchange: &Exchange) {
        // What a limit costs follows from the size of the message, which a response that did not end
        // does not show.
        let has_size = |delivery: &&Delivery| {
            delivery.sender == Side::Client || matches!(exchange.outcome, Outcome::Complete(_))
        };
        for delivery in exchange.sending.deliveries.iter().filter(has_size) {
            // A message that lost no more time than slow start takes anyway costs nothing.
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
            side.bytes = side.bytes.saturating_add(delivery.size.bytes);
            side.opening += u64::from(exchange.id.ordinal < TUNED_FROM);
            side.has_first |= delivery.rested.is_none();
            side.add_rates(delivery.rate.map(|rate| [rate, rate]));
            side.offer(delivery);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let (side, messages) = self.largest();
        let matters = evidence::is_material(case, &messages.tally)
            && messages.are_repeated::<K>(case)
            && K::is_fault(self, case);
        match messages.worst.as_ref().filter(|_| matters) {
            Some(worst) => Conclusion::Claim(Box::new(claim::<K>(case, side, messages, worst))),
            None => Conclusion::Nothing,
        }
    }
}

impl<K> Limited<K> {
    /// Returns true if the cause affected at least half of the exchanges, including those with
    /// incomplete responses.
    pub(super) fn is_common(&self, case: &Case<'_>) -> bool {
        self.affected() * 2 >= case.ledger.uncut() + case.ledger.counts.cut
    }

    /// Returns true if the cause affected only the first exchanges of connections. In this case,
    /// the window was still being tuned.
    pub(super) fn is_of_openings(&self, case: &Case<'_>) -> bool {
        let is_opening = |side: &Messages| side.opening >= side.tally.affected;
        let is_rare = self.affected() * 2 < case.ledger.counts.count;
        is_rare && is_opening(&self.server) && is_opening(&self.client)
    }

    /// Returns what the messages of the side that lost most time amount to together.
    pub(super) fn together(&self) -> Together {
        self.largest().1.together()
    }

    fn largest(&self) -> (Side, &Messages) {
        if self.client.tally.cost.likely > self.server.tally.cost.likely {
            (Side::Client, &self.client)
        } else {
            (Side::Server, &self.server)
        }
    }

    /// Returns the message that lost most time.
    pub(super) fn worst(&self) -> Option<&Delivery> {
        self.largest().1.worst.as_ref()
    }

    fn affected(&self) -> u64 {
        self.server.tally.affected.max(self.client.tally.affected)
    }
}

/// Returns the time for which the limit stopped the message, without the time that slow start would
/// have taken anyway. What other limits took is not its own.
pub(super) fn beyond_slow_start(delivery: &Delivery) -> Duration {
    let stalled = delivery.stalled;
    stalled
        .held
        .saturating_sub(stalled.spared)
        .min(stalled.stopped + stalled.drain)
}

impl Messages {
    /// Returns true if the stops are no coincidence: several messages stopped, or one stopped very
    /// often and lost most of the time.
    fn are_repeated<K: LimitRule>(&self, case: &Case<'_>) -> bool {
        let is_most = self.tally.cost.likely.saturating_mul(2) >= case.ledger.total();
        let is_steady = self.stops >= evidence::REPEATS * 4;
        let has_come_again = self.tally.affected >= K::REPEATS;
        has_come_again || evidence::is_repeated(case, &self.tally) || (is_most && is_steady)
    }

    /// Returns what the messages amount to together.
    fn together(&self) -> Together {
        let time = (self.tally.wall() as f64 / 1e9).max(1e-9);
        Together {
            rate: self.bytes as f64 / time,
            side_by_side: self.tally.before.sum_ns() as f64 / 1e9 / time,
            rates: self.rates,
            has_first: self.has_first,
        }
    }

    fn add_rates(&mut self, others: Option<[f64; 2]>) {
        self.rates = match (self.rates, others) {
            (Some([least, most]), Some([low, high])) => Some([least.min(low), most.max(high)]),
            (known, other) => known.or(other),
        };
    }

    /// Keeps the message that stalled longest. If two are equal, the one with lower packet numbers
    /// is kept, so the order of closing does not matter.
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
}

impl Merge for Messages {
    fn merge(&mut self, other: Self) {
        let Self {
            tally,
            stops,
            opening,
            bytes,
            rates,
            has_first,
            worst,
        } = other;
        self.tally.merge(tally);
        self.stops += stops;
        self.opening += opening;
        self.bytes = self.bytes.saturating_add(bytes);
        self.add_rates(rates);
        self.has_first |= has_first;
        worst.iter().for_each(|worst| self.offer(worst));
    }
}

/// Returns the claim on the messages of `sender`, the side with the larger cost.
fn claim<K: LimitRule>(
    case: &Case<'_>,
    sender: Side,
    messages: &Messages,
    worst: &Delivery,
) -> Claim {
    let mut claim = evidence::claim(K::ID, K::culprit(sender), case, &messages.tally);
    let even = worst.size.bytes as f64 / worst.stalled.stopped.as_secs_f64().max(1e-9);
    let queued = standing(worst).or(read_late(worst));
    let together = messages.together();
    let name_of = message(case, sender);
    let values: [(&str, &dyn fmt::Display); 24] = [
        ("from", &name(sender)),
        ("to", &name(sender.peer())),
        ("message", &name_of),
        ("cost", &share(&claim)),
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
        ("bytes", &count(worst.size.bytes)),
        ("all_bytes", &bytes(messages.bytes)),
        ("whole_rate", &bits(together.rate)),
        ("at_a_time", &format_args!("{:.1}", together.side_by_side)),
        (
            "messages",
            &counted(messages.tally.affected, name_of, &format!("{name_of}s")),
        ),
    ];
    let words = K::words_together(worst, &together);
    let (seen, wording) = words.unwrap_or_else(|| K::words(worst));
    let seen = filled(seen, &claim, &values);
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, seen)
            .count(messages.stops)
            .median(&messages.tally.saved)
            .packets(&worst.packets.numbers()),
    );
    claim.basis = Basis::new(messages.stops, false);
    wording.tell(&mut claim, &values);
    K::complete(&mut claim, case, worst, &together);
    claim
}

/// Returns the cost, as the end of a summary.
fn share(claim: &Claim) -> String {
    let [one, many] = claim.unit.words();
    let mean = claim.time.cost.likely / claim.affected.exchanges.max(1);
    format!(
        "{} (mean) in {} of {} {many}, {} of all {one} time",
        human(Duration::from_nanos(mean)),
        claim.affected.exchanges,
        claim.affected.of,
        percent(claim.time.share())
    )
}

/// Returns the number of full segments that the sender's first flight contains.
pub(super) fn first_segments(delivery: &Delivery) -> u64 {
    let size = u64::from(delivery.size.mss.max(1));
    delivery.in_flight.first.div_ceil(size)
}

/// Returns the name of `side` for a sentence.
fn name(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

/// Returns the name of the messages of `side` for a sentence.
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

/// Formats a number of bytes for a sentence.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => counted(count, "byte", "bytes"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

/// Formats a rate for a sentence. `rate` is in bytes per second, and the text in bits per second.
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

    /// Returns a response of forty segments. It stopped five times for a round trip of 40 ms each,
    /// with `segments` in flight.
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
            burst_rate: None,
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

    /// A response of 40 segments to a window of `segments`, which is open again after `whole`.
    fn windowed(segments: u64, whole: Duration) -> Delivery {
        let mut delivery = stopped(segments);
        delivery.limit = Limit::ReceiveWindow;
        delivery.round_trip = Duration::from_millis(6);
        (delivery.windows.first, delivery.windows.last) = (segments * 1448, segments * 1448);
        delivery.stalled.stopped = whole * 40 / segments as u32;
        delivery
    }

    #[test]
    fn a_window_that_opens_later_than_a_round_trip_is_read_late() {
        let ms = Duration::from_millis;
        assert_eq!(read_late(&windowed(20, ms(25))), Some(ms(25)));
        assert_eq!(read_late(&windowed(20, ms(6))), None, "a round trip");
        assert_eq!(read_late(&windowed(20, ms(16))), None, "nearly two of them");
        // A delayed acknowledgement opens a window of a few segments.
        assert_eq!(read_late(&windowed(4, ms(46))), None);
        let queued = Delivery {
            has_queue: true,
            ..windowed(20, ms(25))
        };
        assert_eq!(read_late(&queued), None, "the path");
    }

    #[test]
    fn a_window_that_opens_far_later_is_not_too_small() {
        let is_too_small = |whole: u64| {
            let delivery = Delivery {
                has_queue: true,
                ..windowed(20, Duration::from_millis(whole))
            };
            super::super::receive_window::SmallWindow::cost(&delivery).is_some()
        };
        assert!(is_too_small(6), "a round trip");
        assert!(is_too_small(20), "nearly four of them");
        assert!(!is_too_small(60), "a queue, or the receiver");
    }

    #[test]
    fn a_window_costs_its_own_stops_and_a_round_trip_for_each() {
        let cost = |whole: u64| {
            let delivery = Delivery {
                stops: 10,
                ..windowed(4, Duration::from_millis(whole))
            };
            // Other limits held the message as well, for 200 ms in all.
            assert!(delivery.stalled.held > delivery.stalled.stopped);
            super::super::receive_window::SmallWindow::cost(&delivery)
        };
        let ms = |n| Some(Duration::from_millis(n));
        assert_eq!(cost(6), ms(60), "ten round trips");
        assert_eq!(cost(12), ms(60), "the receiver takes the other half");
        assert_eq!(
            cost(3),
            ms(30),
            "a near miss: the stops are shorter than round trips"
        );
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
        // Each response takes five round trips of 40 ms with eight segments in flight, with or
        // without the loss.
        assert_eq!(beyond_largest_window(&cut(8)).likely, 0);
        // With twenty segments in flight, two round trips would have been enough.
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
