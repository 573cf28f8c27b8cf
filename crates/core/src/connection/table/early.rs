//! Segments that a capture has before what they answer.
//!
//! Where two directions are stamped apart (the two ports of a tap, two queues of a network
//! card, two cores), a segment may pass what it answers by some microseconds: an
//! acknowledgement lies before the data, a SYN/ACK before its SYN. What a segment
//! acknowledges or echoes was sent before it, whatever the stamps say; it waits a moment for
//! that to come.

use core::time::Duration;
use std::collections::VecDeque;

use crate::connection::Connection;
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// Maximum time by which the directions of a capture are stamped apart. What did not come by then
/// is not in the capture.
const APART: Duration = Duration::from_millis(1);
/// Maximum number of segments that wait at a time.
const MOST: usize = 64;

/// Segments of one direction that came before what the first of them answers, in their
/// order.
#[derive(Debug)]
pub(super) struct Early {
    segments: VecDeque<(Segment, Box<[u8]>)>,
    /// The latest stamp of the segments that they let pass: none of them came before it.
    passed: Timestamp,
}

impl Early {
    pub(super) fn new(segment: &Segment, payload: &[u8]) -> Self {
        Self {
            segments: VecDeque::from([(*segment, payload.into())]),
            passed: segment.at,
        }
    }

    /// Returns the place of a segment that comes while these wait.
    pub(super) fn place(&self, segment: &Segment) -> Place {
        let Some((first, _)) = self.segments.front() else {
            return Place::After;
        };
        let is_late = segment.at.since(first.at) > APART || segment.at < first.at;
        if is_late || self.segments.len() >= MOST {
            Place::After
        } else if segment.direction == first.direction {
            Place::Among
        } else if self.is_answered_by(segment) || !is_answer(first, segment) {
            Place::After
        } else {
            Place::Before
        }
    }

    /// Returns true if the segment acknowledges any of these.
    fn is_answered_by(&self, segment: &Segment) -> bool {
        let is_acked = |(early, _): &(Segment, Box<[u8]>)| {
            early.sequence_len() > 0 && is_before(early.seq, segment.ack)
        };
        segment.flags.contains(TcpFlags::ACK) && self.segments.iter().any(is_acked)
    }

    pub(super) fn push(&mut self, segment: &Segment, payload: &[u8]) {
        self.segments.push_back((*segment, payload.into()));
    }

    /// Notes a segment that goes before all of these.
    pub(super) fn let_pass(&mut self, segment: &Segment) {
        self.passed = self.passed.max(segment.at);
    }

    /// Returns the next of these, if it waits for nothing any more, or if none is to wait; not
    /// stamped before what it answers.
    pub(super) fn next(
        &mut self,
        connection: &Connection,
        is_over: bool,
    ) -> Option<(Segment, Box<[u8]>)> {
        let (first, _) = self.segments.front()?;
        if !is_over && connection.is_early(first) {
            return None;
        }
        let (mut segment, payload) = self.segments.pop_front()?;
        segment.at = segment.at.max(self.passed);
        Some((segment, payload))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}

/// The place of a segment beside those that came too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Before,
    Among,
    After,
}

/// Returns true if `answer` may have been sent after `segment`, by what it acknowledges or
/// echoes.
fn is_answer(answer: &Segment, segment: &Segment) -> bool {
    let echoed = answer.options.timestamps.map(|(_, echo)| echo);
    let stamped = segment.options.timestamps.map(|(stamp, _)| stamp);
    let is_echoed = stamped
        .zip(echoed)
        .is_some_and(|(stamp, echo)| !is_before(echo, stamp));
    is_before(segment.seq, answer.ack) || is_echoed
}

/// Returns true if one number of a circle lies before the other.
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}
