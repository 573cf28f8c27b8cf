//! Two captures of the same connections, held against each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figures;

/// What two captures of the same connections show together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// The capture nearer to the clients.
    pub client_capture: String,
    /// The capture nearer to the servers.
    pub server_capture: String,
    /// Connections seen in both.
    pub connections: u64,
    /// Those of them whose addresses or ports were translated in between.
    pub translated: u64,
    /// Packets seen in both.
    pub packets: u64,
    /// Whether the captures hold more packets than are held against each other.
    pub is_partial: bool,
    /// How the clocks stand to each other.
    pub clock: ClockRelation,
    /// From the client's capture to the server's, and back.
    pub ways: Vec<Way>,
    /// Where the time of the exchanges went, on the chain of packets that each
    /// answer hung on; empty where there were no exchanges.
    pub places: Vec<Place>,
}

/// How the clock of the server's capture stands to that of the client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockRelation {
    /// By how much it is ahead at the first packet of the client's capture, if
    /// the quickest packets took as long there as back.
    pub offset_ns: i64,
    /// How far that may be off, however unlike the two ways are: half of the
    /// least round trip.
    pub offset_error_ns: u64,
    /// By how much it gains: nanoseconds a second. 0 where it could not be
    /// told from none.
    pub drift_ppb: i64,
    /// How far that may be off; `None` where the captures are too short.
    pub drift_error_ppb: Option<u64>,
}

/// One way between two captures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Way {
    /// `client-to-server` or `server-to-client`.
    pub direction: String,
    /// One-way delays; off by the clock's error, all by the same.
    pub delay_ns: Figures,
    /// Segments that left one capture, did not reach the other and had to be
    /// sent again.
    pub lost: u64,
    /// Segments sent again although they had arrived: it was their
    /// acknowledgement that was lost or late.
    pub needless: u64,
    /// Bare acknowledgements that did not reach the other capture.
    pub acks_lost: u64,
}

/// Somewhere that time goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// `client-host`, `client-to-server-path`, `server-host`,
    /// `server-to-client-path`, or `unknown`.
    pub place: String,
    /// Sum over the exchanges.
    pub total_ns: u64,
    /// Part of it that went by until something lost was sent again.
    pub loss_ns: u64,
    /// Part of all exchanges' time, 0 to 1.
    pub share: f64,
}
