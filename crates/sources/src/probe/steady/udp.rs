//! Probes by UDP. The target answers with a datagram, or its host reports that the port is closed.

use std::collections::VecDeque;
use std::io;

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::observed::event::{ProbeAnswer, ProbeReply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::pending::MAX_PENDING;
use super::{
    Answered, Asker, FINDING_ROUTE, Heard, MAX_OPEN, SteadyPlan, any, dress, errno, failure,
    identity,
};
use crate::probe::ProbeError;
use crate::stamped::queue::Reply;
use crate::stamped::{Came, StampedSocket, reserve};

/// Bytes of the UDP header.
const HEADER: usize = 8;
/// Number of payload bytes that contain the probe's number.
const MARK: usize = 4;
/// Number of bytes in the IP and UDP headers, for IPv4 and for IPv6.
const HEADERS: [usize; 2] = [28, 48];

/// The sockets of the most recently used source ports.
pub(super) struct ByDatagram<'a> {
    plan: &'a SteadyPlan,
    open: VecDeque<Asked>,
    /// True for each socket that has data to read, by index.
    ready: Vec<bool>,
    payload: Vec<u8>,
    /// Value that is added to the probe numbers of this series in the payload.
    base: u32,
    /// Socket that enables the kernel's timestamping before the first probe.
    _stamping: StampedSocket,
}

/// A socket, and the probes that were sent from it.
struct Asked {
    socket: StampedSocket,
    port: u16,
    /// Probes that wait for an answer, in the order in which they were sent.
    awaited: VecDeque<u32>,
    last: u32,
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
            ready: Vec::new(),
            base: identity().wrapping_mul(0x9e37_79b9),
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
            if self.open.len() >= MAX_OPEN {
                let idle = self.open.iter().position(|asked| asked.awaited.is_empty());
                idle.and_then(|at| self.open.remove(at));
            }
            self.open.push_back(Asked {
                socket,
                port,
                awaited: VecDeque::new(),
                last: number,
            });
        }
        self.open.back_mut().ok_or(Errno::IO)
    }
}

/// Opens a socket that is connected to the target and bound to `port`; 0: the kernel chooses.
fn socket(plan: &SteadyPlan, port: u16) -> io::Result<(StampedSocket, u16)> {
    let address = plan.address;
    let (socket, port) = reserve(any(address), address, Type::DGRAM, Protocol::UDP, port)?;
    dress(&socket, address, &plan.packet)?;
    socket.connect(&address.into())?;
    Ok((StampedSocket::new(socket, address, HEADER)?, port))
}

impl Asker for ByDatagram<'_> {
    fn ask(&mut self, number: u32) -> Result<(), Errno> {
        let mut payload = std::mem::take(&mut self.payload);
        let size = usize::from(self.plan.packet.sizes.of(number));
        let mark = self.base.wrapping_add(number).to_be_bytes();
        for (byte, value) in payload.iter_mut().zip(mark) {
            *byte = value;
        }
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
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        self.ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        Ok(())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> Result<(), Errno> {
        let (target, base) = (self.plan.address, self.base);
        let is_ready = std::mem::take(&mut self.ready);
        for (asked, _) in self.open.iter_mut().zip(is_ready).filter(|(_, is)| *is) {
            asked.hear(target, base, heard);
        }
        Ok(())
    }

    fn forget(&mut self, number: u32) -> u8 {
        for asked in &mut self.open {
            asked.settle(number);
        }
        0
    }

    fn has_room(&self) -> bool {
        self.open.len() < MAX_OPEN || self.open.iter().any(|asked| asked.awaited.is_empty())
    }
}

impl Asked {
    fn ask(&mut self, number: u32, payload: &[u8]) -> Result<(), Errno> {
        match self.socket.send(number, payload, None) {
            Ok(()) => {}
            // This is the refusal of an earlier probe. The error queue contains it too.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(errno(&error)),
        }
        // A probe that is sent again keeps its place in the order.
        if let Err(at) = self.awaited.binary_search(&number) {
            self.awaited.insert(at, number);
        }
        self.last = self.last.max(number);
        Ok(())
    }

    /// Ends the wait for a probe.
    fn settle(&mut self, number: u32) {
        if let Ok(at) = self.awaited.binary_search(&number) {
            self.awaited.remove(at);
        }
    }

    fn hear(&mut self, target: SocketAddr, base: u32, heard: &mut Vec<Heard>) {
        let mut came = Vec::new();
        self.socket.collect(|each| came.push(each));
        for came in came {
            heard.push(match came {
                Came::Sent { number, stage, at } => Heard::Sent { number, stage, at },
                Came::Icmp(icmp) => {
                    let number = self.answered(base, &icmp.quoted);
                    Heard::icmp(number, &icmp, self.port)
                }
                Came::Reply(reply) => {
                    let number = self.answered(base, &reply.bytes);
                    datagram(number, target, self.port, &reply)
                }
            });
        }
    }

    /// Returns the number of the answered probe. An ICMP error quotes the number, and an echo
    /// repeats it. Any other answer is assigned to the latest probe that waits, because earlier
    /// ones may have been lost. If no probe waits, the answer is late or a duplicate.
    fn answered(&mut self, base: u32, payload: &[u8]) -> u32 {
        let mark = payload.first_chunk::<MARK>();
        let marked = mark.map(|mark| u32::from_be_bytes(*mark).wrapping_sub(base));
        let is_ours = |number: &u32| self.last.wrapping_sub(*number) < MAX_PENDING as u32;
        let latest = *self.awaited.back().unwrap_or(&self.last);
        let number = marked.filter(is_ours).unwrap_or(latest);
        self.settle(number);
        number
    }
}

fn datagram(number: u32, target: SocketAddr, source_port: u16, reply: &Reply) -> Heard {
    let headers = HEADERS[usize::from(target.is_ipv6())];
    Heard::Answered(Answered {
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
    })
}
