//! The next step of a connection: pause, open, wait or send.

use std::cmp::Reverse;

use lagtrace_core::observed::time::Timestamp;

use super::{Command, Driver, Slot};
use crate::load::connection::Connection;
use crate::load::mix::Start;

impl Driver {
    /// Pauses a connection until `until`.
    pub(super) fn rest(&mut self, slot: Slot, until: Timestamp) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.wakes_at = Some(until);
            self.timers.push(Reverse((until, slot)));
        }
    }

    /// Ends a connection's pause, which lasts until `at`.
    pub(super) fn wake(&mut self, slot: Slot, now: Timestamp, at: Timestamp) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if connection.wakes_at == Some(at) {
            connection.wakes_at = None;
            self.go_on(slot, now);
        }
    }

    /// Opens a closed connection that is to stay open between requests; otherwise looks for the
    /// next request.
    pub(super) fn go_on(&mut self, slot: Slot, now: Timestamp) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        if connection.wakes_at.is_some() {
            return;
        }
        let Some(lane) = self.lanes.get(connection.lane) else {
            return;
        };
        if !connection.is_closed() || lane.opens_per_request {
            self.offer(slot, now);
        } else if lane.has_due() || (now < self.end && !lane.is_used_up()) {
            self.connect(slot, now, None);
        }
    }

    /// Starts the lane's next requests on a connection as long as it has room. Adds the connection
    /// to the idle ones if no request may start.
    pub(super) fn offer(&mut self, slot: Slot, now: Timestamp) {
        while let Some(connection) = self.connections.get_mut(slot) {
            let Some(lane) = self.lanes.get_mut(connection.lane) else {
                return;
            };
            if connection.is_idle || !(connection.is_closed() || connection.has_room()) {
                return;
            }
            match lane.take(now) {
                Some(start) => self.start(slot, now, start),
                None => {
                    connection.is_idle = true;
                    lane.idle.push_front(slot);
                }
            }
        }
    }

    /// Starts the requests of a lane that are due, on idle connections.
    pub(super) fn start_due(&mut self, number: usize, now: Timestamp) {
        while let Some(lane) = self.lanes.get_mut(number) {
            let Some(&slot) = lane.idle.front() else {
                break;
            };
            let Some(connection) = self.connections.get_mut(slot) else {
                break;
            };
            // An idle HTTP/2 connection may have lost its room for requests. It is then removed,
            // and offered again when it has room.
            connection.is_idle &= connection.is_closed() || connection.has_room();
            if connection.is_idle {
                let Some(start) = lane.take(now) else {
                    break;
                };
                if lane.cadence.is_open_loop() {
                    self.lag.note(now.since(start.due));
                }
                connection.is_idle = false;
                lane.idle.pop_front();
                self.start(slot, now, start);
                self.readmit(number, slot);
            } else {
                lane.idle.pop_front();
            }
        }
    }

    /// Adds a connection that still has room for requests to the end of the list of idle ones.
    fn readmit(&mut self, number: usize, slot: Slot) {
        let (Some(lane), Some(connection)) =
            (self.lanes.get_mut(number), self.connections.get_mut(slot))
        else {
            return;
        };
        if connection.has_room() && !connection.is_idle {
            connection.is_idle = true;
            lane.idle.push_back(slot);
        }
    }

    fn start(&mut self, slot: Slot, now: Timestamp, start: Start) {
        let is_open = self.connections.get(slot).is_some_and(Connection::has_room);
        if is_open {
            self.send(slot, now, start);
        } else {
            self.pending += 1;
            self.connect(slot, now, Some(start));
        }
    }

    fn connect(&mut self, slot: Slot, now: Timestamp, due: Option<Start>) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.connect(now, due);
            self.commands.push_back(Command::Connect(slot));
        }
    }

    /// Sends the request `start` on an open connection.
    pub(super) fn send(&mut self, slot: Slot, now: Timestamp, start: Start) {
        let is_open_loop = self.is_open_loop(slot);
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        self.last_start = Some(now);
        let due = if is_open_loop { start.due } else { now };
        connection.send(now, Start { due, ..start });
        self.pending += 1;
        self.commands.push_back(Command::Send(slot));
    }
}
