//! Route probes and their answers.

use core::net::IpAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::point::Stamp;

/// The method of probing a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteMethod {
    /// A SYN to the real port from a raw socket.
    TcpSyn,
    /// `connect(2)` to the real port: each probe is a separate flow.
    TcpConnect,
    /// UDP to a port that changes from probe to probe, as traceroute does.
    Udp,
    /// UDP in one flow: routers that balance by flow forward all probes along one path.
    Paris,
    /// UDP in one flow with one checksum. The answers quote the probes, and this shows if NAT
    /// changed the addresses or ports on the path.
    Dublin,
    /// Segments of an established connection of our own, already acknowledged by the target:
    /// connection-tracking filters let them through.
    InConnection,
    /// ICMP echo requests in one flow.
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

    /// Returns true if the probes all belong to one flow, which routers that balance by flow
    /// forward along one path.
    pub(crate) fn keeps_flow(self) -> bool {
        !matches!(self, Self::TcpConnect | Self::Udp)
    }

    /// Returns true if the probes are datagrams, which a closed port answers by ICMP.
    pub fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::Paris | Self::Dublin)
    }
}

/// The target and the method of a trace, sent before the first sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStart {
    /// The target.
    pub target: IpAddr,
    /// The target's port, or the first one if ports change; `None` for ICMP.
    pub port: Option<u16>,
    /// The source address in use.
    pub source: Option<IpAddr>,
    /// The method of the probes.
    pub method: RouteMethod,
    /// True if raw sockets are used, which needs `CAP_NET_RAW`.
    pub is_raw: bool,
    /// Maximum time to live of the probes.
    pub max_ttl: u8,
}

/// A probe of a route and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSample {
    /// The probe's number in its trace, in the order of sending.
    pub number: u32,
    /// The time to live with which the probe was sent.
    pub ttl: u8,
    /// The flow's number, from 0; flows other than 0 serve only to find parallel paths.
    pub flow: u16,
    /// The answer.
    pub answer: HopAnswer,
    /// The address that answered.
    pub from: Option<IpAddr>,
    /// Time from the sending of the probe to the answer's arrival; `None` for silence.
    pub rtt: Option<Duration>,
    /// The origin of the timestamps from which `rtt` was computed.
    pub stamp: Stamp,
    /// Time to live of the answer, if it was seen.
    pub reply_ttl: Option<u8>,
    /// MPLS labels on the probe when it expired (RFC 4950), outermost first.
    pub labels: Vec<MplsLabel>,
    /// The probe as translated by NAT on the path, if it differs from the one sent. Only
    /// [`RouteMethod::Dublin`] determines it.
    pub translation: Option<Translation>,
    /// True if the answer quotes enough of the probe for a translation to be visible.
    pub is_quoted: bool,
}

/// A probe as it was at its last hop, quoted by the answer: NAT on the path changed its addresses
/// or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Translation {
    /// The translated source address; `None` if only a checksum shows the translation.
    pub source: Option<IpAddr>,
    /// The translated source port.
    pub source_port: u16,
    /// The translated destination address; `None` if only a checksum shows the translation.
    pub destination: Option<IpAddr>,
    /// The translated destination port.
    pub destination_port: u16,
    /// The increase of the checksum, in one's complement.
    pub checksum_shift: u16,
}

/// The autonomous system that announces an address, according to a table provided by the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutonomousSystem {
    /// The number of the autonomous system.
    pub asn: u32,
    /// The name in the table; empty if there is none.
    pub name: String,
}

/// The answer to a probe of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HopAnswer {
    /// The time to live expired at a router that reports it.
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
    /// Returns true if no probe with a larger time to live gets further than this one.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Open | Self::Closed | Self::Unreachable(..))
    }

    /// Returns true if the answer is "administratively prohibited", as from filters (RFC 1812
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
    /// True if the entry is the bottom of the stack.
    pub is_bottom: bool,
    /// The time to live.
    pub ttl: u8,
}

/// The path MTU, found by probes of varying size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// The largest packet that got through, in bytes with its IP header; `None` if not even a small
    /// one did.
    pub mtu: Option<u16>,
    /// The distance probed: the time to live of the probes.
    pub to_ttl: u8,
    /// The places where the MTU decreases, in the order in which they were found.
    pub narrowings: Vec<Narrowing>,
}

/// A place where the MTU decreases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowing {
    /// The router before the narrow link, if it reported the MTU; `None` if no router did and
    /// larger packets are lost silently.
    pub from: Option<IpAddr>,
    /// The router's distance, if known; for silent routers the first hop that larger packets do not
    /// reach.
    pub ttl: Option<u8>,
    /// The MTU from there on, in bytes.
    pub mtu: u16,
}
