//! A record of one exchange, streamed while a capture is read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Exemplar;
use crate::exchange::wait::Owner;

/// An exchange as printed by `lagtrace analyze` and `lagtrace watch` with `--format ndjson`, one
/// per line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExchangeRecord {
    /// The type of the record, always `exchange`.
    pub r#type: String,
    /// The capture file; `kernel` if the exchange was watched live, without a file.
    pub capture: String,
    /// Wireshark's index of the connection, `tcp.stream`; `None` where there were too many
    /// connections to number, or no file.
    pub stream: Option<u64>,
    /// The exchange's index among those seen on its connection, from 0.
    pub ordinal: u32,
    /// The HTTP status, where there is one.
    pub status: Option<u16>,
    /// The latency minus network transit and transfer: the time for which one of the parties made
    /// the exchange wait.
    pub cost_ns: u64,
    /// Setup time of the connection, where this exchange includes it.
    pub setup_ns: Option<u64>,
    /// Bytes of the response on the wire.
    pub response_bytes: u64,
    /// The ends, the request, the start, the latency and the waits.
    #[serde(flatten)]
    pub exchange: Exemplar,
    /// Losses repaired within the exchange.
    pub recoveries: Vec<RecoveryRecord>,
}

/// A loss repaired within an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryRecord {
    /// The sender of the lost data: `client` or `server`.
    pub sender: Owner,
    /// The trigger of the retransmission: `timeout`, `probe` or `fast`.
    pub mechanism: String,
    /// Time lost by the exchange.
    pub took_ns: u64,
    /// The packet number of the retransmission; `None` without a file.
    pub packet: Option<u64>,
}

impl ExchangeRecord {
    /// Returns the record of an exchange that was watched live, without packet numbers, because no
    /// file contains its packets.
    pub fn without_packets(mut self) -> Self {
        self.exchange.forget_packets();
        for recovery in &mut self.recoveries {
            recovery.packet = None;
        }
        self
    }
}
