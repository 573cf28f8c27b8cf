//! Two captures of the same connections, compared packet by packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figures;

/// The joint view of two captures of the same connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// The capture nearer to the clients.
    pub client_capture: String,
    /// The capture nearer to the servers.
    pub server_capture: String,
    /// Connections seen in both.
    pub connections: u64,
    /// Number of these connections whose addresses or ports were translated between the captures.
    pub translated: u64,
    /// Packets seen in both.
    pub packets: u64,
    /// True if the captures hold more packets than were compared.
    pub is_partial: bool,
    /// The relation between the two clocks.
    pub clock: ClockRelation,
    /// The one-way paths from the client's capture to the server's and back.
    pub ways: Vec<Way>,
    /// The time of the exchanges by place, along the chain of packets that each response depended
    /// on; empty where there were no exchanges.
    pub places: Vec<WayPlace>,
}

/// The relation of the server capture's clock to the client capture's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockRelation {
    /// Offset by which the server's clock is ahead at the first packet of the client's capture. It
    /// assumes that the quickest packets took equally long in both directions.
    pub offset_ns: i64,
    /// Maximum error of the offset, however asymmetric the path is: half of the minimum round-trip
    /// time.
    pub offset_error_ns: u64,
    /// Nanoseconds per second that the server's clock gains; 0 where no gain was measurable.
    pub drift_ppb: i64,
    /// Maximum error of the gain; `None` where the captures are too short.
    pub drift_error_ppb: Option<u64>,
}

/// A direction between two captures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Way {
    /// The direction: `client-to-server` or `server-to-client`.
    pub direction: String,
    /// The one-way delays. All of them contain the same error of the clock offset.
    pub delay_ns: Figures,
    /// Segments that passed one capture, did not reach the other and had to be retransmitted.
    pub lost: u64,
    /// Segments retransmitted although they had arrived, because their acknowledgement was lost or
    /// late.
    pub needless: u64,
    /// Bare acknowledgements that did not reach the other capture.
    pub acks_lost: u64,
}

/// A place where time passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Place")]
pub struct WayPlace {
    /// The place: `client-host`, `client-to-server-path`, `server-host`, `server-to-client-path`,
    /// or `unknown`.
    pub place: String,
    /// Sum over the exchanges.
    pub total_ns: u64,
    /// Part of `total_ns` that passed until a lost packet was retransmitted.
    pub loss_ns: u64,
    /// Share of all exchanges' time, 0 to 1.
    pub share: f64,
}
