//! Packets out of order, and packets that come twice.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::chance::Chance;
use super::loss::check_share;
use crate::scenario::quantity::duration;

/// Some packets take a longer way than the others, or come twice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisorderSpec {
    /// The share of packets that it happens to, 0 to 1.
    pub share: f64,
    /// How much later they, or their copies, come. What follows more closely overtakes them.
    #[serde(with = "duration")]
    pub gap: Duration,
}

impl DisorderSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_share(self.share)
    }
}

/// The station that does it.
#[derive(Debug, Clone)]
pub(super) struct Disorder {
    spec: DisorderSpec,
    chance: Chance,
}

impl Disorder {
    pub(super) fn new(spec: DisorderSpec, seed: u64) -> Self {
        Self {
            spec,
            chance: Chance::new(seed),
        }
    }

    /// When the chosen packet, or its copy, leaves; `None` for the others.
    pub(super) fn strikes(&mut self, arrival: Duration) -> Option<Duration> {
        let struck = self.chance.strikes(self.spec.share);
        struck.then(|| arrival.saturating_add(self.spec.gap))
    }
}
