//! Artificial timestamps: all packets at even intervals.
//!
//! Programs that build a capture from bytes, or remove private data from one, often give packets
//! timestamps at fixed intervals. Such times only show how the file was made.

use crate::observed::time::Timestamp;

/// Maximum difference, in nanoseconds, between two intervals that count as equal. It is a
/// microsecond, the unit of most timestamps.
const SAME: u64 = 1_000;
/// Minimum number of packets for a verdict. The intervals of fewer packets may be even by
/// coincidence.
const LEAST: u64 = 30;
/// Number of packets after which counting ends.
const ENOUGH: u64 = 65_536;
/// Minimum votes for the most frequent interval, as a fraction of the packets ([`Ruler::observe`]).
/// Each equal interval adds a vote and each other one removes a vote, so 8 of 10 means that nine in
/// ten intervals are equal.
const EVEN: (u64, u64) = (8, 10);

/// Finds the interval of most packets, by counting votes for and against it (Boyer and Moore's
/// majority vote).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ruler {
    last: Option<Timestamp>,
    step: u64,
    votes: u64,
    count: u64,
}

impl Ruler {
    /// Processes the time of the next packet.
    #[inline]
    pub(super) fn observe(&mut self, at: Timestamp) {
        if self.count >= ENOUGH {
            return;
        }
        let Some(last) = self.last.replace(at) else {
            return;
        };
        let gap = at.nanos_since(last);
        self.count += 1;
        // Packets that arrived together have about the same timestamp from any clock, so they do
        // not count as an equal interval.
        let is_same = gap > SAME && gap.abs_diff(self.step) <= SAME;
        if is_same {
            self.votes += 1;
        } else if self.votes == 0 {
            (self.step, self.votes) = (gap, 1);
        } else {
            self.votes -= 1;
        }
    }

    /// Returns true if nearly all packets arrived at a fixed interval.
    pub(super) fn is_even(&self) -> bool {
        let (part, of) = EVEN;
        self.count >= LEAST && self.votes.saturating_mul(of) >= self.count.saturating_mul(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_even(gaps: impl Iterator<Item = i64>) -> bool {
        let mut ruler = Ruler::default();
        let mut at = 0;
        for gap in gaps {
            at += gap;
            ruler.observe(Timestamp::from_nanos(at));
        }
        ruler.is_even()
    }

    #[test]
    fn what_comes_step_by_step_was_stamped_by_nobody() {
        assert!(is_even((0..60).map(|_| 10_000_000)));
        assert!(is_even((0..60).map(|i| 10_000_000 - i % 2 * 1_000)));
        assert!(is_even((0..60).map(|i| if i % 20 == 7 {
            3
        } else {
            10_000_000
        })));
    }

    #[test]
    fn a_clock_is_never_that_even() {
        assert!(!is_even((0..20).map(|_| 10_000_000)), "few");
        assert!(!is_even((0..60).map(|i| 10_000_000 + i * 7_000)));
        assert!(
            !is_even((0..60).map(|i| i % 2 * 10_000_000)),
            "request and response"
        );
        assert!(!is_even((0..60).map(|_| 0)), "all at once");
    }
}
