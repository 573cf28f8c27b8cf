//! The lag that a clock which is a little slow grows along.

use core::time::Duration;

use crate::time::Timestamp;

/// The least payload of a segment that waits in a queue of its own sender's making.
pub(super) const SMALL: u32 = 1000;
/// No clock is slower than it says by a larger part than this many in a thousand …
const MOST_SLOW: f64 = 0.08;
/// … and one that is slower by less makes no queue.
const LEAST_SLOW: f64 = 0.002;
/// A lag that grows along a line for so long and so many segments is the clock's.
const LINE: Duration = Duration::from_millis(300);
const LINE_SEGMENTS: u32 = 6;
/// Besides a tick the way lets a lag stray from the line by this.
const STRAY_NS: f64 = 500_000.0;

/// The lines along which the lag of segments may have grown since the first of
/// them: a queue comes and goes, a slow clock falls behind evenly.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// The time and the lag of the first.
    begin: Option<(Timestamp, i64)>,
    /// The least and the most that the lag of small ones grows in a nanosecond.
    slopes: Option<(f64, f64)>,
    segments: u32,
    /// The time of the last small one that counts.
    last: Timestamp,
    /// True if no line holds all small ones.
    is_broken: bool,
    /// True if no line holds all, large ones that queue behind each other included.
    has_queue: bool,
}

impl Line {
    /// Takes in a segment's lag, by the sender's ticks; false if it is later than any line
    /// so far says. Small segments that follow each other within a tick show no more than the
    /// first of them.
    #[inline]
    pub(super) fn take(
        &mut self,
        at: Timestamp,
        lag_ns: i64,
        is_small: bool,
        tick_ns: i64,
    ) -> bool {
        let Some((begin, first)) = self.begin else {
            (self.begin, self.last) = (Some((at, lag_ns)), at);
            return true;
        };
        let is_soon = at.nanos_since(self.last) < tick_ns.unsigned_abs();
        let grew_ns = lag_ns.saturating_sub(first);
        let is_level = grew_ns.unsigned_abs() <= tick_ns.unsigned_abs();
        if is_level && (is_soon || !is_small) && self.slopes.is_none_or(|(least, _)| least <= 0.0) {
            // No line says anything else of it.
            return true;
        }
        let stray = tick_ns as f64 + STRAY_NS;
        let since = at.nanos_since(begin) as f64;
        if self.is_broken || since < stray {
            return true;
        }
        let grew = grew_ns as f64;
        let (least, most) = self.slopes.unwrap_or((0.0, MOST_SLOW));
        // A division for each segment would cost more than all the rest.
        let is_behind = grew - stray > most * since;
        self.has_queue |= is_behind || grew + stray < least * since;
        // What a line of some is too late for has queued.
        let is_late = is_behind && self.segments >= LINE_SEGMENTS;
        if is_soon || !is_small || is_late {
            return !is_behind;
        }
        let least = least.max((grew - stray) / since);
        let most = most.min((grew + stray) / since);
        self.is_broken = least > most;
        self.slopes = Some((least, most));
        self.segments = self.segments.saturating_add(1);
        self.last = at;
        !is_behind
    }

    /// The rate at which the clock falls behind, in nanoseconds a second, if the lag has
    /// grown long enough as only a clock's does.
    pub(super) fn drift(&self) -> Option<i64> {
        if self.is_broken || !self.is_long() {
            return None;
        }
        let (least, most) = self.slopes?;
        (least >= LEAST_SLOW).then_some(((least + most) / 2.0 * 1e9) as i64)
    }

    fn is_long(&self) -> bool {
        let begin = self.begin.map_or(self.last, |(begin, _)| begin);
        self.segments >= LINE_SEGMENTS && self.last.since(begin) >= LINE
    }

    /// The most that a slow clock may have fallen behind, in nanoseconds, until it is told how
    /// slow it is: as long as a line holds all segments, or held enough of them.
    #[inline]
    pub(super) fn most_slow_by(&self, at: Timestamp) -> i64 {
        let is_line = !self.has_queue || self.segments >= LINE_SEGMENTS;
        match self.begin {
            Some((begin, _)) if is_line && !self.is_broken && !self.is_long() => {
                let most = self.slopes.map_or(MOST_SLOW, |(_, most)| most);
                (at.nanos_since(begin) as f64 * most) as i64
            }
            _ => 0,
        }
    }
}
