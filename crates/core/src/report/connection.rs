//! The figures of a connection, as given by `tcptrace -l` and `tshark -z conv,tcp`.
//!
//! `None` means that the figure cannot be determined from the capture; zero is a counted value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The connections that rank highest by one figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Number of connections seen.
    pub seen: u64,
    /// The figure that the list is sorted by: `lost`.
    pub sorted_by: String,
    /// The connections with the highest figures, at most as many as requested.
    pub list: Vec<ConnectionRecord>,
}

/// A TCP connection, or a QUIC one as far as its packets can be read without keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionRecord {
    /// The protocol: `tcp` or `quic`.
    pub protocol: String,
    /// The observation point's number.
    pub point: u16,
    /// The capture file; empty where there is only one source.
    #[serde(default)]
    pub capture: String,
    /// Wireshark's index of the connection in its file, `tcp.stream` or `udp.stream`; `None` where
    /// the connection was not numbered.
    pub stream: Option<u64>,
    /// The end that opened the connection; if the opening was not seen, the end that sent the first
    /// request; else the end with the higher port.
    pub client: String,
    /// The other end.
    pub server: String,
    /// True if the first SYN or SYN/ACK was seen, so that the ends are known.
    pub begin_seen: bool,
    /// Time of the first packet, nanoseconds since the epoch.
    pub start_ns: i64,
    /// Time from the first to the last packet.
    pub duration_ns: u64,
    /// The number of the first packet.
    pub first_packet: u64,
    /// The number of the last packet.
    pub last_packet: u64,
    /// The position of the observation point.
    pub vantage: Vantage,
    /// The handshake; `None` where it was not seen.
    pub handshake: Option<Handshake>,
    /// The end of the connection.
    pub end: ConnectionEnd,
    /// Requests with their responses; `None` where an end was not seen.
    pub exchanges: Option<u64>,
    /// Total time lost by the exchanges, without network transit and transfer; `None` if there are
    /// no exchanges.
    pub lost: Option<Lost>,
    /// True if RFC 7323 timestamps are in use.
    pub timestamps: Option<bool>,
    /// True if both ends permit selective acknowledgements (RFC 2018).
    pub sack: Option<bool>,
    /// True if both ends scale their windows (RFC 7323 §2).
    pub window_scaling: Option<bool>,
    /// The client's packets, acknowledgements and windows.
    pub client_side: ConnectionSide,
    /// The server's packets, acknowledgements and windows.
    pub server_side: ConnectionSide,
    /// The facts that only QUIC has.
    pub quic: Option<QuicFacts>,
}

/// The position of an observation point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vantage {
    /// The position: `client`, `server` or `between`; `None` if it cannot be determined.
    pub place: Option<String>,
    /// The evidence for `place`: `round-trips` (the parts of the round trip on either side of the
    /// point) or `ttl` (one end's packets passed no router).
    pub known_by: Option<String>,
}

/// The times of a handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handshake {
    /// Time from the first SYN to the ACK of the SYN/ACK, lost SYNs included; `None` where the
    /// handshake was not completed.
    pub took_ns: Option<u64>,
    /// Time from the SYN to the SYN/ACK: the round trip from the observation point to the server.
    pub to_server_ns: Option<u64>,
    /// Time from the SYN/ACK to the ACK: the round trip from the observation point to the client.
    pub to_client_ns: Option<u64>,
    /// SYNs, or QUIC Initials, retransmitted before an answer.
    pub syn_retransmissions: Option<u64>,
}

/// The end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionEnd {
    /// The kind of end: `fin`, `reset`, `idle` (nothing for ten minutes), `given-up` (no longer
    /// followed because of too many other connections), `reopened` (its ports were reused), `open`
    /// (the capture ended first); `unknown` for QUIC, whose end is encrypted.
    pub how: String,
    /// The side that ended the connection first: `client` or `server`.
    pub by: Option<String>,
}

/// The time lost by the exchanges of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// Total time.
    pub total_ns: u64,
    /// Time lost by the client.
    pub client_ns: u64,
    /// Time lost by the server.
    pub server_ns: u64,
    /// Time lost on the path.
    pub path_ns: u64,
    /// Time not explained.
    pub unknown_ns: u64,
}

/// The figures of one end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionSide {
    /// Packets sent by this end, as seen at the observation point.
    pub packets: u64,
    /// Payload bytes sent, retransmitted ones included.
    pub bytes: u64,
    /// Packets with payload.
    pub data_packets: u64,
    /// Payload bytes that the peer acknowledged although they were never seen at the observation
    /// point: the capture missed them, and its counts are lower bounds. `None` where this cannot be
    /// known.
    pub unseen_bytes: Option<u64>,
    /// The MSS option of this end's SYN or SYN/ACK, in bytes.
    pub mss: Option<u16>,
    /// The window scale option of this end's SYN or SYN/ACK.
    pub window_scale: Option<u8>,
    /// Maximum number of bytes in flight; `None` where the other direction or the beginning was not
    /// seen.
    pub in_flight_max: Option<u64>,
    /// The round-trip times from the observation point to this end and back.
    pub round_trip: Option<RoundTripFigures>,
    /// The receive window advertised; `None` where the scaling is not known.
    pub window: Option<WindowFigures>,
    /// Periods in which this end's window was zero; `None` where this end sent nothing after the
    /// handshake.
    pub zero_window: Option<Spells>,
    /// Periods in which this end had filled its peer's window; `None` where that is not known.
    pub full_window: Option<Spells>,
    /// Data sent more than once or arriving late; `None` where no data was seen.
    pub retransmissions: Option<Retransmissions>,
    /// The acknowledgements sent; `None` where no data was seen.
    pub acknowledgements: Option<Acknowledgements>,
    /// Congestion marks (ECN, RFC 3168): those that the path set on this end's packets, and those
    /// on the peer's packets that this end echoed. `None` where the ends have not agreed on ECN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<CongestionMarks>,
    /// The data that this end sent before the first acknowledgement of its data could arrive.
    pub initial_window: Option<InitialWindow>,
    /// The operating system, as far as it can be determined from the packets.
    pub system: SystemFacts,
}

/// Congestion marks set on the path (ECN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CongestionMarks {
    /// Packets of this end that arrived marked (CE).
    pub marked: u64,
    /// Packets by which this end echoes marks on its peer's packets (ECE).
    pub echoed: u64,
}

/// Round trips from the observation point to an end and back. They cover only this part of the
/// path, and include the end's delay before it acknowledges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTripFigures {
    /// `sequence-numbers`: from data to the acknowledgement of exactly that data, never of
    /// retransmitted data; `handshake` where nothing else could be timed; `spin-bit`.
    pub method: String,
    /// Number of samples.
    pub samples: u64,
    /// The minimum, including the handshake's: the round-trip time of the path itself.
    pub min_ns: u64,
    /// The median; `None` where only the handshake was timed.
    pub median_ns: Option<u64>,
    /// The 95th percentile.
    pub p95_ns: Option<u64>,
}

/// The minimum and the maximum of a window, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowFigures {
    /// The minimum.
    pub min: u64,
    /// The maximum.
    pub max: u64,
}

/// The number of occurrences of a state and their total duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spells {
    /// Number of occurrences.
    pub count: u64,
    /// Total duration.
    pub total_ns: u64,
}

/// Data that an end sent more than once, or that arrived late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retransmissions {
    /// Packets with bytes that had been seen at the observation point before.
    pub repeated: u64,
    /// Payload bytes of the repeated packets.
    pub repeated_bytes: u64,
    /// Packets that filled a hole and were sent later than data that had already arrived. They are
    /// retransmissions, and their first copy was lost before the observation point.
    pub lost_before: u64,
    /// Packets that filled a hole and were sent earlier than data that had already arrived. That
    /// data overtook them on the path.
    pub overtaken: u64,
    /// Maximum number of bytes that overtook a packet; `None` if no packet was overtaken.
    pub overtaken_by_bytes: Option<u64>,
    /// Packets that filled a hole for either reason: it cannot be determined which.
    pub filled: u64,
    /// Packets duplicated by the path or the capture.
    pub copies: u64,
    /// Spurious retransmissions: sent although an earlier copy had arrived (RFC 3522, D-SACK).
    pub spurious: u64,
    /// Losses in exchanges that fast retransmission repaired, because the receiver had reported
    /// later data. `None` where no exchange could have shown such losses.
    pub fast: Option<u64>,
    /// Losses in exchanges that the retransmission timeout repaired; `None` as for `fast`.
    pub timeout: Option<u64>,
    /// Losses in exchanges that a tail-loss probe repaired; `None` as for `fast`.
    pub tail_loss_probe: Option<u64>,
    /// Losses among `fast`, `timeout` and `tail_loss_probe` whose retransmission was also lost at
    /// least once; `None` as for `fast`.
    pub lost_again: Option<u64>,
    /// The shortest time from a packet to its retransmission by a timer.
    pub least_timeout_ns: Option<u64>,
    /// Keep-alive and zero-window probes.
    pub probes: u64,
}

/// The acknowledgements of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgements {
    /// Packets that carry an acknowledgement only.
    pub bare: u64,
    /// Bare acknowledgements that repeat the previous one while data is outstanding.
    pub duplicate: u64,
    /// Packets with SACK blocks.
    pub sacks: u64,
    /// Packets with SACK blocks that report bytes that arrived twice (RFC 2883).
    pub d_sacks: u64,
    /// Bare acknowledgements of less than two full segments that arrived 20 to 600 ms later than
    /// the path explains. `None` where the round trip to this end could not be measured.
    pub delayed: Option<Delays>,
}

/// Delays of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delays {
    /// Number of delays.
    pub count: u64,
    /// The median; `None` if there are none.
    pub median_ns: Option<u64>,
}

/// An initial congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InitialWindow {
    /// Bytes.
    pub bytes: u64,
    /// Full segments, rounded up.
    pub segments: u64,
    /// True if the end had no more data to send, so that the window may be larger.
    pub is_least: bool,
}

/// The operating system of an end, as far as it can be determined from the packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemFacts {
    /// The apparent system: `Linux`, `Windows`, `macOS or iOS`, `FreeBSD`; `None` unless the SYN's
    /// options and the TTL agree.
    pub looks_like: Option<String>,
    /// The observations on which `looks_like` is based.
    pub because: Vec<String>,
    /// The initial TTL of the end's packets.
    pub initial_ttl: Option<u8>,
    /// Number of routers between the end and the observation point.
    pub hops: Option<u8>,
    /// The unit of the end's timestamp option.
    pub timestamp_tick_ns: Option<u64>,
    /// The options of the end's SYN, in order.
    pub option_order: Option<String>,
}

/// The content of a QUIC connection's long headers (RFC 8999, RFC 9000 §17).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuicFacts {
    /// The version, `0x00000001`.
    pub version: String,
    /// Retry packets: each costs a round trip.
    pub retries: u64,
    /// Version Negotiation packets: each costs a round trip.
    pub version_negotiations: u64,
    /// True if the client sent data before the end of the handshake.
    pub zero_rtt: bool,
    /// True if the latency spin bit changed; only then can it be used to measure the round trip.
    pub spins: bool,
}
