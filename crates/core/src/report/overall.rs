//! The overall result of a diagnosis.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The overall result of a diagnosis, and its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overall {
    /// The result.
    pub result: OverallResult,
    /// True if the user interrupted the run before its measurement was whole.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_interrupted: bool,
    /// Share of the request time that no known wait explains, 0 to 1.
    pub unexplained_share: f64,
    /// The time that is not explained by distance, transmission or a finding; `None` if nothing was
    /// booked, or if findings locate that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclaimed: Option<Unclaimed>,
    /// The limits of the result.
    pub caveats: Vec<Caveat>,
}

impl Overall {
    /// Returns the result of a run in which nothing was measured.
    pub(super) fn nothing() -> Self {
        Self {
            result: OverallResult::NoRequest,
            is_interrupted: false,
            unexplained_share: 0.0,
            unclaimed: None,
            caveats: Vec::new(),
        }
    }
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
    /// At least one finding explains why time was lost.
    CauseFound,
    /// No request was measured.
    NoRequest,
    /// All requests failed, and no cause was found for that.
    AllFailed,
    /// No cause was found in the requests that succeeded, but others failed.
    SomeFailed,
    /// No cause was found, and all responses to our own requests only lead to another place.
    OnlyRedirects,
    /// No cause was found, and much of the request time is unexplained.
    Unexplained,
    /// No cause was found. All located time is the server's own, about the same in each request.
    ServersOwnTime,
    /// No cause was found, but findings say where time was lost.
    Located,
    /// No cause was found, but not every layer could be ruled out.
    Suspected,
    /// No cause was found, but part of the time could not be judged: see the caveats.
    NotJudged,
    /// The measurements show no avoidable delay.
    NothingFound,
    /// The measurements show no avoidable delay at a load that the service carries; under the asked
    /// load, requests wait for each other (`capacity`).
    Saturated,
    /// The user interrupted the run before its measurement was whole, and no cause was found until
    /// then.
    Interrupted,
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
    /// Lookups waited, and no connection that was seen followed them.
    LookupsWaited,
    /// Connections changed their protocol (status 101), and their later messages were not read.
    UpgradeNotRead,
    /// Both ends sent at any time, so that requests and responses may be paired wrongly.
    TurnsOverlapped,
    /// Most of the time passed while neither end sent anything, and the protocol does not show which
    /// of them owed the other an answer, if any did.
    OwedUnknown,
    /// Most of the time passed while data was transferred, which is only assumed to be necessary.
    TransferAssumed,
    /// A material part of the time counts as network transit only because no answer came sooner:
    /// neither a handshake nor a bare acknowledgement shows how far away the server is.
    DistanceAssumed,
    /// Data followed responses after pauses that are a material time, and the protocol, which is not
    /// decoded, does not show whether it belonged to them.
    EndsUnknown,
}

impl Caveat {
    /// Returns true if the caveat leaves open whether there is a delay.
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::LookupsWaited
                | Self::UpgradeNotRead
                | Self::TurnsOverlapped
                | Self::OwedUnknown
                | Self::TransferAssumed
                | Self::DistanceAssumed
                | Self::EndsUnknown
        )
    }
}
