//! The latest probes: those that wait for an answer, and older ones whose late answers can still be
//! recognized.

use std::collections::VecDeque;

use core::time::Duration;

use lagtrace_core::observed::time::Timestamp;

/// Maximum number of probes that are kept. Older ones are discarded, and their answers are not
/// recognized any more.
pub(super) const MAX_PENDING: usize = 20_000;

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) number: u32,
    pub(super) begun: Timestamp,
    pub(super) queued: Option<Timestamp>,
    pub(super) sent: Option<Timestamp>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Awaited,
    GivenUp,
    Answered,
}

/// The latest probes of a series.
#[derive(Debug)]
pub(super) struct Pendings {
    /// Probes by number, the oldest first.
    queue: VecDeque<Pending>,
    /// Maximum number of probes kept.
    limit: usize,
    /// Number of probes that wait for an answer.
    awaited: usize,
    /// Number of probes at the start of the queue that are known not to wait any more.
    settled: usize,
}

impl Pendings {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            limit,
            awaited: 0,
            settled: 0,
        }
    }

    /// Returns the number of probes that wait for an answer.
    pub(super) fn awaited(&self) -> usize {
        self.awaited
    }

    /// Adds the next probe. If the queue is full, the oldest probe is discarded. Returns its number
    /// if it was still waiting for an answer.
    pub(super) fn push(&mut self, number: u32, begun: Timestamp) -> Option<u32> {
        let oldest = if self.queue.len() >= self.limit {
            self.pop()
        } else {
            None
        };
        self.awaited += 1;
        self.queue.push_back(Pending {
            number,
            begun,
            queued: None,
            sent: None,
            state: State::Awaited,
        });
        let oldest = oldest.filter(|oldest| oldest.state == State::Awaited)?;
        Some(oldest.number)
    }

    fn pop(&mut self) -> Option<Pending> {
        let oldest = self.queue.pop_front()?;
        self.awaited -= usize::from(oldest.state == State::Awaited);
        self.settled = self.settled.saturating_sub(1);
        Some(oldest)
    }

    pub(super) fn find(&mut self, number: u32) -> Option<&mut Pending> {
        let first = self.queue.front()?.number;
        self.queue.get_mut(number.checked_sub(first)? as usize)
    }

    /// Ends the wait for a probe. Returns the probe's previous state.
    pub(super) fn settle(&mut self, number: u32, state: State) -> Option<State> {
        let pending = self.find(number)?;
        let before = std::mem::replace(&mut pending.state, state);
        self.awaited -= usize::from(before == State::Awaited);
        Some(before)
    }

    /// Returns the probe that has waited longest for its answer.
    pub(super) fn oldest(&mut self) -> Option<Pending> {
        loop {
            let pending = self.queue.get(self.settled)?;
            if pending.state == State::Awaited {
                return Some(*pending);
            }
            self.settled += 1;
        }
    }

    /// Ends the wait for the oldest waiting probe, if it began at least `timeout` ago. Returns its
    /// number.
    pub(super) fn give_up(&mut self, now: Timestamp, timeout: Duration) -> Option<u32> {
        let oldest = self.oldest()?;
        if now.since(oldest.begun) < timeout {
            return None;
        }
        self.settle(oldest.number, State::GivenUp);
        Some(oldest.number)
    }

    /// Discards the probes that began more than `age` ago and do not wait any more.
    pub(super) fn forget(&mut self, now: Timestamp, age: Duration) {
        let is_old = |p: &Pending| p.state != State::Awaited && now.since(p.begun) > age;
        while self.queue.len() > 1 && self.queue.front().is_some_and(is_old) {
            self.pop();
        }
    }
}

impl Pending {
    pub(super) fn is_awaited(&self) -> bool {
        self.state == State::Awaited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_oldest_awaited_one_is_found_behind_those_that_were_answered() {
        let mut pendings = Pendings::new(4);
        for number in 0..4 {
            assert_eq!(pendings.push(number, at(number.into())), None);
        }
        assert_eq!(pendings.settle(1, State::Answered), Some(State::Awaited));
        assert_eq!(pendings.settle(0, State::Answered), Some(State::Awaited));
        assert_eq!(pendings.oldest().map(|p| p.number), Some(2));
        assert_eq!(pendings.give_up(at(11), Duration::from_millis(10)), None);
        assert_eq!(pendings.give_up(at(12), Duration::from_millis(10)), Some(2));
        // If the queue is full, a discarded probe is a loss only if it still waits for an answer.
        assert_eq!(pendings.push(4, at(4)), None);
        assert_eq!(pendings.oldest().map(|p| p.number), Some(3));
        pendings.forget(at(100), Duration::from_millis(50));
        assert_eq!(pendings.oldest().map(|p| p.number), Some(3));
        let lost: Vec<_> = (5..8).filter_map(|n| pendings.push(n, at(5))).collect();
        assert_eq!((lost, pendings.awaited()), (vec![3], 4));
    }
}
