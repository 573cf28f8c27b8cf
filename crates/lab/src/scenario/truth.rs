//! The truth of a service: the findings that a correct diagnosis must have, may have, and must not
//! have.
//!
//! Causes are identified by their ids in the registry of causes. This is all that the lab uses of
//! the analysis; the lab itself performs no diagnosis.

use std::time::Duration;

use lagtrace_core::registry::Id;
use serde::{Deserialize, Serialize};

use crate::quantity::optional_duration;
use crate::side::Side;

/// The truth about a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Truth {
    /// The findings that must be reported, the most costly first. Empty if the catalogue of causes
    /// has no entry for the service, as for a healthy service or one that sends invalid responses.
    pub expected: Vec<Expectation>,
    /// Further causes that may be reported.
    pub allowed: Vec<Id>,
    /// The causes that must never be reported: similar causes that are easily confused.
    pub must_not: Vec<Id>,
    /// The time that the fault adds to an affected request, if it was specified by design.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub added: Option<Duration>,
    /// The share of requests that the fault affects, 0 to 1, if it was specified by design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// True if the recording contains only a part of the requests: the cost of findings is then
    /// that of these requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The reason why the effect of switching the fault off differs from the cost of the expected
    /// findings; `None` if it does not differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_cost: Option<String>,
}

/// A finding that must be reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The cause. If several are listed, any one of them is correct.
    pub cause: Vec<Id>,
    /// The culprit. Several are listed if the lab's culprit cannot be distinguished from another
    /// place; any one of them is correct.
    pub culprit: Vec<Culprit>,
    /// The ends at which the packets cannot show the finding.
    #[serde(default, skip_serializing_if = "Hidden::is_nowhere")]
    pub hidden: Hidden,
}

/// The ends at which no packet shows a cause, and the reason. The reason must be that the packets
/// would be the same without the cause, never that a rule is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hidden {
    /// The reason why the packets at the client's host do not show the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The reason why the packets at the server's host do not show the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// The party that has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Culprit {
    /// The host that sends requests.
    Client,
    /// The host that answers requests.
    Server,
    /// The network between them.
    Path,
    /// The name resolver.
    Resolver,
    /// A proxy on the way.
    Proxy,
    /// Nobody is named, because packets and sockets look the same whoever it is.
    Unknown,
}

impl Hidden {
    /// Returns the reason why one end's packets do not show the cause; `None` if they do.
    pub fn from(&self, end: Side) -> Option<&str> {
        match end {
            Side::Client => self.client.as_deref(),
            Side::Server => self.server.as_deref(),
        }
    }

    fn is_everywhere(&self) -> bool {
        self.client.is_some() && self.server.is_some()
    }

    fn is_nowhere(&self) -> bool {
        *self == Self::default()
    }
}

impl Truth {
    /// Returns the part of the truth that the packets at one end can show. A finding hidden at that
    /// end is neither expected nor allowed, because a diagnosis that reports it has guessed.
    #[must_use]
    pub fn seen_from(&self, end: Side) -> Self {
        let mut seen = self.clone();
        seen.expected.retain(|one| one.hidden.from(end).is_none());
        seen
    }

    /// Returns the part of the truth that packets can show if both ends are captured together, as
    /// on loopback: everything that the packets at either end would show.
    #[must_use]
    pub fn seen_from_both(&self) -> Self {
        let mut seen = self.clone();
        seen.expected.retain(|one| !one.hidden.is_everywhere());
        seen
    }

    /// Returns true if a correct diagnosis may contain this cause.
    pub fn admits(&self, cause: Id) -> bool {
        let expected = self
            .expected
            .iter()
            .flat_map(|expectation| &expectation.cause);
        expected.chain(&self.allowed).any(|&known| known == cause)
    }

    /// Checks that no cause is both expected and forbidden; the error is the reason why the truth
    /// is invalid.
    pub(super) fn check(&self) -> Result<(), String> {
        if self
            .expected
            .iter()
            .any(|expectation| expectation.cause.is_empty() || expectation.culprit.is_empty())
        {
            return Err("it expects a finding without a cause or without a culprit".to_owned());
        }
        if self
            .fraction
            .is_some_and(|share| !(0.0..=1.0).contains(&share))
        {
            return Err(
                "the share of requests that the fault touches is not from 0 to 1".to_owned(),
            );
        }
        match self.must_not.iter().find(|&&cause| self.admits(cause)) {
            Some(cause) => Err(format!("`{cause}` is both admitted and forbidden")),
            None => Ok(()),
        }
    }
}
