//! Output on the sockets.

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;
use rustix::io::Errno;

use super::watching::{WATCH_INTERVAL, send_stamped};
use super::{Engine, LaneSockets, Socket};
use crate::load::lane::Slot;
use crate::load::socket::failure_of;

/// Maximum number of bytes of a request that are passed to TLS in one step. Further bytes wait
/// until the kernel has accepted these.
const TLS_CHUNK: usize = 32 * 1024;

impl Engine<'_> {
    /// Sends a request of the given part, with these cookies.
    pub(super) fn send(
        &mut self,
        slot: Slot,
        now: Timestamp,
        (part, cookies): (u16, Option<String>),
    ) {
        let lane = self.driver.lane_of(slot);
        let in_flight = self.driver.in_flight(slot);
        let (Some(Some(socket)), Some(lane)) = (self.sockets.get_mut(slot), self.lanes.get(lane))
        else {
            return;
        };
        if lane.is_http2 {
            return self.note_talkative(slot);
        }
        if socket.queued.len() >= in_flight.max(1) {
            // The previous request was answered before it was completely sent. The server would
            // treat the bytes of a new request as the missing part.
            return self.driver.failed(slot, now, RequestFailure::Closed);
        }
        socket.watched = None;
        if lane.has_stamps && now >= self.next_watch {
            self.next_watch = now + WATCH_INTERVAL;
            socket.watched = Some(Box::default());
        }
        let own = lane.own_request(part, cookies.as_deref());
        socket.queued.push_back(Queued { part, own });
        if let Err(error) = socket.push(lane) {
            self.driver.failed(slot, now, failure_of(error));
        }
    }

    /// Records that an HTTP/2 connection may have output.
    pub(super) fn note_talkative(&mut self, slot: Slot) {
        if self.talkative.last() != Some(&slot) {
            self.talkative.push(slot);
        }
    }

    /// Sends the HTTP/2 output of a connection.
    pub(super) fn flush(&mut self, slot: Slot, now: Timestamp) {
        if let Err(error) = self.push(slot) {
            self.driver.failed(slot, now, failure_of(error));
        }
    }

    /// Continues to send data of which the kernel has accepted only a part.
    pub(super) fn send_rest(&mut self, slot: Slot) {
        if let Err(error) = self.push(slot) {
            let (now, failure) = (self.clock.now(), failure_of(error));
            self.report(now, |driver| driver.failed(slot, now, failure));
        }
    }

    /// Sends as many bytes as the kernel accepts. The outbox contains at most one portion of HTTP/2
    /// output. If the peer does not read, further output accumulates in the session, which limits
    /// it.
    fn push(&mut self, slot: Slot) -> Result<(), Errno> {
        let lane = self.driver.lane_of(slot);
        let (Some(Some(socket)), Some(lane)) = (self.sockets.get_mut(slot), self.lanes.get(lane))
        else {
            return Ok(());
        };
        loop {
            if socket.outbox.is_empty() {
                self.driver.take_output(slot, socket.outbox.refill());
            }
            let has_more = !socket.outbox.is_empty();
            socket.push(lane)?;
            if !has_more || socket.has_unsent() {
                return Ok(());
            }
        }
    }
}

/// A request that has not been sent completely.
#[derive(Debug)]
pub(super) struct Queued {
    part: u16,
    /// The request's bytes, if they differ from those of other requests of the same part.
    own: Option<Vec<u8>>,
}

/// Returns the request with a `Cookie` field after its first line.
pub(super) fn with_cookies(request: &[u8], cookies: &str) -> Vec<u8> {
    let end = request.windows(2).position(|two| two == b"\r\n");
    let (line, rest) = request.split_at(end.map_or(0, |end| end + 2));
    [line, b"Cookie: ", cookies.as_bytes(), b"\r\n", rest].concat()
}

/// Bytes that are being sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    taken: usize,
}

impl Outbox {
    /// Returns true if all bytes have been accepted.
    pub(super) fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Returns the bytes that have not been accepted yet.
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Clears the buffer, with any bytes that have not been accepted, and returns it to be filled.
    fn refill(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        self.taken = 0;
        &mut self.bytes
    }
}

impl Socket {
    /// Sends as many bytes as the kernel accepts.
    fn push(&mut self, lane: &LaneSockets) -> Result<(), Errno> {
        loop {
            let request = match self.queued.front() {
                Some(Queued { own: Some(own), .. }) => own,
                Some(queued) => lane.request(queued.part),
                None => &[],
            };
            let length = request.len();
            let is_boxed = !self.outbox.is_empty();
            let rest = if is_boxed {
                self.outbox.rest()
            } else {
                request.get(self.taken..).unwrap_or_default()
            };
            let (taken, is_all) = match &mut self.tls {
                None => {
                    let sent = match &self.watched {
                        Some(_) => send_stamped(&self.fd, rest)?,
                        None => send(&self.fd, rest)?,
                    };
                    self.handed_over = self.handed_over.wrapping_add(sent as u32);
                    (sent, sent == rest.len())
                }
                Some(tls) if self.wire.is_empty() && !rest.is_empty() => {
                    let chunk = rest.get(..TLS_CHUNK).unwrap_or(rest);
                    let taken = tls.give(chunk);
                    tls.drain(&mut self.wire);
                    (taken, true)
                }
                Some(_) => (0, true),
            };
            if is_boxed {
                self.outbox.taken += taken
            } else {
                self.taken += taken;
                if self.taken == length && self.queued.pop_front().is_some() {
                    self.taken = 0;
                    if let Some(watched) = &mut self.watched {
                        watched.handed_over(self.handed_over.wrapping_sub(1));
                    }
                }
            }
            if self.tls.is_none() {
                if !is_all || (self.queued.is_empty() && self.outbox.is_empty()) {
                    return Ok(());
                }
                continue;
            }
            if self.wire.is_empty() {
                return Ok(());
            }
            let sent = send(&self.fd, &self.wire)?;
            self.wire.drain(..sent);
            if !self.wire.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Sends without blocking. Returns 0 if the kernel accepts no bytes now.
///
/// By `write(2)`, which costs less than `sendto(2)` in a confined process: the kernel passes calls
/// whose arguments the filter does not check without running it. The program ignores SIGPIPE, as
/// all programs of Rust's standard library do.
fn send(fd: &std::os::fd::OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match rustix::io::write(fd, bytes) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        done => done,
    }
}
