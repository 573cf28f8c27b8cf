//! The line along which the lag of a slightly slow clock grows.

use crate::observed::time::Timestamp;

/// Minimum payload of a segment that may wait in a queue built by its own sender.
pub(super) const SMALL: u32 = 1000;
/// Maximum fraction by which a clock may be slow.
const MOST_SLOW: f64 = 0.08;
/// Minimum fraction by which a clock must be slow for its lag to look like a queue.
const LEAST_SLOW: f64 = 0.002;
/// Minimum time for which a lag must grow along a line to be attributed to the clock.
const LINE_NS: u64 = 300_000_000;
const LINE_SEGMENTS: u32 = 6;
/// Maximum deviation of a lag from the line due to the path, in addition to a tick.
const STRAY_NS: u64 = 500_000;

/// The lines along which the segments' lag may have grown since the first segment: a queue comes
/// and goes, a slow clock falls behind evenly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// The time of the first segment, meaningless before it was seen.
    begin: Timestamp,
    /// The lag of the first segment, meaningless before it was seen.
    first_ns: i64,
    /// Minimum and maximum growth of the small segments' lag per nanosecond.
    slopes: (f64, f64),
    /// The time of the last small segment that was used.
    last: Timestamp,
    segments: u32,
    has_begun: bool,
    /// True if no line is consistent with all small segments.
    is_broken: bool,
    /// True if no line is consistent with all segments, including large ones that queue after each
    /// other.
    has_queue: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            begin: Timestamp::default(),
            first_ns: 0,
            slopes: (0.0, MOST_SLOW),
            last: Timestamp::default(),
            segments: 0,
            has_begun: false,
            is_broken: false,
            has_queue: false,
        }
    }
}

impl Line {
    /// Takes in a segment's lag, in the sender's ticks; returns false if the lag is larger than on
    /// any line that is still possible. Of small segments that follow each other within a tick,
    /// only the first is informative.
    #[inline]
    pub(super) fn observe_lag(
        &mut self,
        at: Timestamp,
        lag_ns: i64,
        is_small: bool,
        tick_ns: i64,
    ) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            (self.begin, self.first_ns, self.last) = (at, lag_ns, at);
            return true;
        }
        let is_soon = at.nanos_since(self.last) < tick_ns.unsigned_abs();
        let grew_ns = lag_ns.saturating_sub(self.first_ns);
        let (least, most) = self.slopes;
        let is_level = grew_ns.unsigned_abs() <= tick_ns.unsigned_abs();
        if is_level && (is_soon || !is_small) && least <= 0.0 {
            // The lag fits a level line, which is still possible.
            return true;
        }
        let stray_ns = tick_ns.unsigned_abs() + STRAY_NS;
        let since_ns = at.nanos_since(self.begin);
        if self.is_broken || since_ns < stray_ns {
            return true;
        }
        let (stray, since, grew) = (stray_ns as f64, since_ns as f64, grew_ns as f64);
        // A division for each segment would cost more than everything else.
        let is_behind = grew - stray > most * since;
        self.has_queue |= is_behind || grew + stray < least * since;
        // A segment that is too late for a line through several others has queued.
        let is_late = is_behind && self.segments >= LINE_SEGMENTS;
        if is_soon || !is_small || is_late {
            return !is_behind;
        }
        let least = least.max((grew - stray) / since);
        let most = most.min((grew + stray) / since);
        self.is_broken = least > most;
        self.slopes = (least, most);
        self.segments = self.segments.saturating_add(1);
        self.last = at;
        !is_behind
    }

    /// Returns the rate at which the clock falls behind, in nanoseconds per second, if the lag has
    /// grown for long enough in a way that only a clock explains.
    #[inline]
    pub(super) fn drift(&self) -> Option<i64> {
        let (least, most) = self.slopes;
        // Few clocks are slow, so this is checked first.
        if least < LEAST_SLOW || self.is_broken || !self.is_long() {
            return None;
        }
        Some(((least + most) / 2.0 * 1e9) as i64)
    }

    #[inline]
    fn is_long(&self) -> bool {
        self.segments >= LINE_SEGMENTS && self.last.nanos_since(self.begin) >= LINE_NS
    }

    /// Returns the maximum lag of a slow clock, in nanoseconds, as long as its rate is not known:
    /// while a line is consistent with all segments, or was with enough of them.
    #[inline]
    pub(super) fn most_slow_by(&self, at: Timestamp) -> i64 {
        let is_line = !self.has_queue || self.segments >= LINE_SEGMENTS;
        if self.has_begun && is_line && !self.is_broken && !self.is_long() {
            let (_, most) = self.slopes;
            (at.nanos_since(self.begin) as f64 * most) as i64
        } else {
            0
        }
    }
}
