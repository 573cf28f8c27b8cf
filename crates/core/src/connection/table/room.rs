//! The memory that the open connections may take together.
//!
//! Each list of a connection has a limit, but tens of thousands of connections that all reach it
//! would take gigabytes. Weighing all of them takes long, so it is put off until the bytes that
//! arrived since the last time could make the difference.

use super::{Due, Open, Table};
use crate::connection::{Closed, EXCHANGE_BYTES, Parting};
use crate::observed::segment::{Segment, TcpFlags};

/// The mean memory for each of the connections that the table has places for, in bytes: an open
/// connection takes 2 KiB. With the default number of connections this is 160 MB in all, so that the
/// whole program stays below 256 MB.
const BYTES_EACH: usize = 2_432;
/// The minimum memory of a table, in bytes.
const LEAST: usize = 8 << 20;
/// Share of the memory that remains after connections were dropped, in eighths.
const KEPT: usize = 7;
/// The minimum growth between two times of weighing, as a share of the memory: one in this many.
const STEP: usize = 16;
/// The memory that a segment may add besides its payload, in bytes: a packet record, in a list that
/// grows to twice its size.
const PER_SEGMENT: usize = 512;
/// The memory that each byte of a payload may add: buffers grow to twice their size, and are counted
/// twice.
const PER_BYTE: usize = 4;

/// The memory that connections take, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    most: usize,
    /// The memory that connections took beside themselves when they were weighed.
    held: usize,
    /// The memory that they may have begun to take since then.
    grown: usize,
}

impl Room {
    /// Returns the room of a table for at most `max` connections.
    pub(super) fn new(max: usize) -> Self {
        Self {
            most: max.saturating_mul(BYTES_EACH).max(LEAST),
            held: 0,
            grown: 0,
        }
    }

    /// Records that a segment arrives while `open` connections are open. Returns true if the
    /// connections have to be weighed.
    #[inline(always)]
    pub(super) fn is_due(&mut self, segment: &Segment, payload: &[u8], open: usize) -> bool {
        // Nothing is kept of a SYN but in the connection itself.
        if segment.flags.contains(TcpFlags::SYN) {
            return false;
        }
        self.grown += PER_SEGMENT + PER_BYTE * payload.len();
        let taken = self.held + self.grown + open * size_of::<Open>();
        taken > self.most && self.grown > self.most / STEP
    }

    /// Records that this many exchanges began: frames of a few bytes begin one each.
    #[inline(always)]
    pub(super) fn begin_exchanges(&mut self, exchanges: usize) {
        self.grown += exchanges * EXCHANGE_BYTES;
    }

    /// Records that a connection began which holds this many bytes besides itself.
    pub(super) fn begin_connection(&mut self, beside: usize) {
        self.grown += beside;
    }
}

impl Table {
    /// Weighs the open connections. If they take too much memory, those that have been idle longest
    /// are dropped.
    #[cold]
    pub(super) fn make_room(&mut self, closed: &mut Closed) {
        let mut total: usize = self.open.iter().map(|open| open.held_bytes()).sum();
        if total > self.room.most {
            let weighed = self.open.iter().map(|open| {
                let (hash, id) = (open.hash, open.id);
                let at = open.connection.last_seen;
                (Due { at, hash, id }, open.held_bytes())
            });
            let mut weighed: Vec<(Due, usize)> = weighed.collect();
            weighed.sort_unstable_by_key(|(due, _)| (due.at, due.id));
            let wanted = self.room.most / 8 * KEPT;
            let count = weighed.iter().take_while(|(_, bytes)| {
                let is_needed = total > wanted;
                total -= if is_needed { *bytes } else { 0 };
                is_needed
            });
            let count = count.count();
            weighed.truncate(count);
            self.tallied.evicted += count as u64;
            let dues = weighed.into_iter().map(|(due, _)| due).collect();
            self.give_up(dues, Parting::Crowded, closed);
        }
        self.room.grown = 0;
        self.room.held = total.saturating_sub(self.open.len() * size_of::<Open>());
    }
}
