//! The policy of one worker: it decides what its connections do, and when. It performs no I/O and
//! reads no clock.
//!
//! The engine reports socket events and immediately executes the resulting [`Command`]s in order.

mod ending;
mod happened;
mod next;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use core::time::Duration;

use lagtrace_core::observed::event::{RequestFailure, StageTimes};
use lagtrace_core::observed::time::Timestamp;

use super::cadence::{Cadence, Share};
use super::connection::{Connection, Dialect};
use super::lane::{LaneState, Slot, group_of, share};
use super::meter::LagMeter;
use super::mix::Mix;
use super::plan::Plan;
use super::record::Batch;
use crate::request::Method;

/// Interval between periodic checks. A check tests limits and stop flags, and passes the records to
/// the collector.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// An instruction to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Open a connection.
    Connect(Slot),
    /// Send the next request on a connection.
    Send(Slot),
    /// Close a connection.
    Close(Slot),
}

/// A worker's share of the run.
#[derive(Debug)]
pub(super) struct Driver {
    lanes: Vec<LaneState>,
    connections: Vec<Connection>,
    /// Times at which paused connections continue, with the connections.
    timers: BinaryHeap<Reverse<(Timestamp, Slot)>>,
    commands: VecDeque<Command>,
    batch: Batch,
    lag: LagMeter,
    timeout: Duration,
    grace: Duration,
    end: Timestamp,
    next_check: Timestamp,
    /// Number of requests that are in flight or wait for their connection to open.
    pending: usize,
    /// Time at which the last request was sent.
    last_start: Option<Timestamp>,
}

impl Driver {
    /// Returns the share of worker number `worker`, of `workers` in total. The run of `plan` begins
    /// at `start`.
    pub(super) fn new(plan: &Plan, (worker, workers): (usize, usize), start: Timestamp) -> Self {
        let (mut lanes, mut connections) = (Vec::new(), Vec::new());
        for (number, lane) in plan.lanes.iter().enumerate() {
            let numbers = share(lane.connections, worker, workers);
            let share = Share {
                lane: number,
                connections: (numbers.end - numbers.start).max(1),
                before: numbers.start,
            };
            let mut cadence = Cadence::new(plan, share, start);
            if numbers.is_empty() {
                cadence.end_at(start);
            }
            let left = plan.requests.map(|requests| {
                let bound = |before: u32| {
                    let product = u128::from(requests) * u128::from(before);
                    (product / u128::from(lane.connections.max(1))) as u64
                };
                bound(numbers.end) - bound(numbers.start)
            });
            let mix = Mix::of(plan.urls.iter().map(|url| url.weight));
            lanes.push(LaneState::new(
                cadence,
                lane.experiment,
                left,
                numbers.start,
                mix,
            ));
            let dialect = if plan.protocol.http2 {
                Dialect::Http2(plan.encoded(lane))
            } else {
                Dialect::Http1 {
                    is_head_request: lane.target.request.method == Method::HEAD,
                    jar: plan.jar(lane),
                }
            };
            let at_once = plan.protocol.at_once as usize;
            connections.extend(numbers.map(|n| {
                let group = group_of(n, lane.connections);
                Connection::new(number, group, dialect.clone(), at_once)
            }));
        }
        Self {
            lanes,
            connections,
            timers: BinaryHeap::new(),
            commands: VecDeque::new(),
            batch: Batch::default(),
            lag: LagMeter::default(),
            timeout: plan.timeout,
            grace: plan.grace(),
            end: start + plan.warm_up_in_rounds() + plan.duration,
            next_check: start,
            pending: 0,
            last_start: None,
        }
    }

    /// Returns the time at which the last request was sent.
    pub(super) fn last_start(&self) -> Option<Timestamp> {
        self.last_start
    }

    /// Starts the run. Opens all connections that stay open between requests.
    pub(super) fn begin(&mut self, now: Timestamp) {
        for slot in 0..self.connections.len() {
            self.go_on(slot, now);
        }
    }

    /// Returns the lane of a connection.
    pub(super) fn lane_of(&self, slot: Slot) -> usize {
        self.connections
            .get(slot)
            .map_or(0, |connection| connection.lane)
    }

    /// Returns the number of a lane's connections that belong to earlier workers.
    pub(super) fn connections_before(&self, lane: usize) -> u32 {
        self.lanes.get(lane).map_or(0, |lane| lane.before)
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Removes and returns the next command.
    pub(super) fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Removes and returns the records to be passed to the collector.
    pub(super) fn take_batch(&mut self) -> Batch {
        let next = Batch {
            records: Vec::with_capacity(self.batch.records.len()),
            ..Batch::default()
        };
        core::mem::replace(&mut self.batch, next)
    }

    /// Returns the records to be passed to the collector.
    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Records the stages of a request of `lane` that was due at `due`.
    pub(super) fn note_stages(&mut self, lane: usize, due: Timestamp, times: Option<StageTimes>) {
        self.batch.stages.push((lane, due, times));
    }

    /// Returns the delays of requests that started late although a connection was free.
    pub(super) fn lag(&self) -> &LagMeter {
        &self.lag
    }

    /// Returns the time until which the engine may sleep if no socket event occurs.
    pub(super) fn next_wake(&self, now: Timestamp) -> Timestamp {
        let mut wake = self.next_check;
        if let Some(Reverse((at, _))) = self.timers.peek() {
            wake = wake.min(*at);
        }
        for lane in self.lanes.iter().filter(|lane| !lane.idle.is_empty()) {
            if let Some(start) = lane.next_start(now) {
                wake = wake.min(start);
            }
        }
        wake
    }

    /// Performs all actions that are due at `now`. What had arrived by the time `heard` was told
    /// before. Returns true if the periodic check was one of the actions.
    pub(super) fn tick(&mut self, now: Timestamp, heard: Timestamp) -> bool {
        while let Some(&Reverse((at, slot))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            self.wake(slot, now, at);
        }
        for lane in 0..self.lanes.len() {
            self.start_due(lane, now);
        }
        let is_check = now >= self.next_check;
        if is_check {
            self.next_check = now + TICK;
            self.check_limits(now, heard);
        }
        is_check
    }

    /// Moves the protocol's own output for a connection, such as acknowledgements, to the end of
    /// `to`.
    pub(super) fn take_output(&mut self, slot: Slot, to: &mut Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.take_output(to);
        }
    }

    /// Returns the number of requests in flight on a connection.
    pub(super) fn in_flight(&self, slot: Slot) -> usize {
        self.connections.get(slot).map_or(0, Connection::in_flight)
    }

    /// Returns the part of the next request to be sent on a connection. A part is the index of a
    /// URL in the plan.
    pub(super) fn part_to_send(&self, slot: Slot) -> u16 {
        let connection = self.connections.get(slot);
        connection.map_or(0, Connection::part_to_send)
    }

    /// Returns the cookies for a request of this part; `None` if there are none.
    pub(super) fn cookies_to_send(&self, slot: Slot, part: u16) -> Option<String> {
        self.connections.get(slot)?.cookies(part)
    }

    /// Records that `send` is called at `now`, which is later than the time at which the
    /// driver told the engine to send.
    pub(super) fn sent(&mut self, slot: Slot, now: Timestamp) {
        let is_open_loop = self.is_open_loop(slot);
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.sent(now, is_open_loop);
        }
    }

    fn close(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.close();
            connection.is_idle = false;
            self.commands.push_back(Command::Close(slot));
        }
    }

    fn is_open_loop(&self, slot: Slot) -> bool {
        self.lanes
            .get(self.lane_of(slot))
            .is_some_and(|lane| lane.cadence.is_open_loop())
    }

    fn check_limits(&mut self, now: Timestamp, heard: Timestamp) {
        for slot in 0..self.connections.len() {
            let overdue = self
                .connections
                .get(slot)
                .and_then(|connection| connection.overdue(heard, self.timeout));
            match overdue {
                Some(RequestFailure::Timeout) => self.request_overdue(slot, now, heard),
                Some(failure) => self.failed(slot, now, failure),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
