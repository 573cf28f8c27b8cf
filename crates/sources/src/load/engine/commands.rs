//! Execution of the driver's commands.

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;
use rustix::event::epoll;
use rustix::net::sockopt;

use super::{Engine, Socket};
use crate::load::driver::Command;
use crate::load::lane::Slot;

/// Maximum number of connections that are closed with FIN. Further ones are closed with RST,
/// because each FIN leaves a local port in TIME-WAIT for a minute, and there are about 28,000
/// ports.
const MAX_TIME_WAITS: u32 = 5_000;

impl Engine<'_> {
    /// Executes the driver's commands in order.
    pub(super) fn carry_out(&mut self, now: Timestamp) {
        loop {
            self.carry_out_commands(now);
            // Consecutive requests on one HTTP/2 connection are sent together.
            let Some(slot) = self.talkative.pop() else {
                return;
            };
            self.flush(slot, now);
        }
    }

    fn carry_out_commands(&mut self, now: Timestamp) {
        let mut is_fresh = true;
        while let Some(command) = self.driver.next_command() {
            match command {
                Command::Send(slot) => {
                    // Each send takes microseconds, so that only the first one can use `now`.
                    let now = if core::mem::take(&mut is_fresh) {
                        now
                    } else {
                        self.clock.now()
                    };
                    let part = self.driver.part_to_send(slot);
                    let cookies = self.driver.cookies_to_send(slot, part);
                    self.driver.sent(slot, now);
                    self.send(slot, now, (part, cookies));
                }
                Command::Connect(slot) => self.connect(slot, now),
                Command::Close(slot) => self.close(slot),
            }
        }
    }

    fn connect(&mut self, slot: Slot, now: Timestamp) {
        let lane = self.driver.lane_of(slot);
        let Some(lane) = self.lanes.get(lane) else {
            return;
        };
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let opened = lane.plan.connect().and_then(|fd| {
            let token = (slot as u64) << 32 | u64::from(generation);
            let flags = epoll::EventFlags::IN
                | epoll::EventFlags::OUT
                | epoll::EventFlags::RDHUP
                | epoll::EventFlags::ET;
            epoll::add(&self.epoll, &fd, epoll::EventData::new_u64(token), flags)
                .map_err(|_| RequestFailure::Local)?;
            Ok(fd)
        });
        match opened {
            Ok(fd) => {
                if let Some(place) = self.sockets.get_mut(slot) {
                    *place = Some(Socket {
                        fd,
                        generation,
                        is_connected: false,
                        queued: std::collections::VecDeque::new(),
                        taken: 0,
                        outbox: super::Outbox::default(),
                        tls: None,
                        wire: Vec::new(),
                        handed_over: 0,
                        watched: None,
                    });
                }
            }
            Err(failure) => self.driver.failed(slot, now, failure),
        }
    }

    fn close(&mut self, slot: Slot) {
        let Some(socket) = self.sockets.get_mut(slot).and_then(Option::take) else {
            return;
        };
        self.closes_by_fin = self.closes_by_fin.saturating_add(1);
        if self.closes_by_fin > MAX_TIME_WAITS {
            // An RST after the complete response does no harm and frees the port immediately.
            let _ = sockopt::set_socket_linger(&socket.fd, Some(Duration::ZERO));
        }
    }
}
