//! Formats of probes, and the assignment of answers to probes.

use core::net::SocketAddr;

use lagtrace_core::observed::route::{HopAnswer, Translation};

use super::header;
use super::packet;
use super::socket::Kind;
use crate::headers::{Ends, Ipv4Header, UDP};
use crate::stamped::queue::{Icmp, Reply};

/// Number of ports that are used if each probe has another port.
const PORTS: u32 = 128;
/// Number of bytes in an IP header without options.
const HEADER_V4: usize = 20;
const HEADER_V6: usize = 40;

/// The probe that a reply from the target belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replied {
    /// The reply contains the probe's number.
    Named(u32, HopAnswer),
    /// The reply does not show which of the flow's probes it answers.
    Nameless(HopAnswer),
}

/// The format of probes that are single packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// UDP. The destination port identifies the probe.
    Ports,
    /// UDP in one flow. The payload identifies the probe, if enough of it is quoted.
    Payload,
    /// UDP in one flow, from a raw socket. The checksum identifies the probe.
    Checksum,
    /// UDP in one flow with a constant checksum. The IP header identifies the probe.
    Dublin {
        /// Size in bytes, including the IP header; 0: the minimum.
        size: usize,
    },
    /// ICMP echo requests. The sequence number identifies the probe.
    Echo {
        /// True if the socket is raw, so that lagtrace chooses the identifier.
        is_raw: bool,
    },
    /// SYNs in one flow. The sequence number identifies the probe.
    Syn {
        /// First sequence number.
        base: u32,
    },
}

impl Form {
    /// Returns the kind of socket that the format needs.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Ports | Self::Payload => Kind::Udp,
            Self::Checksum | Self::Dublin { .. } => Kind::RawUdp,
            Self::Echo { is_raw: true } => Kind::RawIcmp,
            Self::Echo { is_raw: false } => Kind::Ping,
            Self::Syn { .. } => Kind::RawTcp,
        }
    }

    /// Returns true if a local port has to be reserved for the format.
    pub(super) fn has_port(self) -> bool {
        matches!(
            self,
            Self::Checksum | Self::Dublin { .. } | Self::Syn { .. }
        )
    }

    /// Returns true if the socket is connected to the target. A connected socket does not receive
    /// ICMP errors about packets whose addresses were translated.
    pub(super) fn is_connected(self) -> bool {
        !matches!(self, Self::Ports | Self::Dublin { .. })
    }

    /// Returns the IP header of a probe; `None` if the kernel writes it.
    pub(super) fn header(self, is_v4: bool, number: u32, ttl: u8, tos: u8) -> Option<Ipv4Header> {
        let is_ours = is_v4 && matches!(self, Self::Dublin { .. });
        is_ours.then(|| Ipv4Header {
            protocol: UDP,
            id: header::id(number),
            ttl,
            tos,
        })
    }

    /// Returns the destination of probe number `number`.
    pub(super) fn destination(self, target: SocketAddr, number: u32) -> SocketAddr {
        let mut to = target;
        if self == Self::Ports {
            to.set_port(target.port().wrapping_add((number % PORTS) as u16));
        } else if self.kind() == Kind::RawUdp {
            to.set_port(0);
        }
        to
    }

    /// Returns the bytes of a probe for the socket. `size` includes the IP header.
    pub(super) fn bytes(self, ends: &Ends, number: u32, size: usize) -> Vec<u8> {
        let is_v4 = ends.destination.is_ipv4();
        let len = behind_header(is_v4, size);
        match self {
            Self::Ports | Self::Payload => {
                packet::payload(number, len.saturating_sub(packet::UDP_HEADER))
            }
            Self::Checksum => packet::udp(ends, packet::udp_tag(number), number, len),
            Self::Dublin { .. } => header::datagram(ends, number, len),
            Self::Echo { .. } => packet::echo(is_v4, ends.source_port, number, len),
            Self::Syn { base } => packet::syn(ends, base, number, len),
        }
    }

    /// Returns the number of bytes in the transport header of a quoted IPv4 packet if the socket
    /// does not return this header; otherwise 0.
    pub(super) fn hidden(self) -> usize {
        match self {
            Self::Ports | Self::Payload => packet::UDP_HEADER,
            _ => 0,
        }
    }

    /// Returns the probe that an ICMP error quotes, and its address translation if this format
    /// shows it.
    pub(super) fn quoted(
        self,
        target: SocketAddr,
        ends: &Ends,
        icmp: &Icmp,
        last: u32,
    ) -> Option<(u32, Option<Option<Translation>>)> {
        let Self::Dublin { size } = self else {
            return Some((self.number(target, ends, icmp, last)?, None));
        };
        let len = behind_header(target.is_ipv4(), size);
        let (number, seen) = header::datagram_quoted(ends, &icmp.quoted, len, last)?;
        Some((number, Some(seen)))
    }

    fn number(self, target: SocketAddr, ends: &Ends, icmp: &Icmp, last: u32) -> Option<u32> {
        let quoted = &icmp.quoted;
        match self {
            Self::Ports => {
                let rest = icmp.port.wrapping_sub(target.port());
                // The port repeats after 128 probes. If the payload is quoted, it distinguishes
                // late answers.
                let named = packet::payload_number(quoted).filter(|&number| number <= last);
                named.or_else(|| port_number(last, rest))
            }
            Self::Payload => packet::payload_number(quoted).filter(|&number| number <= last),
            Self::Checksum => packet::udp_number(ends, quoted, last),
            Self::Dublin { .. } => None,
            Self::Echo { .. } => packet::echo_number(self.id(ends), request(target), quoted, last),
            Self::Syn { base } => packet::syn_number(ends, base, quoted, last),
        }
    }

    /// Returns the probe that a reply from the target belongs to, and the answer.
    pub(super) fn replied(
        self,
        target: SocketAddr,
        ends: &Ends,
        reply: &Reply,
        last: u32,
    ) -> Option<Replied> {
        let is_raw_v4 = target.is_ipv4() && self.kind() != Kind::Udp && self.kind() != Kind::Ping;
        let bytes = if is_raw_v4 {
            packet::behind_v4(&reply.bytes)?
        } else {
            &reply.bytes
        };
        // Any payload is an answer, but only an echoed payload identifies the probe.
        let datagram = |echoed: Option<u32>| match echoed {
            Some(number) => Replied::Named(number, HopAnswer::Open),
            None => Replied::Nameless(HopAnswer::Open),
        };
        match self {
            Self::Ports => {
                let rest = reply.from?.port().wrapping_sub(target.port());
                Some(Replied::Named(port_number(last, rest)?, HopAnswer::Open))
            }
            Self::Payload => {
                let echoed = packet::payload_number(bytes).filter(|&number| number <= last);
                Some(datagram(echoed))
            }
            Self::Checksum | Self::Dublin { .. } => {
                // A raw socket also receives packets to the ports of other programs.
                let is_ours = packet::word(bytes, 2)? == ends.source_port;
                let is_its = reply.from?.ip() == target.ip();
                let echoed = packet::udp_echoed(bytes, last);
                (is_ours && is_its).then(|| datagram(echoed))
            }
            Self::Echo { .. } => {
                let kind = if target.is_ipv4() { 0 } else { 129 };
                let number = packet::echo_number(self.id(ends), kind, bytes, last)?;
                Some(Replied::Named(number, HopAnswer::Open))
            }
            Self::Syn { base } => {
                let (number, answer) = packet::syn_reply(ends, base, bytes, last)?;
                Some(Replied::Named(number, answer))
            }
        }
    }

    fn id(self, ends: &Ends) -> Option<u16> {
        match self {
            Self::Echo { is_raw: true } => Some(ends.source_port),
            _ => None,
        }
    }
}

/// Returns the number of bytes after the IP header in a packet of `size` bytes.
fn behind_header(is_v4: bool, size: usize) -> usize {
    size.saturating_sub(if is_v4 { HEADER_V4 } else { HEADER_V6 })
}

fn port_number(last: u32, rest: u16) -> Option<u32> {
    packet::recall(last, rest.into(), PORTS)
}

/// Returns the ICMP type of an echo request.
fn request(target: SocketAddr) -> u8 {
    if target.is_ipv4() { 8 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::tests::ends;

    #[test]
    fn a_datagram_names_its_probe_only_if_it_comes_back_and_others_are_not_ours() {
        for is_v4 in [true, false] {
            let ends = ends(is_v4, 53);
            let target = SocketAddr::new(ends.destination, 53);
            for form in [Form::Payload, Form::Checksum, Form::Dublin { size: 0 }] {
                let is_raw = form != Form::Payload;
                // The reply of an echo server.
                let answer = |port: u16, payload: Option<&[u8]>| {
                    let mut bytes = form.bytes(&ends, 77, 0);
                    let at = if is_raw { packet::UDP_HEADER } else { 0 };
                    if let Some(payload) = payload {
                        bytes.splice(at.., payload.iter().copied());
                    }
                    if is_raw {
                        bytes.splice(2..4, port.to_be_bytes());
                        let header = if is_v4 { HEADER_V4 } else { 0 };
                        bytes.splice(..0, [0x45].into_iter().chain([0; 19]).take(header));
                    }
                    let reply = Reply {
                        len: bytes.len(),
                        bytes,
                        from: Some(target),
                        at: None,
                        ttl: Some(61),
                    };
                    form.replied(target, &ends, &reply, 90)
                };
                let named = Some(Replied::Named(77, HopAnswer::Open));
                let nameless = Some(Replied::Nameless(HopAnswer::Open));
                assert_eq!(answer(40_000, None), named, "{form:?} {is_v4}");
                assert_eq!(answer(40_000, Some(b"what?")), nameless);
                assert_eq!(answer(40_000, Some(b"")), nameless);
                if is_raw {
                    assert_eq!(answer(40_001, None), None, "another program's");
                }
            }
        }
    }
}
