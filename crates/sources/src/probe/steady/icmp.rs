//! Probes by ICMP echo, as `ping` sends them (RFC 792, RFC 4443 §4.1).

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;

use lagtrace_core::observed::event::{ProbeAnswer, ProbeReply};
use rustix::event::PollFlags;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::{
    Answered, Asker, FINDING_ROUTE, Heard, SteadyPlan, dress, errno, failure, identity, opening,
};
use crate::checksum;
use crate::probe::ProbeError;
use crate::probe::connect::wait_for;
use crate::stamped::queue::Reply;
use crate::stamped::{Came, StampedSocket};

/// Number of bytes in the header: type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;

/// A socket for ICMP echo.
pub(super) struct ByEcho<'a> {
    plan: &'a SteadyPlan,
    socket: StampedSocket,
    /// True if the socket is raw. A raw socket receives the echo replies of all processes, and its
    /// user must compute the checksum.
    is_raw: bool,
    identifier: u16,
    /// Number of the last probe.
    last: u32,
}

/// Returns a 16-bit form of a series' identity. It differs among the series of one process.
fn short(identity: u32) -> u16 {
    (identity as u16).wrapping_add((identity >> 22) as u16)
}

/// Returns the ICMP types of an echo request and of an echo reply.
fn kinds(address: SocketAddr) -> (u8, u8) {
    match address {
        SocketAddr::V4(_) => (8, 0),
        SocketAddr::V6(_) => (128, 129),
    }
}

impl<'a> ByEcho<'a> {
    pub(super) fn new(plan: &'a SteadyPlan) -> Result<Self, ProbeError> {
        let mut address = plan.address;
        address.set_port(0);
        let (socket, is_raw) =
            open(address).map_err(opening("opening a socket for ICMP", address))?;
        dress(&socket, address, &plan.packet)
            .map_err(failure("preparing a socket for ICMP", address))?;
        socket
            .connect(&address.into())
            .map_err(failure(FINDING_ROUTE, address))?;
        let bound = socket.local_addr().ok().and_then(|own| own.as_socket());
        let socket = StampedSocket::new(socket, address, 0)
            .map_err(failure("preparing a socket for ICMP", address))?;
        Ok(Self {
            plan,
            socket,
            is_raw,
            // On a datagram socket, the kernel writes its own identifier into the packets.
            identifier: if is_raw {
                short(identity())
            } else {
                bound.map_or(0, |own| own.port())
            },
            last: 0,
        })
    }

    fn request(&self, number: u32) -> Vec<u8> {
        let (kind, _) = kinds(self.plan.address);
        let mut bytes = vec![0; HEADER + usize::from(self.plan.packet.sizes.of(number))];
        let [identifier_high, identifier_low] = self.identifier.to_be_bytes();
        let [high, low] = (number as u16).to_be_bytes();
        let header = [kind, 0, 0, 0, identifier_high, identifier_low, high, low];
        for (byte, value) in bytes.iter_mut().zip(header) {
            *byte = value;
        }
        // The kernel computes the checksum of ICMPv6, which includes a pseudo-header.
        if self.is_raw && self.plan.address.is_ipv4() {
            let [high, low] = (!checksum::fold(checksum::sum(&bytes))).to_be_bytes();
            for (byte, value) in bytes.iter_mut().skip(2).zip([high, low]) {
                *byte = value;
            }
        }
        bytes
    }

    /// Returns the number of the probe with this sequence number. If several probes have it,
    /// returns the latest one.
    fn number(&self, sequence: u16) -> Option<u32> {
        let behind = (self.last as u16).wrapping_sub(sequence);
        self.last.checked_sub(behind.into())
    }

    /// Returns the number of the probe that an echo message belongs to; `None` if the message has
    /// another type or belongs to another process.
    fn echo(&self, message: &[u8], wanted: u8) -> Option<u32> {
        let &[kind, _, _, _, i0, i1, s0, s1] = message.first_chunk()?;
        let is_ours = !self.is_raw || u16::from_be_bytes([i0, i1]) == self.identifier;
        if kind != wanted || !is_ours {
            return None;
        }
        self.number(u16::from_be_bytes([s0, s1]))
    }

    fn heard(&self, came: Came) -> Option<Heard> {
        let (asked, answered) = kinds(self.plan.address);
        match came {
            Came::Sent { number, stage, at } => Some(Heard::Sent { number, stage, at }),
            Came::Icmp(icmp) => {
                let number = self.echo(&icmp.quoted, asked)?;
                Some(Heard::icmp(number, &icmp, 0))
            }
            Came::Reply(reply) => self.answered(&reply, answered),
        }
    }

    fn answered(&self, reply: &Reply, wanted: u8) -> Option<Heard> {
        let is_v4 = self.plan.address.is_ipv4();
        let (header, message) = if self.is_raw && is_v4 {
            let len = usize::from(reply.bytes.first()? & 0xf) * 4;
            reply.bytes.split_at_checked(len)?
        } else {
            (&[][..], &reply.bytes[..])
        };
        let number = self.echo(message, wanted)?;
        // Number of header bytes that the socket does not return.
        let hidden = match (is_v4, header.is_empty()) {
            (true, true) => 20,
            (true, false) => 0,
            (false, _) => 40,
        };
        let id = header.get(4..6).and_then(|id| id.first_chunk());
        Some(Heard::Answered(Answered {
            number,
            answer: ProbeAnswer::Echo,
            at: reply.at,
            rtt: None,
            ttl: header.get(8).copied().or(reply.ttl),
            syn_retransmissions: 0,
            reply: Some(Box::new(ProbeReply {
                from: self.plan.address.ip(),
                source_port: 0,
                len: u32::try_from(reply.len + hidden).ok(),
                id: id.map(|id| u16::from_be_bytes(*id)),
                dont_fragment: header.get(6).map(|flags| flags & 0x40 != 0),
                segment: None,
            })),
        }))
    }
}

impl Asker for ByEcho<'_> {
    fn ask(&mut self, number: u32) -> Result<(), Errno> {
        self.last = number;
        let request = self.request(number);
        let sent = self.socket.send(number, &request, None);
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

/// Opens a socket for ICMP echo. Also returns true if the socket is raw.
fn open(address: SocketAddr) -> io::Result<(Socket, bool)> {
    let protocol = match address.ip() {
        IpAddr::V4(_) => Protocol::ICMPV4,
        IpAddr::V6(_) => Protocol::ICMPV6,
    };
    let domain = Domain::for_address(address);
    match Socket::new(domain, Type::DGRAM, Some(protocol)) {
        Ok(socket) => Ok((socket, false)),
        Err(_) => Ok((Socket::new(domain, Type::RAW, Some(protocol))?, true)),
    }
}
