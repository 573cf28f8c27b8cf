//! Handling of socket events.

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::flow::FlowKey;
use lagtrace_core::observed::time::Timestamp;

use super::{Driver, Slot};
use crate::load::connection::{Connection, Received};
use crate::load::record::Opened;
use crate::tls::TlsFault;
use crate::tls::secure::Secured;

impl Driver {
    /// Records that the TCP handshake is complete and the TLS handshake begins.
    pub(in crate::load) fn secures(&mut self, slot: Slot, now: Timestamp, flow: Option<FlowKey>) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.secures(now, flow);
        }
    }

    /// Records that the TLS handshake is complete.
    pub(in crate::load) fn secured(&mut self, slot: Slot, now: Timestamp, tls: Secured) {
        let flow = self.connections.get(slot).and_then(Connection::flow);
        self.opened(slot, now, flow, Some(tls));
    }

    /// Records that the handshake of a connection without TLS is complete.
    pub(in crate::load) fn connected(&mut self, slot: Slot, now: Timestamp, flow: Option<FlowKey>) {
        self.opened(slot, now, flow, None);
    }

    fn opened(&mut self, slot: Slot, now: Timestamp, flow: Option<FlowKey>, tls: Option<Secured>) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if connection.connecting_since().is_none() {
            // The connection has failed in the meantime.
            return;
        }
        let start = connection.opened(now, flow);
        let (lane, group) = (connection.lane, connection.group);
        self.batch.opened.push(Opened {
            lane,
            group,
            flow,
            at: now,
            tls,
        });
        match start {
            Some(start) => {
                self.pending -= 1;
                self.send(slot, now, start);
            }
            None => self.offer(slot, now),
        }
    }

    /// Processes bytes that were read from a connection.
    pub(in crate::load) fn received(&mut self, slot: Slot, now: Timestamp, bytes: &[u8]) {
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
            unseen.into_iter().for_each(|start| lane.give_back(start));
        }
        let is_barren = connection.is_unused();
        match received {
            Received::Garbage => self.failed(slot, now, RequestFailure::NotHttp),
            Received::TurnedAway => self.failed(slot, now, RequestFailure::TurnedAway),
            // The server rejected all requests on this connection. This counts as a failure, so
            // that a pause precedes the next connection.
            Received::Over if is_barren => self.failed(slot, now, RequestFailure::TurnedAway),
            Received::Over => self.finished(slot, now, false),
            Received::Open if is_moved => self.finished(slot, now, true),
            // New settings of the server may allow more requests.
            Received::Open => self.go_on(slot, now),
        }
    }

    /// Records that the peer closed a connection in an orderly way.
    pub(in crate::load) fn peer_closed(&mut self, slot: Slot, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        match connection.peer_closed(now) {
            Ok(Some(record)) => {
                self.pending -= 1;
                self.batch.records.push(record);
                self.finished(slot, now, false);
            }
            // An idle connection was closed, so no request fails. If the connection served no
            // request, it counts as failed, which delays the next attempt.
            Ok(None) if !connection.is_unused() => self.reopen(slot, now),
            Ok(None) => self.failed(slot, now, RequestFailure::Closed),
            Err(failure) => self.failed(slot, now, failure),
        }
    }

    /// Records that TLS failed on a connection.
    pub(in crate::load) fn tls_failed(&mut self, slot: Slot, now: Timestamp, fault: TlsFault) {
        let failure = fault.failure;
        self.batch.tls_fault.get_or_insert(fault);
        self.failed(slot, now, failure);
    }

    /// Records that a connection, or the attempt to open it, failed.
    pub(in crate::load) fn failed(&mut self, slot: Slot, now: Timestamp, failure: RequestFailure) {
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

    /// Handles the end of responses: the connection pauses, continues or is opened again.
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

    /// Closes a connection and opens it again. After failures, a backoff comes first.
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

    /// Returns a connection's unanswered requests to their lane.
    fn take_back(&mut self, slot: Slot) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let Some(lane) = self.lanes.get_mut(connection.lane) else {
            return;
        };
        while let Some(start) = connection.take_back() {
            self.pending -= 1;
            lane.give_back(start);
        }
    }

    /// Handles a response that had taken too long at the time `heard`. Cancels its stream; if the
    /// protocol cannot do that, closes the connection.
    pub(super) fn request_overdue(&mut self, slot: Slot, now: Timestamp, heard: Timestamp) {
        let before = self.batch.records.len();
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let records = &mut self.batch.records;
        let goes_on = connection.cancel_overdue(heard, self.timeout, records);
        self.pending -= records.len() - before;
        if goes_on {
            self.finished(slot, now, true)
        } else {
            self.failed(slot, now, RequestFailure::Timeout)
        }
    }
}
