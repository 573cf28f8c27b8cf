//! Probes of a route and their answers.

use core::net::IpAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::Stamp;

/// The method of a route's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteMethod {
    /// A SYN to the real port from a raw socket.
    TcpSyn,
    /// `connect(2)` to the real port: each probe is a flow of its own.
    TcpConnect,
    /// UDP to a port that changes from probe to probe, as traceroute does.
    Udp,
    /// UDP of one flow: routers that balance by flow send all of it one way.
    Paris,
    /// UDP of one flow and one checksum: quotes in answers show whether its addresses or ports were
    /// translated on the way.
    Dublin,
    /// Segments of a connection of our own that the target acknowledged before: filters that track
    /// connections let them through.
    InConnection,
    /// ICMP echo requests of one flow.
    Icmp,
}

impl RouteMethod {
    /// Returns the name used in reports and arguments.
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

    /// Returns true if the probes are TCP segments.
    pub fn is_tcp(self) -> bool {
        matches!(self, Self::TcpSyn | Self::TcpConnect | Self::InConnection)
    }

    /// Returns true if the probes are all of one flow, which routers that balance by flow send one
    /// way.
    pub(crate) fn keeps_flow(self) -> bool {
        !matches!(self, Self::TcpConnect | Self::Udp)
    }

    /// Returns true if the probes are datagrams, to which a closed port answers by ICMP.
    pub fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::Paris | Self::Dublin)
    }
}

/// The target and the method of a trace, sent before the first sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStart {
    /// The target.
    pub target: IpAddr,
    /// The target's port: with changing ports the first one; `None` for ICMP.
    pub port: Option<u16>,
    /// The source address in use.
    pub source: Option<IpAddr>,
    /// The method of the probes.
    pub method: RouteMethod,
    /// True if raw sockets are used, which needs `CAP_NET_RAW`.
    pub is_raw: bool,
    /// Maximum time to live sent.
    pub max_ttl: u8,
}

/// A probe of a route and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSample {
    /// The probe's number in its trace, in the order of sending.
    pub number: u32,
    /// The time to live that it was sent with.
    pub ttl: u8,
    /// The flow's number, from 0; others than 0 only look for parallel paths.
    pub flow: u16,
    /// The answer.
    pub answer: HopAnswer,
    /// The address that answered.
    pub from: Option<IpAddr>,
    /// Time from the probe's leaving to the answer's arrival; `None` for silence.
    pub rtt: Option<Duration>,
    /// The origin of the timestamps behind `rtt`.
    pub stamp: Stamp,
    /// Time to live of the answer, where it was seen.
    pub reply_ttl: Option<u8>,
    /// MPLS labels that the probe bore when it expired (RFC 4950), outermost first.
    pub labels: Vec<MplsLabel>,
    /// The translated form of the probe at its last hop, if it differs from the one sent; looked at
    /// by [`RouteMethod::Dublin`] alone.
    pub translation: Option<Translation>,
    /// True if the answer quotes the probe so that a translation would show.
    pub is_quoted: bool,
}

/// A probe as it looked at its last hop, quoted by the answer: a translator (NAT) on the way there
/// gave it other addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Translation {
    /// The translated source address; `None` where only a checksum tells.
    pub source: Option<IpAddr>,
    /// The translated source port.
    pub source_port: u16,
    /// The translated destination address; `None` where only a checksum tells.
    pub destination: Option<IpAddr>,
    /// The translated destination port.
    pub destination_port: u16,
    /// The increase of the checksum, in ones' complement.
    pub checksum_shift: u16,
}

/// The autonomous system that announces an address, by a table of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutonomousSystem {
    /// The number.
    pub asn: u32,
    /// The name in the table; empty where it has no name.
    pub name: String,
}

/// The answer to a probe of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HopAnswer {
    /// The time to live expired at a router that says so.
    Expired,
    /// The target accepted the probe: SYN/ACK, echo reply, a datagram.
    Open,
    /// The target's port is closed: RST, or ICMP port unreachable.
    Closed,
    /// An ICMP error of this type and code: the probe cannot be delivered.
    Unreachable(u8, u8),
    /// Nothing within the time allowed.
    Silence,
}

impl HopAnswer {
    /// Returns true if a probe with this answer came as far as any will.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Open | Self::Closed | Self::Unreachable(..))
    }

    /// Returns true if the answer says "administratively prohibited", as filters do (RFC 1812
    /// §5.2.7.1, RFC 4443 §3.1).
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
    /// True for the bottom of the stack.
    pub is_bottom: bool,
    /// The time to live.
    pub ttl: u8,
}

/// The path MTU, found by probes of growing and shrinking size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// The largest packet that came through, in bytes with its IP header;
    /// `None` when not even a small one did.
    pub mtu: Option<u16>,
    /// The distance probed: the time to live of the probes.
    pub to_ttl: u8,
    /// The places where the MTU shrinks, in the order in which they were found.
    pub narrowings: Vec<Narrowing>,
}

/// A place where the MTU shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowing {
    /// The router before the narrow link that said so; `None` when nobody did:
    /// larger packets vanish.
    pub from: Option<IpAddr>,
    /// The router's distance, where known; for silent ones the first hop that larger packets do not
    /// reach.
    pub ttl: Option<u8>,
    /// The MTU from there on, in bytes.
    pub mtu: u16,
}
