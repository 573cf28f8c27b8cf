//! Probes of a route and their answers.

use core::net::IpAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::Stamp;

/// How a route's probes ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteMethod {
    /// A SYN to the real port from a raw socket.
    TcpSyn,
    /// `connect(2)` to the real port: each probe is a flow of its own.
    TcpConnect,
    /// UDP to a port that changes from probe to probe, as traceroute does.
    Udp,
    /// UDP of one flow: what balances by flow sends all of it one way.
    Paris,
    /// UDP of one flow and one checksum: what quotes it shows whether its
    /// addresses or ports were translated on the way.
    Dublin,
    /// Segments of a connection of our own that the target acknowledged before:
    /// what filters by connection lets them through.
    InConnection,
    /// ICMP echo requests of one flow.
    Icmp,
}

impl RouteMethod {
    /// Its name in reports and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::TcpSyn => "tcp",
            Self::TcpConnect => "tcp-connect",
            Self::Udp => "udp",
            Self::Paris => "paris",
            Self::Dublin => "dublin",
            Self::InConnection => "in-connection",
            Self::Icmp => "icmp",
        }
    }

    /// Whether its probes are TCP segments.
    pub fn is_tcp(self) -> bool {
        matches!(self, Self::TcpSyn | Self::TcpConnect | Self::InConnection)
    }

    /// Whether its probes are all of one flow, which what balances by flow sends
    /// one way.
    pub(crate) fn keeps_flow(self) -> bool {
        !matches!(self, Self::TcpConnect | Self::Udp)
    }

    /// Whether its probes are datagrams, to which a closed port answers by ICMP.
    pub fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::Paris | Self::Dublin)
    }
}

/// What is traced and how, told before the first sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStart {
    /// The target.
    pub target: IpAddr,
    /// Its port: of UDP with changing ports the first one; `None` for ICMP.
    pub port: Option<u16>,
    /// The source address in use.
    pub source: Option<IpAddr>,
    /// How it is asked.
    pub method: RouteMethod,
    /// Whether raw sockets are used, which needs `CAP_NET_RAW`.
    pub is_raw: bool,
    /// The greatest time to live that is sent.
    pub max_ttl: u8,
}

/// One probe of a route and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSample {
    /// Counts the probes of a trace in the order in which they were sent.
    pub number: u32,
    /// The time to live it was sent with.
    pub ttl: u8,
    /// Which flow, from 0; others than 0 only look for parallel paths.
    pub flow: u16,
    /// What came back.
    pub answer: HopAnswer,
    /// Who answered.
    pub from: Option<IpAddr>,
    /// From the probe's leaving to the answer's arrival; `None` for silence.
    pub rtt: Option<Duration>,
    /// Who stamped `rtt`.
    pub stamp: Stamp,
    /// Time to live of the answer, where it was seen.
    pub reply_ttl: Option<u8>,
    /// MPLS labels that the probe bore when it expired (RFC 4950), outermost first.
    pub labels: Vec<MplsLabel>,
    /// How the probe looked where it ended, if that is not how it was sent;
    /// [`RouteMethod::Dublin`] alone looks at it.
    pub translation: Option<Translation>,
    /// Whether the answer quotes the probe so that a translation would show.
    pub is_quoted: bool,
}

/// How a probe looked where it ended, as the answer quotes it: a translator
/// (NAT) on the way there gave it other addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Translation {
    /// Where it came from by then; `None` where only a checksum tells.
    pub source: Option<IpAddr>,
    /// The port that it came from.
    pub source_port: u16,
    /// Where it went to by then; `None` where only a checksum tells.
    pub destination: Option<IpAddr>,
    /// The port that it went to.
    pub destination_port: u16,
    /// By how much its checksum grew, in ones' complement.
    pub checksum_shift: u16,
}

/// The autonomous system that announces an address, by a table of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutonomousSystem {
    /// Its number.
    pub asn: u32,
    /// What the table calls it; empty where it has no name.
    pub name: String,
}

/// What came back to a probe of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HopAnswer {
    /// Its time to live ended at a router that says so.
    Expired,
    /// The target took it: SYN/ACK, echo reply, a datagram.
    Open,
    /// The target's port is closed: RST, or ICMP port unreachable.
    Closed,
    /// Somebody says, by an ICMP error of this type and code, that it cannot be
    /// delivered.
    Unreachable(u8, u8),
    /// Nothing within the time allowed.
    Silence,
}

impl HopAnswer {
    /// Whether a probe that gets this answer came as far as any will.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Open | Self::Closed | Self::Unreachable(..))
    }

    /// Whether a filter's administrator had this said (RFC 1812 §5.2.7.1, RFC 4443 §3.1).
    pub(crate) fn is_prohibited(self, is_v4: bool) -> bool {
        match self {
            Self::Unreachable(3, 9 | 10 | 13) => is_v4,
            Self::Unreachable(1, 1 | 5 | 6) => !is_v4,
            _ => false,
        }
    }
}

/// An entry of an MPLS label stack (RFC 3032 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MplsLabel {
    /// The label, 20 bits.
    pub label: u32,
    /// The traffic class, 3 bits.
    pub class: u8,
    /// Whether it is the bottom of the stack.
    pub is_bottom: bool,
    /// Its time to live.
    pub ttl: u8,
}

/// What probes of growing and shrinking size found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// The largest packet that came through, in bytes with its IP header;
    /// `None` when not even a small one did.
    pub mtu: Option<u16>,
    /// How far it was tried: the time to live of the probes.
    pub to_ttl: u8,
    /// Where it shrinks, in the order in which it was found.
    pub narrowings: Vec<Narrowing>,
}

/// A place where the largest packet shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowing {
    /// The router before the narrow link that said so; `None` when nobody did:
    /// larger packets vanish.
    pub from: Option<IpAddr>,
    /// Its distance, where known; for silent ones the first hop that larger
    /// packets do not reach.
    pub ttl: Option<u8>,
    /// What fits through, in bytes.
    pub mtu: u16,
}
