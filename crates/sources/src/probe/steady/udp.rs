//! By UDP: a datagram answers, or the host says that nobody listens.

use std::collections::VecDeque;
use std::io;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use lagtrace_core::event::{ProbeAnswer, ProbeMethod, ProbeReply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Protocol, Socket, Type};

use super::ports::reserve;
use super::{Asker, Heard, SteadyPlan, dress};
use crate::probe::ProbeError;
use crate::probe::errors::{Queued, take_queued};
use crate::probe::stamped;

/// Sockets that wait for an answer at a time.
const MAX_OPEN: usize = 512;
/// Packets of one socket that are looked at in one go.
const MAX_READ: usize = 64;
/// Headers of IP and UDP.
const HEADERS: [u32; 2] = [28, 48];

/// A socket for each port that was sent from, the latest ones.
pub(super) struct ByDatagram<'a> {
    plan: &'a SteadyPlan,
    open: VecDeque<Asked>,
    payload: Vec<u8>,
    /// Keeps the kernel stamping from before the first probe on.
    _stamping: Socket,
}

/// A socket, and the probes that were sent from it.
struct Asked {
    socket: Socket,
    port: u16,
    /// In the order in which they were sent; the kernel's stamps count them.
    numbers: Vec<u32>,
    /// How many of them were answered: answers do not say whose they are.
    answered: usize,
}

impl<'a> ByDatagram<'a> {
    pub(super) fn new(plan: &'a SteadyPlan) -> Result<Self, ProbeError> {
        let socket = socket(plan, 0).map_err(|error| ProbeError::Socket {
            operation: "opening a socket for UDP",
            address: plan.address,
            source: error.into(),
        })?;
        Ok(Self {
            plan,
            open: VecDeque::new(),
            payload: vec![0; plan.packet.size.into()],
            _stamping: socket.0,
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
            let (socket, port) = socket(self.plan, wanted)?;
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
fn socket(plan: &SteadyPlan, port: u16) -> Result<(Socket, u16), Errno> {
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let address = plan.address;
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let (socket, port) = reserve(any, address, Type::DGRAM, Protocol::UDP, port)?;
    stamped::prepare(&socket, address).map_err(errno)?;
    dress(&socket, address, &plan.packet).map_err(errno)?;
    socket.connect(&address.into()).map_err(errno)?;
    Ok((socket, port))
}

impl Asker for ByDatagram<'_> {
    fn method(&self) -> ProbeMethod {
        ProbeMethod::Udp
    }

    fn ask(&mut self, number: u32) -> Result<(), Errno> {
        let payload = std::mem::take(&mut self.payload);
        let sent = self.open(number).and_then(|asked| {
            let mut last = Errno::IO;
            // An ICMP error about an earlier probe is reported once by a later send.
            for _ in 0..3 {
                match asked.socket.send(&payload) {
                    Ok(_) => {
                        asked.numbers.push(number);
                        return Ok(());
                    }
                    Err(error) => last = Errno::from_io_error(&error).unwrap_or(Errno::IO),
                }
            }
            Err(last)
        });
        self.payload = payload;
        // Refusals come by the queue too, with who refuses and when.
        match sent {
            Err(Errno::CONNREFUSED) => Ok(()),
            sent => sent,
        }
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

    fn hear(&mut self, heard: &mut Vec<Heard>) {
        let target = self.plan.address;
        for asked in &mut self.open {
            asked.hear(target, heard);
        }
    }

    fn forget(&mut self, number: u32) {
        // A port of its own is held until its answer would be of no interest.
        if self.plan.ports == super::SourcePorts::Fresh && self.open.len() == MAX_OPEN {
            self.open.retain(|asked| !asked.numbers.contains(&number));
        }
    }
}

impl Asked {
    fn hear(&mut self, target: SocketAddr, heard: &mut Vec<Heard>) {
        for _ in 0..MAX_READ {
            match take_queued(&self.socket) {
                Some(Queued::Sent { number, at }) => {
                    let number = self.numbers.get(number as usize).copied();
                    heard.extend(number.map(|number| Heard::Sent { number, at }));
                }
                Some(Queued::Icmp {
                    kind,
                    code,
                    from,
                    at,
                    ..
                }) => {
                    let answer = ProbeAnswer::Unreachable(kind, code);
                    let number = self.next();
                    let port = self.port;
                    heard.extend(number.map(|number| Heard::icmp(number, answer, at, from, port)));
                }
                None => break,
            }
        }
        for _ in 0..MAX_READ {
            let mut bytes = [0_u8; 2048];
            let Ok(Some(read)) = stamped::read(&self.socket, &mut bytes) else {
                break;
            };
            let Some(number) = self.next() else {
                continue;
            };
            let headers = HEADERS[usize::from(target.is_ipv6())];
            heard.push(Heard::Answered {
                number,
                answer: ProbeAnswer::Datagram,
                at: read.at,
                rtt: None,
                ttl: read.ttl,
                syn_retransmissions: 0,
                reply: Some(Box::new(ProbeReply {
                    from: target.ip(),
                    source_port: self.port,
                    len: u32::try_from(read.len).ok().map(|len| len + headers),
                    id: None,
                    dont_fragment: None,
                    segment: None,
                })),
            });
        }
    }

    /// The probe that an answer is taken for: the oldest that had none, or the
    /// last one again.
    fn next(&mut self) -> Option<u32> {
        let number = self.numbers.get(self.answered).or(self.numbers.last());
        self.answered = (self.answered + 1).min(self.numbers.len());
        number.copied()
    }
}
