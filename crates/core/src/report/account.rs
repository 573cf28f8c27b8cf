//! The account of time: inherent, claimed by a finding, or unclaimed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EvidenceKind, Verdict};
use crate::exchange::wait::{Owner, WaitKind};
use crate::registry::Id;

/// The time of one service. Each nanosecond is booked exactly once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// The server's address and port.
    pub service: String,
    /// Number of requests that `exchanges` covers.
    pub requests: u64,
    /// Number of connection attempts that `setups` covers.
    pub connections: u64,
    /// The time of requests and responses.
    pub exchanges: Vec<Booking>,
    /// The time of connection setup: lookups, TCP and TLS handshakes, failed attempts.
    pub setups: Vec<Booking>,
}

/// The time of one kind of wait of one owner: `booked_ns` is the sum of `inherent_ns`, `claimed_ns`
/// and `unclaimed_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Booking {
    /// The kind of wait.
    pub kind: WaitKind,
    /// The owner of the wait.
    pub owner: Owner,
    /// The total time.
    pub booked_ns: u64,
    /// The part that no change at its owner removes: the minimum round-trip time, transmission.
    pub inherent_ns: u64,
    /// The part that findings of a cause claim.
    pub claimed_ns: u64,
    /// The part that nothing explains.
    pub unclaimed_ns: u64,
    /// The findings that claim part of the time, by cause, in the order of the report.
    pub claims: Vec<ClaimedTime>,
}

/// The part of a booking that one finding claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Claim")]
pub struct ClaimedTime {
    /// The finding's cause.
    pub cause: Id,
    /// The time claimed.
    pub claimed_ns: u64,
}

/// The place where a finding's time passed, independent of the cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// The certainty that the time passed at the culprit, whatever the cause.
    pub certainty: Verdict,
    /// The best evidence for that certainty.
    pub because: String,
    /// The time in the account that this finding claims. It is less than the finding's cost if
    /// another finding claims part of the same time.
    pub claimed_ns: u64,
    /// Share of the time of all services, connection setup included, 0 to 1.
    pub share: f64,
    /// The distribution of the time over requests; `None` for a cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
}

/// One kind of evidence, and its relation to a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Witness {
    /// The kind of evidence.
    pub kind: EvidenceKind,
    /// The relation of that evidence to the finding.
    pub says: Says,
}

/// The relation of evidence to a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Says {
    /// The evidence supports the finding, or a circumstance that fits it.
    Supports,
    /// The evidence contradicts the finding.
    Contradicts,
    /// The evidence was collected, and neither supports nor contradicts the finding.
    Silent,
    /// The evidence was not collected: not requested, not permitted, or not available on this host.
    NotAvailable,
}

/// The distribution of unexplained time over requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// About the same time in each request.
    Constant,
    /// Little time in some requests, much in others.
    Spread,
    /// Nearly all of the time in a few requests.
    Rare,
    /// More time in later requests.
    Growing,
    /// Slow requests at regular intervals.
    Periodic,
    /// Most of the time in requests for some of the targets.
    ByRequest,
    /// Most of the time on some of the connections.
    ByConnection,
}
