//! The overall result of a diagnosis.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The overall result of a diagnosis, and its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overall {
    /// The result.
    pub result: OverallResult,
    /// Share of the request time that no known wait explains, 0 to 1.
    pub unexplained_share: f64,
    /// The time that is not explained by distance, transmission or a finding; `None` if nothing was
    /// booked, or if findings locate that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclaimed: Option<Unclaimed>,
    /// The limits of the result.
    pub caveats: Vec<Caveat>,
}

/// Time that nothing in the account explains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unclaimed {
    /// Mean per request.
    pub each_ns: u64,
    /// Share of the request time, 0 to 1.
    pub share: f64,
}

/// The result of a diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverallResult {
    /// At least one finding names a cause.
    CauseFound,
    /// No request was measured.
    NoRequest,
    /// All requests failed, and no cause was found for that.
    AllFailed,
    /// No cause was found in the requests that succeeded, but others failed.
    SomeFailed,
    /// No cause was found, and much of the request time is unexplained.
    Unexplained,
    /// No cause was found. All located time is the server's own, about the same in each request.
    ServersOwnTime,
    /// No cause was found, but findings locate unexplained time.
    Located,
    /// No cause was found, but not every layer could be ruled out.
    Suspected,
    /// The measurements show no avoidable delay.
    NothingFound,
}

/// A limit of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Caveat {
    /// There are too few requests to determine the tail of the latency.
    FewRequests,
    /// Part of the request time is unexplained.
    UnexplainedTime,
    /// The capture dropped packets.
    PacketsDropped,
    /// Requests cut by the capture were left out.
    RequestsCut,
    /// The requests outside the captured part of the load took longer than those in it.
    CapturedPartDiffers,
}
