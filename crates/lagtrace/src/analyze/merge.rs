//! Several captures read as one, in time order.

use lagtrace_core::segment::Segment;
use lagtrace_core::time::Timestamp;
use lagtrace_sources::capture::FileCapture;

use crate::interrupt::Interrupt;
use crate::packets::Packets;

/// How many packets of a file are read ahead while others are due.
const AHEAD: usize = 1024;

/// Hands at most `limit` segments of each capture to `visit`, in time order
/// across captures that are each in time order.
pub(super) fn drain(
    captures: &mut [FileCapture],
    limit: u64,
    interrupt: &Interrupt,
    mut visit: impl FnMut(&Segment, &[u8]),
) {
    if let [only] = captures {
        // Nothing to be merged with: no need to keep anything.
        for _ in 0..limit {
            match only.next_segment() {
                Some((segment, payload)) if !interrupt.is_requested() => visit(&segment, payload),
                _ => break,
            }
        }
        return;
    }
    let mut lanes: Vec<_> = captures.iter_mut().map(|c| Lane::new(c, limit)).collect();
    while !interrupt.is_requested() {
        let due = lanes
            .iter_mut()
            .filter_map(|lane| Some((lane.head()?, lane)))
            .min_by_key(|&(at, _)| at);
        let Some((_, lane)) = due else { break };
        lane.take(&mut visit);
    }
}

/// One capture and what was read of it ahead of its time.
struct Lane<'a> {
    capture: &'a mut FileCapture,
    ahead: Packets,
    next: usize,
    left: u64,
}

impl<'a> Lane<'a> {
    fn new(capture: &'a mut FileCapture, limit: u64) -> Self {
        Self {
            capture,
            ahead: Packets::default(),
            next: 0,
            left: limit,
        }
    }

    /// When the next packet was seen; `None` at the end.
    fn head(&mut self) -> Option<Timestamp> {
        if self.next == self.ahead.len() {
            self.refill();
        }
        self.ahead.at(self.next).map(|(segment, _)| segment.at)
    }

    fn take(&mut self, visit: &mut impl FnMut(&Segment, &[u8])) {
        if let Some((segment, payload)) = self.ahead.at(self.next) {
            visit(segment, payload);
            self.next += 1;
        }
    }

    fn refill(&mut self) {
        self.ahead.clear();
        self.next = 0;
        while self.left > 0 && self.ahead.len() < AHEAD {
            let Some((segment, payload)) = self.capture.next_segment() else {
                self.left = 0;
                break;
            };
            self.ahead.push(&segment, payload);
            self.left -= 1;
        }
    }
}
