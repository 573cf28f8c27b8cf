//! The truth of a service: the findings that a right diagnosis has, may have, and must not
//! have.
//!
//! Causes are named by their ids in the registry of causes, which is all that the lab takes from
//! the analysis: it judges nothing by itself.

use std::time::Duration;

use lagtrace_core::registry::Id;
use serde::{Deserialize, Serialize};

use super::quantity::optional_duration;
use crate::host::Side;

/// The truth about a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Truth {
    /// The findings that must come, the largest first. Empty where the catalogue of causes has
    /// nothing for it, as for a healthy service or one that answers nonsense.
    pub expected: Vec<Expectation>,
    /// The causes that may be found besides.
    pub allowed: Vec<Id>,
    /// The causes that must never be found: the look-alikes.
    pub must_not: Vec<Id>,
    /// The time that the fault adds to a request that it touches, where that was designed.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub added: Option<Duration>,
    /// The share of requests that the fault touches, 0 to 1, where that was designed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// True if the recording holds only a part of the requests: findings cost those.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The reason why the difference that switching the fault off makes is not the cost of the
    /// expected findings; `None` where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_cost: Option<String>,
}

/// A finding that must come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The cause; of several, any one will do.
    pub cause: Vec<Id>,
    /// The culprit; of several, any one will do, where the lab cannot be told from another place.
    pub culprit: Vec<Culprit>,
    /// The ends whose packets cannot show the finding to anybody.
    #[serde(default, skip_serializing_if = "Hidden::is_nowhere")]
    pub hidden: Hidden,
}

/// The ends at which a cause is in no packet, and the reason: never the lack of a rule, only that
/// the packets would be the same without the cause.
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
    /// Returns the truth as far as one end's packets can show it. A finding hidden from there is
    /// neither expected nor allowed: a diagnosis that names it all the same has guessed.
    #[must_use]
    pub fn seen_from(&self, end: Side) -> Self {
        let mut seen = self.clone();
        seen.expected.retain(|one| one.hidden.from(end).is_none());
        seen
    }

    /// Returns the truth as far as packets can show it that both ends see at once, as on loopback:
    /// they show whatever those of either end would.
    #[must_use]
    pub fn seen_from_both(&self) -> Self {
        let mut seen = self.clone();
        seen.expected.retain(|one| !one.hidden.is_everywhere());
        seen
    }

    /// Returns true if a right diagnosis may hold this cause.
    pub fn admits(&self, cause: Id) -> bool {
        let expected = self
            .expected
            .iter()
            .flat_map(|expectation| &expectation.cause);
        expected.chain(&self.allowed).any(|&known| known == cause)
    }

    /// Checks that no cause is both wanted and forbidden; the error is the reason.
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
