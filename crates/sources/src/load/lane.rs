//! A worker's share of a lane, and the distribution of connections among workers.

use std::collections::VecDeque;

use core::ops::Range;
use core::time::Duration;

use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::time::Timestamp;

use super::cadence::Cadence;
use super::mix::{Mix, Start};

/// Index of a connection within its worker.
pub(super) type Slot = usize;

#[derive(Debug)]
pub(super) struct LaneState {
    /// Schedule of the requests.
    pub(super) cadence: Cadence,
    /// Idle connections, the most recently used first. As in connection pools, the next request
    /// takes the first one. Otherwise every request would use another connection, and problems of
    /// closely spaced requests on one connection would not appear below saturation. The list may
    /// contain connections that are no longer idle.
    pub(super) idle: VecDeque<Slot>,
    /// True if each connection carries only one request.
    pub(super) opens_per_request: bool,
    /// Pause on a connection between a response and the next request.
    pub(super) think: Duration,
    /// Number of the lane's connections that belong to earlier workers.
    pub(super) before: u32,
    /// Number of requests that may still be started; `None`: no limit except time.
    left: Option<u64>,
    /// Requests to be sent again. Their connection was closed, as announced in its last response,
    /// so that the server never processed them (RFC 9112 §9.3.2).
    again: VecDeque<Start>,
    /// The URLs that a request can have.
    mix: Mix,
}

impl LaneState {
    /// Creates a share that starts at most `left` requests of `mix`, at the times of `cadence`.
    /// `before` is the number of connections of earlier workers.
    pub(super) fn new(
        cadence: Cadence,
        experiment: Option<Experiment>,
        left: Option<u64>,
        before: u32,
        mix: Mix,
    ) -> Self {
        Self {
            mix,
            cadence,
            before,
            idle: VecDeque::new(),
            opens_per_request: matches!(
                experiment,
                Some(Experiment::FreshConnection | Experiment::ConnectionClose)
            ),
            think: match experiment {
                Some(Experiment::ThinkTime { pause }) => pause,
                _ => Duration::ZERO,
            },
            left,
            again: VecDeque::new(),
        }
    }

    /// Takes one request that may start at `now`; `None` if there is none.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Start> {
        if let Some(start) = self.again.pop_front() {
            return Some(start);
        }
        if self.is_used_up() {
            return None;
        }
        let due = self.cadence.take(now)?;
        self.count(1);
        let part = self.mix.choose();
        Some(Start { due, part })
    }

    /// Takes one request that fails before it is sent. In closed loop, `since` is its scheduled
    /// start.
    pub(super) fn take_failed(&mut self, now: Timestamp, since: Timestamp) -> Option<Start> {
        if self.cadence.is_open_loop() || !self.again.is_empty() {
            return self.take(now);
        }
        if self.is_used_up() {
            return None;
        }
        self.count(1);
        let part = self.mix.choose();
        Some(Start { due: since, part })
    }

    /// Returns a request to the lane. It will be sent again.
    pub(super) fn give_back(&mut self, start: Start) {
        self.again.push_back(start);
    }

    /// Takes up to `most` overdue requests that are abandoned together. Returns the number for each
    /// part, and the scheduled start of the middle request.
    pub(super) fn take_many(&mut self, most: u64) -> Option<(Vec<(u16, u64)>, Timestamp)> {
        if let Some(start) = self.again.pop_front() {
            return Some((vec![(start.part, 1)], start.due));
        }
        let most = self.left.map_or(most, |left| most.min(left));
        if most == 0 {
            return None;
        }
        let (taken, due) = self.cadence.take_many(most)?;
        self.count(taken);
        Some((self.mix.split(taken), due))
    }

    /// Returns true if all requests of this share have been started.
    pub(super) fn is_used_up(&self) -> bool {
        self.left == Some(0)
    }

    /// Returns true if a request is due now or at a known later time.
    pub(super) fn has_due(&self) -> bool {
        let is_scheduled = !self.is_used_up() && self.cadence.next_due().is_some();
        is_scheduled || !self.again.is_empty()
    }

    /// Returns the next time after `now` at which a request may start.
    pub(super) fn next_start(&self, now: Timestamp) -> Option<Timestamp> {
        match (self.again.is_empty(), self.is_used_up()) {
            (false, _) => Some(now),
            (true, true) => None,
            (true, false) => self.cadence.next_start(now),
        }
    }

    fn count(&mut self, taken: u64) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(taken);
        }
    }
}

/// Returns the range of connections, of `all` in total, that belongs to worker number `worker` of
/// `workers`.
pub(super) fn share(all: u32, worker: usize, workers: usize) -> Range<u32> {
    let bound = |n: usize| {
        let product = u64::from(all) * n as u64 / (workers.max(1) as u64);
        u32::try_from(product).unwrap_or(u32::MAX)
    };
    bound(worker)..bound(worker + 1)
}

/// Maximum number of connection groups in a lane.
const MAX_GROUPS: u32 = 16;

/// Returns the group of connection number `number` of `all` connections.
pub(super) fn group_of(number: u32, all: u32) -> u16 {
    let groups = all.clamp(1, MAX_GROUPS);
    let group = u64::from(number) * u64::from(groups) / u64::from(all.max(1));
    u16::try_from(group).unwrap_or(u16::MAX)
}
