//! Round trips that are longer than the minimum. The rules on the path share this file.
//!
//! An exchange is *late* if its round trip is longer than the minimum by [`FACTOR`] and
//! [`LATE_BY`].

use core::time::Duration;

use super::Case;
use super::beside::Meetings;
use super::evidence::{self, MATERIAL_SHARE, MATERIAL_TIME, OCCASIONS};
use super::features::Features;
use crate::claim::Claim;
use crate::exchange::wait::WaitKind;
use crate::exchange::{Exchange, Queueing};
use crate::observed::segment::LINUX_TTL;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::service::Uploads;
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::bounded::Least;
use crate::stats::histogram::Distribution;

/// Minimum ratio of a late round trip to the minimum.
pub(super) const FACTOR: u32 = 2;
/// Minimum difference between a late round trip and the minimum.
pub(super) const LATE_BY: Duration = Duration::from_millis(5);
/// Minimum delay that is attributed to the path.
const SLIGHT: Duration = Duration::from_millis(1);
/// The initial congestion window of ten segments, in bytes (RFC 6928).
const FIRST_FLIGHT: u64 = 14_600;
/// Maximum number of samples kept. These are the earliest.
const MAX_SAMPLES: usize = 1024;

/// Minimum number of exchanges before a step, and after it.
const LEAST_SIDE: usize = 8;
/// Minimum height of a step, as a share of the lower level.
const STEP_SHARE: f64 = 0.15;
/// Minimum time for which each side of a step lasts, as a multiple of the longer round trip. A queue
/// that fills when a load begins, or drains when it ends, takes about one.
const LASTING: u32 = 3;
/// Maximum share of samples on the wrong side of a step, in percent.
const ASTRAY: usize = 5;

/// Maximum delay of a delayed ACK of Linux, if the round trip is not longer
/// (`tcp_send_delayed_ack()` in `net/ipv4/tcp_output.c`).
const LINUX_DELAYED_ACK: Duration = Duration::from_millis(40);
/// If the time passed on the path, the server's kernel acknowledges at most one in this many
/// requests before the response.
const ACKED: u64 = 10;

/// Minimum number of late exchanges for jitter, if many more have shorter delays.
const FEW: u64 = 3;
/// Maximum share of delayed exchanges for jitter, in percent: of the others, it is known that the
/// path itself is faster.
const MOST_DELAYED: u64 = 75;
/// Minimum share of late exchanges for a standing queue.
const MOSTLY: f64 = 0.5;
/// Minimum share of late exchanges for a standing queue whose delays change smoothly.
const OFTEN: f64 = 0.25;
/// Minimum correlation between successive delays that change smoothly.
const SMOOTH: f64 = 0.5;

/// The round trips of a service over time.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
pub(crate) struct Trips {
    /// The late exchanges.
    pub(super) tally: Tally,
    /// The late exchanges, including the delay of late responses. The path to the server may have
    /// caused this delay.
    pub(super) both_ways: Tally,
    /// Delays outside the exchanges, however long the exchanges are.
    late_outside: Tally,
    /// Exchanges whose round trip is longer than the minimum by [`STEP_SHARE`].
    pub(super) beyond: Tally,
    least: LeastTrips,
    outside: OutsideTime,
    /// Number of exchanges for which the capture shows when the response arrived at the client.
    told: u64,
    /// Number of exchanges for which the capture does not show when the response arrived.
    untold: u64,
    /// Number of late round trips that a sender's clock shows to be mostly on the path.
    clocked: u64,
    #[merge(extend)]
    samples: Vec<Sample>,
    /// The time of the latest sample, if no later samples fit; `None` otherwise.
    #[merge(skip = "follows from the samples")]
    until: Option<Timestamp>,
    /// Number of exchanges whose request was acknowledged before the response.
    acked_first: u64,
    /// The earliest passages. They include those of exchanges for which the arrival of the response
    /// is not known.
    passages: Least<Passage, MAX_SAMPLES>,
}

/// Minimum round-trip times.
#[derive(Clone, Debug, Default, Merge)]
struct LeastTrips {
    /// The minimum of exchanges captured nearer to the client.
    near: LeastTrip,
    /// The minimum of exchanges captured nearer to the server.
    afar: LeastTrip,
    /// For each late exchange, the minimum of its own connection.
    own: Distribution,
}

/// Time in nanoseconds that is not part of the exchanges as seen at the observation point.
#[derive(Clone, Copy, Debug, Default, Merge)]
struct OutsideTime {
    /// Time of late exchanges before the request reached the point and after the response left it.
    all: u64,
    /// The part of `all` before the request reached the point, by the client's clock.
    asked: u64,
    /// The part of `all` after the response left.
    heard_late: u64,
    /// Time after the response left the point, over all exchanges with any delay attributed to the
    /// path.
    heard_slightly: u64,
}

/// The number of some exchanges, and their minimum round trip.
#[derive(Clone, Copy, Debug, Default, Merge)]
struct LeastTrip {
    count: u64,
    #[merge(least)]
    least: Option<Duration>,
}

/// The visible time of an exchange on the path. It is late if it is far above the minimum of the
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Passage {
    at: Timestamp,
    trip: Duration,
    is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sample {
    at: Timestamp,
    /// The round trip in nanoseconds. The type is small because there are many samples.
    trip: u64,
    /// The client's port, which identifies the connection.
    port: u16,
    ttl: u8,
}

/// A step of the round trips from one level to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelStep {
    pub(super) at: Timestamp,
    pub(super) before: Duration,
    pub(super) after: Duration,
    /// The TTL of the responses before and after the step, if it changed.
    pub(super) ttl: Option<(u8, u8)>,
}

impl Trips {
    pub(super) const CONCERNS: Features = Features::wait(WaitKind::RoundTrip).or(Features::BEYOND);

    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let seen = exchange.waited(WaitKind::RoundTrip);
        // The capture point is at the server, whose reply came within a tick of the capture's
        // clock.
        if seen + exchange.path.to_client == Duration::ZERO {
            return;
        }
        // It is not known when the request reached the server. The known time covers only the
        // client's side of the path.
        if seen.is_zero()
            && exchange
                .path
                .to_server
                .is_some_and(|least| least >= LATE_BY)
        {
            return;
        }
        let (outside, is_whole) = outside(exchange);
        let beyond = exchange.path.to_client;
        let trip = seen + beyond + outside;
        self.acked_first += u64::from(exchange.path.is_acked_first);
        self.told += u64::from(is_whole);
        self.untold += u64::from(!is_whole);
        // The minimum of the exchange's own connection is used. The service's minimum would depend
        // on which client came first.
        let least = exchange.path.to_server.unwrap_or(seen) + beyond;
        self.note_least(exchange, trip, least);
        let late = trip.saturating_sub(least);
        let is_late = trip >= least * FACTOR && late >= LATE_BY;
        if is_late {
            self.tally.add(exchange, Cost::exactly(late), outside);
            self.least.own.record(least);
            let Queueing {
                request: asked,
                response: answered,
            } = exchange.path.queued;
            self.clocked += u64::from((asked + answered) * 2 >= late);
            let heard = outside.saturating_sub(asked);
            self.tally
                .add_wall(exchange.begin - asked.min(outside), exchange.end + heard);
            let heard = nanos(exchange.path.heard_late.unwrap_or_default());
            self.outside.heard_late = self.outside.heard_late.saturating_add(heard);
        }
        if late >= LATE_BY && late >= least.mul_f64(STEP_SHARE) {
            self.beyond.add(exchange, Cost::exactly(late), outside);
        }
        if outside >= SLIGHT {
            self.outside.all = self.outside.all.saturating_add(nanos(outside));
            let asked = nanos(exchange.path.queued.request);
            self.outside.asked = self.outside.asked.saturating_add(asked);
        }
        if late >= SLIGHT {
            let heard = nanos(exchange.path.heard_late.unwrap_or_default());
            self.outside.heard_slightly = self.outside.heard_slightly.saturating_add(heard);
        }
        self.note_both_ways(exchange, late, outside);
        self.passages.add(Passage {
            at: exchange.begin,
            trip,
            is_late,
        });
        if !is_whole {
            return;
        }
        if self.until.is_some_and(|until| exchange.begin > until) {
            return;
        }
        self.samples.push(Sample {
            at: exchange.begin,
            trip: nanos(trip),
            port: exchange.id.client.port,
            ttl: exchange.path.ttl,
        });
        if self.samples.len() > MAX_SAMPLES * 2 {
            self.settle();
        }
    }

    /// Returns true if senders' clocks show the delay on the path. Without the clocks, a host whose
    /// kernel acknowledges late would look the same.
    pub(super) fn is_by_clock(&self) -> bool {
        let is_most_asked = self.outside.asked.saturating_mul(2) >= self.outside.all;
        let is_asked = self.is_outside() && is_most_asked;
        self.clocked * CLOCKED_PART >= self.tally.affected || is_asked
    }

    /// Returns the minimum round trip with which late ones are compared. It is the service's
    /// minimum. If another host is far nearer to the server, it is the minimum of the late
    /// connections themselves.
    pub(super) fn least_of_late(&self, case: &Case<'_>) -> Duration {
        // A handshake is a round trip too.
        let least = self.least();
        let least = least.into_iter().chain(case.ledger.trips.handshake).min();
        let least = least.unwrap_or_default();
        let own = self.least.own.quantile(0.5).unwrap_or_default();
        if own >= least * FACTOR { own } else { least }
    }

    /// Records delays before and after the exchange. For a long response, the time after it does
    /// not count: on a slow link, the last segments queue behind the earlier ones.
    fn note_outside(&mut self, exchange: &Exchange, outside: Duration) {
        let asked = exchange.path.queued.request;
        let asked = asked.min(outside);
        let heard = if exchange.response.count <= FIRST_FLIGHT {
            outside - asked
        } else {
            Duration::ZERO
        };
        if asked + heard < SLIGHT {
            return;
        }
        let outside = asked + heard;
        self.late_outside
            .add(exchange, Cost::exactly(outside), outside);
        self.late_outside
            .add_wall(exchange.begin - asked, exchange.end + heard);
    }

    /// Records the minimum round trip. In a capture at the server, every reply of the client may be
    /// late, so the connection's known minimum is recorded instead.
    fn note_least(&mut self, exchange: &Exchange, trip: Duration, least: Duration) {
        let (known, trip) = if is_far(exchange) {
            (&mut self.least.afar, least)
        } else {
            (&mut self.least.near, trip)
        };
        known.count += 1;
        known.least = known.least.into_iter().chain([trip]).min();
    }

    /// Returns the minimum round trip, for the side of the path on which most exchanges were
    /// captured. If a client was already connected when the capture began, its distance is not
    /// known before its first reply.
    pub(crate) fn least(&self) -> Option<Duration> {
        if self.least.afar.count > self.least.near.count {
            self.least.afar.least
        } else {
            self.least.near.least
        }
    }

    fn note_both_ways(&mut self, exchange: &Exchange, late: Duration, outside: Duration) {
        // In a capture at the server, the time until the response is the server's own.
        let answered_late = if exchange.path.is_acked_first || is_far(exchange) {
            Duration::ZERO
        } else {
            exchange.waited(WaitKind::ServerThink)
        };
        if late < SLIGHT && answered_late < SLIGHT {
            return;
        }
        let cost = Cost {
            low: nanos(late),
            likely: nanos(late + answered_late),
            high: nanos(late + answered_late),
        };
        self.both_ways.add(exchange, cost, outside);
        self.note_outside(exchange, outside);
    }

    /// Returns the delays outside the exchanges, measured by clients' clocks and ACKs.
    /// `None` if they are
    /// not most of the delay, or occur at one time only.
    pub(crate) fn late_outside(&self) -> Option<&Tally> {
        let late = &self.late_outside;
        let longest = late.saved.quantile(1.0)?;
        let recurs = || late.times(longest) >= OCCASIONS;
        (late.affected >= evidence::REPEATS && self.is_outside() && recurs()).then_some(late)
    }

    /// Returns true if the time beyond the minimum `least` passed on the path. If the program of a
    /// Linux server thought for that long, its kernel would send an ACK first.
    pub(crate) fn are_on_way(&self, least: Duration) -> bool {
        let Some((_, typical, _)) = level(&self.in_order()) else {
            return false;
        };
        let delayed_ack = LINUX_DELAYED_ACK.max(least);
        let is_linux = self
            .samples
            .iter()
            .all(|one| (1..=LINUX_TTL).contains(&one.ttl));
        let is_silent = self.acked_first * ACKED <= self.told;
        is_linux && is_silent && typical.saturating_sub(least) * 2 >= delayed_ack * 3
    }

    /// Returns true if the late exchanges are those that overlapped an upload to the same server.
    pub(super) fn are_beside(&self, uploads: &Uploads) -> bool {
        let mut meetings = Meetings::default();
        for passage in self.passages.sorted() {
            let (from, until) = (passage.at - passage.trip, passage.at + passage.trip);
            meetings.count(uploads.meet(None, from, until), passage.is_late);
        }
        meetings.go_together()
    }

    fn settle(&mut self) {
        self.samples.sort_unstable();
        self.samples.truncate(MAX_SAMPLES);
        let is_full = self.samples.len() == MAX_SAMPLES;
        self.until = self.samples.last().filter(|_| is_full).map(|last| last.at);
    }

    /// Returns true if the time in `tally` matters to clients. In a capture at the server, most of
    /// this time is outside the exchanges.
    pub(super) fn is_material(&self, case: &Case<'_>, tally: &Tally) -> bool {
        if evidence::is_material(case, tally) {
            return true;
        }
        let least = self.least().unwrap_or_default();
        // A host that stalls once delays all packets in flight.
        let typical = self.tally.saved.quantile(0.5).unwrap_or_default();
        let recurs = self.tally.times(typical) >= OCCASIONS;
        self.outside.all > 0 && recurs && matters_outside(case, tally, least)
    }

    /// Returns true if delays outside the exchanges recur and matter, though only a few of them are
    /// as long as the minimum round trip. Those few may be due to a single stall, so the others must
    /// matter without them.
    pub(super) fn vary_outside(&self, case: &Case<'_>) -> bool {
        let least = self.least().unwrap_or_default();
        let varies = |late: &Tally| {
            let most = case.ledger.counts.count.saturating_mul(MOST_DELAYED) / 100;
            let mut rest = late.clone();
            rest.cost.likely = rest.cost.likely.saturating_sub(self.tally.cost.likely);
            late.affected <= most && matters_outside(case, &rest, least)
        };
        self.tally.affected >= FEW && self.late_outside().is_some_and(varies)
    }

    /// Returns true if most of the delay is outside the exchanges.
    pub(super) fn is_outside(&self) -> bool {
        self.outside.all.saturating_mul(2) > self.both_ways.cost.likely
    }

    /// If the delay is mostly outside the exchanges, sets the claim's share of the requests' time
    /// including that delay, and drops the prediction, which does not include it.
    pub(super) fn share(&self, case: &Case<'_>, tally: &Tally, claim: &mut Claim) {
        if self.is_outside() {
            claim.time.whole_ns = whole_outside(case, tally, self.least().unwrap_or_default());
            claim.time.predicted = None;
        }
    }

    /// Returns the samples in the order of their times.
    fn in_order(&self) -> Vec<Sample> {
        let mut samples = self.samples.clone();
        samples.sort_unstable();
        samples.truncate(MAX_SAMPLES);
        samples
    }

    /// Returns true if there is a standing queue on the path: most exchanges are late, or many are
    /// and their delays change smoothly.
    pub(super) fn is_queue(&self, count: u64) -> bool {
        let share = self.tally.affected as f64 / count.max(1) as f64;
        share >= MOSTLY || (share >= OFTEN && self.smoothness() >= SMOOTH)
    }

    /// Returns the cost of a standing queue. The queue affects all exchanges, so exchanges with an
    /// unknown arrival of the response count like the others.
    pub(super) fn queued(&self) -> Tally {
        self.with_untold(&self.tally, self.outside.heard_late)
    }

    /// Returns the cost of jitter. Exchanges for which the arrival of the response is not known
    /// count only in the upper bound: the arrival is known more often if it was late.
    pub(super) fn jittered(&self) -> Tally {
        let likely = self.both_ways.cost.likely;
        let mut tally = self.with_untold(&self.both_ways, self.outside.heard_slightly);
        tally.cost.likely = likely;
        tally
    }

    fn with_untold(&self, tally: &Tally, heard: u64) -> Tally {
        let mut tally = tally.clone();
        let told = u128::from(self.told.max(1));
        let rest = u128::from(heard) * u128::from(self.untold) / told;
        let rest = u64::try_from(rest).unwrap_or(u64::MAX);
        tally.cost.likely = tally.cost.likely.saturating_add(rest);
        tally.cost.high = tally.cost.high.saturating_add(rest);
        tally
    }

    /// Returns the correlation between each round trip and the next one.
    fn smoothness(&self) -> f64 {
        let trips: Vec<f64> = self
            .in_order()
            .iter()
            .map(|sample| sample.trip as f64)
            .collect();
        let count = trips.len().max(1) as f64;
        let mean = trips.iter().sum::<f64>() / count;
        let variance: f64 = trips.iter().map(|trip| (trip - mean).powi(2)).sum();
        let both: f64 = trips
            .iter()
            .zip(trips.iter().skip(1))
            .map(|(one, next)| (one - mean) * (next - mean))
            .sum();
        if variance > 0.0 { both / variance } else { 0.0 }
    }

    /// Returns the step at which all round trips changed to another level; `None` if there is none.
    pub(super) fn step(&self) -> Option<LevelStep> {
        let samples = self.in_order();
        let mut sorted: Vec<u64> = samples.iter().map(|sample| sample.trip).collect();
        sorted.sort_unstable();
        let low = *sorted.get(sorted.len() / 10)?;
        let high = *sorted.get(sorted.len() * 9 / 10)?;
        let middle = low + high.saturating_sub(low) / 2;
        let is_high = |sample: &Sample| sample.trip > middle;
        let highs = samples.iter().filter(|sample| is_high(sample)).count();
        // While the split moves forward, samples pass from its right side to its left.
        let (mut astray, mut best) = (samples.len() - highs, (usize::MAX, 0));
        for (index, sample) in samples.iter().enumerate() {
            let wrong = astray.min(samples.len() - astray);
            let has_sides = index >= LEAST_SIDE && samples.len() - index >= LEAST_SIDE;
            if has_sides && wrong < best.0 {
                best = (wrong, index);
            }
            astray = if is_high(sample) {
                astray + 1
            } else {
                astray - 1
            };
        }
        let (wrong, at) = best;
        if wrong == usize::MAX || wrong * 100 > samples.len() * ASTRAY {
            return None;
        }
        let (before, after) = samples.split_at_checked(at)?;
        step_between(before, after)
    }
}

/// Returns true if the time in `tally`, which is outside the exchanges, matters to clients.
pub(super) fn matters_outside(case: &Case<'_>, tally: &Tally, least: Duration) -> bool {
    let mean = Duration::from_nanos(tally.cost.likely / case.ledger.counts.count.max(1));
    let whole = whole_outside(case, tally, least).max(1) as f64;
    mean >= MATERIAL_TIME && case.weigh(tally.cost.likely) as f64 / whole >= MATERIAL_SHARE
}

/// Returns the requests' time including the way from and to the client, in nanoseconds. The way
/// takes at least the round trip `least` for each request, and the delays of `tally`.
pub(super) fn whole_outside(case: &Case<'_>, tally: &Tally, least: Duration) -> u64 {
    let ways = nanos(least).saturating_mul(case.ledger.counts.count);
    let whole = case.ledger.total().saturating_add(ways);
    case.weigh(whole.saturating_add(tally.cost.likely))
}

/// A sender's clock must show at least one in this many of the late round trips. Clocks never show
/// delays on the way to the server.
const CLOCKED_PART: u64 = 4;

/// Returns true if the capture point is nearer to the server than to the client. Most of each round
/// trip is then outside the exchange.
pub(super) fn is_far(exchange: &Exchange) -> bool {
    exchange
        .path
        .to_server
        .is_some_and(|least| exchange.path.to_client > least)
}

/// Returns the delay outside the exchange as captured. It is the request's delay before the capture
/// point, by the sender's clock, plus the delay of the response's end after that point. It is zero
/// if the capture point is nearer to the client. The second value is true if both delays are known.
fn outside(exchange: &Exchange) -> (Duration, bool) {
    if !is_far(exchange) {
        return (Duration::ZERO, true);
    }
    let asked = exchange.path.queued.request;
    let heard = exchange.path.heard_late;
    (asked + heard.unwrap_or_default(), heard.is_some())
}

/// Returns the step between the two sides, if each side has a constant level.
fn step_between(before: &[Sample], after: &[Sample]) -> Option<LevelStep> {
    let (low, high) = (level(before)?, level(after)?);
    let (from, to) = (low.1, high.1);
    let rise = from.max(to) - from.min(to);
    let is_notable = rise >= LATE_BY.max(from.min(to).mul_f64(STEP_SHARE));
    let is_steady = |(low, _, high): (Duration, Duration, Duration)| (high - low) * 2 <= rise;
    let is_shared = before
        .iter()
        .any(|one| after.iter().any(|other| other.port == one.port));
    let ttl = |side: &[Sample]| side.get(side.len() / 2).map_or(0, |sample| sample.ttl);
    let (was, is) = (ttl(before), ttl(after));
    let ttl = (was != is && was > 0 && is > 0).then_some((was, is));
    let (begin, at, end) = (before.first()?.at, after.first()?.at, after.last()?.at);
    let lasts = at.since(begin).min(end.since(at)) >= from.max(to) * LASTING;
    let is_step = is_notable && is_steady(low) && is_steady(high) && is_shared;
    (is_step && (lasts || ttl.is_some())).then_some(LevelStep {
        at,
        before: from,
        after: to,
        ttl,
    })
}

/// Returns the 10th, 50th and 90th percentile of the round trips of a side.
fn level(side: &[Sample]) -> Option<(Duration, Duration, Duration)> {
    let mut trips: Vec<Duration> = side
        .iter()
        .map(|sample| Duration::from_nanos(sample.trip))
        .collect();
    trips.sort_unstable();
    let at =
        |tenth: usize| trips.get((trips.len() * tenth / 10).min(trips.len().saturating_sub(1)));
    Some((*at(1)?, *at(5)?, *at(9)?))
}
