//! An open connection, and the steps through which its segments pass before they are taken in.

use super::copies::Copies;
use super::doubtful::{Doubtful, Judgment};
use super::early::{Early, QueuePosition};
use crate::connection::{Closed, Connection, Parting};
use crate::observed::flow::PerDirection;
use crate::observed::segment::{Segment, TcpFlags};

/// A connection, with the data for finding it.
#[derive(Debug)]
pub(crate) struct Open {
    pub(super) id: u64,
    pub(super) hash: u64,
    pub(super) is_due: bool,
    copies: Copies,
    /// Number of segments without SYN by direction.
    pub(super) seen: PerDirection<u32>,
    pub(super) connection: Connection,
    /// Segments that came before the segment that they answer.
    early: Option<Box<Early>>,
    /// Segments after a silence that may be a jump of the clock.
    doubtful: Option<Box<Doubtful>>,
}

/// The size above which the allocator uses half a kilobyte more for each open connection.
const _: () = assert!(size_of::<Open>() <= 2_048, "an open connection grew");

impl Open {
    #[inline(always)]
    pub(super) fn new(id: u64, hash: u64, connection: Connection) -> Self {
        Self {
            id,
            hash,
            is_due: false,
            copies: Copies::default(),
            seen: PerDirection::default(),
            connection,
            early: None,
            doubtful: None,
        }
    }

    /// Judges the time of a segment, which is held back if it is in doubt.
    #[inline(always)]
    pub(super) fn judge(&mut self, segment: &Segment, payload: &[u8]) -> Judgment {
        if self.doubtful.is_none() && self.connection.is_next(segment) {
            return Judgment::Passes(Vec::new());
        }
        Doubtful::judge(&mut self.doubtful, &self.connection, segment, payload)
    }

    /// Returns the memory that the connection takes, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let early = self.early.as_deref().map_or(0, Early::held_bytes);
        let doubtful = self.doubtful.as_deref().map_or(0, Doubtful::held_bytes);
        size_of::<Self>()
            + self.copies.held_bytes()
            + early
            + doubtful
            + self.connection.held_bytes()
    }

    /// Takes in a segment; returns true if it was a copy.
    #[inline]
    pub(super) fn observe_segment(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        closed: &mut Closed,
    ) -> bool {
        if self.copies.is_copy(segment) {
            self.connection.doubled(segment);
            return true;
        }
        let counts = !segment.flags.contains(TcpFlags::SYN);
        let seen = self.seen.get_mut(segment.direction);
        *seen = seen.saturating_add(u32::from(counts));
        if self.early.is_some() {
            self.take_beside_early(segment, payload, closed);
        } else {
            self.take_or_hold(segment, payload, closed);
        }
        false
    }

    /// Takes in a segment, unless it came before the segment it answers: then it waits.
    #[inline(always)]
    fn take_or_hold(&mut self, segment: &Segment, payload: &[u8], closed: &mut Closed) {
        if self.connection.is_early(segment) {
            self.early = Some(Box::new(Early::new(segment, payload)));
        } else {
            self.connection.observe_segment(segment, payload, closed);
        }
    }

    /// Takes in a segment while others wait for the segment that they answer.
    #[cold]
    fn take_beside_early(&mut self, segment: &Segment, payload: &[u8], closed: &mut Closed) {
        let Some(early) = &mut self.early else {
            return;
        };
        match early.place(segment) {
            QueuePosition::Among => early.push(segment, payload),
            QueuePosition::Before => {
                early.let_pass(segment);
                if segment.flags.contains(TcpFlags::SYN) {
                    self.connection.begins_with(segment);
                }
                self.connection.observe_segment(segment, payload, closed);
                self.release(false, closed);
            }
            QueuePosition::After => {
                self.release(true, closed);
                self.take_or_hold(segment, payload, closed);
            }
        }
    }

    /// Takes in the waiting segments that have no reason to wait any longer; all of them if
    /// `is_over`.
    fn release(&mut self, is_over: bool, closed: &mut Closed) {
        let Some(early) = &mut self.early else {
            return;
        };
        while let Some((segment, payload)) = early.next(&self.connection, is_over) {
            self.connection.observe_segment(&segment, &payload, closed);
        }
        if early.is_empty() {
            self.early = None;
        }
    }

    /// Stops following the connection, and closes everything open on it.
    pub(super) fn give_up(&mut self, parting: Parting, closed: &mut Closed) {
        for (segment, payload) in self.doubtful.take().into_iter().flat_map(|it| it.held) {
            self.observe_segment(&segment, &payload, closed);
        }
        self.release(true, closed);
        self.connection.give_up(parting, closed);
    }
}
