//! Clocks that tick slower than once a millisecond.

/// Ticks of clocks slower than a millisecond: 300, 250 and 100 Hz of older kernels, 50, 10 and 2 Hz
/// of some others.
const COARSE_NS: [u32; 6] = [
    3_333_333,
    4_000_000,
    10_000_000,
    20_000_000,
    100_000_000,
    500_000_000,
];
/// The time after the first segment within which every tick fits: one and a half times the shortest
/// of them.
const ALL_FIT_NS: i64 = 4_999_999;
/// Minimum tick that is long enough to explain any queue.
const LONG_TICK_NS: i64 = 500_000_000;
/// Minimum number of segments, each some ticks after the one before, for determining a tick.
const LEAST_FITS: u32 = 3;
/// Minimum number of ticks from the first of these segments to the last.
const LEAST_TICKS: i64 = 8;
/// Minimum number of ticks for determining a clock that is known to tick more slowly than every
/// millisecond.
pub(super) const LEAST_TICKS_DENIED: i64 = 3;
/// Minimum time over which a single stretch suffices to determine a tick.
const LONG_NS: i64 = 2_000_000_000;
/// Maximum deviation, in ticks and beyond the clock's drift, of the timestamps over that time: it
/// is negligibly unlikely that a queue makes milliseconds look so exactly like a coarser tick.
const EXACT: i64 = 2;
const DRIFT_PART: i64 = 1_000;
/// Minimum ratio of the elapsed time to this deviation for the fit to be exact.
const EXACT_PART: i64 = 50;
/// The shortest tick of any clock, in nanoseconds.
const MOMENT_NS: u64 = 1_000_000;
/// Maximum error of a clock, as a fraction of the elapsed time (one in this many).
const STRAY: i64 = 20;
/// Minimum number of ticks for confirming a tick that is known from other connections.
pub(super) const LEAST_TICKS_KNOWN: i64 = 1;

/// The coarse ticks that are consistent with all segments of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coarse {
    /// The ticks that are inconsistent with some segment, one bit for each.
    unfit: u8,
    /// The last segment's ticks since the first segment, and the time here.
    last: (i64, i64),
    /// Number of segments that came some ticks after the previous one.
    fits: u32,
}

impl Coarse {
    /// Takes in a segment that came `passed_ns` and `ticks` after the first of its connection;
    /// `goes_on`: it has more ticks than any earlier segment.
    #[inline]
    pub(crate) fn observe_segment(&mut self, passed_ns: i64, ticks: i64, goes_on: bool) {
        // Within a moment of the last segment and with the same timestamp, it fits as well as that
        // one.
        let since_ns = passed_ns.abs_diff(self.last.1);
        let is_told = ticks == self.last.0 && since_ns < MOMENT_NS;
        if self.fits_none() || (is_told && !goes_on) {
            return;
        }
        if !fits_all(passed_ns, ticks) {
            self.weigh(passed_ns, ticks);
        }
        self.fits += u32::from(goes_on);
        if ticks >= self.last.0 {
            self.last = (ticks, passed_ns);
        }
    }

    /// Finds the ticks that do not fit.
    fn weigh(&mut self, passed_ns: i64, ticks: i64) {
        let stray_ns = passed_ns / STRAY;
        for (index, &tick_ns) in COARSE_NS.iter().enumerate() {
            if self.unfit & 1 << index == 0 {
                let tick_ns = i64::from(tick_ns);
                let is_fit = off(tick_ns, passed_ns, ticks) <= slack(tick_ns, stray_ns);
                self.unfit |= u8::from(!is_fit) << index;
            }
        }
    }

    /// Returns true if no coarse tick fits all segments.
    #[inline]
    pub(super) fn fits_none(&self) -> bool {
        self.unfit == (1 << COARSE_NS.len()) - 1
    }

    /// Returns the maximum number of ticks seen.
    #[inline]
    pub(super) fn ticks(&self) -> i64 {
        self.last.0
    }

    /// Returns true if this tick, known from other connections, is consistent with enough ticks
    /// here.
    #[inline]
    pub(super) fn may_be(&self, tick_ns: u32) -> bool {
        let index = COARSE_NS.iter().position(|&known| known == tick_ns);
        let is_fit = index.is_some_and(|index| self.unfit & 1 << index == 0);
        is_fit && self.last.0 >= LEAST_TICKS_KNOWN
    }

    /// Returns the tick that fits the segments best, if enough of them fit; fewer suffice if
    /// `is_denied` rules out a millisecond.
    #[inline]
    pub(crate) fn tick(&self, is_denied: bool) -> Option<u32> {
        let (ticks, passed_ns) = self.last;
        let is_told = self.fits >= LEAST_FITS && ticks >= LEAST_TICKS;
        let is_enough = is_told || is_denied && ticks >= LEAST_TICKS_DENIED;
        if !is_enough && !is_long(passed_ns, ticks) {
            return None;
        }
        let is_open = |index: usize| self.unfit & 1 << index == 0;
        let open = COARSE_NS
            .iter()
            .enumerate()
            .filter(|&(index, _)| is_open(index));
        let best = open
            .map(|(_, &tick_ns)| tick_ns)
            .min_by_key(|&tick_ns| off(i64::from(tick_ns), passed_ns, ticks));
        best.filter(|&tick_ns| is_enough || is_exact(i64::from(tick_ns), passed_ns, ticks))
    }
}

/// Returns true if a coarser tick would explain why `ticks`, taken as milliseconds, differ from the
/// elapsed time here; only then is a queue in doubt.
pub(super) fn is_possible(passed_ns: i64, ticks: i64) -> bool {
    COARSE_NS.iter().any(|&tick_ns| {
        let tick_ns = i64::from(tick_ns);
        let is_any = tick_ns >= LONG_TICK_NS && ticks < 2;
        !is_any && fits(tick_ns, passed_ns, ticks)
    })
}

/// Returns true if enough time and ticks elapsed to determine a tick from one stretch.
#[inline]
fn is_long(passed_ns: i64, ticks: i64) -> bool {
    passed_ns >= LONG_NS && ticks >= LEAST_TICKS
}

/// Returns true if a tick fits well enough, over a long enough time, that no further evidence is
/// needed.
fn is_exact(tick_ns: i64, passed_ns: i64, ticks: i64) -> bool {
    let near = tick_ns * EXACT;
    let is_fine = passed_ns / EXACT_PART >= near;
    let most = near + passed_ns / DRIFT_PART;
    is_long(passed_ns, ticks) && is_fine && off(tick_ns, passed_ns, ticks) <= most
}

fn fits(tick_ns: i64, passed_ns: i64, ticks: i64) -> bool {
    off(tick_ns, passed_ns, ticks) <= slack(tick_ns, passed_ns / STRAY)
}

/// Returns true if every tick fits: at most one tick has elapsed, within one and a half times the
/// shortest tick.
#[inline]
fn fits_all(passed_ns: i64, ticks: i64) -> bool {
    (0..=1).contains(&ticks) && (0..=ALL_FIT_NS).contains(&passed_ns)
}

/// Returns the maximum error of a tick that still fits, if the clock may be off by `stray_ns`.
fn slack(tick_ns: i64, stray_ns: i64) -> i64 {
    tick_ns * 3 / 2 + stray_ns
}

/// Returns the difference between `ticks` (of 32 bits) and the elapsed time, which is less than
/// [`FAR_NS`](super::FAR_NS): it fits into 64 bits.
#[inline]
fn off(tick_ns: i64, passed_ns: i64, ticks: i64) -> i64 {
    (passed_ns - ticks * tick_ns).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ_300: u32 = 3_333_333;

    /// Returns the tick determined from two segments, the second `passed_ns` and `ticks` after the
    /// first.
    fn told(passed_ns: i64, ticks: i64) -> Option<u32> {
        let mut coarse = Coarse::default();
        coarse.observe_segment(passed_ns, ticks, true);
        coarse.tick(false)
    }

    #[test]
    fn one_long_time_tells_a_tick_that_fits_it_exactly() {
        for seconds in [2, 3, 10, 60, 3_600] {
            let passed_ns = seconds * 1_000_000_000;
            let ticks = passed_ns / i64::from(HZ_300);
            assert_eq!(told(passed_ns, ticks), Some(HZ_300), "{seconds} s");
            assert_eq!(
                told(passed_ns + 5_000_000, ticks),
                Some(HZ_300),
                "{seconds} s"
            );
        }
        assert_eq!(told(1_500_000_000, 450), None, "too short");
    }

    #[test]
    fn what_fits_all_ticks_fits_each() {
        for passed_ns in (0..=ALL_FIT_NS).step_by(99_991).chain([ALL_FIT_NS]) {
            for ticks in 0..=1 {
                assert!(fits_all(passed_ns, ticks));
                let fit = |&tick_ns: &u32| fits(i64::from(tick_ns), passed_ns, ticks);
                assert!(COARSE_NS.iter().all(fit), "{passed_ns} {ticks}");
            }
        }
    }

    #[test]
    fn a_queue_that_fits_no_tick_stays_one() {
        // A clock of milliseconds, and a segment that queued for this long.
        for queue in [20_000_000, 300_000_000, 900_000_000, 1_100_000_000] {
            assert_eq!(
                told(3_000_000_000, (3_000_000_000 - queue) / 1_000_000),
                None,
                "{queue}"
            );
        }
    }
}
