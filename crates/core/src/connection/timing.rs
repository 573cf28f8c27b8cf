//! The segments of one direction whose reply times are measured.

use std::collections::VecDeque;

use crate::attribution::packet::Span;
use crate::observed::time::Timestamp;

/// Maximum number of segments remembered for round trips; older ones are no longer timed.
const MAX_TIMED: usize = 64;

/// Segments that are not acknowledged yet, in sending order. The first is stored separately: on
/// most connections it is usually the only one, and a list would have to be allocated for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Timing {
    first: Option<Timed>,
    /// The segments after the first; all remaining ones if the first was removed.
    rest: VecDeque<Timed>,
}

/// A segment, identified by the end of its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) end: u64,
    pub(super) at: Timestamp,
    pub(super) is_repeated: bool,
}

impl Timing {
    pub(super) fn push(&mut self, timed: Timed) {
        if self.rest.is_empty() {
            if self.first.is_none() {
                self.first = Some(timed);
                return;
            }
        } else if self.rest.len() + usize::from(self.first.is_some()) == MAX_TIMED {
            self.pop();
        }
        self.rest.push_back(timed);
    }

    /// Marks the segments from `span` on as retransmitted: their reply times cannot be measured
    /// (Karn's algorithm, RFC 6298 §3).
    pub(super) fn spoil(&mut self, span: Span) {
        for timed in self.first.iter_mut().chain(&mut self.rest) {
            timed.is_repeated |= timed.end > span.start;
        }
    }

    /// Removes the segments that end at `offset` or before; returns the last of them.
    #[inline]
    pub(super) fn take_until(&mut self, offset: u64) -> Option<Timed> {
        let mut last = None;
        while self.front().is_some_and(|timed| timed.end <= offset) {
            last = self.pop();
        }
        last
    }

    /// Removes all segments but the last: a FIN that still has to be answered.
    pub(super) fn keep_last(&mut self) {
        let last = self.rest.back().copied().or(self.first);
        *self = Self {
            first: last,
            rest: VecDeque::new(),
        };
    }

    #[inline]
    fn front(&self) -> Option<&Timed> {
        self.first.as_ref().or_else(|| self.rest.front())
    }

    #[inline]
    fn pop(&mut self) -> Option<Timed> {
        self.first.take().or_else(|| self.rest.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(end: u64) -> Timed {
        Timed {
            end,
            at: Timestamp::default(),
            is_repeated: false,
        }
    }

    #[test]
    fn segments_are_taken_out_in_their_order_however_many_there_are() {
        for count in 1..=MAX_TIMED as u64 {
            let mut timing = Timing::default();
            for end in 1..=count {
                timing.push(timed(end));
            }
            // A segment is removed and another added, while others wait.
            let first = timing.take_until(1).map(|timed| timed.end);
            timing.push(timed(count + 1));
            let rest: Vec<_> = (2..=count + 1)
                .filter_map(|end| timing.take_until(end))
                .map(|timed| timed.end)
                .collect();
            assert_eq!(first, Some(1));
            assert_eq!(rest, (2..=count + 1).collect::<Vec<_>>());
            assert!(timing.front().is_none());
        }
    }

    #[test]
    fn of_too_many_the_oldest_are_forgotten_and_repeats_spoil_what_they_cover() {
        let mut timing = Timing::default();
        for end in 1..=MAX_TIMED as u64 + 2 {
            timing.push(timed(end));
        }
        assert!(timing.take_until(2).is_none());
        timing.spoil(Span { start: 3, end: 4 });
        let spoilt = [3, 4].map(|end| timing.take_until(end).map(|timed| timed.is_repeated));
        assert_eq!(spoilt, [Some(false), Some(true)]);
    }
}
