//! Time that a sender's segments queued on their way to the observation point.
//!
//! The TSval of a segment is the time at which its sender created it, on the sender's own clock
//! (RFC 7323 §3). How much later it arrives, beyond the minimum such lag seen, is time spent in
//! queues. The sender's program has no influence on it.
//!
//! Clocks drift, are set, and tick at different rates. An acknowledgement bounds the error: it
//! cannot have been in transit for longer than the time since what it acknowledges passed the
//! observation point. A lag beyond that is due to the clock.

mod coarse;
mod line;

use core::time::Duration;

pub(crate) use coarse::Coarse;
use line::Line;

use crate::attribution::packet::Queued;
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;

/// The tick of TSval on Linux: a millisecond (`TCP_TS_HZ` in `include/net/tcp.h`).
const TICK_NS: i64 = 1_000_000;
/// Number of ticks that kernels with coarser ticks may miss while their processors sleep, and catch
/// up later.
const MISSED: i64 = 2;
/// Maximum tick at which the queues that a sender builds are visible.
const SHOWS_QUEUES_NS: i64 = 10_000_000;
/// The length of the stretches over which the sender's tick is checked.
const STRETCH_NS: i64 = 500_000_000;
/// The length of a stretch for checks that need only the order of magnitude.
const SHORT_STRETCH: Duration = Duration::from_millis(150);
/// The ratio in which both clocks must advance over a stretch, allowing for a queue that grows or
/// drains in it.
const ALIKE: core::ops::RangeInclusive<f64> = 0.7..=1.4;

/// Minimum number of ticks, each about a millisecond, that rules out a slower clock.
const LEAST_MILLISECONDS: i64 = 20;
/// Number of consecutive stretches that do not fit the assumed tick after which it is given up.
const MISFITS: u8 = 3;
/// If a clock runs at more than this multiple of real time, its tick is shorter than assumed,
/// because no queue drains that fast. A clock in microseconds that is read as milliseconds gives 1,000.
const FASTEST: f64 = 5.0;
const SECOND_NS: i128 = 1_000_000_000;
/// Maximum time, in nanoseconds, by which a clock may fall behind per second: one that falls behind
/// by more counts in another unit ([`ALIKE`]).
const MOST_DRIFT: i64 = 430_000_000;
/// The tick of the fastest clock, which counts microseconds.
const QUICKEST_NS: i64 = 1_000;
/// The tick of the slowest clock that is allowed (RFC 7323 §5.4).
const SLOWEST_NS: i64 = 1_000_000_000;
/// Maximum jump of a clock in ticks: one second of the fastest clock.
const LEAP: i64 = 1_000_000;
/// Maximum time since a connection's first segment: seventy years, so that lags in nanoseconds and
/// their differences stay within 64 bits. A longer time means that the capturing host's clock was
/// changed.
pub(crate) const FAR_NS: i64 = 1 << 61;
/// The time after which a clock whose error exceeds the replies' variation is considered to drift.
const DRIFT_AFTER: Duration = Duration::from_millis(150);

/// The lag of one sender's segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transit {
    /// The first segment's timestamps: the one here and its sender's. Valid once `has_begun` is
    /// true, as are the next two.
    first: Stamps,
    /// Timestamps at the beginning of the stretch being checked.
    check: Stamps,
    /// Timestamps of the last segment.
    last: Stamps,
    has_begun: bool,
    /// Number of consecutive stretches over which a tick that had been determined did not fit, with
    /// its sign: a path that holds everything back for a moment makes the clock seem slow in one
    /// stretch and fast in the next.
    misfits: i8,
    /// The tick found on other connections of the host, in nanoseconds; 0 if there is none.
    known_ns: u32,
    least_lag_ns: i64,
    /// The time when the minimum lag was seen, or was shown to be too small.
    least_lag_at: Option<Timestamp>,
    /// The rate at which the sender's clock falls behind the one here, in nanoseconds per second,
    /// as measured by acknowledgements.
    drift: i64,
    /// The rate measured by the latest of these acknowledgements.
    hint: i64,
    line: Line,
    tick: Tick,
    /// True if a reply contradicts a tick of a millisecond, and no other one is known yet.
    is_denied: bool,
    coarse: Coarse,
}

/// The timestamps of a segment: the time here, and its sender's TSval. Packed, because each end of
/// each connection stores three.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, packed(4))]
struct Stamps {
    at: Timestamp,
    tsval: u32,
}

impl Stamps {
    /// Returns the nanoseconds and ticks elapsed since these timestamps. Differences of centuries
    /// wrap, as those of a clock that was set back do.
    #[inline]
    fn until(self, at: Timestamp, tsval: u32) -> (i64, i64) {
        let begin = { self.at }.as_nanos();
        let ticks = tsval.wrapping_sub(self.tsval) as i32;
        (at.as_nanos().wrapping_sub(begin), i64::from(ticks))
    }
}

/// Returns true if a timestamp is further from the first one than the fastest clock can have
/// advanced.
#[inline]
fn leaps(passed_ns: i64, ticks: i64) -> bool {
    (ticks - LEAP) * QUICKEST_NS > passed_ns
}

/// The reply time of an acknowledgement: the time since what it acknowledges passed the observation
/// point, and the minimum such time on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) took: Duration,
    pub(crate) least: Duration,
}

/// Returns the nanoseconds that a clock with this drift falls behind in `since_ns`.
fn at_rate(rate: i64, since_ns: i64) -> i64 {
    let passed = i128::from(rate) * i128::from(since_ns) / SECOND_NS;
    i64::try_from(passed).unwrap_or(i64::MAX)
}

/// The unit in which a sender counts its timestamps, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tick {
    #[default]
    Unchecked,
    Millisecond,
    /// A coarser tick, in nanoseconds, as on other systems ([`coarse`]).
    Coarse(u32),
    Other,
}

impl Tick {
    fn nanos(self) -> i64 {
        match self {
            Self::Coarse(nanos) => i64::from(nanos),
            _ => TICK_NS,
        }
    }
}

impl Transit {
    /// Returns true if the sender's timestamps count milliseconds, as far as was seen.
    pub(crate) fn has_clock(&self) -> bool {
        match self.tick {
            Tick::Millisecond => true,
            Tick::Coarse(tick_ns) => i64::from(tick_ns) <= SHOWS_QUEUES_NS,
            Tick::Unchecked => {
                let (first, last) = (self.first, self.last);
                let passed = last.at.since(first.at);
                let ticks = last.tsval.wrapping_sub(first.tsval);
                self.has_begun && passed >= SHORT_STRETCH && is_alike(passed, ticks)
            }
            Tick::Other => false,
        }
    }

    /// Returns the last segment's timestamp.
    #[inline]
    pub(crate) fn last_timestamp(&self) -> Option<u32> {
        self.has_begun.then_some(self.last.tsval)
    }

    /// Records that the host's clock ticks this slowly on other connections.
    #[inline]
    pub(crate) fn may_tick(&mut self, tick_ns: u32) {
        self.known_ns = tick_ns;
    }

    /// Returns the nanoseconds since the sender's last segment that did not pass by its own clock. A
    /// clock whose tick is not known may have the slowest one.
    pub(crate) fn excess(&self, segment: &Segment) -> Option<i64> {
        let (tsval, _) = segment.options.timestamps.filter(|_| self.has_begun)?;
        let (passed_ns, ticks) = self.last.until(segment.at, tsval);
        let tick_ns = match self.tick {
            Tick::Coarse(tick_ns) => i64::from(tick_ns),
            _ if self.has_clock() => TICK_NS,
            _ => SLOWEST_NS,
        };
        (ticks >= 0).then(|| passed_ns.saturating_sub(ticks.saturating_mul(tick_ns)))
    }

    /// Takes in a segment; returns the time by which it was in transit longer than the quickest
    /// one.
    pub(crate) fn queued(&mut self, segment: &Segment, reply: Option<Reply>) -> Queued {
        let Some((tsval, _)) = segment.options.timestamps else {
            return Queued::default();
        };
        let at = segment.at;
        let (mut passed_ns, mut ticks) = self.first.until(at, tsval);
        let is_of_it = (0..FAR_NS).contains(&passed_ns) && !leaps(passed_ns, ticks);
        if !self.has_begun || !is_of_it {
            // The capturing host's clock was changed, or the first timestamp was wrong: some hosts
            // put zero into a SYN/ACK.
            self.begin(Stamps { at, tsval });
            (passed_ns, ticks) = (0, 0);
        }
        self.last = Stamps { at, tsval };
        if self.check.until(at, tsval).0 >= STRETCH_NS {
            self.check_tick(at, tsval);
        }
        if self.tick == Tick::Unchecked && !self.coarse.fits_none() {
            self.look_for_coarse(passed_ns, ticks, reply);
        }
        let tick_ns = self.tick.nanos();
        let lag_ns = passed_ns - ticks * tick_ns;
        let is_small = segment.payload_len < line::SMALL;
        let is_on_line = self.line.observe_lag(at, lag_ns, is_small, tick_ns);
        if let Some(drift) = self.line.drift().filter(|_| is_on_line) {
            self.drift = drift;
            self.set_least_lag(lag_ns, at);
        }
        let least_lag_ns = self.least_lag(at, lag_ns, reply);
        let beyond = lag_ns - least_lag_ns - tick_ns;
        if beyond <= 0 {
            return Queued::default();
        }
        self.beyond(at, beyond, (passed_ns, ticks))
    }

    /// Starts over with a segment; what other connections have shown about the clock applies to
    /// this connection only from here on.
    #[cold]
    fn begin(&mut self, stamps: Stamps) {
        let known_ns = if self.has_begun { 0 } else { self.known_ns };
        *self = Self {
            first: stamps,
            check: stamps,
            has_begun: true,
            known_ns,
            ..Self::default()
        };
    }

    /// Returns the queueing time of a segment that was in transit `beyond` longer than the quickest
    /// one and a tick, `passed_ns` and `ticks` after the first.
    fn beyond(&self, at: Timestamp, beyond: i64, (passed_ns, ticks): (i64, i64)) -> Queued {
        let beyond = beyond.saturating_sub(self.may_be_slow_by(at));
        if beyond <= 0 {
            return Queued::default();
        }
        let known = match self.tick {
            Tick::Unchecked if self.is_denied || coarse::is_possible(passed_ns, ticks) => 0,
            Tick::Unchecked | Tick::Millisecond => beyond,
            Tick::Coarse(tick_ns) => beyond.saturating_sub(i64::from(tick_ns) * MISSED).max(0),
            Tick::Other => return Queued::default(),
        };
        Queued {
            possible_ns: beyond.unsigned_abs(),
            known_ns: known.unsigned_abs(),
        }
    }

    /// Returns the lag that a slow clock may have by now: the whole lag, as long as all segments so
    /// far were on one line.
    #[inline]
    fn may_be_slow_by(&self, at: Timestamp) -> i64 {
        match self.drift {
            0 => self.line.most_slow_by(at),
            _ => 0,
        }
    }

    /// Looks for a coarser tick. Accepts one if enough segments were seen and all of them fit it,
    /// or if a segment contradicts a tick of a millisecond: its lag is longer than the time since
    /// what it acknowledges passed the observation point.
    fn look_for_coarse(&mut self, passed_ns: i64, ticks: i64, reply: Option<Reply>) {
        let goes_on = ticks > self.coarse.ticks();
        self.coarse.observe_segment(passed_ns, ticks, goes_on);
        let lag_ns = passed_ns.saturating_sub(ticks * TICK_NS);
        let beyond_ns = lag_ns.saturating_sub(self.least_lag_ns);
        let is_denied = reply.is_some_and(|reply| {
            let took_ns = i64::try_from(reply.took.as_nanos()).unwrap_or(i64::MAX);
            beyond_ns > took_ns.saturating_add(2 * TICK_NS)
        });
        self.is_denied |= is_denied;
        let least = match self.known_ns {
            0 => coarse::LEAST_TICKS_DENIED,
            _ => coarse::LEAST_TICKS_KNOWN,
        };
        if self.coarse.ticks() < least {
            return;
        }
        let known_ns = Some(self.known_ns).filter(|&tick_ns| self.coarse.may_be(tick_ns));
        if let Some(tick_ns) = known_ns.or_else(|| self.coarse.tick(is_denied)) {
            self.tick = Tick::Coarse(tick_ns);
            (self.least_lag_ns, self.least_lag_at) = (0, None);
            (self.drift, self.hint, self.misfits) = (0, 0, 0);
            self.line = Line::default();
        }
    }

    /// Returns the lag that a segment without queueing would have now.
    #[inline]
    fn least_lag(&mut self, at: Timestamp, lag_ns: i64, reply: Option<Reply>) -> i64 {
        let drifted_ns = match self.drift {
            0 => 0,
            drift => at_rate(drift, self.since_least(at)),
        };
        let expected = self.least_lag_ns.saturating_add(drifted_ns);
        if lag_ns <= expected {
            self.set_least_lag(lag_ns, at);
            return lag_ns;
        }
        let tick_ns = self.tick.nanos();
        // The lag is at most a tick, which no reply can bound better.
        let Some(reply) = reply.filter(|_| lag_ns - tick_ns > expected) else {
            return expected;
        };
        let beyond = |most: Duration| {
            let most_ns = i64::try_from(most.as_nanos()).unwrap_or(i64::MAX);
            lag_ns.saturating_sub(most_ns).saturating_sub(tick_ns)
        };
        // The fastest reply may itself have queued, but it is the only bound for a clock that
        // drifts.
        let shown = match self.drift {
            0 => beyond(reply.took),
            _ => beyond(reply.took.saturating_sub(reply.least)),
        };
        if shown <= expected {
            return expected;
        }
        self.learn_drift(
            shown.saturating_sub(self.least_lag_ns),
            self.since_least(at),
        );
        self.set_least_lag(shown, at);
        shown
    }

    /// Returns the nanoseconds since the minimum lag was seen.
    #[inline]
    fn since_least(&self, at: Timestamp) -> i64 {
        self.least_lag_at.map_or(0, |then| at.signed_since(then))
    }

    #[inline]
    fn set_least_lag(&mut self, lag_ns: i64, at: Timestamp) {
        self.least_lag_ns = lag_ns;
        self.least_lag_at = Some(at);
    }

    /// Learns the clock's drift if the minimum lag grew by `grew_ns` in `since_ns` without a queue:
    /// a clock that drifts does so again at the same rate, one that was set does not.
    #[cold]
    fn learn_drift(&mut self, grew_ns: i64, since_ns: i64) {
        let is_long = Duration::from_nanos(since_ns.max(0).unsigned_abs()) >= DRIFT_AFTER;
        if !is_long || grew_ns <= 2 * self.tick.nanos() {
            return;
        }
        let seen = i128::from(grew_ns) * SECOND_NS / i128::from(since_ns);
        let seen = i64::try_from(seen).unwrap_or(i64::MAX).min(MOST_DRIFT);
        let before = core::mem::replace(&mut self.hint, seen);
        if before > 0 && seen / 2 <= before && before / 2 <= seen {
            self.drift = self.drift.max(seen.min(before));
        }
    }

    #[cold]
    fn check_tick(&mut self, at: Timestamp, tsval: u32) {
        let before = core::mem::replace(&mut self.check, Stamps { at, tsval });
        self.weigh_tick(at.since(before.at), tsval.wrapping_sub(before.tsval));
    }

    fn weigh_tick(&mut self, passed: Duration, ticks: u32) {
        let ticked = i64::from(ticks as i32) as f64 * self.tick.nanos() as f64;
        let pace = ticked / passed.as_nanos() as f64;
        let sign = if pace < *ALIKE.start() { -1 } else { 1 };
        self.misfits = if ALIKE.contains(&pace) {
            0
        } else if self.misfits.signum() == sign {
            self.misfits.saturating_add(sign)
        } else {
            sign
        };
        self.tick = match self.misfits.unsigned_abs() {
            0 if matches!(self.tick, Tick::Coarse(_)) => self.tick,
            0 => Tick::Millisecond,
            1..MISFITS if pace < FASTEST => self.tick,
            _ => Tick::Other,
        };
    }
}

/// Returns true if there are enough `ticks` and they are about as many milliseconds.
pub(crate) fn are_milliseconds(passed_ns: i64, ticks: i64) -> bool {
    let pace = || ticks as f64 * TICK_NS as f64 / passed_ns.max(1) as f64;
    ticks >= LEAST_MILLISECONDS && ALIKE.contains(&pace())
}

/// Returns true if `ticks` milliseconds are about as long as `passed`.
fn is_alike(passed: Duration, ticks: u32) -> bool {
    let ticked = i64::from(ticks as i32) as f64 * TICK_NS as f64;
    ALIKE.contains(&(ticked / passed.as_nanos() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::Endpoint;
    use crate::observed::segment::TcpOptions;

    /// Returns the queueing times of segments given as (milliseconds here, TSval).
    fn queued(stamps: &[(i64, u32)]) -> Vec<u128> {
        let alone = |&(at, tsval): &(i64, u32)| (at, tsval, None);
        answered(&stamps.iter().map(alone).collect::<Vec<_>>())
    }

    /// Returns the queueing times of segments that acknowledge what passed a number of milliseconds
    /// before.
    fn answered(stamps: &[(i64, u32, Option<u64>)]) -> Vec<u128> {
        let end = |last| Endpoint::new([10, 0, 0, last].into(), 80);
        let mut transit = Transit::default();
        let segment = |ms: i64, tsval: u32| Segment {
            options: TcpOptions {
                timestamps: Some((tsval, 0)),
                ..TcpOptions::default()
            },
            ..Segment::sent(end(1), end(2), Timestamp::from_nanos(ms * 1_000_000))
        };
        stamps
            .iter()
            .map(|&(ms, tsval, at_most)| {
                let reply = at_most.map(|ms| Reply {
                    took: Duration::from_millis(ms),
                    least: Duration::ZERO,
                });
                let queued = transit.queued(&segment(ms, tsval), reply);
                queued.known().as_millis()
            })
            .collect()
    }

    #[test]
    fn a_queue_shows_as_lag_and_a_program_that_waits_does_not() {
        let steady = [(0, 7), (600, 607), (700, 707), (1700, 1707)];
        assert_eq!(queued(&steady), [0, 0, 0, 0]);
        let queueing = [(0, 7), (600, 607), (900, 707), (950, 900)];
        assert_eq!(queued(&queueing), [0, 0, 199, 56]);
    }

    #[test]
    fn a_path_that_holds_its_breath_is_no_other_tick() {
        let spike = [(0, 0), (600, 600), (1200, 700), (1210, 1210), (1800, 1300)];
        assert_eq!(queued(&spike), [0, 0, 499, 0, 499]);
    }

    #[test]
    fn a_clock_that_drifts_is_no_queue() {
        // 920 Hz, answered after 5 ms each time; then a segment that answers nothing.
        let drifting = (0..20).map(|n| (n * 300, 7 + n as u32 * 276, Some(5)));
        let script: Vec<_> = drifting.chain([(6300, 7 + 5796, None)]).collect();
        let most = answered(&script).into_iter().max();
        assert!(most <= Some(5), "{:?}", answered(&script));
    }

    #[test]
    fn a_lag_that_grows_along_a_line_is_the_clock_s_and_another_is_a_queue_s() {
        // 950 Hz, and nothing bounds how long an answer took.
        let drifting: Vec<_> = (0..40).map(|n| (n * 100, 7 + n as u32 * 95)).collect();
        let after = queued(&drifting).split_off(8);
        assert_eq!(after, vec![0; 32]);
        // The same total lag, in a single step.
        let stands: Vec<_> = (0..40)
            .map(|n| (n * 100, 7 + n as u32 * 100 - if n < 10 { 0 } else { 150 }))
            .collect();
        assert_eq!(queued(&stands).split_off(10), vec![149; 30]);
    }

    #[test]
    fn what_an_answer_can_have_queued_for_is_kept() {
        let script = [(0, 7, None), (600, 607, Some(80)), (900, 807, Some(180))];
        assert_eq!(answered(&script), [0, 0, 99]);
    }

    #[test]
    fn a_clock_that_counts_no_milliseconds_shows_no_queue() {
        // At 2 Hz: an ACK that was delayed for 200 ms, on a path of 115 ms.
        let script = [(0, 0, None), (324, 1, Some(315)), (392, 1, None)];
        assert_eq!(answered(&script), [0; 3]);
    }

    #[test]
    fn a_first_stamp_that_is_off_by_years_spoils_nothing() {
        let script = [(1_000_000_000, 7), (0, 8), (600, 608), (900, 808)];
        assert_eq!(queued(&script), [0, 0, 0, 99]);
        // Nor does a first timestamp of zero.
        let script = [
            (0, 0),
            (15, 12_200_461),
            (30, 12_200_461),
            (615, 12_201_061),
        ];
        assert_eq!(queued(&script), [0, 0, 0, 0]);
        // After it, a clock of 300 Hz is still distinguished from a queue.
        let script = [(1_000_000_000, 7), (0, 8), (50, 23), (100, 38), (300, 98)];
        assert_eq!(queued(&script), [0; 5]);
    }

    #[test]
    fn another_tick_and_a_wrapped_clock_are_no_queue() {
        assert_eq!(queued(&[(0, 0), (600, 60), (1200, 120)]), [0, 0, 0]);
        assert_eq!(
            queued(&[(0, u32::MAX - 99), (600, 500), (700, 600)]),
            [0, 0, 0]
        );
    }

    #[test]
    fn a_clock_of_a_hundred_hertz_is_told_and_queues_behind_it_show() {
        // Answers after 200 ms each, the first of them unconfirmed; then one that queued.
        let mut script: Vec<_> = (0..6).map(|n| (n * 200, 7 + n as u32 * 20)).collect();
        script.push((1_350, 7 + 120));
        let queued = queued(&script);
        assert_eq!(queued[..6], [0; 6]);
        assert!((110..=130).contains(&queued[6]), "{queued:?}");
    }

    #[test]
    fn a_queue_that_grows_is_no_coarse_clock() {
        // Sent within 10 ms, and released one every 40 ms.
        let burst = (0..10).map(|n| (n * 40, 7 + n as u32));
        let script: Vec<_> = burst.chain([(700, 707), (800, 807)]).collect();
        let queued = queued(&script);
        assert!(queued[9] >= 300, "{queued:?}");
        assert_eq!(queued[11], 0);
    }

    #[test]
    fn a_lag_that_a_slow_clock_explains_is_no_queue() {
        // 940 Hz: nothing else was seen yet.
        let slow: Vec<_> = (0..3).map(|n| (n * 100, 7 + n as u32 * 94)).collect();
        assert_eq!(queued(&slow), [0; 3]);
        // The same delay in a single step, after segments that were not late.
        let late = [(0, 7), (50, 57), (100, 107), (112, 107)];
        assert_eq!(queued(&late)[3], 11);
    }
}
