//! A connection's numbers, as `tcptrace -l` and `tshark -z conv,tcp` have them.
//!
//! `None` is "the capture does not show it"; a zero was counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Connections with the most of something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// How many were seen in all.
    pub seen: u64,
    /// What those listed have most of, `lost`.
    pub sorted_by: String,
    /// Those with the most of it, at most as many as were asked for.
    pub list: Vec<ConnectionRecord>,
}

/// A TCP connection, or a QUIC one as far as its packets say without keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionRecord {
    /// `tcp` or `quic`.
    pub protocol: String,
    /// The observation point's number.
    pub point: u16,
    /// The capture file; empty where there is only one source.
    #[serde(default)]
    pub capture: String,
    /// Wireshark's number of it in its file, `tcp.stream` or `udp.stream`;
    /// `None` where that was not counted.
    pub stream: Option<u64>,
    /// The end that opened it, else the one that was first to ask, else the
    /// one with the higher port.
    pub client: String,
    /// The other end.
    pub server: String,
    /// Whether its first SYN or SYN/ACK was seen, so that the ends are known.
    pub begin_seen: bool,
    /// Its first packet's time, nanoseconds since the epoch.
    pub start_ns: i64,
    /// From its first to its last packet.
    pub duration_ns: u64,
    /// The number of its first packet.
    pub first_packet: u64,
    /// The number of its last packet.
    pub last_packet: u64,
    /// Where the observation point stands.
    pub vantage: Vantage,
    /// How it was made; `None` where that was not seen.
    pub handshake: Option<Handshake>,
    /// How it ended.
    pub end: ConnectionEnd,
    /// Requests with their responses; `None` where an end was not seen.
    pub exchanges: Option<u64>,
    /// What they lost in all, travel and transfer not counted; `None` where
    /// there were none to tell from.
    pub lost: Option<Lost>,
    /// Whether RFC 7323's timestamps are in use.
    pub timestamps: Option<bool>,
    /// Whether both ends permit selective acknowledgements (RFC 2018).
    pub sack: Option<bool>,
    /// Whether both ends scale their windows (RFC 7323 §2).
    pub window_scaling: Option<bool>,
    /// What the client sent and how it answered.
    pub client_side: ConnectionSide,
    /// The same of the server.
    pub server_side: ConnectionSide,
    /// What only QUIC has.
    pub quic: Option<QuicFacts>,
}

/// Where an observation point stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vantage {
    /// `client`, `server` or `between`; `None` where nothing tells.
    pub place: Option<String>,
    /// What tells: `round-trips` (the parts on either side of the point) or
    /// `ttl` (one end's packets passed no router).
    pub known_by: Option<String>,
}

/// A handshake's times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handshake {
    /// From the first SYN to the ACK of the SYN/ACK, lost SYNs included;
    /// `None` where it was not finished.
    pub took_ns: Option<u64>,
    /// From the SYN to the SYN/ACK: the round trip from here to the server.
    pub to_server_ns: Option<u64>,
    /// From the SYN/ACK to the ACK: the round trip from here to the client.
    pub to_client_ns: Option<u64>,
    /// SYNs, or QUIC Initials, sent again before an answer.
    pub syn_retransmissions: Option<u64>,
}

/// How a connection ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionEnd {
    /// `fin`, `reset`, `idle` (nothing for ten minutes), `given-up` (too many
    /// others), `reopened` (its ports were taken anew), `open` (the capture
    /// ended first); `unknown` for QUIC, whose end is encrypted.
    pub how: String,
    /// `client` or `server`: who was first to say so.
    pub by: Option<String>,
}

/// What the exchanges of a connection lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// In all.
    pub total_ns: u64,
    /// By the client.
    pub client_ns: u64,
    /// By the server.
    pub server_ns: u64,
    /// On the path.
    pub path_ns: u64,
    /// Not explained.
    pub unknown_ns: u64,
}

/// One end's part in a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionSide {
    /// Packets that it sent, as seen here.
    pub packets: u64,
    /// Payload bytes that it sent, repeated ones included.
    pub bytes: u64,
    /// Packets with payload.
    pub data_packets: u64,
    /// Payload bytes that its peer acknowledged though they never passed here:
    /// the capture missed them, and its counts are lower bounds. `None` where
    /// nothing tells.
    pub unseen_bytes: Option<u64>,
    /// The MSS that it offered.
    pub mss: Option<u16>,
    /// The window shift that it offered.
    pub window_scale: Option<u8>,
    /// Its most bytes on their way at a time; `None` where the other direction
    /// or the beginning was not seen.
    pub in_flight_max: Option<u64>,
    /// Round trips from here to it and back.
    pub round_trip: Option<RoundTripFigures>,
    /// The window that it advertised; `None` where the scaling is not known.
    pub window: Option<WindowFigures>,
    /// Its window was zero; `None` where it sent nothing after the handshake.
    pub zero_window: Option<Spells>,
    /// It had filled its peer's window; `None` where that is not known.
    pub full_window: Option<Spells>,
    /// Data that it sent more than once, or that came late; `None` where
    /// nothing of it was seen.
    pub retransmissions: Option<Retransmissions>,
    /// What it acknowledged; `None` likewise.
    pub acknowledgements: Option<Acknowledgements>,
    /// Congestion marks (ECN, RFC 3168): those that the path set on its packets, and those of
    /// its peer's that it echoed. `None` where the ends have not agreed on ECN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<CongestionMarks>,
    /// What it sent before its first data could have been acknowledged.
    pub initial_window: Option<InitialWindow>,
    /// What its packets say of its operating system.
    pub system: SystemFacts,
}

/// Marks of congestion on the path (ECN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CongestionMarks {
    /// Packets of this end that arrived marked (CE).
    pub marked: u64,
    /// Packets by which this end echoes marks on its peer's packets (ECE).
    pub echoed: u64,
}

/// Round trips from the observation point to an end and back. They cover one
/// half of the path only, and what the end waits before it acknowledges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTripFigures {
    /// `sequence-numbers`: from data to the acknowledgement of exactly it,
    /// never of repeated data; `handshake` where there was nothing else;
    /// `spin-bit`.
    pub method: String,
    /// How many.
    pub samples: u64,
    /// The least, the handshake's included: the path's own.
    pub min_ns: u64,
    /// The median; `None` where only the handshake was timed.
    pub median_ns: Option<u64>,
    /// The 95th percentile.
    pub p95_ns: Option<u64>,
}

/// The least and the most of a window, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowFigures {
    /// Least.
    pub min: u64,
    /// Most.
    pub max: u64,
}

/// How often something was so, and for how long in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spells {
    /// Times.
    pub count: u64,
    /// In all.
    pub total_ns: u64,
}

/// Data that an end sent more than once, or that came late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retransmissions {
    /// Packets with bytes that had passed here before.
    pub repeated: u64,
    /// Their payload.
    pub repeated_bytes: u64,
    /// Packets that filled a hole and were sent after what came before them:
    /// the first copy was lost before this point.
    pub lost_before: u64,
    /// Packets that filled a hole and were sent before what came before them:
    /// overtaken on the way.
    pub overtaken: u64,
    /// The most bytes that overtook one; `None` for none.
    pub overtaken_by_bytes: Option<u64>,
    /// Packets that filled a hole, and nothing tells which of the two they were.
    pub filled: u64,
    /// Packets that the path or the capture doubled.
    pub copies: u64,
    /// Packets sent again though an earlier copy had arrived (RFC 3522, D-SACK).
    pub spurious: u64,
    /// Losses within exchanges repaired because the receiver reported later
    /// data; `None` where no exchange was seen that would have told.
    pub fast: Option<u64>,
    /// Losses within exchanges repaired by the retransmission timer; `None`
    /// likewise.
    pub timeout: Option<u64>,
    /// Losses within exchanges repaired by a tail-loss probe; `None` likewise.
    pub tail_loss_probe: Option<u64>,
    /// Of all these, those whose repair was itself lost once; `None` likewise.
    pub lost_again: Option<u64>,
    /// The least time from a packet to its repetition by a timer.
    pub least_timeout_ns: Option<u64>,
    /// Keep-alive and zero-window probes.
    pub probes: u64,
}

/// What an end acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgements {
    /// Packets that do nothing else.
    pub bare: u64,
    /// Of those, such as repeat the one before while data is outstanding.
    pub duplicate: u64,
    /// Packets with SACK blocks.
    pub sacks: u64,
    /// Of those, such as report bytes that arrived twice (RFC 2883).
    pub d_sacks: u64,
    /// Bare ones that came 20 to 600 ms later than the path takes, for less
    /// than two full segments; `None` where its replies could not be timed.
    pub delayed: Option<Delays>,
}

/// Delays of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delays {
    /// How many.
    pub count: u64,
    /// Their median; `None` for none.
    pub median_ns: Option<u64>,
}

/// An initial congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InitialWindow {
    /// Bytes.
    pub bytes: u64,
    /// Full segments, rounded up.
    pub segments: u64,
    /// There was no more to send: it may be larger.
    pub is_least: bool,
}

/// What an end's packets say of its operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemFacts {
    /// What it looks like: `Linux`, `Windows`, `macOS or iOS`, `FreeBSD`;
    /// `None` unless the SYN's options and the TTL agree.
    pub looks_like: Option<String>,
    /// What was seen.
    pub because: Vec<String>,
    /// The TTL that it sends with.
    pub initial_ttl: Option<u8>,
    /// Routers between it and the observation point.
    pub hops: Option<u8>,
    /// The unit of its timestamps.
    pub timestamp_tick_ns: Option<u64>,
    /// Its SYN's options in order.
    pub option_order: Option<String>,
}

/// What a QUIC connection's long headers say (RFC 8999, RFC 9000 §17).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuicFacts {
    /// The version, `0x00000001`.
    pub version: String,
    /// Retry packets: each costs a round trip.
    pub retries: u64,
    /// Version Negotiation packets: each costs a round trip.
    pub version_negotiations: u64,
    /// Whether the client sent data before the handshake's end.
    pub zero_rtt: bool,
    /// Whether the latency spin bit changed; only then it measures.
    pub spins: bool,
}
