//! Handling of the kernel's completions.

use std::io;
use std::os::fd::AsFd as _;

use lagtrace_core::observed::event::RequestFailure;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::queue::Answer;
use super::{Asked, RingEngine, current};
use crate::load::driver::Slot;
use crate::load::socket::failure_of;

impl RingEngine<'_> {
    /// Handles the completions that have arrived.
    pub(super) fn react(&mut self) -> io::Result<()> {
        let mut answers = core::mem::take(&mut self.answers);
        self.queue.answers(&mut answers);
        for answer in &answers {
            self.take(answer)?;
            self.queue.give_back(answer);
        }
        answers.clear();
        self.answers = answers;
        Ok(())
    }

    fn take(&mut self, answer: &Answer) -> io::Result<()> {
        let (Some(asked), slot, generation) = Asked::of(answer.token) else {
            return Ok(());
        };
        if asked == Asked::Alarm {
            self.alarm = None;
            return Ok(());
        }
        if !self.is_current(slot, generation) {
            return Ok(());
        }
        match asked {
            Asked::Connect => self.finish_connect(slot, answer.result),
            Asked::Receive => self.receive(slot, generation, answer),
            Asked::Send => self.finish_send(slot, answer.result),
            Asked::Cancel | Asked::Alarm => Ok(()),
        }
    }

    fn finish_connect(&mut self, slot: Slot, result: i32) -> io::Result<()> {
        let now = self.clock.now();
        let lane = self.driver.lane_of(slot);
        let (Some(Some(socket)), Some(lane)) = (self.sockets.get_mut(slot), self.lanes.get(lane))
        else {
            return Ok(());
        };
        let outcome = match error_of(result) {
            Some(error) => Err(error),
            None => sockopt::socket_error(&socket.fd).and_then(|outcome| outcome),
        };
        // The rings do not wait for a non-blocking socket either.
        let outcome = outcome.and_then(|()| rustix::fs::fcntl_setfl(&socket.fd, OFlags::empty()));
        if let Err(error) = outcome {
            let failure = failure_of(error);
            return self.report(now, |driver| driver.failed(slot, now, failure));
        }
        socket.is_connected = true;
        if lane.plan.quickack {
            let _ = sockopt::set_tcp_quickack(&socket.fd, true);
        }
        let flow = lane.plan.flow(&socket.fd);
        let token = Asked::Receive.token(slot, socket.generation);
        self.queue.set_file(slot, Some(socket.fd.as_fd()))?;
        self.queue.receive(slot, token)?;
        self.report(now, |driver| driver.connected(slot, now, flow))
    }

    fn receive(&mut self, slot: Slot, generation: u32, answer: &Answer) -> io::Result<()> {
        let now = self.woken;
        match error_of(answer.result) {
            // There was no buffer left: those of this batch are given back now.
            Some(Errno::NOBUFS) => {}
            Some(error) => {
                let failure = match failure_of(error) {
                    RequestFailure::ConnectTimeout => RequestFailure::Timeout,
                    failure => failure,
                };
                return self.report(now, |driver| driver.failed(slot, now, failure));
            }
            None if answer.result == 0 => {
                return self.report(now, |driver| driver.peer_closed(slot, now));
            }
            None => {
                self.driver.received(slot, now, self.queue.received(answer));
                self.carry_out(now)?;
            }
        }
        let lane = self.lanes.get(self.driver.lane_of(slot));
        let Some(socket) = current(&self.sockets, slot, generation) else {
            return Ok(());
        };
        if lane.is_some_and(|lane| lane.plan.quickack) {
            // The option is no flag: it holds until the next send or so.
            let _ = sockopt::set_tcp_quickack(&socket.fd, true);
        }
        if answer.has_more {
            return Ok(());
        }
        self.queue
            .receive(slot, Asked::Receive.token(slot, generation))
    }

    fn finish_send(&mut self, slot: Slot, result: i32) -> io::Result<()> {
        if let Some(Some(socket)) = self.sockets.get_mut(slot) {
            socket.is_sending = false;
        }
        match error_of(result) {
            Some(error) => {
                let (now, failure) = (self.woken, failure_of(error));
                self.report(now, |driver| driver.failed(slot, now, failure))
            }
            None => Ok(()),
        }
    }
}

fn error_of(result: i32) -> Option<Errno> {
    (result < 0).then(|| Errno::from_raw_os_error(-result))
}
