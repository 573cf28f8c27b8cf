//! The label stored with a recording: the truth, the clients' measurements, and the evidence of the
//! fault. With it, a diagnosis of the recording can be scored.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::drawn::Drawn;
use super::request::Request;
use crate::load::requests::Requests;
use crate::scenario::Truth;

/// The version of the label's format.
pub(crate) const SCHEMA: u32 = 1;

/// A recording's label, stored as `truth.json` next to the recording's files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// The version of the format: 1.
    pub schema: u32,
    /// The scenario that was recorded.
    pub scenario: String,
    /// The service under load.
    pub service: String,
    /// The scenario's title: its subject, in one line.
    pub title: String,
    /// The name that distinguishes recordings of one scenario, such as `40ms-offload`.
    pub variant: String,
    /// The path's round trip, in nanoseconds.
    pub round_trip_ns: u64,
    /// True if segments crossed the path as large offload (TSO/GRO) packets; `None`: the path's
    /// default.
    pub offload: Option<bool>,
    /// The seed of the path's random events.
    pub seed: u64,
    /// True if the requests were sent over IPv6.
    pub ipv6: bool,
    /// The service's port.
    pub port: u16,
    /// True if client and server were one host, with a single capture of both.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// The MTU of the hosts' devices, if it is not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The randomly drawn parameters; `None` for a recording that the scenario itself specifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// The truth: the statements that a correct diagnosis makes, and those that it must not make.
    pub truth: Truth,
    /// The requests as measured by the clients.
    pub requests: Compared,
    /// The counts that proved that the fault was present, and absent when switched off.
    pub proof: Vec<Shown>,
}

impl Label {
    /// Describes in words how the recording was made.
    pub fn describe(&self) -> String {
        let request = Request {
            round_trip: Some(Duration::from_nanos(self.round_trip_ns)),
            offload: self.offload,
            seed: Some(self.seed),
            ipv6: self.ipv6,
            drawn: self.drawn.clone(),
            ..Request::default()
        };
        request.describe()
    }
}

/// The requests as measured by the clients, with the fault and with the fault switched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// The recorded requests, with the fault.
    pub with: Requests,
    /// The requests of the same load with the fault switched off; `None` if there is no fault.
    pub without: Option<Requests>,
}

/// The counts of one witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Description of the witness and its bounds.
    pub shown_by: String,
    /// The count with the fault.
    pub with: u64,
    /// The count with the fault switched off; `None` if there is no fault.
    pub without: Option<u64>,
}
