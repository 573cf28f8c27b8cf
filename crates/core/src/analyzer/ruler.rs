//! Stamps that no clock gave: all packets at even distances.
//!
//! Programs that make a capture out of bytes, or remove what is private from one, often stamp its
//! packets one step after the other. What such times tell is how the file was made.

use crate::observed::time::Timestamp;

/// Distances that differ by no more are the same: times are written in microseconds.
const SAME: u64 = 1_000;
/// Packets below which an even row may be chance.
const LEAST: u64 = 30;
/// Packets after which evenness is judged.
const ENOUGH: u64 = 65_536;
/// Minimum share of the votes that the most frequent distance keeps ([`Ruler::take`]): eight
/// in ten, where nine in ten of the distances are that one.
const EVEN: (u64, u64) = (8, 10);

/// Finds the distance between packets that most have, by counting votes for and against
/// (Boyer and Moore's majority).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ruler {
    last: Option<Timestamp>,
    step: u64,
    votes: u64,
    count: u64,
}

impl Ruler {
    /// Takes in the time of the next packet.
    #[inline]
    pub(super) fn take(&mut self, at: Timestamp) {
        if self.count >= ENOUGH {
            return;
        }
        let Some(last) = self.last.replace(at) else {
            return;
        };
        let gap = at.nanos_since(last);
        self.count += 1;
        // Packets that came together were stamped together by whatever clock.
        let is_same = gap > SAME && gap.abs_diff(self.step) <= SAME;
        if is_same {
            self.votes += 1;
        } else if self.votes == 0 {
            (self.step, self.votes) = (gap, 1);
        } else {
            self.votes -= 1;
        }
    }

    /// Returns true if nearly all packets came one step after the other.
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
            ruler.take(Timestamp::from_nanos(at));
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
