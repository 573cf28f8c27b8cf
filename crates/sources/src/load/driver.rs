//! What one worker does with its connections, and when: no I/O, told the time.
//!
//! The engine reports what happened on the sockets and carries out the
//! [`Command`]s at once, in order. A different engine needs nothing else.

mod ending;
mod next;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use core::time::Duration;

use lagtrace_core::event::RequestFailure;
use lagtrace_core::flow::FlowKey;
use lagtrace_core::time::Timestamp;

use super::cadence::{Cadence, Share};
use super::connection::{Connection, Dialect, Received};
use super::http2::Request;
use super::lane::{LaneState, group_of, share};
use super::meter::LagMeter;
use super::plan::{Method, Plan};
use super::record::{Batch, Opened};
use crate::tls::TlsFault;
use crate::tls::secure::Secured;

/// How often limits are checked, stop flags looked at and records handed over.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// A connection's place in its worker.
pub(super) type Slot = usize;

/// What the engine is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Open a connection.
    Connect(Slot),
    /// Send the lane's request on it.
    Send(Slot),
    /// Close it.
    Close(Slot),
}

/// One worker's share of the run.
#[derive(Debug)]
pub(super) struct Driver {
    lanes: Vec<LaneState>,
    connections: Vec<Connection>,
    /// When resting connections go on.
    timers: BinaryHeap<Reverse<(Timestamp, Slot)>>,
    commands: VecDeque<Command>,
    batch: Batch,
    lag: LagMeter,
    timeout: Duration,
    grace: Duration,
    end: Timestamp,
    next_check: Timestamp,
    /// Requests that are in flight or wait for their connection.
    pending: usize,
    /// When a request was sent last.
    last_start: Option<Timestamp>,
}

impl Driver {
    /// The share of worker `worker` of `workers` in a run of `plan` from `start`.
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
            lanes.push(LaneState::new(
                cadence,
                lane.experiment,
                left,
                numbers.start,
            ));
            let dialect = match plan.http2 {
                true => Dialect::Http2(Arc::new(Request::of(lane))),
                false => Dialect::Http1 {
                    is_head_request: lane.target.method == Method::Head,
                },
            };
            let at_once = plan.at_once as usize;
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

    /// When a request was sent last.
    pub(super) fn last_start(&self) -> Option<Timestamp> {
        self.last_start
    }

    /// Opens all connections that are kept, and begins.
    pub(super) fn begin(&mut self, now: Timestamp) {
        for slot in 0..self.connections.len() {
            self.go_on(slot, now);
        }
    }

    /// The lane of a connection.
    pub(super) fn lane_of(&self, slot: Slot) -> usize {
        self.connections
            .get(slot)
            .map_or(0, |connection| connection.lane)
    }

    /// How many connections of a lane workers before this one have.
    pub(super) fn connections_before(&self, lane: usize) -> u32 {
        self.lanes.get(lane).map_or(0, |lane| lane.before)
    }

    /// How many connections it has.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// The next thing to do.
    pub(super) fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Records enough to hand over, or all there are if `is_last`.
    pub(super) fn take_batch(&mut self) -> Batch {
        let next = Batch {
            records: Vec::with_capacity(self.batch.records.len()),
            ..Batch::default()
        };
        core::mem::replace(&mut self.batch, next)
    }

    /// Records waiting to be handed over.
    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// How late requests were started although a connection was free.
    pub(super) fn lag(&self) -> &LagMeter {
        &self.lag
    }

    /// Until when the engine may sleep if nothing happens on the sockets.
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

    /// When the next periodic check is due.
    pub(super) fn next_check(&self) -> Timestamp {
        self.next_check
    }

    /// Does what is due at `now`; true when the periodic check was among it.
    pub(super) fn tick(&mut self, now: Timestamp) -> bool {
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
            self.check_limits(now);
        }
        is_check
    }

    /// TCP's handshake is done, that of TLS begins.
    pub(super) fn secures(&mut self, slot: Slot, now: Timestamp, flow: Option<FlowKey>) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.secures(now, flow);
        }
    }

    /// The TLS handshake is done too.
    pub(super) fn secured(&mut self, slot: Slot, now: Timestamp, tls: Secured) {
        let flow = self.connections.get(slot).and_then(Connection::flow);
        self.opened(slot, now, flow, Some(tls));
    }

    /// A connection's handshake is done, and it has no TLS.
    pub(super) fn connected(&mut self, slot: Slot, now: Timestamp, flow: Option<FlowKey>) {
        self.opened(slot, now, flow, None);
    }

    fn opened(&mut self, slot: Slot, now: Timestamp, flow: Option<FlowKey>, tls: Option<Secured>) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if connection.connecting_since().is_none() {
            // It failed before this could be told.
            return;
        }
        let due = connection.opened(now, flow);
        let (lane, group) = (connection.lane, connection.group);
        self.batch.opened.push(Opened {
            lane,
            group,
            flow,
            at: now,
            tls,
        });
        match due {
            Some(due) => {
                self.pending -= 1;
                self.send(slot, now, due);
            }
            None => self.offer(slot, now),
        }
    }

    /// Bytes were read from a connection.
    pub(super) fn received(&mut self, slot: Slot, now: Timestamp, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let before = self.batch.records.len();
        let received = connection.received(now, bytes, &mut self.batch.records);
        let done = self.batch.records.len() - before;
        self.pending -= done;
        let unseen = connection.take_unseen();
        let is_moved = done > 0 || !unseen.is_empty();
        self.pending -= unseen.len();
        if let Some(lane) = self.lanes.get_mut(connection.lane) {
            unseen.into_iter().for_each(|due| lane.give_back(due));
        }
        let is_barren = connection.is_unused();
        match received {
            Received::Garbage => self.failed(slot, now, RequestFailure::NotHttp),
            Received::TurnedAway => self.failed(slot, now, RequestFailure::TurnedAway),
            // The next one is made after a wait.
            Received::Over if is_barren => self.failed(slot, now, RequestFailure::TurnedAway),
            Received::Over => self.finished(slot, now, false),
            Received::Open if is_moved => self.finished(slot, now, true),
            // Its settings may have made room.
            Received::Open => self.go_on(slot, now),
        }
    }

    /// Moves what a connection's protocol itself wants to send to the end of `to`.
    pub(super) fn take_output(&mut self, slot: Slot, to: &mut Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.take_output(to);
        }
    }

    /// Requests under way on a connection.
    pub(super) fn in_flight(&self, slot: Slot) -> usize {
        self.connections.get(slot).map_or(0, Connection::in_flight)
    }

    /// `send` is called later than its command was given.
    pub(super) fn sent(&mut self, slot: Slot, now: Timestamp) {
        let is_open_loop = self.is_open_loop(slot);
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.sent(now, is_open_loop);
        }
    }

    /// The peer closed a connection properly.
    pub(super) fn peer_closed(&mut self, slot: Slot, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        match connection.peer_closed(now) {
            Ok(Some(record)) => {
                self.pending -= 1;
                self.batch.records.push(record);
                self.finished(slot, now, false);
            }
            // Closed while idle: no request is hurt. One that never served any
            // is tried again slowly.
            Ok(None) if !connection.is_unused() => self.reopen(slot, now),
            Ok(None) => self.failed(slot, now, RequestFailure::Closed),
            Err(failure) => self.failed(slot, now, failure),
        }
    }

    /// A connection failed within TLS.
    pub(super) fn tls_failed(&mut self, slot: Slot, now: Timestamp, fault: TlsFault) {
        let failure = fault.failure;
        self.batch.tls_fault.get_or_insert(fault);
        self.failed(slot, now, failure);
    }

    /// A connection, or making one, failed.
    pub(super) fn failed(&mut self, slot: Slot, now: Timestamp, failure: RequestFailure) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let meant = connection.meaning_of(failure);
        if meant != failure || meant == RequestFailure::TlsTimeout {
            let fault = TlsFault::within_handshake(meant);
            self.batch.tls_fault.get_or_insert(fault);
        }
        let failure = meant;
        let since = connection.connecting_since();
        let pending = connection.pending();
        self.pending -= pending;
        connection.fail(now, failure, &mut self.batch.records);
        let lane = connection.lane;
        if let Some(since) = since {
            self.batch.note_failed_connect(failure);
            if pending == 0 {
                self.fail_waiting(slot, lane, (since, now), failure);
            }
        }
        self.reopen(slot, now);
    }

    /// Responses came in full: the connection rests, goes on or is replaced.
    fn finished(&mut self, slot: Slot, now: Timestamp, is_reusable: bool) {
        let Some(lane) = self.lanes.get(self.lane_of(slot)) else {
            return;
        };
        let think = lane.think;
        if !is_reusable || lane.opens_per_request {
            self.take_back(slot);
            self.close(slot);
        }
        if think.is_zero() {
            self.go_on(slot, now);
        } else {
            self.rest(slot, now + think);
        }
    }

    /// Closes a connection and opens it again, after a wait if it failed.
    fn reopen(&mut self, slot: Slot, now: Timestamp) {
        self.close(slot);
        let backoff = self
            .connections
            .get(slot)
            .map_or(Duration::ZERO, Connection::backoff);
        if backoff.is_zero() {
            self.go_on(slot, now);
        } else {
            self.rest(slot, now + backoff);
        }
    }

    /// Takes back the requests that a connection will not answer.
    fn take_back(&mut self, slot: Slot) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let Some(lane) = self.lanes.get_mut(connection.lane) else {
            return;
        };
        while let Some(due) = connection.take_back() {
            self.pending -= 1;
            lane.give_back(due);
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

    /// A response takes too long: its stream ends, or the connection with it.
    fn request_overdue(&mut self, slot: Slot, now: Timestamp) {
        let before = self.batch.records.len();
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let records = &mut self.batch.records;
        let goes_on = connection.cancel_overdue(now, self.timeout, records);
        self.pending -= records.len() - before;
        match goes_on {
            true => self.finished(slot, now, true),
            false => self.failed(slot, now, RequestFailure::Timeout),
        }
    }

    fn check_limits(&mut self, now: Timestamp) {
        for slot in 0..self.connections.len() {
            let overdue = self
                .connections
                .get(slot)
                .and_then(|connection| connection.overdue(now, self.timeout));
            match overdue {
                Some(RequestFailure::Timeout) => self.request_overdue(slot, now),
                Some(failure) => self.failed(slot, now, failure),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
