//! Packets in flight: admitted and not yet due, earliest first.
//!
//! There is no I/O, and the time is passed in. The number of bytes is bounded. Packets that are due
//! at the same time keep the order of their arrival. Due times need not be in order, so that a path
//! may reorder.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The packets in flight in one direction.
#[derive(Debug)]
pub(crate) struct DelayLine {
    waiting: BinaryHeap<Reverse<Waiting>>,
    next_number: u64,
    held: usize,
    limit: usize,
}

/// The action on a packet when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Errand {
    /// Delivers the packet to the far host.
    Deliver,
    /// Brings the packet to this router, which will answer it.
    Hop(usize),
    /// Brings the packet to this router, whose next link has this MTU in bytes.
    Narrow(usize, u16),
    /// Releases a packet that was held (see [`super::thin_acks`]), if it is still needed. The
    /// number is its ticket.
    Held(u64),
}

/// A waiting packet, ordered by due time, then by arrival. Its content is never compared, because
/// numbers are unique.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due: Duration,
    number: u64,
    errand: Errand,
    packet: Vec<u8>,
}

/// The memory that a waiting packet takes in addition to its bytes.
const OVERHEAD: usize = size_of::<Waiting>();

impl DelayLine {
    /// Returns a line that holds at most `limit` bytes, including its own overhead.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            waiting: BinaryHeap::new(),
            next_number: 0,
            held: 0,
            limit,
        }
    }

    /// Adds a packet; returns false if there is no room.
    pub(crate) fn push(&mut self, due: Duration, errand: Errand, packet: &[u8]) -> bool {
        let cost = packet.len() + OVERHEAD;
        if self.held + cost > self.limit {
            return false;
        }
        self.held += cost;
        self.waiting.push(Reverse(Waiting {
            due,
            number: self.next_number,
            errand,
            packet: packet.to_vec(),
        }));
        self.next_number += 1;
        true
    }

    /// Returns the time at which the earliest packet is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.waiting.peek().map(|Reverse(first)| first.due)
    }

    /// Removes and returns the earliest packet, if it is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<(Errand, Vec<u8>)> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse(first) = self.waiting.pop()?;
        self.held -= first.packet.len() + OVERHEAD;
        Some((first.errand, first.packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn packets_leave_when_due_earliest_first_and_equals_in_order_of_arrival() {
        let mut line = DelayLine::new(1 << 20);
        for (due, packet) in [(3, b"c"), (1, b"z"), (1, b"a"), (2, b"b")] {
            assert!(line.push(MS * due, Errand::Deliver, packet));
        }
        assert_eq!(line.next_due(), Some(MS));
        assert_eq!(line.pop_due(Duration::ZERO), None);
        let left: Vec<_> = std::iter::from_fn(|| line.pop_due(2 * MS))
            .flat_map(|(_, packet)| packet)
            .collect();
        assert_eq!(left, b"zab");
        assert_eq!(line.pop_due(3 * MS), Some((Errand::Deliver, b"c".to_vec())));
        assert_eq!(line.next_due(), None);
    }

    #[test]
    fn a_full_line_refuses_and_has_room_again_after_a_delivery() {
        let mut line = DelayLine::new(2 * (100 + OVERHEAD));
        assert!(line.push(MS, Errand::Deliver, &[0; 100]));
        assert!(line.push(MS, Errand::Deliver, &[0; 100]));
        assert!(!line.push(MS, Errand::Deliver, &[]));
        assert!(line.pop_due(MS).is_some());
        assert!(line.push(MS, Errand::Deliver, &[0; 100]));
    }
}
