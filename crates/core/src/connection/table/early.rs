//! Segments captured before the segment that they answer.
//!
//! If the timestamps of the two directions differ (the two ports of a tap, two queues of a network
//! card, two cores), a segment may be captured some microseconds before the segment it answers: an
//! acknowledgement before the data, a SYN/ACK before its SYN. What a segment acknowledges or echoes
//! was sent before it, whatever the timestamps; the segment waits a moment for it to come.

use core::time::Duration;
use std::collections::VecDeque;

use crate::connection::Connection;
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// Maximum difference between the timestamps of the two directions. A segment that did not come
/// within this time is not in the capture.
const APART: Duration = Duration::from_millis(1);
/// Maximum number of waiting segments.
const MOST: usize = 64;

/// Segments of one direction, in order, that came before the segment that the first of them
/// answers.
#[derive(Debug)]
pub(super) struct Early {
    segments: VecDeque<(Segment, Box<[u8]>)>,
    /// The latest timestamp of the segments that were let through ahead of these: none of these is
    /// from before it.
    passed: Timestamp,
}

impl Early {
    pub(super) fn new(segment: &Segment, payload: &[u8]) -> Self {
        Self {
            segments: VecDeque::from([(*segment, payload.into())]),
            passed: segment.at,
        }
    }

    /// Returns the memory that the segments hold, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let payloads = self.segments.iter().map(|(_, payload)| payload.len());
        self.segments.capacity() * size_of::<(Segment, Box<[u8]>)>() + payloads.sum::<usize>()
    }

    /// Returns the position of a segment that comes while these wait.
    pub(super) fn place(&self, segment: &Segment) -> QueuePosition {
        let Some((first, _)) = self.segments.front() else {
            return QueuePosition::After;
        };
        let is_late = segment.at.since(first.at) > APART || segment.at < first.at;
        if is_late || self.segments.len() >= MOST {
            QueuePosition::After
        } else if segment.direction == first.direction {
            QueuePosition::Among
        } else if self.is_answered_by(segment) || !is_answer(first, segment) {
            QueuePosition::After
        } else {
            QueuePosition::Before
        }
    }

    /// Returns true if the segment acknowledges any of the waiting segments.
    fn is_answered_by(&self, segment: &Segment) -> bool {
        let is_acked = |(early, _): &(Segment, Box<[u8]>)| {
            early.sequence_len() > 0 && is_before(early.seq, segment.ack)
        };
        segment.flags.contains(TcpFlags::ACK) && self.segments.iter().any(is_acked)
    }

    pub(super) fn push(&mut self, segment: &Segment, payload: &[u8]) {
        self.segments.push_back((*segment, payload.into()));
    }

    /// Records a segment that goes ahead of all waiting segments.
    pub(super) fn let_pass(&mut self, segment: &Segment) {
        self.passed = self.passed.max(segment.at);
    }

    /// Returns the next waiting segment if the segment that it answers has come, or if `is_over`.
    /// Its time is never earlier than that of the segment it answers.
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

/// The position of a segment relative to those that came too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuePosition {
    Before,
    Among,
    After,
}

/// Returns true if `answer` may have been sent after `segment`, judging by what it acknowledges or
/// echoes.
fn is_answer(answer: &Segment, segment: &Segment) -> bool {
    let echoed = answer.options.timestamps.map(|(_, echo)| echo);
    let stamped = segment.options.timestamps.map(|(stamp, _)| stamp);
    let is_echoed = stamped
        .zip(echoed)
        .is_some_and(|(stamp, echo)| !is_before(echo, stamp));
    is_before(segment.seq, answer.ack) || is_echoed
}

/// Returns true if one sequence number comes before the other, modulo 2^32.
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}
