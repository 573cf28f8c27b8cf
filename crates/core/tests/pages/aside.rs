//! Packets other than TCP segments of the traced connections: DNS lookups, ARP, pings and ICMP
//! errors.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::datagram::{Datagram, Neighbour};
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use lagtrace_core::observed::icmp::{Echo, EchoStep, IcmpError, IcmpKind};
use lagtrace_core::observed::segment::{IpFacts, Segment, SentBy, TcpFlags, TcpOptions};
use lagtrace_core::observed::time::Timestamp;

use crate::wire;

/// The packet number of the first [`Aside`]. No segment has such a high number.
const FIRST_NUMBER: u64 = 100_000;

/// A packet other than a segment of the traced connections.
#[derive(Clone, Debug)]
pub(crate) enum Aside {
    /// A DNS message over UDP or TCP.
    Dns {
        is_answer: bool,
        port: u16,
        is_stream: bool,
        asker: IpAddr,
        asked: Endpoint,
        message: Vec<u8>,
    },
    /// The client's ARP request for the server's hardware address, or the reply.
    Arp { is_answer: bool },
    /// An ICMP error about the client's SYN on this connection.
    Unreachable {
        code: u8,
        connection: u16,
        reporter: IpAddr,
    },
    /// A ping from the client to the server, its reply, or an ICMP error about it.
    Ping { seq: u16, step: EchoStep },
}

/// The router that sends the ICMP errors.
const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 254));

/// Returns the resolver at 10.77.0.`last`.
fn resolver(last: u8) -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, last)), 53)
}

/// Returns the multicast address 224.0.0.`last` of a protocol for lookups on the link.
fn on_link(last: u8, port: u16) -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(224, 0, 0, last)), port)
}

/// Parses the words after the time; `None` if they do not describe an [`Aside`].
pub(crate) fn parse(words: &[&str], connection: u16) -> Option<Result<Aside, String>> {
    Some(match words {
        ["ask", rest @ ..] => dns(false, rest),
        ["tell", rest @ ..] => dns(true, rest),
        ["arp", "ask"] => Ok(Aside::Arp { is_answer: false }),
        ["arp", "tell"] => Ok(Aside::Arp { is_answer: true }),
        ["ping", seq] => ping(seq, EchoStep::Request),
        ["pong", seq] => ping(seq, EchoStep::Reply),
        ["icmp", "unreachable", code, "ping", seq] => rejected(code, seq, ROUTER),
        ["icmp", "unreachable", code, "ping", seq, "itself"] => {
            rejected(code, seq, wire::server().addr)
        }
        ["icmp", "unreachable", code] => unreachable(code, connection, ROUTER),
        ["icmp", "unreachable", code, "itself"] => {
            unreachable(code, connection, wire::server().addr)
        }
        _ => return None,
    })
}

fn ping(seq: &str, step: EchoStep) -> Result<Aside, String> {
    let seq = seq.parse().map_err(|_| format!("`{seq}` is no number"))?;
    Ok(Aside::Ping { seq, step })
}

fn dns(is_answer: bool, words: &[&str]) -> Result<Aside, String> {
    let [id, kind, name, rest @ ..] = words else {
        return Err("a message has an id, a kind and a name".to_owned());
    };
    let id: u16 = id.parse().map_err(|_| format!("`{id}` is no id"))?;
    let kind: u16 = match *kind {
        "A" => 1,
        "AAAA" => 28,
        other => return Err(format!("`{other}` is no kind of address")),
    };
    let (mut port, mut is_stream, mut flags) = (50_000, false, [u8::from(is_answer) << 7, 0]);
    let mut addresses = Vec::new();
    let (mut asker, mut asked) = (wire::client(0).addr, resolver(53));
    let mut rest = rest.iter();
    while let Some(&word) = rest.next() {
        match word {
            "port" => {
                let value = rest.next().ok_or("`port` lacks its number")?;
                port = value.parse().map_err(|_| format!("`{value}` is no port"))?;
            }
            "of" => {
                let value = rest.next().ok_or("`of` lacks the resolver's number")?;
                asked = resolver(value.parse().map_err(|_| format!("`{value}` is none"))?);
            }
            "by-server" => asker = wire::server().addr,
            "tcp" => is_stream = true,
            "mdns" => asked = on_link(251, 5353),
            "llmnr" => asked = on_link(252, 5355),
            "truncated" => flags[0] |= 2,
            "nxdomain" => flags[1] = 3,
            "none" => {}
            address => addresses.push(match address.parse::<IpAddr>() {
                Ok(address) => address,
                Err(_) => return Err(format!("`{address}` is no address")),
            }),
        }
    }
    let mut message = encode(id, flags, kind, name, &addresses);
    if is_stream {
        let length = u16::try_from(message.len()).map_err(|e| e.to_string())?;
        message.splice(0..0, length.to_be_bytes());
    }
    Ok(Aside::Dns {
        is_answer,
        port,
        is_stream,
        asker,
        asked,
        message,
    })
}

fn encode(id: u16, flags: [u8; 2], kind: u16, name: &str, addresses: &[IpAddr]) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend(flags);
    bytes.extend([0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    for address in addresses {
        let (kind, value) = match address {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (28, address.octets().to_vec()),
        };
        // A pointer to the question's name, class IN, and a TTL of 60 s.
        bytes.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, value.len() as u8]);
        bytes.extend(value);
    }
    bytes
}

impl Aside {
    /// Passes the packet to the analyzer.
    pub(crate) fn observe(&self, index: usize, at: Timestamp, analyzer: &mut Analyzer) {
        let number = FIRST_NUMBER + index as u64;
        let point = PointId::default();
        match self {
            Self::Dns {
                is_answer,
                port,
                is_stream,
                asker,
                asked,
                message,
            } => {
                let client = Endpoint::new(*asker, *port);
                let (source, destination) = if *is_answer {
                    (*asked, client)
                } else {
                    (client, *asked)
                };
                let transport = if *is_stream {
                    Transport::Tcp
                } else {
                    Transport::Udp
                };
                let (flow, direction) = FlowKey::new(transport, source, destination);
                if *is_stream {
                    let segment = Segment {
                        at,
                        number,
                        point,
                        flow,
                        direction,
                        seq: number as u32 * 1000,
                        ack: 1,
                        flags: TcpFlags::PSH.with(TcpFlags::ACK),
                        window: 500,
                        payload_len: message.len() as u32,
                        options: TcpOptions::default(),
                        ip: IpFacts::default(),
                    };
                    return analyzer.segment(&segment, message);
                }
                let datagram = Datagram {
                    at,
                    number,
                    point,
                    flow,
                    direction,
                    payload_len: message.len() as u16,
                    sent_by: SentBy::Unknown,
                };
                analyzer.datagram(&datagram, message);
            }
            Self::Arp { is_answer } => analyzer.neighbour(&Neighbour {
                at,
                number,
                point,
                asker: wire::client(0).addr,
                target: wire::server().addr,
                is_answer: *is_answer,
            }),
            Self::Ping { seq, step } => analyzer.echo(&Echo {
                at,
                number,
                point,
                asker: wire::client(0).addr,
                target: wire::server().addr,
                id: 7,
                seq: *seq,
                step: *step,
            }),
            Self::Unreachable {
                code,
                connection,
                reporter,
            } => {
                let (client, server) = (wire::client(*connection), wire::server());
                let (flow, direction) = FlowKey::new(Transport::Tcp, client, server);
                analyzer.icmp(&IcmpError {
                    at,
                    number,
                    point,
                    reporter: *reporter,
                    flow,
                    direction,
                    seq: Some(1000),
                    flags: None,
                    kind: IcmpKind::Unreachable(*code),
                });
            }
        }
    }
}

fn unreachable(code: &str, connection: u16, reporter: IpAddr) -> Result<Aside, String> {
    let code = code.parse().map_err(|_| format!("`{code}` is no code"))?;
    Ok(Aside::Unreachable {
        code,
        connection,
        reporter,
    })
}

fn rejected(code: &str, seq: &str, reporter: IpAddr) -> Result<Aside, String> {
    let code = code.parse().map_err(|_| format!("`{code}` is no code"))?;
    let kind = IcmpKind::Unreachable(code);
    ping(seq, EchoStep::Rejected { reporter, kind })
}

/// Returns the IPv6 address of the same host.
pub(crate) fn over_ipv6(endpoint: Endpoint) -> Endpoint {
    let IpAddr::V4(address) = endpoint.addr else {
        return endpoint;
    };
    let [.., last] = address.octets();
    let address = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last.into());
    Endpoint::new(IpAddr::V6(address), endpoint.port)
}
