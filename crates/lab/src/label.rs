//! The label beside a recording: the truth, what the clients saw, and what showed the fault, so
//! that anybody can score a diagnosis against it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::requests::Requests;
use crate::record::{Drawn, Request};
use crate::scenario::Truth;

/// The version of the label's form.
pub(crate) const SCHEMA: u32 = 1;

/// A recording's label, `truth.json` beside its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// The version of this form: 1.
    pub schema: u32,
    /// The scenario that was recorded.
    pub scenario: String,
    /// The service under load.
    pub service: String,
    /// The scenario's title: what it shows, in one line.
    pub title: String,
    /// The name that distinguishes recordings of one scenario, such as `40ms-offload`.
    pub variant: String,
    /// The path's round trip, in nanoseconds.
    pub round_trip_ns: u64,
    /// True if segments crossed the path in large frames; `None`: as the path does by itself.
    pub offload: Option<bool>,
    /// The seed of the path's random events.
    pub seed: u64,
    /// True if the requests were sent over IPv6.
    pub ipv6: bool,
    /// The service's port.
    pub port: u16,
    /// True if client and server were one host, with one capture of what both saw.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// The MTU of the hosts' devices, where it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The parameters drawn by chance; `None` for a recording that the scenario itself asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// The truth: what a right diagnosis says and does not say.
    pub truth: Truth,
    /// The requests as the clients saw them.
    pub requests: Compared,
    /// The counts that showed that the fault was there, and was not when switched off.
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

/// The requests as the clients saw them, with the fault and with the fault switched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// The recorded requests, with the fault.
    pub with: Requests,
    /// The requests of the same load with the fault switched off; `None` where there is no fault.
    pub without: Option<Requests>,
}

/// The counts of one witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The witness and its bounds, in words.
    pub shown_by: String,
    /// The count with the fault.
    pub with: u64,
    /// The count with the fault switched off; `None` where there is no fault.
    pub without: Option<u64>,
}
