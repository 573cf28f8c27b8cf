//! One exchange in full, as it is streamed while a capture is read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Exemplar;
use crate::exchange::wait::Owner;

/// An exchange as `lagtrace analyze` and `lagtrace watch` print it with
/// `--format ndjson`, one a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExchangeRecord {
    /// Always `exchange`.
    pub r#type: String,
    /// The capture file that it was seen in; `kernel` where it was watched
    /// live, in no file.
    pub capture: String,
    /// Wireshark's number of its connection, `tcp.stream`; `None` where there
    /// were too many connections to number, or no file.
    pub stream: Option<u64>,
    /// Which exchange of its connection, from 0, as far as seen.
    pub ordinal: u32,
    /// The HTTP status, where there is one.
    pub status: Option<u16>,
    /// Its latency less travel and transfer: what somebody made it wait.
    pub cost_ns: u64,
    /// The time its connection took, where this exchange has to bear it.
    pub setup_ns: Option<u64>,
    /// Bytes of the response on the wire.
    pub response_bytes: u64,
    /// Who asked whom for what, when it began, how long it took, and its waits.
    #[serde(flatten)]
    pub exchange: Exemplar,
    /// Losses repaired within it.
    pub recoveries: Vec<RecoveryRecord>,
}

/// A loss repaired within an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryRecord {
    /// Whose data was lost: `client` or `server`.
    pub sender: Owner,
    /// How it was noticed: `timeout`, `probe` or `fast`.
    pub mechanism: String,
    /// What the exchange lost by it.
    pub took_ns: u64,
    /// The packet that repaired it; `None` in no file.
    pub packet: Option<u64>,
}

impl ExchangeRecord {
    /// The same of an exchange that was watched live: no file holds its packets.
    pub fn without_packets(mut self) -> Self {
        self.exchange.forget_packets();
        for recovery in &mut self.recoveries {
            recovery.packet = None;
        }
        self
    }
}
