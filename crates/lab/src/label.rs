//! What is written beside a recording: the truth, what the clients saw, and what showed the
//! fault, so that anybody can score a diagnosis against it.

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
    /// The service that was asked.
    pub service: String,
    /// One line of what the scenario shows.
    pub title: String,
    /// What tells recordings of one scenario apart, such as `40ms-offload`.
    pub variant: String,
    /// The path's round trip, in nanoseconds.
    pub round_trip_ns: u64,
    /// Whether segments crossed the path in large frames; `None`: as the path does by itself.
    pub offload: Option<bool>,
    /// What the path's chances were drawn from.
    pub seed: u64,
    /// Whether the client asked over IPv6.
    pub ipv6: bool,
    /// The service's port.
    pub port: u16,
    /// Whether client and server were one host, with one capture of what both saw.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// The MTU of the hosts' devices, where it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// What was drawn by chance, where the recording is none that the scenario itself asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// What a right diagnosis says and does not say.
    pub truth: Truth,
    /// What the clients saw.
    pub requests: Compared,
    /// What showed that the fault was there, and was not when switched off.
    pub proof: Vec<Shown>,
}

impl Label {
    /// How it was recorded, in words.
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

/// What the clients saw, with the fault and with the fault switched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// With the fault: these are the recorded requests.
    pub with: Requests,
    /// The same load with the fault switched off; `None` where there is no fault.
    pub without: Option<Requests>,
}

/// What one witness counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The witness and its bounds, in words.
    pub shown_by: String,
    /// What it counted with the fault.
    pub with: u64,
    /// What it counted with the fault switched off.
    pub without: Option<u64>,
}
