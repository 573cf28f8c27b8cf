//! The route's part of the report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProbeFigures;

/// The route to a target as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// The target's address.
    pub target: String,
    /// Its port; `None` for ICMP.
    pub port: Option<u16>,
    /// The source address.
    pub source: Option<String>,
    /// `tcp`, `tcp-connect`, `udp`, `paris`, `dublin`, `in-connection`, `icmp`.
    pub method: String,
    /// Whether raw sockets were used, which needs a privilege.
    pub is_raw: bool,
    /// What became of probes that went as far as they could: `open`, `closed`
    /// (TCP's RST), `reached` (the host answers, the port says nothing),
    /// `prohibited` (a filter says so), `unreachable`, `silent` (filtered or
    /// lost), `too-far` (more hops than were asked for), `loop` (routers send
    /// them in circles).
    pub outcome: String,
    /// Hops to the target; `None` where nothing answered for it.
    pub distance: Option<u8>,
    /// Who answered for the target, where it is another address.
    pub answered_by: Option<String>,
    /// The first hop from which on probes are lost, and still are at the target.
    pub loss_from: Option<u8>,
    /// `kernel`, or `user` where a round trip was stamped by this program.
    pub stamp: String,
    /// Who answered at each distance, by flow, where several flows were tried.
    pub paths: Vec<RoutePath>,
    /// The largest packet that comes through; `None` where it was not tried.
    pub mtu: Option<RouteMtu>,
    /// The hops that see other addresses, ports or checksums of the probes than
    /// the hop before them: a translator (NAT) is in between, or that hop itself.
    #[serde(default)]
    pub translated_before: Vec<u8>,
}

/// The way of one or more flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoutePath {
    /// How many of the flows took it.
    pub flows: u64,
    /// Its hops from the first one on; `None` for a silent one.
    pub hops: Vec<Option<String>>,
}

/// The largest packet that comes through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteMtu {
    /// In bytes with its IP header; `None` when not even a small one did.
    pub mtu_bytes: Option<u16>,
    /// How far it was tried, in hops.
    pub to_ttl: u8,
    /// Where it shrinks.
    pub narrowings: Vec<RouteNarrowing>,
}

/// A place where the largest packet shrinks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteNarrowing {
    /// The router before the narrow link; `None` when nobody said so and
    /// larger packets vanish.
    pub address: Option<String>,
    /// Its distance; for silent ones the first hop that larger packets do not reach.
    pub ttl: Option<u8>,
    /// What fits through, in bytes.
    pub mtu_bytes: u16,
}

/// A hop of the route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Distance, from 1.
    pub ttl: u8,
    /// Its address, the most frequent one; `None` for a silent hop.
    pub address: Option<String>,
    /// Its name; `None` where it has none or none was asked for.
    #[serde(default)]
    pub name: Option<String>,
    /// The number of the autonomous system that it belongs to, by the table
    /// that was given; `None` where it holds none.
    #[serde(default)]
    pub asn: Option<u32>,
    /// That system's name.
    #[serde(default)]
    pub as_name: Option<String>,
    /// All who answered at this distance, most frequent first.
    #[serde(default)]
    pub addresses: Vec<HopAddress>,
    /// Probes sent.
    #[serde(default)]
    pub sent: u64,
    /// Answers received.
    #[serde(default)]
    pub received: u64,
    /// What its answers and silences amount to.
    #[serde(default)]
    pub state: HopState,
    /// What it said: `expired`, `open`, `closed`, `unreachable 3/13`.
    #[serde(default)]
    pub answers: Vec<String>,
    /// Round trips to it.
    pub rtt_ns: ProbeFigures,
    /// The part of its least round trip that those behind it bear too: what is
    /// more is its own slowness to answer.
    #[serde(default)]
    pub kept_ns: u64,
    /// The latest round trips, oldest first; `None` for lost ones.
    #[serde(default)]
    pub history_ns: Vec<Option<u64>>,
    /// MPLS labels at this hop, outermost first.
    #[serde(default)]
    pub labels: Vec<HopLabel>,
    /// Time to live of its answers.
    #[serde(default)]
    pub reply_ttl: Option<u8>,
    /// How probes look when they come here, where that is not how they were sent.
    #[serde(default)]
    pub translation: Option<HopTranslation>,
}

/// How a probe looked where it ended: a translator (NAT) changed it on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HopTranslation {
    /// Where it came from by then; `None` where only the checksum tells.
    pub source: Option<String>,
    /// The port that it came from.
    pub source_port: u16,
    /// Where it went to by then; `None` where only the checksum tells.
    pub destination: Option<String>,
    /// The port that it went to.
    pub destination_port: u16,
    /// By how much its checksum grew, in ones' complement: the same for all hops
    /// behind the same translators.
    pub checksum_shift: u16,
}

/// What a hop's answers and silences amount to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HopState {
    /// It answered every probe.
    #[default]
    Answers,
    /// It answered at times, and those behind it lose less: it limits its answers.
    Limited,
    /// It answered at times, and the loss persists to the target.
    Lossy,
    /// It answered at times; what answers behind it may be limited itself, or
    /// nothing does: whether it limits or loses cannot be told.
    Undecided,
    /// It never answered.
    Silent,
}

/// Who answered at a hop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HopAddress {
    /// The address.
    pub address: String,
    /// Its name.
    pub name: Option<String>,
    /// The number of its autonomous system, by the table that was given.
    #[serde(default)]
    pub asn: Option<u32>,
    /// That system's name.
    #[serde(default)]
    pub as_name: Option<String>,
    /// How many answers.
    pub count: u64,
}

/// An MPLS label as a router quoted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HopLabel {
    /// The label.
    pub label: u32,
    /// Traffic class.
    pub class: u8,
    /// Whether it is the bottom of the stack.
    pub is_bottom: bool,
    /// Its time to live.
    pub ttl: u8,
}
