//! A channel whose probes are single packets.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use core::net::{IpAddr, SocketAddr};

use lagtrace_core::observed::route::HopAnswer;
use rustix::event::PollFlags;
use socket2::{Protocol, Socket, Type};

use super::channel::{Answered, Channel, Outgoing, SCOUT, Seen, answered};
use super::distance::hops_of;
use super::form::{Form, Replied};
use super::socket::{Kind, failure, open, set_ttl, source};
use super::{Dress, TraceError};
use crate::headers::Ends;
use crate::stamped::queue::Stage;
use crate::stamped::{Came, StampedSocket, reserve, set_whole};

/// Maximum number of probes that are kept for each flow.
const SENT: usize = 4_096;

/// A channel whose probes are single packets. Each flow has its own socket.
#[derive(Debug)]
pub(super) struct Packets {
    target: SocketAddr,
    source: IpAddr,
    form: Form,
    dress: Dress,
    is_whole: bool,
    lanes: BTreeMap<u16, Lane>,
    last: u32,
}

/// A flow and its socket.
#[derive(Debug)]
struct Lane {
    socket: StampedSocket,
    ends: Ends,
    /// The latest unanswered probes, with their TTLs. A socket that is not connected also receives
    /// answers to other flows' probes. They are ignored, because those probes are not in this map.
    sent: BTreeMap<u32, u8>,
    /// Socket that reserves the port. The raw socket only writes the port into its packets.
    _holder: Option<Socket>,
}

impl Packets {
    /// Creates a channel and opens its first flow.
    pub(super) fn new(target: SocketAddr, form: Form, dress: &Dress) -> Result<Self, TraceError> {
        let mut packets = Self {
            target,
            source: source(target, dress)?,
            form,
            dress: dress.clone(),
            is_whole: false,
            lanes: BTreeMap::new(),
            last: 0,
        };
        let lane = packets.open(0)?;
        packets.lanes.insert(0, lane);
        Ok(packets)
    }

    /// Returns the channel with DF set on all packets.
    pub(super) fn whole(mut self) -> Result<Self, TraceError> {
        self.is_whole = true;
        let lane = self.open(0)?;
        self.lanes.insert(0, lane);
        Ok(self)
    }

    fn open(&self, flow: u16) -> Result<Lane, TraceError> {
        let target = self.target;
        let failed = |operation| failure(operation, target);
        let kind = self.form.kind();
        let mut dress = self.dress.clone();
        dress.source_port = dress.source_port.map(|port| port.wrapping_add(flow));
        let has_header = self.form.header(target.is_ipv4(), 0, 0, 0).is_some();
        if has_header {
            // A socket that is bound to an address receives no ICMP errors about packets with
            // translated addresses. The IP header contains the source address anyway.
            dress.source = None;
        }
        let socket = open(kind, target, &dress)?;
        if has_header {
            socket
                .set_header_included_v4(true)
                .map_err(failed("preparing a socket"))?;
        }
        if self.is_whole {
            set_whole(&socket, target.is_ipv4()).map_err(failed("preparing a socket"))?;
        }
        let (holder, port) = if self.form.has_port() {
            let (holder, port) = hold(kind, self.source, target, dress.source_port.unwrap_or(0))
                .map_err(failed("reserving a port"))?;
            (Some(holder), port)
        } else {
            // Raw echo requests have an identifier instead of a port.
            let id = std::process::id() as u16;
            (None, id.wrapping_add(flow.wrapping_mul(257)))
        };
        if self.form.is_connected() {
            let mut to = target;
            if kind != Kind::Udp {
                to.set_port(0);
            }
            socket
                .connect(&to.into())
                .map_err(failed("finding a route"))?;
        }
        Ok(Lane {
            socket: StampedSocket::new(socket, target, self.form.hidden())
                .map_err(failed("preparing a socket"))?,
            ends: Ends {
                source: self.source,
                destination: target.ip(),
                source_port: port,
                destination_port: target.port(),
            },
            sent: BTreeMap::new(),
            _holder: holder,
        })
    }

    /// Returns the lane of a flow. Opens it if necessary.
    fn lane(&mut self, flow: u16) -> io::Result<&mut Lane> {
        // The scout has a flow of its own only for SYNs, because a SYN leaves state at the target.
        let flow = match (flow, self.form) {
            (SCOUT, Form::Syn { .. }) => SCOUT,
            (SCOUT, _) => 0,
            _ => flow,
        };
        if !self.lanes.contains_key(&flow) {
            let lane = self.open(flow).map_err(io::Error::other)?;
            self.lanes.insert(flow, lane);
        }
        self.lanes
            .get_mut(&flow)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Channel for Packets {
    fn send(&mut self, probe: Outgoing) -> io::Result<()> {
        let (form, target) = (self.form, self.target);
        self.last = probe.number;
        let size = probe.size.max(self.dress.size.map_or(0, usize::from));
        let tos = self.dress.tos.unwrap_or(0);
        let lane = self.lane(probe.flow)?;
        set_ttl(lane.socket.socket(), target.is_ipv4(), probe.ttl)?;
        let mut bytes = form.bytes(&lane.ends, probe.number, size);
        if let Some(header) = form.header(target.is_ipv4(), probe.number, probe.ttl, tos) {
            bytes = header.before(&lane.ends, &bytes);
        }
        lane.sent.insert(probe.number, probe.ttl);
        if lane.sent.len() > SENT {
            lane.sent.pop_first();
        }
        let to = form.destination(target, probe.number);
        let to = (!form.is_connected()).then_some(to);
        lane.socket.send(probe.number, &bytes, to)
    }

    fn collect(&mut self, seen: &mut Vec<Seen>) {
        for lane in self.lanes.values_mut() {
            lane.collect(self.form, self.target, self.last, seen);
        }
    }

    fn sockets(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let lanes = self.lanes.values();
        lanes
            .map(|lane| (lane.socket.as_fd(), PollFlags::IN))
            .collect()
    }

    fn forget(&mut self, number: u32) {
        for lane in self.lanes.values_mut() {
            lane.sent.remove(&number);
        }
    }
}

impl Lane {
    fn collect(&mut self, form: Form, target: SocketAddr, last: u32, seen: &mut Vec<Seen>) {
        let (socket, sent) = (&self.socket, &mut self.sent);
        let ends = self.ends;
        socket.collect(|came| match came {
            Came::Sent { number, stage, at } => {
                if stage == Stage::Device {
                    seen.push(Seen::Sent { number, at });
                }
            }
            Came::Icmp(icmp) => {
                let told = form.quoted(target, &ends, &icmp, last);
                let is_udp = !matches!(form, Form::Echo { .. } | Form::Syn { .. });
                let told = told.filter(|(number, _)| sent.contains_key(number));
                let told = told.and_then(|(number, translation)| {
                    let answer = answered(number, icmp, is_udp, translation)?;
                    sent.remove(&number);
                    Some(answer)
                });
                seen.extend(told);
            }
            Came::Reply(reply) => {
                let told = form.replied(target, &ends, &reply, last);
                let told = told.and_then(|replied| whose(replied, sent, reply.ttl));
                let from = reply.from.map(|from| from.ip());
                seen.extend(told.map(|(number, answer)| {
                    sent.remove(&number);
                    Seen::Answered(Answered {
                        number,
                        answer,
                        from: from.or(Some(target.ip())),
                        at: reply.at,
                        rtt: None,
                        ttl: reply.ttl,
                        labels: Vec::new(),
                        mtu: 0,
                        translation: None,
                    })
                }));
            }
        });
    }
}

/// Returns the probe among `sent` that a reply answers. If the reply does not identify the probe,
/// it is assigned to the first one whose TTL was large enough to reach the target.
fn whose(replied: Replied, sent: &BTreeMap<u32, u8>, ttl: Option<u8>) -> Option<(u32, HopAnswer)> {
    match replied {
        Replied::Named(number, answer) => sent.contains_key(&number).then_some((number, answer)),
        Replied::Nameless(answer) => {
            let hops = ttl.map_or(1, hops_of);
            let mut able = sent.iter().filter(|(_, ttl)| **ttl >= hops);
            able.next().map(|(&number, _)| (number, answer))
        }
    }
}

/// Reserves a port. No other program can use it while the returned socket exists.
fn hold(kind: Kind, source: IpAddr, target: SocketAddr, port: u16) -> io::Result<(Socket, u16)> {
    let (r#type, protocol) = match kind {
        Kind::RawTcp => (Type::STREAM, Protocol::TCP),
        _ => (Type::DGRAM, Protocol::UDP),
    };
    reserve(source, target, r#type, protocol, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_names_no_probe_answers_the_first_that_can_have_come_so_far() {
        // The scout, and one probe to each of six hops. The target is four hops away.
        let mut sent: BTreeMap<u32, u8> = (1..=6).map(|n| (n, n as u8)).collect();
        sent.insert(0, 30);
        let reply = Replied::Nameless(HopAnswer::Open);
        assert_eq!(whose(reply, &sent, Some(61)), Some((0, HopAnswer::Open)));
        sent.remove(&0);
        assert_eq!(whose(reply, &sent, Some(61)), Some((4, HopAnswer::Open)));
        let named = |number| Replied::Named(number, HopAnswer::Open);
        assert_eq!(whose(named(2), &sent, None), Some((2, HopAnswer::Open)));
        assert_eq!(whose(named(9), &sent, None), None, "never sent");
        sent.retain(|_, ttl| *ttl < 4);
        assert_eq!(whose(reply, &sent, Some(61)), None);
    }
}
