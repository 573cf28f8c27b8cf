//! By UDP: a datagram answers, or the host says that nobody listens.

use std::collections::VecDeque;
use std::io;

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::event::{ProbeAnswer, ProbeReply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Asker, FINDING_ROUTE, Heard, SteadyPlan, any, dress, errno, failure};
use crate::probe::ProbeError;
use crate::stamped::queue::Reply;
use crate::stamped::{Came, StampedSocket, reserve};

/// Sockets that wait for an answer at a time.
const MAX_OPEN: usize = 512;
/// Bytes of UDP's header.
const HEADER: usize = 8;
/// Headers of IP and UDP.
const HEADERS: [usize; 2] = [28, 48];

/// A socket for each port that was sent from, the latest ones.
pub(super) struct ByDatagram<'a> {
    plan: &'a SteadyPlan,
    open: VecDeque<Asked>,
    payload: Vec<u8>,
    /// Keeps the kernel stamping from before the first probe on.
    _stamping: StampedSocket,
}

/// A socket, and the probes that were sent from it.
struct Asked {
    socket: StampedSocket,
    port: u16,
    /// In the order in which they were sent.
    numbers: Vec<u32>,
    /// How many of them were answered: answers do not say whose they are.
    answered: usize,
}

impl<'a> ByDatagram<'a> {
    pub(super) fn new(plan: &'a SteadyPlan) -> Result<Self, ProbeError> {
        let address = plan.address;
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )
        .and_then(|socket| {
            dress(&socket, address, &plan.packet)?;
            Ok(socket)
        })
        .map_err(failure("opening a socket for UDP", address))?;
        socket
            .connect(&address.into())
            .map_err(failure(FINDING_ROUTE, address))?;
        let stamping = StampedSocket::new(socket, address, HEADER)
            .map_err(failure("preparing a socket for UDP", address))?;
        Ok(Self {
            plan,
            open: VecDeque::new(),
            payload: vec![0; plan.packet.sizes.last.into()],
            _stamping: stamping,
        })
    }

    fn open(&mut self, number: u32) -> Result<&mut Asked, Errno> {
        let wanted = self.plan.ports.of(number);
        let known = self
            .open
            .iter()
            .position(|asked| wanted != 0 && asked.port == wanted);
        if let Some(asked) = known.and_then(|at| self.open.remove(at)) {
            self.open.push_back(asked);
        } else {
            let (socket, port) = socket(self.plan, wanted).map_err(|error| errno(&error))?;
            if self.open.len() == MAX_OPEN {
                self.open.pop_front();
            }
            self.open.push_back(Asked {
                socket,
                port,
                numbers: Vec::new(),
                answered: 0,
            });
        }
        self.open.back_mut().ok_or(Errno::IO)
    }
}

/// A socket that talks with the target only, from this port or for 0 from any.
fn socket(plan: &SteadyPlan, port: u16) -> io::Result<(StampedSocket, u16)> {
    let address = plan.address;
    let (socket, port) = reserve(any(address), address, Type::DGRAM, Protocol::UDP, port)?;
    dress(&socket, address, &plan.packet)?;
    socket.connect(&address.into())?;
    Ok((StampedSocket::new(socket, address, HEADER)?, port))
}

impl Asker for ByDatagram<'_> {
    fn ask(&mut self, number: u32) -> Result<(), Errno> {
        let payload = std::mem::take(&mut self.payload);
        let size = usize::from(self.plan.packet.sizes.of(number));
        let bytes = payload.get(..size).unwrap_or(&payload);
        let sent = self.open(number).and_then(|asked| asked.ask(number, bytes));
        self.payload = payload;
        sent
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Errno> {
        let mut fds: Vec<PollFd<'_>> = self
            .open
            .iter()
            .map(|asked| PollFd::new(&asked.socket, PollFlags::IN))
            .collect();
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> Result<(), Errno> {
        let target = self.plan.address;
        for asked in &mut self.open {
            asked.hear(target, heard);
        }
        Ok(())
    }

    fn forget(&mut self, number: u32) -> u8 {
        // A port of its own is held until its answer would be of no interest.
        if self.plan.ports == super::SourcePorts::Fresh && self.open.len() == MAX_OPEN {
            self.open.retain(|asked| !asked.numbers.contains(&number));
        }
        0
    }
}

impl Asked {
    fn ask(&mut self, number: u32, payload: &[u8]) -> Result<(), Errno> {
        match self.socket.send(number, payload, None) {
            Ok(()) => {}
            // A refusal of an earlier one; it comes by the queue too.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(errno(&error)),
        }
        self.numbers.push(number);
        Ok(())
    }

    fn hear(&mut self, target: SocketAddr, heard: &mut Vec<Heard>) {
        let Self {
            socket,
            port,
            numbers,
            answered,
        } = self;
        // An answer is taken for the oldest that had none, or for the last one
        // again.
        let mut next = || {
            let number = numbers.get(*answered).or(numbers.last());
            *answered = (*answered + 1).min(numbers.len());
            number.copied()
        };
        socket.collect(|came| match came {
            Came::Sent { number, stage, at } => heard.push(Heard::Sent { number, stage, at }),
            Came::Icmp(icmp) => {
                heard.extend(next().map(|number| Heard::icmp(number, &icmp, *port)));
            }
            Came::Reply(reply) => {
                heard.extend(next().map(|number| datagram(number, target, *port, &reply)));
            }
        });
    }
}

fn datagram(number: u32, target: SocketAddr, source_port: u16, reply: &Reply) -> Heard {
    let headers = HEADERS[usize::from(target.is_ipv6())];
    Heard::Answered {
        number,
        answer: ProbeAnswer::Datagram,
        at: reply.at,
        rtt: None,
        ttl: reply.ttl,
        syn_retransmissions: 0,
        reply: Some(Box::new(ProbeReply {
            from: target.ip(),
            source_port,
            len: u32::try_from(reply.len + headers).ok(),
            id: None,
            dont_fragment: None,
            segment: None,
        })),
    }
}
