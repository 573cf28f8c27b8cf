//! The picture of a diagnosis: bounded data from which the page draws what the report only sums up.
//!
//! Equal input gives an equal picture, whatever the number of shards. All durations are integer
//! nanoseconds. Instants are nanoseconds since the epoch unless a field says otherwise.

mod passed_on;
mod sockets;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::passed_on::{PassedOn, RequestAt};
pub use self::sockets::{PicturedCall, PicturedSocket};
use super::{Exemplar, RecoveryRecord, WaitShare};
use crate::exchange::wait::{Owner, WaitKind};
use crate::registry::Id;

/// Data to draw a diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Picture {
    /// The servers with the most exchanges, most first. The other fields refer to them by index. The
    /// exchanges are those of the report's `exchanges.waits`: answered, or given up by the client.
    /// If no packets were captured, they are the requests of our own load of which the report has
    /// timestamps one by one.
    pub services: Vec<PictureService>,
    /// The time of the exchanges of each service and of all of them by kind of wait, at the mean
    /// and in parts of the distribution.
    pub shares: Vec<PartShares>,
    /// The number of exchanges by time and latency.
    pub raster: Raster,
    /// The number of exchanges of which the capture lacks packets, by the time of the first one that
    /// it has; their rows mean nothing. `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Raster>,
    /// Every exchange as a row of a few numbers; `None` if there are too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<Points>,
    /// Percentile curves of latency.
    pub curves: Vec<Curve>,
    /// Single exchanges in full: the slowest, the examples of the findings, and a uniform sample,
    /// in the order in which they began.
    pub exchanges: Vec<PicturedExchange>,
    /// The packets of examples, one ladder per example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladders: Vec<Ladder>,
    /// Connections of examples over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<PicturedConnection>,
    /// The sockets whose calls were traced, in the order of their first calls: at most
    /// [`PicturedSocket::MAX`], those with the most calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<PicturedSocket>,
    /// The requests that proxies passed on, for exports: the page does not show them.
    #[serde(skip)]
    pub passed_on: Vec<PassedOn>,
}

/// A server in the picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PictureService {
    /// Address and port; empty for all servers that do not fit, which are drawn as one.
    pub server: String,
    /// Number of exchanges.
    pub count: u64,
}

/// The time of a part of the exchanges by kind of wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartShares {
    /// The service; `None` for all exchanges.
    pub service: Option<u8>,
    /// The part of the exchanges.
    pub part: Part,
    /// The index of the mode in `exchanges.modes` of the report, if the part is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u8>,
    /// Number of exchanges in the part.
    pub count: u64,
    /// Minimum latency in the part, at most 0.1 % too high.
    pub low_ns: u64,
    /// Maximum latency in the part, at most 0.1 % too high.
    pub high_ns: u64,
    /// Mean latency in the part.
    pub mean_ns: u64,
    /// The time by kind of wait, most first; shares add up to 1.
    pub waits: Vec<WaitShare>,
}

/// A part of the exchanges, by latency.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All exchanges.
    All,
    /// The exchanges in the row of the raster that contains the median.
    Median,
    /// The exchanges in the row of the raster that contains the 99th percentile.
    P99,
    /// The exchanges from that row upwards: at least the slowest 1 %.
    Slowest,
    /// The exchanges of a latency mode.
    Mode,
}

/// The number of exchanges by time (columns) and latency (rows).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raster {
    /// Start of column 0.
    pub start_ns: i64,
    /// Width of a column, a power of two in nanoseconds. An exchange is in the column in which it
    /// began.
    pub column_ns: u64,
    /// Number of columns.
    pub columns: u32,
    /// The lower bound of each row's latency, ascending, from the first used row to the one above
    /// the last used. Rows are an eighth of a doubling or less. Latencies below 1,024 ns are in the
    /// row of 1,024 ns, those above 2^42 ns in the row below it.
    pub rows_ns: Vec<u64>,
    /// The cells that are not empty, by service, column and row.
    pub cells: Vec<Cell>,
}

/// A cell of the raster, as an array: service, column, row, number of exchanges, and the owner that
/// has most of the time of more of these exchanges than any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cell(pub u8, pub u32, pub u16, pub u64, pub Owner);

/// All exchanges as columns of equal length, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Points {
    /// Start of the first exchange.
    pub start_ns: i64,
    /// Start of each exchange after the start of the previous one, in microseconds; 0 for the first.
    /// The sum up to an exchange is its start after `start_ns`, rounded down.
    pub after_us: Vec<u64>,
    /// Latency of each exchange in nanoseconds, rounded to four significant digits.
    pub latency_ns: Vec<u64>,
    /// The owner of most of the time of each exchange, as an index of `owners`.
    pub owner: Vec<u8>,
    /// The owners to which `owner` refers.
    pub owners: Vec<Owner>,
    /// The service of each exchange.
    pub service: Vec<u8>,
}

/// A percentile curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The requests of the curve.
    pub name: CurveName,
    /// The index in `experiments` of the report, for `control` and `treated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<u8>,
    /// Number of requests.
    pub count: u64,
    /// Pairs of a quantile, 0 to 1, ascending, and the latency in nanoseconds at it.
    pub points: Vec<(f64, u64)>,
}

/// The requests of a percentile curve.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CurveName {
    /// Requests of our own load, by our own timestamps, without packet capture.
    Baseline,
    /// Exchanges, by packets.
    Observed,
    /// Requests without an intervention, interleaved with those that have it.
    Control,
    /// Requests with an intervention.
    Treated,
    /// The observed exchanges without what the first finding that says why cost each of them. At the
    /// median and the 99th percentile it is the finding's `predicted`.
    Predicted,
}

/// An exchange in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PicturedExchange {
    /// The service.
    pub service: u8,
    /// The reason that the exchange is in the picture.
    pub why: Why,
    /// The findings (by cause) of which the exchange is an example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shows: Vec<Id>,
    /// Number of waits that were joined with a neighbour, so that at most
    /// [`PicturedExchange::MAX_WAITS`] remain. A joined wait has the kind and owner of its longest
    /// part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub joined_waits: u64,
    /// The capture file; `kernel` if the exchange was watched live; `None` if only the report's
    /// example of it is known, and there are several files.
    pub capture: Option<String>,
    /// The exchange's index among those seen on its connection, from 0; `None` if only the report's
    /// example of it is known.
    pub ordinal: Option<u32>,
    /// The HTTP status, where there is one.
    pub status: Option<u16>,
    /// The latency minus network transit and transfer: the time for which one of the parties made
    /// the exchange wait.
    pub cost_ns: u64,
    /// Setup time of the connection, where this exchange includes it; `None` too if only the
    /// report's example of it is known.
    pub setup_ns: Option<u64>,
    /// Bytes of the response on the wire; `None` if only the report's example of it is known.
    pub response_bytes: Option<u64>,
    /// The ends, the request, the start, the latency and the waits.
    #[serde(flatten)]
    pub exchange: Exemplar,
    /// Losses repaired within the exchange, the earliest 64.
    pub recoveries: Vec<RecoveryRecord>,
}

impl PicturedExchange {
    /// Maximum number of waits of an exchange in the picture.
    pub const MAX_WAITS: usize = 64;
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The reason that an exchange is in the picture.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Example of a finding or of a latency mode.
    Example,
    /// One of the slowest.
    Slowest,
    /// Part of the uniform sample.
    Sample,
}

/// The packets of an example between client and server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ladder {
    /// The cause of which the exchange is an example; `None` for one of the slowest.
    pub cause: Option<Id>,
    /// The client's address and port.
    pub client: String,
    /// The server's address and port.
    pub server: String,
    /// Start of the exchange.
    pub start_ns: i64,
    /// Duration of the exchange.
    pub latency_ns: u64,
    /// The packets in the order in which they were captured, from the start of the exchange to the
    /// first one after its end. If the connection began shortly before, its packets from the SYN on come first.
    pub packets: Vec<LadderPacket>,
    /// Number of packets that were left out: long ladders show the first and the last packets, and
    /// those around the ends of the first gaps.
    pub left_out: u64,
    /// The waits to shade: those that the finding is about, then other long ones; the longest first.
    pub gaps: Vec<LadderGap>,
    /// A Wireshark display filter for the packets; empty if no file has them.
    pub display_filter: String,
}

/// A packet of a ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LadderPacket {
    /// The packet's number in the capture file; among the packets seen if there is no file.
    pub number: u64,
    /// Time after the start of the exchange; negative before it.
    pub at_ns: i64,
    /// True if the client sent the packet.
    pub from_client: bool,
    /// The flags as tcpdump prints them: `S`, `F`, `R`, `P`, `.`, …
    pub flags: String,
    /// Sequence number relative to the first seen of its direction.
    pub seq: u64,
    /// Acknowledgement number relative to the first sequence number seen of the other direction;
    /// `None` without the ACK flag.
    pub ack: Option<u64>,
    /// Bytes of payload.
    pub bytes: u64,
    /// The receive window in bytes; `None` if the capture does not show how it is scaled.
    pub window: Option<u64>,
    /// True if the payload was sent before, as far as the capture shows: a segment that fills a hole
    /// was overtaken if its IP identification, or else 3 ms since the previous one, says so.
    pub is_retransmission: bool,
    /// Number of packets left out just before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

/// A wait of a ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LadderGap {
    /// Start after the start of the exchange.
    pub at_ns: u64,
    /// Duration of the wait.
    pub duration_ns: u64,
    /// The kind of wait.
    pub kind: WaitKind,
    /// The party that caused the wait.
    pub owner: Owner,
    /// The cause to which the finding attributes the wait; `None` for other waits.
    pub cause: Option<Id>,
}

/// A connection of an example over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PicturedConnection {
    /// The cause of which an exchange of the connection is an example; `None` for one of the
    /// slowest.
    pub cause: Option<Id>,
    /// The client's address and port.
    pub client: String,
    /// The server's address and port.
    pub server: String,
    /// Time of the first packet.
    pub start_ns: i64,
    /// Number of packets of the connection that were read: all until every example was read.
    pub packets: u64,
    /// The data, acknowledgements and windows that the client sent, and those of the server.
    pub ways: [WaySeries; 2],
}

/// One direction of a connection over time. All series are pairs of nanoseconds after the
/// connection's `start_ns` and a value; long ones are thinned to the least and the greatest value
/// of each interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaySeries {
    /// End of each data segment, as a sequence number relative to the first seen.
    pub sent: Vec<(u64, u64)>,
    /// End of each data segment that was sent before.
    pub resent: Vec<(u64, u64)>,
    /// The highest sequence number that the other end acknowledged.
    pub acknowledged: Vec<(u64, u64)>,
    /// The highest sequence number that the other end's window allows.
    pub allowed: Vec<(u64, u64)>,
    /// Bytes sent but not acknowledged.
    pub in_flight: Vec<(u64, u64)>,
    /// Round trips in nanoseconds, from data to its acknowledgement.
    pub round_trips: Vec<(u64, u64)>,
}
