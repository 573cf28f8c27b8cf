//! By ICMP echo: what `ping` does (RFC 792, RFC 4443 §4.1).

use std::io;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use lagtrace_core::event::{ProbeAnswer, ProbeMethod, ProbeReply};
use rustix::event::PollFlags;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Asker, Heard, SteadyPlan, dress};
use crate::probe::ProbeError;
use crate::probe::connect::wait_for;
use crate::probe::errors::{Queued, take_queued};
use crate::probe::stamped;

/// Type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;
/// Packets that are looked at in one go.
const MAX_READ: usize = 1_000;
/// The longest packet there is.
const LONGEST: usize = 65_535;

/// A socket for echoes.
pub(super) struct ByEcho<'a> {
    plan: &'a SteadyPlan,
    socket: Socket,
    /// Whether it is raw: then it gets everybody's, and we write the checksum.
    is_raw: bool,
    identifier: u16,
    /// The last number sent; `None` before the first.
    last: Option<u32>,
    /// Probes that could not be sent: the kernel's stamps do not count them.
    unsent: Vec<u32>,
    buffer: Vec<u8>,
}

/// What an echo's type is: the request's, the reply's.
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
        let failed = |operation: &'static str| {
            move |source: io::Error| ProbeError::Socket {
                operation,
                address,
                source,
            }
        };
        let (socket, is_raw) = open(address)?;
        stamped::prepare(&socket, address)
            .and_then(|()| dress(&socket, address, &plan.packet))
            .map_err(failed("preparing a socket for ICMP"))?;
        socket
            .connect(&address.into())
            .map_err(failed("finding a route"))?;
        let bound = socket.local_addr().ok().and_then(|own| own.as_socket());
        Ok(Self {
            plan,
            socket,
            is_raw,
            // The kernel puts its own into what a datagram socket sends.
            identifier: match is_raw {
                true => std::process::id() as u16,
                false => bound.map_or(0, |own| own.port()),
            },
            last: None,
            unsent: Vec::new(),
            buffer: vec![0; LONGEST],
        })
    }

    fn request(&self, number: u32) -> Vec<u8> {
        let (kind, _) = kinds(self.plan.address);
        let mut bytes = vec![0; HEADER + usize::from(self.plan.packet.size)];
        let [identifier_high, identifier_low] = self.identifier.to_be_bytes();
        let [high, low] = (number as u16).to_be_bytes();
        let header = [kind, 0, 0, 0, identifier_high, identifier_low, high, low];
        for (byte, value) in bytes.iter_mut().zip(header) {
            *byte = value;
        }
        // The kernel writes the checksum of ICMPv6, which has a pseudo-header.
        if self.is_raw && self.plan.address.is_ipv4() {
            let [high, low] = checksum(&bytes).to_be_bytes();
            for (byte, value) in bytes.iter_mut().skip(2).zip([high, low]) {
                *byte = value;
            }
        }
        bytes
    }

    /// The probe with this sequence number: the last one sent that has it.
    fn number(&self, sequence: u16) -> Option<u32> {
        let last = self.last?;
        let behind = (last as u16).wrapping_sub(sequence);
        last.checked_sub(behind.into())
    }

    /// The probe that was sent as the `id`th, from 0.
    fn sent(&self, id: u32) -> u32 {
        let mut number = id;
        for unsent in &self.unsent {
            number += u32::from(*unsent <= number);
        }
        number
    }

    /// The number that an echo bears, if it is ours and of this type.
    fn echo(&self, message: &[u8], wanted: u8) -> Option<u32> {
        let &[kind, _, _, _, i0, i1, s0, s1] = message.first_chunk()?;
        let is_ours = !self.is_raw || u16::from_be_bytes([i0, i1]) == self.identifier;
        if kind != wanted || !is_ours {
            return None;
        }
        self.number(u16::from_be_bytes([s0, s1]))
    }

    fn read(&mut self) -> Option<Option<Heard>> {
        let read = stamped::read(&self.socket, &mut self.buffer).ok()??;
        let bytes = self.buffer.get(..read.len).unwrap_or_default();
        let has_header = self.is_raw && self.plan.address.is_ipv4();
        let (header, message) = match has_header {
            true => {
                let len = usize::from(bytes.first().copied().unwrap_or_default() & 0xf) * 4;
                bytes.split_at_checked(len).unwrap_or_default()
            }
            false => (&[][..], bytes),
        };
        let (_, wanted) = kinds(self.plan.address);
        let Some(number) = self.echo(message, wanted) else {
            return Some(None);
        };
        let header_len = if self.plan.address.is_ipv4() { 20 } else { 40 };
        let id = header.get(4..6).and_then(|id| id.first_chunk());
        Some(Some(Heard::Answered {
            number,
            answer: ProbeAnswer::Echo,
            at: read.at,
            rtt: None,
            ttl: header.get(8).copied().or(read.ttl),
            syn_retransmissions: 0,
            reply: Some(Box::new(ProbeReply {
                from: self.plan.address.ip(),
                source_port: 0,
                len: u32::try_from(message.len() + header.len().max(header_len)).ok(),
                id: id.map(|id| u16::from_be_bytes(*id)),
                dont_fragment: header.get(6).map(|flags| flags & 0x40 != 0),
                segment: None,
            })),
        }))
    }
}

impl Asker for ByEcho<'_> {
    fn method(&self) -> ProbeMethod {
        ProbeMethod::Icmp
    }

    fn ask(&mut self, number: u32) -> Result<(), Errno> {
        self.last = Some(number);
        let request = self.request(number);
        let mut last = Errno::IO;
        // An ICMP error about an earlier probe is reported once by a later send.
        for _ in 0..3 {
            match self.socket.send(&request) {
                Ok(_) => return Ok(()),
                Err(error) => last = Errno::from_io_error(&error).unwrap_or(Errno::IO),
            }
        }
        self.unsent.push(number);
        Err(last)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Errno> {
        wait_for(&self.socket, PollFlags::IN, timeout).map(|_| ())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) {
        let (asked, _) = kinds(self.plan.address);
        for _ in 0..MAX_READ {
            match take_queued(&self.socket) {
                Some(Queued::Sent { number, at }) => heard.push(Heard::Sent {
                    number: self.sent(number),
                    at,
                }),
                Some(Queued::Icmp {
                    kind,
                    code,
                    packet,
                    from,
                    at,
                }) => {
                    let Some(number) = self.echo(&packet, asked) else {
                        continue;
                    };
                    let answer = ProbeAnswer::Unreachable(kind, code);
                    heard.push(Heard::icmp(number, answer, at, from, 0));
                }
                None => break,
            }
        }
        for _ in 0..MAX_READ {
            match self.read() {
                Some(answered) => heard.extend(answered),
                None => break,
            }
        }
    }

    fn forget(&mut self, _number: u32) {}
}

/// A socket for echoes, and whether it is raw.
fn open(address: SocketAddr) -> Result<(Socket, bool), ProbeError> {
    let protocol = match address.ip() {
        IpAddr::V4(_) => Protocol::ICMPV4,
        IpAddr::V6(_) => Protocol::ICMPV6,
    };
    let domain = Domain::for_address(address);
    let operation = "opening a socket for ICMP";
    if let Ok(socket) = Socket::new(domain, Type::DGRAM, Some(protocol)) {
        return Ok((socket, false));
    }
    match Socket::new(domain, Type::RAW, Some(protocol)) {
        Ok(socket) => Ok((socket, true)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(ProbeError::NotPermitted {
                operation,
                needs: "CAP_NET_RAW",
            })
        }
        Err(source) => Err(ProbeError::Socket {
            operation,
            address,
            source,
        }),
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    };
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_checked_message_is_zero() {
        let mut bytes = vec![8, 0, 0, 0, 0x12, 0x34, 0, 7, 1, 2, 3];
        let [high, low] = checksum(&bytes).to_be_bytes();
        (bytes[2], bytes[3]) = (high, low);
        assert_eq!(checksum(&bytes), 0);
    }
}
