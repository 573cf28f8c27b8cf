//! Probes by SYN, as `hping3 -S` sends them, timestamped by the kernel.

use std::collections::{BTreeMap, VecDeque};

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use lagtrace_core::observed::event::ProbeAnswer;
use lagtrace_core::observed::segment::TcpFlags;
use rustix::event::PollFlags;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::pending::MAX_PENDING;
use super::segment::{Reply, Syn};
use super::{
    Answered, Asker, FINDING_ROUTE, Heard, SteadyPlan, dress, errno, failure, identity, opening,
};
use crate::probe::ProbeError;
use crate::probe::connect::wait_for;
use crate::stamped::queue::Icmp;
use crate::stamped::{Came, StampedSocket, answers_from, reserve, route};

/// Difference between the sequence numbers of successive probes. It is odd, so that 2^32 successive
/// probes have different numbers. It is large, so that the numbers are far apart.
const STRIDE: u32 = 0x0101_0001;
/// Multiplicative inverse of [`STRIDE`] modulo 2^32, by Newton's iteration. Each step doubles the
/// number of correct bits.
const STRIDE_INVERSE: u32 = {
    let mut inverse: u32 = STRIDE;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(STRIDE.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};
/// Maximum number of payload sizes that are tried to find the probe of an answer.
const MAX_SIZES: usize = 4_096;
/// Maximum number of local ports that are reserved at the same time.
const MAX_HELD: usize = 512;

/// A raw socket, and the source ports of its SYNs.
///
/// No program on this host listens on these ports, so the kernel answers a SYN/ACK with RST. This
/// is intended. Without the RST, the target would keep a half-open connection and retransmit its
/// SYN/ACK for a minute. The target counts each RST as `EmbryonicRsts`.
pub(super) struct BySyn<'a> {
    plan: &'a SteadyPlan,
    socket: StampedSocket,
    source: IpAddr,
    held: VecDeque<(u16, Socket)>,
    /// Source ports of the latest probes, by probe number.
    ports: BTreeMap<u32, u16>,
    base: u32,
}

impl<'a> BySyn<'a> {
    pub(super) fn new(plan: &'a SteadyPlan) -> Result<Self, ProbeError> {
        let address = plan.address;
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::TCP))
            .map_err(opening("opening a raw socket", address))?;
        socket
            .attach_filter(&answers_from(address))
            .and_then(|()| dress(&socket, address, &plan.packet))
            .map_err(failure("preparing a raw socket", address))?;
        // The kernel chooses the route and the source address. An address of this host is therefore
        // probed over `lo`, as by any other program.
        let source = route(&socket, address).map_err(failure(FINDING_ROUTE, address))?;
        let socket = StampedSocket::new(socket, address, 0)
            .map_err(failure("preparing a raw socket", address))?;
        Ok(Self {
            plan,
            socket,
            source,
            held: VecDeque::new(),
            ports: BTreeMap::new(),
            base: identity().wrapping_mul(0x9e37_79b9),
        })
    }

    fn port(&mut self, number: u32) -> Result<u16, Errno> {
        let wanted = self.plan.ports.of(number);
        if wanted != 0 && self.held.iter().any(|(port, _)| *port == wanted) {
            return Ok(wanted);
        }
        let target = self.plan.address;
        let (holder, port) = reserve(self.source, target, Type::STREAM, Protocol::TCP, wanted)
            .map_err(|error| errno(&error))?;
        if self.held.len() == MAX_HELD {
            self.held.pop_front();
        }
        self.held.push_back((port, holder));
        Ok(port)
    }

    fn sequence(&self, number: u32) -> u32 {
        self.base.wrapping_add(number.wrapping_mul(STRIDE))
    }

    /// Returns the number of the probe with this sequence number.
    fn number(&self, sequence: u32) -> u32 {
        sequence
            .wrapping_sub(self.base)
            .wrapping_mul(STRIDE_INVERSE)
    }

    /// Returns the answer in a received packet; `None` if the packet answers no probe of this
    /// series.
    fn answer(&self, bytes: &[u8]) -> Option<(u32, ProbeAnswer, Reply)> {
        let reply = Reply::read(bytes, self.source, self.plan.address)?;
        let answer = reply.answer()?;
        let number = if reply.segment.flags.contains(TcpFlags::ACK) {
            self.acknowledged(&reply)?
        } else {
            // An RST without ACK has the probe's acknowledgement number as its sequence number.
            Some(self.number(reply.segment.seq))
                .filter(|number| self.is_from(*number, reply.port))?
        };
        Some((number, answer, reply))
    }

    /// Returns true if probe number `number` is recent and was sent from this port.
    fn is_from(&self, number: u32, port: u16) -> bool {
        self.ports.get(&number) == Some(&port)
    }

    /// Returns the probe that a reply acknowledges. A target can acknowledge all of the segment,
    /// all but its payload, or nothing of it.
    fn acknowledged(&self, reply: &Reply) -> Option<u32> {
        let packet = &self.plan.packet;
        let sizes = packet.sizes.all().take(MAX_SIZES);
        sizes.chain([0]).find_map(|size| {
            let before = reply.segment.ack.wrapping_sub(size.into());
            let is_it = |(number, marks): &(u32, u32)| {
                *marks <= marks_of(packet.flags(*number))
                    && (size == 0 || size == packet.sizes.of(*number))
                    && self.is_from(*number, reply.port)
            };
            let numbers = [1, 0, 2].map(|marks| (self.number(before.wrapping_sub(marks)), marks));
            numbers.into_iter().find(is_it).map(|(number, _)| number)
        })
    }

    fn heard(&self, came: Came) -> Option<Heard> {
        match came {
            Came::Sent { number, stage, at } => Some(Heard::Sent { number, stage, at }),
            Came::Icmp(icmp) => {
                let (number, port) = self.quoted(&icmp)?;
                Some(Heard::icmp(number, &icmp, port))
            }
            Came::Reply(came) => {
                let (number, answer, reply) = self.answer(&came.bytes)?;
                Some(Heard::Answered(Answered {
                    number,
                    answer,
                    at: came.at,
                    rtt: None,
                    ttl: reply.ttl.or(came.ttl),
                    syn_retransmissions: 0,
                    reply: Some(Box::new(reply.told())),
                }))
            }
        }
    }

    /// Returns the number and port of the SYN that an ICMP error quotes; `None` if the SYN belongs
    /// to another series.
    fn quoted(&self, icmp: &Icmp) -> Option<(u32, u16)> {
        let &[s0, s1, d0, d1, sequence @ ..] = icmp.quoted.first_chunk::<8>()?;
        let (port, to) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
        let number = self.number(u32::from_be_bytes(sequence));
        let is_ours = to == self.plan.address.port() && self.is_from(number, port);
        is_ours.then_some((number, port))
    }
}

/// Returns how many sequence numbers the SYN and FIN of a segment occupy (RFC 9293 §3.4).
fn marks_of(flags: TcpFlags) -> u32 {
    u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN))
}

impl Asker for BySyn<'_> {
    fn ask(&mut self, number: u32) -> Result<(), Errno> {
        let port = self.port(number)?;
        let syn = Syn {
            source: SocketAddr::new(self.source, port),
            destination: self.plan.address,
            sequence: self.sequence(number),
            flags: self.plan.packet.flags(number),
            mss: self.plan.packet.mss,
            payload: self.plan.packet.sizes.of(number),
        };
        self.ports.insert(number, port);
        self.ports.remove(&number.wrapping_sub(MAX_PENDING as u32));
        let sent = self.socket.send(number, &syn.to_bytes(), None);
        sent.map_err(|error| errno(&error))
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Errno> {
        wait_for(&self.socket, PollFlags::IN, timeout).map(|_| ())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> Result<(), Errno> {
        self.socket.collect(|came| heard.extend(self.heard(came)));
        Ok(())
    }

    fn forget(&mut self, _number: u32) -> u8 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stride_has_an_inverse() {
        assert_eq!(STRIDE.wrapping_mul(STRIDE_INVERSE), 1);
    }
}
