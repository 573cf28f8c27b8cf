//! The truth of a service: the findings that a right diagnosis has, may have, and must not
//! have.
//!
//! Causes go by the ids of the registry of causes, which is all that the lab takes from the
//! analysis: it judges nothing by itself.

use std::time::Duration;

use lagtrace_core::registry::Id;
use serde::{Deserialize, Serialize};

use super::quantity::optional_duration;
use crate::host::Side;

/// The truth about one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Truth {
    /// The findings that must come, the largest first. None: the catalogue of causes has
    /// nothing for it, as for a healthy service or one that answers nonsense.
    pub expected: Vec<Expectation>,
    /// Causes that may be found besides.
    pub allowed: Vec<Id>,
    /// Causes that must never be found: the look-alikes.
    pub must_not: Vec<Id>,
    /// What the fault adds to a request that it touches, where that was designed.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub added: Option<Duration>,
    /// The share of requests that the fault touches, 0 to 1, where that was designed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// Whether the recording holds a part of the requests only: what is found costs those.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Why the difference that switching the fault off makes is not what the expected findings
    /// cost; `None` where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_cost: Option<String>,
}

/// One finding that must come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The cause; of several, any one will do.
    pub cause: Vec<Id>,
    /// Whose fault it is; of several, any one will do, where the lab cannot be told from
    /// another place.
    pub culprit: Vec<Culprit>,
    /// The ends whose packets cannot show it to anybody.
    #[serde(default, skip_serializing_if = "Hidden::is_nowhere")]
    pub hidden: Hidden,
}

/// Where a cause is in no packet, and why not: never for want of a rule, only where the
/// packets would be the same without it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hidden {
    /// Why what the client's host sees does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Why what the server's host sees does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// Who has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Culprit {
    /// The host that asks.
    Client,
    /// The host that answers.
    Server,
    /// What lies between them.
    Path,
    /// Whoever resolves names.
    Resolver,
    /// A proxy on the way.
    Proxy,
}

impl Hidden {
    /// Why one end's packets do not show it; `None` if they do.
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
    /// The truth as far as one end's packets can show it. What is hidden from there is
    /// neither expected nor admitted: who names it all the same has guessed.
    #[must_use]
    pub fn seen_from(&self, end: Side) -> Self {
        let mut seen = self.clone();
        seen.expected.retain(|one| one.hidden.from(end).is_none());
        seen
    }

    /// The truth as far as packets can show it that both ends see at once, as on loopback: what
    /// either end's would show, these do.
    #[must_use]
    pub fn seen_from_both(&self) -> Self {
        let mut seen = self.clone();
        seen.expected.retain(|one| !one.hidden.is_everywhere());
        seen
    }

    /// Whether a right diagnosis may hold this cause.
    pub fn admits(&self, cause: Id) -> bool {
        let expected = self
            .expected
            .iter()
            .flat_map(|expectation| &expectation.cause);
        expected.chain(&self.allowed).any(|&known| known == cause)
    }

    /// Checks that no cause is both wanted and forbidden; else the reason.
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
