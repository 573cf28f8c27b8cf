//! Probes by `connect`, many in parallel. They need no privilege and use the round-trip time that
//! the kernel measures.

use std::collections::VecDeque;
use std::io;

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::observed::event::{ProbeAnswer, ProbeReply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{Protocol, Socket, Type};

use super::{Answered, Asker, Heard, MAX_OPEN, SourcePorts, SteadyPlan, any, dress, errno};
use crate::probe::connect::{answer_to, wait_for};
use crate::probe::tcp_info::TcpInfo;
use crate::stamped::{prepare, reserve};

/// The attempts in flight.
pub(super) struct ByConnect<'a> {
    plan: &'a SteadyPlan,
    open: VecDeque<Attempt>,
    /// Results of attempts that were ended early because their port was needed again.
    ended: Vec<Heard>,
}

struct Attempt {
    number: u32,
    port: u16,
    socket: Socket,
    /// Result of `connect`, if the call did not leave the attempt in progress.
    outcome: Option<Result<(), Errno>>,
}

impl<'a> ByConnect<'a> {
    pub(super) fn new(plan: &'a SteadyPlan) -> Self {
        Self {
            plan,
            open: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    /// Ends the attempt from this port, because the next attempt needs the port. Without an answer
    /// so far, the attempt counts as unanswered.
    fn free(&mut self, port: u16) -> Result<(), Errno> {
        let index = self.open.iter().position(|attempt| attempt.port == port);
        let Some(attempt) = index.and_then(|index| self.open.remove(index)) else {
            return Ok(());
        };
        let is_over = wait_for(&attempt.socket, PollFlags::OUT, Duration::ZERO)?;
        let outcome = match attempt.outcome {
            None if is_over => Some(sockopt::socket_error(&attempt.socket)?),
            known => known,
        };
        if let Some(outcome) = outcome {
            self.ended.push(attempt.heard(outcome, self.plan.address)?);
        }
        Ok(())
    }

    fn socket(&self, port: u16) -> io::Result<(Socket, u16)> {
        let address = self.plan.address;
        let any = any(address);
        let (socket, port) = reserve(any, address, Type::STREAM, Protocol::TCP, port)?;
        prepare(&socket, address)?;
        dress(&socket, address, &self.plan.packet)?;
        if let Some(mss) = self.plan.packet.mss {
            socket.set_tcp_mss(mss.into())?;
        }
        if self.plan.ports != SourcePorts::Fresh {
            // Closes the connection with an RST. The port can be used again immediately, because it
            // does not enter TIME_WAIT.
            socket.set_linger(Some(Duration::ZERO))?;
        }
        Ok((socket, port))
    }
}

impl Asker for ByConnect<'_> {
    fn ask(&mut self, number: u32) -> Result<(), Errno> {
        let wanted = self.plan.ports.of(number);
        self.free(wanted)?;
        let (socket, port) = self.socket(wanted).map_err(|error| errno(&error))?;
        let outcome = match rustix::net::connect(&socket, &self.plan.address) {
            Err(Errno::INPROGRESS) => None,
            done => Some(done),
        };
        self.open.push_back(Attempt {
            number,
            port,
            socket,
            outcome,
        });
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Errno> {
        let mut open = self.open.iter();
        if !self.ended.is_empty() || open.any(|attempt| attempt.outcome.is_some()) {
            return Ok(());
        }
        let mut fds: Vec<PollFd<'_>> = self
            .open
            .iter()
            .map(|attempt| PollFd::new(&attempt.socket, PollFlags::OUT))
            .collect();
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (attempt, is_ready) in self.open.iter_mut().zip(ready) {
            if is_ready && attempt.outcome.is_none() {
                let error = sockopt::socket_error(&attempt.socket)?;
                attempt.outcome = Some(error);
            }
        }
        Ok(())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> Result<(), Errno> {
        heard.append(&mut self.ended);
        let mut index = 0;
        while let Some(attempt) = self.open.get(index) {
            let Some(outcome) = attempt.outcome else {
                index += 1;
                continue;
            };
            heard.push(attempt.heard(outcome, self.plan.address)?);
            self.open.remove(index);
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.open.len() < MAX_OPEN
    }

    fn forget(&mut self, number: u32) -> u8 {
        let index = self
            .open
            .iter()
            .position(|attempt| attempt.number == number);
        let attempt = index.and_then(|index| self.open.remove(index));
        attempt.map_or(0, |attempt| retransmissions(&TcpInfo::of(&attempt.socket)))
    }
}

impl Attempt {
    /// Returns the result of the attempt. It is silence if the kernel's own timeout ended the
    /// attempt.
    fn heard(&self, outcome: Result<(), Errno>, address: SocketAddr) -> Result<Heard, Errno> {
        let told = TcpInfo::of(&self.socket);
        let answer = answer_to(&self.socket, outcome, address)?;
        let reply = || {
            Box::new(ProbeReply {
                from: address.ip(),
                source_port: self.port,
                len: None,
                id: None,
                dont_fragment: None,
                segment: None,
            })
        };
        Ok(Heard::Answered(Answered {
            number: self.number,
            answer,
            at: None,
            rtt: told.rtt.filter(|_| answer == ProbeAnswer::Open),
            ttl: None,
            syn_retransmissions: retransmissions(&told),
            reply: (answer != ProbeAnswer::Silence).then(reply),
        }))
    }
}

fn retransmissions(told: &TcpInfo) -> u8 {
    u8::try_from(told.retransmissions).unwrap_or(u8::MAX)
}
