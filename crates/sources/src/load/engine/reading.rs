//! Input on the sockets.

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::flow::FlowKey;
use lagtrace_core::observed::time::Timestamp;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::{Engine, READ_LEN};
use crate::load::lane::Slot;
use crate::load::socket::failure_of;
use crate::tls::TlsFault;
use crate::tls::secure::Secure;

/// Maximum number of consecutive reads from one connection before other connections are read.
const MAX_READS: usize = 16;

impl Engine<'_> {
    /// Reads until no more bytes are available. If `is_ended`, reads up to the end of the stream.
    pub(super) fn read(&mut self, slot: Slot, is_ended: bool) {
        let Some(Some(socket)) = self.sockets.get(slot) else {
            return;
        };
        let generation = socket.generation;
        for _ in 0..MAX_READS {
            let Some(Some(socket)) = self.sockets.get_mut(slot) else {
                return;
            };
            let (asked, result) = match socket.watched {
                Some(_) => self.read_watched(slot),
                None => (READ_LEN, self.read_bytes(slot)),
            };
            let now = self.clock.now();
            let ended = self.driver.batch().records.len();
            let len = match result {
                Ok(0) => {
                    self.driver.peer_closed(slot, now);
                    self.tell_stages(slot, ended);
                    return self.carry_out(now);
                }
                Ok(len) => len,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    let failure = match failure_of(error) {
                        RequestFailure::ConnectTimeout => RequestFailure::Timeout,
                        failure => failure,
                    };
                    return self.report(now, |driver| driver.failed(slot, now, failure));
                }
            };
            let lane = self.driver.lane_of(slot);
            if self.lanes.get(lane).is_some_and(|lane| lane.plan.quickack) {
                self.acknowledge(slot);
            }
            if self.has_tls(slot) {
                self.decrypt(slot, now, len);
            } else {
                let bytes = self.buffer.get(..len).unwrap_or_default();
                self.driver.received(slot, now, bytes);
                self.tell_stages(slot, ended);
            }
            if self.lanes.get(lane).is_some_and(|lane| lane.is_http2) {
                self.note_talkative(slot);
            }
            self.carry_out(now);
            let is_same = matches!(self.sockets.get(slot), Some(Some(socket)) if socket.generation == generation);
            if !is_same || (len < asked && !is_ended) {
                return;
            }
        }
        self.unread.push((slot, generation, is_ended));
    }

    /// Reads by `read(2)`: the kernel passes it on without asking the confinement's filter.
    fn read_bytes(&mut self, slot: Slot) -> Result<usize, Errno> {
        let Some(Some(socket)) = self.sockets.get(slot) else {
            return Ok(0);
        };
        let buffer = self.buffer.as_mut_slice();
        rustix::io::read(&socket.fd, buffer)
    }

    fn has_tls(&self, slot: Slot) -> bool {
        matches!(self.sockets.get(slot), Some(Some(socket)) if socket.tls.is_some())
    }

    /// Acknowledges the received bytes immediately (TCP_QUICKACK). The option lasts only until
    /// about the next send.
    fn acknowledge(&self, slot: Slot) {
        if let Some(Some(socket)) = self.sockets.get(slot) {
            let _ = sockopt::set_tcp_quickack(&socket.fd, true);
        }
    }

    /// Decrypts the first `len` bytes of the buffer and processes the result.
    fn decrypt(&mut self, slot: Slot, now: Timestamp, len: usize) {
        let Some(Some(socket)) = self.sockets.get_mut(slot) else {
            return;
        };
        let Some(tls) = &mut socket.tls else {
            return;
        };
        self.plain.clear();
        let wire = self.buffer.get(..len).unwrap_or_default();
        let taken = tls.take(wire, &mut self.plain);
        // This can be the last message of this side's handshake, or an alert.
        tls.drain(&mut socket.wire);
        let outcome = tls.outcome(now);
        if !socket.wire.is_empty() {
            self.send_rest(slot);
        }
        if !matches!(self.sockets.get(slot), Some(Some(_))) {
            return;
        }
        let lane = self.driver.lane_of(slot);
        let wants_http2 = self.lanes.get(lane).is_some_and(|lane| lane.is_http2);
        if outcome.is_some_and(|secured| wants_http2 && !secured.is_http2) {
            return self.driver.tls_failed(slot, now, TlsFault::no_http2());
        }
        if let Some(secured) = outcome {
            self.driver.secured(slot, now, secured);
            self.carry_out(now);
        }
        if !self.plain.is_empty() {
            self.driver.received(slot, now, &self.plain);
        }
        if let Err(fault) = taken {
            self.driver.tls_failed(slot, now, fault);
        }
    }

    pub(super) fn finish_connect(&mut self, slot: Slot, flags: epoll::EventFlags) {
        let Some(Some(socket)) = self.sockets.get_mut(slot) else {
            return;
        };
        let ready = epoll::EventFlags::OUT | epoll::EventFlags::ERR | epoll::EventFlags::HUP;
        if !flags.intersects(ready) {
            return;
        }
        let outcome = sockopt::socket_error(&socket.fd).and_then(|outcome| outcome);
        let now = self.clock.now();
        if let Err(error) = outcome {
            let failure = failure_of(error);
            return self.report(now, |driver| driver.failed(slot, now, failure));
        }
        socket.is_connected = true;
        let lane = self.driver.lane_of(slot);
        let flow = self.lanes.get(lane).and_then(|lane| {
            if lane.plan.quickack {
                let _ = sockopt::set_tcp_quickack(&socket.fd, true);
            }
            if lane.has_stamps {
                // If this fails, there are no timestamps, which the report mentions.
                let _ = crate::stamped::stream::watch(&socket.fd);
            }
            lane.plan.flow(&socket.fd)
        });
        if self.lanes.get(lane).is_some_and(|lane| lane.peer.is_some()) {
            self.begin_tls(slot, now, flow);
        } else {
            self.report(now, |driver| driver.connected(slot, now, flow));
        }
        // No other event announces bytes that arrived together with the end of the handshake.
        if flags.contains(epoll::EventFlags::IN) {
            self.read(slot, flags.contains(epoll::EventFlags::RDHUP));
        }
    }

    fn begin_tls(&mut self, slot: Slot, now: Timestamp, flow: Option<FlowKey>) {
        let lane = self.driver.lane_of(slot);
        self.driver.secures(slot, now, flow);
        let peer = self.lanes.get(lane).and_then(|lane| lane.peer.as_ref());
        let (Some(peer), Some(Some(socket))) = (peer, self.sockets.get_mut(slot)) else {
            return;
        };
        match Secure::begin(peer, now) {
            Ok(mut tls) => {
                tls.drain(&mut socket.wire);
                socket.tls = Some(Box::new(tls));
                self.send_rest(slot);
            }
            Err(fault) => self.report(now, |driver| driver.tls_failed(slot, now, fault)),
        }
    }
}
