//! The end of a run, and the records of requests that have no response.

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;

use super::{Driver, Slot};
use crate::load::lane::LaneState;
use crate::load::record::Record;

/// Maximum number of records of requests that were never sent, for each lane and worker.
const MAX_UNSENT_RECORDS: u64 = 10_000;

impl Driver {
    /// Ends the run early: no request starts at or after `now`.
    pub(in crate::load) fn stop(&mut self, now: Timestamp, grace: Duration) {
        if now < self.end {
            self.end = now;
            self.grace = self.grace.min(grace);
        }
        for lane in &mut self.lanes {
            lane.cadence.end_at(now);
        }
    }

    /// Returns true if the run is over and no further results are expected.
    pub(in crate::load) fn is_done(&self, now: Timestamp) -> bool {
        let is_used_up = self.lanes.iter().all(LaneState::is_used_up);
        if now < self.end && !is_used_up {
            return false;
        }
        let is_quiet = self.pending == 0 && !self.lanes.iter().any(LaneState::has_due);
        is_quiet || now >= self.end + self.grace
    }

    /// Ends all requests that are in flight or overdue when the run is over.
    pub(in crate::load) fn finish(&mut self, now: Timestamp) {
        for slot in 0..self.connections.len() {
            let is_open_loop = self.is_open_loop(slot);
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            let since = connection.connecting_since();
            let had_none = connection.pending() == 0;
            connection.fail(now, RequestFailure::Cut, &mut self.batch.records);
            let is_stuck = |since: &Timestamp| now.since(*since) >= self.grace;
            let stuck = since.filter(is_stuck).filter(|_| had_none && !is_open_loop);
            let lane = self.lanes.get_mut(connection.lane);
            let due = stuck
                .zip(lane)
                .and_then(|(since, lane)| lane.take_failed(now, since));
            if let Some(start) = due {
                let unsent = connection.record_unsent(now, (start.due, start), RequestFailure::Cut);
                self.batch.records.push(unsent);
            }
        }
        self.pending = 0;
        for lane in 0..self.lanes.len() {
            self.cut_overdue(lane, now);
        }
    }

    /// Records the failure of the request for which the connection was being opened.
    pub(super) fn fail_waiting(
        &mut self,
        slot: Slot,
        lane: usize,
        (since, now): (Timestamp, Timestamp),
        failure: RequestFailure,
    ) {
        let (Some(lane), Some(connection)) =
            (self.lanes.get_mut(lane), self.connections.get_mut(slot))
        else {
            return;
        };
        if let Some(start) = lane.take_failed(now, since) {
            let record = connection.record_unsent(now, (since.max(start.due), start), failure);
            self.batch.records.push(record);
        }
    }

    /// Records the requests of a lane that were due but never sent.
    fn cut_overdue(&mut self, number: usize, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(number) else {
            return;
        };
        let most = lane.cadence.remaining().div_ceil(MAX_UNSENT_RECORDS);
        while let Some((parts, due)) = lane.take_many(most) {
            let cut = |(part, count)| Record {
                lane: number,
                group: 0,
                part,
                count,
                flow: None,
                ordinal: 0,
                due,
                sent: None,
                first_byte: None,
                ended: now,
                longest_gap: Duration::ZERO,
                setup: None,
                outcome: Err(RequestFailure::Cut),
                received_bytes: 0,
            };
            self.batch.records.extend(parts.into_iter().map(cut));
        }
    }
}
