//! The effect of received bytes on the requests in flight.

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;

use super::in_flight::InFlight;
use super::speech::{Speech, fill};
use super::{Connection, Received};
use crate::http::Progress;
use crate::http2;
use crate::load::record::Record;

/// Maximum number of rejected requests since the last response, as a multiple of the maximum number
/// of requests in flight. Some rejections are normal: until the server's settings arrive, more
/// requests may be sent than the server allows.
const MAX_TURNED_AWAY: usize = 4;

impl Connection {
    /// Processes bytes that were read at `now`, and appends the records of completed responses to
    /// `done`.
    pub(in crate::load) fn received(
        &mut self,
        now: Timestamp,
        bytes: &[u8],
        done: &mut Vec<Record>,
    ) -> Received {
        match self.speech {
            Speech::Http1(..) => self.received_in_order(now, bytes, done),
            Speech::Http2 { .. } => self.received_by_stream(now, bytes, done),
        }
    }

    fn received_by_stream(
        &mut self,
        now: Timestamp,
        bytes: &[u8],
        done: &mut Vec<Record>,
    ) -> Received {
        let mut events = Vec::new();
        let Speech::Http2 {
            session: Some(session),
            ..
        } = &mut self.speech
        else {
            return Received::Garbage;
        };
        let fed = session.feed(bytes, &mut events);
        for event in events {
            self.happened(now, event, done);
        }
        if fed.is_err() {
            return Received::Garbage;
        }
        self.turned_away += self.unseen.len();
        if !self.unseen.is_empty() && self.turned_away > MAX_TURNED_AWAY * self.at_once {
            self.in_flight.extend(self.unseen.drain(..));
            return Received::TurnedAway;
        }
        let leaves = matches!(self.speech, Speech::Http2 { leaves: true, .. });
        if leaves && self.in_flight.is_empty() {
            Received::Over
        } else {
            Received::Open
        }
    }

    fn happened(&mut self, now: Timestamp, event: http2::Event, done: &mut Vec<Record>) {
        use http2::Event;
        let (id, outcome) = match event {
            Event::Bytes(id, count) => {
                let of_stream = |request: &&mut InFlight| request.stream == id;
                if let Some(request) = self.in_flight.iter_mut().find(of_stream) {
                    request.note_read(now);
                    request.received_bytes += count;
                }
                return;
            }
            Event::Leaves(last) => {
                if let Speech::Http2 { leaves, .. } = &mut self.speech {
                    *leaves = true;
                }
                let unseen = &mut self.unseen;
                self.in_flight.retain(|request| {
                    let is_seen = request.stream <= last;
                    unseen.extend((!is_seen).then_some(*request));
                    is_seen
                });
                return;
            }
            Event::Unseen(id) => (id, None),
            Event::Done(id, status) => (id, Some(Ok(status))),
            Event::CallFailed(id, code) => (id, Some(Err(RequestFailure::Grpc(code)))),
            Event::Reset(id) => (id, Some(Err(RequestFailure::Reset))),
        };
        let at = self
            .in_flight
            .iter()
            .position(|request| request.stream == id);
        let Some(request) = at.and_then(|at| self.in_flight.remove(at)) else {
            return;
        };
        match outcome {
            None => self.unseen.push(request),
            Some(outcome) => {
                if outcome.is_ok() {
                    (self.failures_in_a_row, self.turned_away) = (0, 0);
                }
                let record = self.record(request, now, outcome);
                done.push(record);
            }
        }
    }

    /// Cancels the streams that, at `now`, have taken longer than `timeout`, so that the others can
    /// continue. Returns false if the protocol cannot cancel single requests.
    pub(in crate::load) fn cancel_overdue(
        &mut self,
        now: Timestamp,
        timeout: Duration,
        failed: &mut Vec<Record>,
    ) -> bool {
        while let Some(oldest) = self.in_flight.front().copied() {
            if now.since(oldest.sent) < timeout {
                break;
            }
            let Speech::Http2 {
                session: Some(session),
                ..
            } = &mut self.speech
            else {
                return false;
            };
            session.cancel(oldest.stream);
            self.in_flight.pop_front();
            failed.push(self.record(oldest, now, Err(RequestFailure::Timeout)));
        }
        true
    }

    fn received_in_order(
        &mut self,
        now: Timestamp,
        bytes: &[u8],
        done: &mut Vec<Record>,
    ) -> Received {
        let (mut rest, before) = (bytes, done.len());
        while !rest.is_empty() {
            let Some(in_flight) = self.in_flight.front_mut() else {
                // These bytes belong to no request. If they follow a response in the same read, the
                // connection just ends; otherwise it fails.
                let was_asked = done.len() > before;
                return if was_asked {
                    Received::Over
                } else {
                    Received::Garbage
                };
            };
            let Speech::Http1(reader, jar) = &mut self.speech else {
                return Received::Garbage;
            };
            in_flight.note_read(now);
            let progress = reader.feed(rest);
            fill(jar, reader, in_flight.part);
            let used = match progress {
                Ok(Progress::Complete { used, .. }) => used,
                _ => rest.len(),
            };
            in_flight.received_bytes += used as u64;
            let head = match progress {
                Ok(Progress::Complete { head, .. }) => head,
                Ok(Progress::More) => return Received::Open,
                Err(_) => return Received::Garbage,
            };
            self.failures_in_a_row = 0;
            if let Some(in_flight) = self.in_flight.pop_front() {
                let record = self.record(in_flight, now, Ok(head.status));
                done.push(record);
            }
            rest = rest.get(used..).unwrap_or_default();
            if !head.keeps_alive {
                return Received::Over;
            }
        }
        Received::Open
    }

    /// Records that the peer closed the connection in an orderly way at `now`. Returns the record
    /// of a response that ends with the close, if there is one.
    pub(in crate::load) fn peer_closed(
        &mut self,
        now: Timestamp,
    ) -> Result<Option<Record>, RequestFailure> {
        if self.in_flight.is_empty() {
            return Ok(None);
        }
        let Speech::Http1(reader, _) = &mut self.speech else {
            return Err(RequestFailure::Closed);
        };
        match reader.close() {
            Ok(Some(head)) => {
                self.failures_in_a_row = 0;
                let answered = self.in_flight.pop_front();
                Ok(answered.map(|in_flight| self.record(in_flight, now, Ok(head.status))))
            }
            Ok(None) => Err(RequestFailure::Closed),
            Err(_) => Err(RequestFailure::NotHttp),
        }
    }
}
