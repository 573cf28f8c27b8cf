//! By SYN: what `hping3 -S` does, stamped by the kernel.

use std::collections::VecDeque;

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::event::{ProbeAnswer, ProbeMethod};
use rustix::event::PollFlags;
use rustix::io::Errno;
use socket2::{Protocol, Socket, Type};

use super::ports::reserve;
use super::{Asker, Heard, SteadyPlan, dress};
use crate::probe::ProbeError;
use crate::probe::connect::wait_for;
use crate::probe::errors::{Queued, take_queued};
use crate::probe::syn::raw::RawSocket;
use crate::probe::syn::segment::{REPLY_LEN, Reply, Syn};

/// Probes differ by this much in their sequence numbers: odd, so that each of
/// 2^32 probes has another one, and far apart for the eye.
const STRIDE: u32 = 0x0101_0001;
/// What undoes a multiplication by [`STRIDE`] modulo 2^32 (Newton's iteration:
/// each step doubles the right bits).
const STRIDE_INVERSE: u32 = {
    let mut inverse: u32 = STRIDE;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(STRIDE.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};
/// Ports of ours that are held at a time.
const MAX_HELD: usize = 512;
/// Packets that are looked at in one go.
const MAX_READ: usize = 1_000;

/// A raw socket, and the ports that its SYNs came from.
pub(super) struct BySyn<'a> {
    plan: &'a SteadyPlan,
    socket: RawSocket,
    held: VecDeque<(u16, Socket)>,
    /// Numbers of the probes that were sent, the last ones: the kernel's
    /// stamps count what was sent.
    sent: VecDeque<u32>,
    /// How many were sent before those.
    sent_before: u32,
    base: u32,
}

impl<'a> BySyn<'a> {
    pub(super) fn new(plan: &'a SteadyPlan) -> Result<Self, ProbeError> {
        let address = plan.address;
        let socket = RawSocket::dressed(address, |socket| dress(socket, address, &plan.packet))?;
        Ok(Self {
            plan,
            socket,
            held: VecDeque::new(),
            sent: VecDeque::new(),
            sent_before: 0,
            base: std::process::id().wrapping_mul(0x9e37_79b9),
        })
    }

    fn port(&mut self, number: u32) -> Result<u16, Errno> {
        let wanted = self.plan.ports.of(number);
        if wanted != 0 && self.held.iter().any(|(port, _)| *port == wanted) {
            return Ok(wanted);
        }
        let (source, target) = (self.socket.source(), self.plan.address);
        let (holder, port) = reserve(source, target, Type::STREAM, Protocol::TCP, wanted)?;
        if self.held.len() == MAX_HELD {
            self.held.pop_front();
        }
        self.held.push_back((port, holder));
        Ok(port)
    }

    fn sequence(&self, number: u32) -> u32 {
        self.base.wrapping_add(number.wrapping_mul(STRIDE))
    }

    /// The probe with this sequence number.
    fn number(&self, sequence: u32) -> u32 {
        sequence
            .wrapping_sub(self.base)
            .wrapping_mul(STRIDE_INVERSE)
    }

    /// The probe that was sent as the `id`th, from 0.
    fn sent(&self, id: u32) -> Option<u32> {
        let index = id.checked_sub(self.sent_before)? as usize;
        self.sent.get(index).copied()
    }

    /// What a packet that came says, if it answers a probe of ours.
    fn answer(&self, bytes: &[u8]) -> Option<(u32, ProbeAnswer, Reply)> {
        let reply = Reply::read(bytes, self.socket.source(), self.plan.address)?;
        let answer = reply.answer()?;
        let acknowledged = reply.segment.ack.wrapping_sub(1);
        // A payload is acknowledged with the SYN, or left out.
        let size = u32::from(self.plan.packet.size);
        let numbers = [acknowledged, acknowledged.wrapping_sub(size)];
        let last = self.sent.back().copied()?;
        let oldest = self.sent.front().copied()?;
        let number = numbers
            .into_iter()
            .map(|sequence| self.number(sequence))
            .find(|number| (oldest..=last).contains(number))?;
        Some((number, answer, reply))
    }
}

impl Asker for BySyn<'_> {
    fn method(&self) -> ProbeMethod {
        ProbeMethod::TcpSyn
    }

    fn ask(&mut self, number: u32) -> Result<(), Errno> {
        let port = self.port(number)?;
        let syn = Syn {
            source: SocketAddr::new(self.socket.source(), port),
            destination: self.plan.address,
            sequence: self.sequence(number),
            mss: self.plan.packet.mss,
            payload: self.plan.packet.size,
        };
        self.socket.send(&syn.to_bytes())?;
        if self.sent.len() == super::MAX_PENDING {
            self.sent.pop_front();
            self.sent_before = self.sent_before.wrapping_add(1);
        }
        self.sent.push_back(number);
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Errno> {
        wait_for(&self.socket, PollFlags::IN, timeout).map(|_| ())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) {
        for _ in 0..MAX_READ {
            let Some(queued) = take_queued(&self.socket) else {
                break;
            };
            match queued {
                Queued::Sent { number, at } => {
                    let number = self.sent(number);
                    heard.extend(number.map(|number| Heard::Sent { number, at }));
                }
                Queued::Icmp {
                    kind,
                    code,
                    packet,
                    from,
                    at,
                } => {
                    let sequence = packet.get(4..8).and_then(|bytes| bytes.first_chunk());
                    let Some(sequence) = sequence.map(|bytes| u32::from_be_bytes(*bytes)) else {
                        continue;
                    };
                    let port = packet.first_chunk().map(|port| u16::from_be_bytes(*port));
                    heard.push(Heard::icmp(
                        self.number(sequence),
                        ProbeAnswer::Unreachable(kind, code),
                        at,
                        from,
                        port.unwrap_or_default(),
                    ));
                }
            }
        }
        for _ in 0..MAX_READ {
            let mut bytes = [0_u8; REPLY_LEN];
            let Ok(Some(read)) = self.socket.read(&mut bytes) else {
                break;
            };
            let bytes = bytes.get(..read.len).unwrap_or_default();
            let Some((number, answer, reply)) = self.answer(bytes) else {
                continue;
            };
            heard.push(Heard::Answered {
                number,
                answer,
                at: read.at,
                rtt: None,
                ttl: reply.ttl.or(read.ttl),
                syn_retransmissions: 0,
                reply: Some(Box::new(reply.told())),
            });
        }
    }

    fn forget(&mut self, _number: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stride_has_an_inverse() {
        assert_eq!(STRIDE.wrapping_mul(STRIDE_INVERSE), 1);
    }
}
