//! The active connections, by observation point and flow.
//!
//! Bounded: a connection that ended leaves a tombstone, where late segments find it and which a new
//! connection with the same ports reopens. If there is no room, in places or in memory, the active
//! connections idle longest are dropped and counted. The work per segment does not grow with the
//! number of connections.

mod copies;
mod doubtful;
mod early;
mod open;
mod room;
#[cfg(test)]
mod tests;
mod tombstone;

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::collections::VecDeque;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;

use crate::connection::facts::end::EcnMarks;
use crate::connection::{Closed, Connection, Jump, Jumps, Parting};
use crate::observed::event::PointId;
use crate::observed::flow::{Direction, FlowKey};
use crate::observed::icmp::IcmpError;
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;
use crate::preconnect::Approach;
use crate::stats::Merge;
use doubtful::Judgment;
pub(crate) use open::Open;
use room::Room;
use tombstone::Tombstone;

/// Default maximum number of connections followed at a time: 2 KiB each, and a third more if their
/// figures are collected.
pub(crate) const MAX_CONNECTIONS: usize = 48 * 1024;
/// Share of the connections that are dropped at a time to make room, one in this many.
const EVICTED: usize = 8;
/// The silence after which a connection that ended is closed: the last acknowledgements and late
/// retransmissions still belong to it. A few round trips of the longest paths.
const QUIET: Duration = Duration::from_secs(2);
/// The time after which a tombstone is removed (RFC 9293 §3.6.1: twice the maximum segment lifetime,
/// which kernels set to 30 s).
const LINGER: Duration = Duration::from_secs(60);
/// Minimum number of segments in one direction without any in the other that cannot be coincidence.
const ONE_SIDED: u32 = 4;
/// The time after which an idle connection is dropped.
const IDLE: Duration = Duration::from_secs(600);

/// Connections by observation point and flow.
#[derive(Debug)]
pub(crate) struct Table {
    /// Open connections, stored separately from the tombstones, which are many times as numerous:
    /// nearly every segment belongs to an open connection, and a small table stays in the
    /// processor's cache.
    open: HashTable<Box<Open>>,
    tombstones: HashTable<Tombstone>,
    hasher: SeedableRandomState,
    max: usize,
    room: Room,
    /// Connections that ended, in order of their end.
    ended: VecDeque<Due>,
    /// Tombstones, oldest first.
    buried: VecDeque<Due>,
    /// The time up to which nothing is due: for nearly every segment this is the only check.
    quiet_until: Timestamp,
    next_sweep: Timestamp,
    /// The time of the last segment.
    latest: Timestamp,
    segments_since_sweep: usize,
    tallied: Tallied,
}

/// Counts of a capture that a reader needs to judge the figures.
#[derive(Clone, Copy, Debug, Default, Merge)]
pub(crate) struct Tallied {
    /// Total number of connections.
    pub(crate) connections: u64,
    /// Number of connections dropped for lack of room.
    pub(crate) evicted: u64,
    /// Number of connections with several segments, all in the same direction.
    pub(crate) one_sided: u64,
    /// Number of segments that were duplicates of others.
    pub(crate) copies: u64,
    /// Number of segments with payload.
    pub(crate) data_segments: u64,
    /// Number of data segments that were retransmitted or filled a gap.
    pub(crate) repaired: u64,
    /// Number of payload bytes that were seen, and of those that were only acknowledged.
    pub(crate) bytes: u64,
    pub(crate) unseen_bytes: u64,
    /// Number of connections on which a window was closed.
    pub(crate) stopped: u64,
    /// Number of connections on which the path set congestion marks (ECN), or an end echoed them.
    pub(crate) congested: u64,
    /// On those connections, number of packets that the path marked, and of packets that echo a
    /// mark.
    pub(crate) marked: u64,
    pub(crate) echoed: u64,
    /// Jumps of the capturing host's clock, forward and back.
    pub(crate) jumps: [Jumps; 2],
}

/// Facts about a segment that come from elsewhere.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// A number greater than that of any earlier segment; the first segment's number becomes the
    /// connection's id.
    pub(crate) id: u64,
    /// Wireshark's index of the connection, if the connection's numbers are wanted.
    pub(crate) stream: Option<Option<u32>>,
    /// The steps before the connection, if the segment opens one.
    pub(crate) approach: Option<Box<Approach>>,
    /// The direction in which the client sends, if it is known beforehand.
    pub(crate) client: Option<Direction>,
    /// The direction in which the client probably sends: the other end has several peers.
    pub(crate) likely_client: Option<Direction>,
    /// True if one counter numbers the packets of all its sender's connections.
    pub(crate) shares_counter: bool,
    /// The sender's tick in nanoseconds, if it is known to be longer than a millisecond.
    pub(crate) tick_ns: Option<u32>,
}

impl Arrived {
    /// Returns the connection that a segment begins.
    #[inline(always)]
    fn begin(&self, segment: &Segment) -> Connection {
        let mut connection = Connection::begin(segment, self.stream);
        if let Some(client) = self.client {
            connection.is_asked_by(client);
        } else if let Some(client) = self.likely_client {
            connection.is_likely_asked_by(client);
        }
        connection
    }

    /// Returns the connection that a segment begins behind a jump of the clock: what was seen before
    /// is on another one.
    fn begin_again(&self, segment: &Segment, before: &Connection) -> Connection {
        let mut connection = self.begin(segment);
        if let Some(client) = before.client() {
            connection.is_asked_by(client);
        }
        connection
    }
}

impl Tallied {
    fn jumped(&mut self, jump: Jump) {
        let [forward, back] = &mut self.jumps;
        let jumps = if jump.by_ns < 0 { back } else { forward };
        jumps.count(jump);
    }

    fn closed(&mut self, open: &Open) {
        self.connections += 1;
        let [one, other] = open.seen.each().map(|&count| count);
        self.one_sided += u64::from(one.min(other) == 0 && one.max(other) >= ONE_SIDED);
        let halves = open.connection.halves();
        self.data_segments += halves.map(|half| half.data_segments).iter().sum::<u64>();
        self.repaired += halves.map(|half| half.repaired).iter().sum::<u64>();
        self.bytes += halves
            .map(|half| half.sequence.seen_bytes())
            .iter()
            .sum::<u64>();
        self.unseen_bytes += halves
            .map(|half| half.sequence.unseen_bytes)
            .iter()
            .sum::<u64>();
        self.stopped += u64::from(halves.iter().any(|half| half.zero_window.was_ever));
        let marks = halves.map(|half| half.ecn_marks);
        let marked: u64 = marks.iter().map(|marks| u64::from(marks.marked)).sum();
        let echoed: u64 = marks.iter().map(|marks| u64::from(marks.echoed)).sum();
        if marked + echoed > 0 && EcnMarks::are_meant(marks) {
            self.congested += 1;
            self.marked += marked;
            self.echoed += echoed;
        }
    }
}

/// A table entry that has to be examined at some time after `at`.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Timestamp,
    hash: u64,
    id: u64,
}

impl Table {
    /// Creates a table for at most `max` connections at a time.
    pub(crate) fn new(hasher: SeedableRandomState, max: usize) -> Self {
        Self {
            open: HashTable::new(),
            tombstones: HashTable::new(),
            hasher,
            max: max.max(1),
            room: Room::new(max),
            ended: VecDeque::new(),
            buried: VecDeque::new(),
            quiet_until: Timestamp::MIN,
            next_sweep: Timestamp::MIN,
            latest: Timestamp::MIN,
            segments_since_sweep: 0,
            tallied: Tallied::default(),
        }
    }

    /// Takes in one segment; adds what closed to `closed`.
    #[inline]
    pub(crate) fn observe_segment(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        arrived: Arrived,
        closed: &mut Closed,
    ) {
        self.expire(segment.at, closed);
        if self.room.is_due(segment, payload, self.open.len()) {
            self.make_room(closed);
        }
        let hash = self.hash(segment.point, &segment.flow);
        let (point, flow) = (segment.point, &segment.flow);
        let found = self
            .open
            .find_mut(hash, |open| open.connection.is_at(point, flow));
        let Some(open) = found else {
            return self.begin(segment, payload, arrived, hash, closed);
        };
        if open.connection.is_succeeded_by(segment) {
            open.give_up(Parting::Succeeded, closed);
            self.tallied.closed(open);
            let connection = arrived.begin(segment);
            **open = Open::new(arrived.id, hash, connection);
        }
        let held = match open.judge(segment, payload) {
            Judgment::Passes(held) => held,
            Judgment::Held => return,
            Judgment::Jumped(jump, held) => {
                open.give_up(Parting::Idle, closed);
                self.tallied.closed(open);
                self.tallied.jumped(jump);
                let first = held.first().map_or(segment, |(first, _)| first);
                let connection = arrived.begin_again(first, &open.connection);
                **open = Open::new(arrived.id, hash, connection);
                (self.next_sweep, self.quiet_until) = (Timestamp::MIN, Timestamp::MIN);
                held
            }
        };
        for (segment, payload) in held {
            open.observe_segment(&segment, &payload, closed);
        }
        if arrived.shares_counter {
            open.connection.shares_counter(segment.direction);
        }
        if let Some(tick_ns) = arrived.tick_ns {
            open.connection.may_tick(segment.direction, tick_ns);
        }
        if let Some(client) = arrived.likely_client {
            open.connection.is_likely_asked_by(client);
        }
        let exchanges = open.connection.open_exchanges();
        if open.observe_segment(segment, payload, closed) {
            self.tallied.copies += 1;
        }
        self.room
            .begin_exchanges(open.connection.open_exchanges().saturating_sub(exchanges));
        if let Some(approach) = arrived.approach {
            open.connection.follows(approach, segment.at);
        }
        if open.connection.is_over() && !open.is_due {
            open.is_due = true;
            let (at, id) = (segment.at, open.id);
            self.ends(Due { at, hash, id });
        }
    }

    #[inline(always)]
    fn hash(&self, point: PointId, flow: &FlowKey) -> u64 {
        let mut state = self.hasher.build_hasher();
        flow.hash_with(point.0, &mut state);
        state.finish()
    }

    /// Takes in an ICMP error; an error about a connection that was not seen is ignored.
    pub(crate) fn take_icmp(&mut self, error: &IcmpError) {
        let hash = self.hash(error.point, &error.flow);
        let (point, flow) = (error.point, &error.flow);
        let found = self
            .open
            .find_mut(hash, |open| open.connection.is_at(point, flow));
        if let Some(open) = found {
            open.connection.take_icmp(error);
        }
    }

    /// Removes all open connections and returns them in the order in which they began.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<Open>> + use<> {
        let mut list: Vec<_> = core::mem::take(&mut self.open).into_iter().collect();
        list.sort_unstable_by_key(|open| open.id);
        list.into_iter()
    }

    /// Closes a removed connection because the capture ended; returns its id.
    pub(crate) fn close(&mut self, mut open: Box<Open>, closed: &mut Closed) -> u64 {
        open.give_up(Parting::CaptureEnded, closed);
        self.tallied.closed(&open);
        open.id
    }

    /// Returns the counts so far.
    pub(crate) fn tallied(&self) -> Tallied {
        self.tallied
    }

    /// Takes in a segment that belongs to no open connection: it opens one, or comes late to one
    /// that ended.
    fn begin(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        arrived: Arrived,
        hash: u64,
        closed: &mut Closed,
    ) {
        let is_it = |tombstone: &Tombstone| tombstone.is_at(segment.point, &segment.flow);
        if let Ok(tombstone) = self.tombstones.find_entry(hash, is_it) {
            if !tombstone.get().is_succeeded_by(segment) {
                return;
            }
            tombstone.remove();
        }
        if self.open.len() >= self.max {
            self.evict(closed);
        }
        // The connection is built in its final place, because moving it is expensive.
        let open = Open::new(arrived.id, hash, arrived.begin(segment));
        let mut open = Box::write(Box::new_uninit(), open);
        open.observe_segment(segment, payload, closed);
        self.room.begin_connection(open.connection.facts_bytes());
        if let Some(approach) = arrived.approach {
            open.connection.follows(approach, segment.at);
        }
        if open.connection.is_over() {
            open.is_due = true;
            let (at, id) = (segment.at, open.id);
            self.ends(Due { at, hash, id });
        }
        self.open.insert_unique(hash, open, |open| open.hash);
    }

    /// Closes what ended a while ago, removes old tombstones and occasionally drops connections that
    /// have long been idle. Usually nothing is due.
    #[inline]
    fn expire(&mut self, now: Timestamp, closed: &mut Closed) {
        self.segments_since_sweep += 1;
        let silence = now.since(core::mem::replace(&mut self.latest, now));
        if now > self.quiet_until {
            self.expire_due(now, silence, closed);
        }
    }

    #[inline(never)]
    fn expire_due(&mut self, now: Timestamp, silence: Duration, closed: &mut Closed) {
        let is_due = |due: Option<&Due>, after: Duration| {
            due.is_some_and(|due| now.signed_since(due.at) > after.as_nanos() as i64)
        };
        if is_due(self.ended.front(), QUIET) || self.ended.len() > self.max {
            self.close_ended(now, closed);
        }
        if is_due(self.buried.front(), LINGER) || self.buried.len() > self.max {
            self.forget_grave();
        }
        if now >= self.next_sweep && self.segments_since_sweep > self.open.len() {
            if silence > IDLE {
                // A silence of all connections says nothing about each of them, and may be a jump of
                // the clock: they are judged by their own next segments.
                self.next_sweep = now + IDLE / 2;
            } else {
                self.sweep(now, closed);
            }
        }
        self.quiet_until = self.next_due();
    }

    /// Returns the time up to which nothing is due, as long as nothing ends.
    fn next_due(&self) -> Timestamp {
        if self.ended.len() > self.max || self.buried.len() > self.max {
            return Timestamp::MIN;
        }
        let due = |due: Option<&Due>, after| due.map_or(Timestamp::MAX, |due| due.at + after);
        let before_sweep = self.next_sweep - Duration::from_nanos(1);
        due(self.ended.front(), QUIET)
            .min(due(self.buried.front(), LINGER))
            .min(before_sweep)
    }

    /// Records that a connection ended.
    fn ends(&mut self, due: Due) {
        self.ended.push_back(due);
        self.quiet_until = self.next_due();
    }

    #[cold]
    fn close_ended(&mut self, now: Timestamp, closed: &mut Closed) {
        let Some(due) = self.ended.pop_front() else {
            return;
        };
        let Ok(mut entry) = self.open.find_entry(due.hash, |open| open.id == due.id) else {
            return;
        };
        let open = entry.get_mut();
        let last_seen = open.connection.last_seen;
        if now.since(last_seen) <= QUIET && self.ended.len() < self.max {
            let at = last_seen;
            self.ended.push_back(Due { at, ..due });
            return;
        }
        open.give_up(Parting::Idle, closed);
        self.tallied.closed(open);
        let tombstone = Tombstone::new(due.id, due.hash, &open.connection);
        entry.remove();
        self.tombstones
            .insert_unique(due.hash, tombstone, |tombstone| tombstone.hash);
        self.buried.push_back(Due { at: now, ..due });
    }

    #[cold]
    fn forget_grave(&mut self) {
        if let Some(due) = self.buried.pop_front() {
            let is_meant = |tombstone: &Tombstone| tombstone.id == due.id;
            if let Ok(tombstone) = self.tombstones.find_entry(due.hash, is_meant) {
                tombstone.remove();
            }
        }
    }

    /// Drops connections that have long been idle. Since the last sweep there were more segments
    /// than there are places, so the amortized cost per segment is constant.
    #[cold]
    fn sweep(&mut self, now: Timestamp, closed: &mut Closed) {
        self.next_sweep = now + IDLE / 2;
        self.segments_since_sweep = 0;
        let stale = self.list(|open| now.since(open.connection.last_seen) > IDLE);
        self.give_up(stale, Parting::Idle, closed);
    }

    /// Makes room by dropping the connections that have been idle longest.
    #[cold]
    fn evict(&mut self, closed: &mut Closed) {
        let mut all = self.list(|_| true);
        let count = (self.max / EVICTED).max(1);
        if count < all.len() {
            all.select_nth_unstable_by_key(count, |due| (due.at, due.id));
            all.truncate(count);
        }
        self.tallied.evicted += all.len() as u64;
        self.give_up(all, Parting::Crowded, closed);
    }

    fn list(&self, is_meant: impl Fn(&Open) -> bool) -> Vec<Due> {
        let open = self.open.iter().filter(|open| is_meant(open));
        open.map(|open| Due {
            at: open.connection.last_seen,
            hash: open.hash,
            id: open.id,
        })
        .collect()
    }

    /// Drops connections in the order in which they began, which does not depend on the hash.
    fn give_up(&mut self, mut dues: Vec<Due>, parting: Parting, closed: &mut Closed) {
        dues.sort_unstable_by_key(|due| due.id);
        for due in dues {
            if let Ok(entry) = self.open.find_entry(due.hash, |open| open.id == due.id) {
                let (mut open, _) = entry.remove();
                open.give_up(parting, closed);
                self.tallied.closed(&open);
            }
        }
    }
}
