//! The route section of the report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProbeFigures;

/// The route to a target as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// The target's address.
    pub target: String,
    /// The target's port; `None` for ICMP.
    pub port: Option<u16>,
    /// The source address.
    pub source: Option<String>,
    /// The method: `tcp`, `tcp-connect`, `udp`, `paris`, `dublin`, `in-connection`, `icmp`.
    pub method: String,
    /// True if raw sockets were used, which needs a privilege.
    pub is_raw: bool,
    /// The outcome of the probes that got furthest: `open`, `closed` (RST), `reached` (the host
    /// answers, but the state of the port is unknown), `prohibited` (a filter reports so),
    /// `unreachable`, `silent` (filtered or lost), `too-far` (more hops than the limit), `loop`
    /// (routers send the probes in circles).
    pub outcome: String,
    /// Hops to the target; `None` where nothing answered for it.
    pub distance: Option<u8>,
    /// The address that answered for the target, where it differs from the target's.
    pub answered_by: Option<String>,
    /// The first of the hops at the end of the route that all lose probes; `None` if there are
    /// none.
    pub loss_from: Option<u8>,
    /// The origin of the timestamps: `kernel`, or `user` if this program took some of them.
    pub stamp: String,
    /// The paths of the flows, where several flows were tried.
    pub paths: Vec<RoutePath>,
    /// The path MTU; `None` where it was not measured.
    pub mtu: Option<RouteMtu>,
    /// The hops at which probes have other addresses, ports or checksums than at the hop before. A
    /// NAT is in between, or is that hop itself.
    #[serde(default)]
    pub translated_before: Vec<u8>,
}

/// The path of one or more flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoutePath {
    /// Number of flows that took the path.
    pub flows: u64,
    /// The hops from the first one on; `None` for a silent one.
    pub hops: Vec<Option<String>>,
}

/// The path MTU of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteMtu {
    /// The largest packet that gets through, in bytes with its IP header; `None` when not even a
    /// small packet got through.
    pub mtu_bytes: Option<u16>,
    /// The distance probed, in hops.
    pub to_ttl: u8,
    /// The places where the MTU shrinks.
    pub narrowings: Vec<RouteNarrowing>,
}

/// A place where the MTU shrinks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteNarrowing {
    /// The router before the narrow link; `None` when no router reported the limit and larger
    /// packets are lost silently.
    pub address: Option<String>,
    /// The router's distance; for silent ones the first hop that larger packets do not reach.
    pub ttl: Option<u8>,
    /// The MTU from this place on, in bytes.
    pub mtu_bytes: u16,
}

/// A hop of the route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Distance, from 1.
    pub ttl: u8,
    /// The most frequent address; `None` for a silent hop.
    pub address: Option<String>,
    /// The hop's name; `None` where it has no name or names were not requested.
    #[serde(default)]
    pub name: Option<String>,
    /// The number of the hop's autonomous system, by the table given; `None` where the table has no
    /// entry.
    #[serde(default)]
    pub asn: Option<u32>,
    /// The name of the autonomous system.
    #[serde(default)]
    pub as_name: Option<String>,
    /// All addresses that answered at this distance, most frequent first.
    #[serde(default)]
    pub addresses: Vec<HopAddress>,
    /// Probes sent.
    #[serde(default)]
    pub sent: u64,
    /// Answers received.
    #[serde(default)]
    pub received: u64,
    /// The assessment of the hop's answers and silences.
    #[serde(default)]
    pub state: HopState,
    /// The kinds of answers: `expired`, `open`, `closed`, `unreachable 3/13`.
    #[serde(default)]
    pub answers: Vec<String>,
    /// Round-trip times to the hop.
    pub rtt_ns: ProbeFigures,
    /// The part of the hop's minimum round-trip time that the later hops also have. The other part
    /// is the time that the hop itself takes to answer.
    #[serde(default)]
    pub kept_ns: u64,
    /// The time that the hop itself takes to answer: the part of its minimum round-trip time that
    /// later hops do not have. `None` if it is not material.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_ns: Option<u64>,
    /// The latest round-trip times, oldest first; `None` for lost probes.
    #[serde(default)]
    pub history_ns: Vec<Option<u64>>,
    /// MPLS labels at this hop, outermost first.
    #[serde(default)]
    pub labels: Vec<HopLabel>,
    /// Time to live of the hop's answers.
    #[serde(default)]
    pub reply_ttl: Option<u8>,
    /// The translated form of probes that arrive at this hop, where it differs from the one sent.
    #[serde(default)]
    pub translation: Option<HopTranslation>,
}

/// A probe as it arrived at the last hop it reached, after a NAT had changed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HopTranslation {
    /// The translated source address; `None` where only the checksum shows the translation.
    pub source: Option<String>,
    /// The translated source port.
    pub source_port: u16,
    /// The translated destination address; `None` where only the checksum shows the translation.
    pub destination: Option<String>,
    /// The translated destination port.
    pub destination_port: u16,
    /// The increase of the checksum, in ones' complement. It is the same for all hops behind the
    /// same NATs.
    pub checksum_shift: u16,
}

/// The assessment of a hop's answers and silences.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HopState {
    /// The hop answered every probe.
    #[default]
    Answers,
    /// The hop answered some probes, and the hops after it lose fewer: it limits its answers.
    Limited,
    /// The hop answered some probes, and the loss persists to the target.
    Lossy,
    /// The hop answered some probes. It cannot be determined if it limits its answers or loses
    /// probes, because later hops may limit their answers too, or there are none.
    Undecided,
    /// The hop never answered.
    Silent,
}

/// An address that answered at a hop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HopAddress {
    /// The address.
    pub address: String,
    /// The name of the address.
    pub name: Option<String>,
    /// The number of its autonomous system, by the table given.
    #[serde(default)]
    pub asn: Option<u32>,
    /// The name of that autonomous system.
    #[serde(default)]
    pub as_name: Option<String>,
    /// Number of answers.
    pub count: u64,
}

/// An MPLS label as a router quoted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HopLabel {
    /// The label.
    pub label: u32,
    /// Traffic class.
    pub class: u8,
    /// True for the bottom of the stack.
    pub is_bottom: bool,
    /// The label's time to live.
    pub ttl: u8,
}
