//! Reordered and duplicated packets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::chance::Chance;
use super::loss::check_share;
use crate::quantity::duration;

/// A fault of some packets: they are delayed or duplicated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisorderSpec {
    /// The share of packets with this fault, 0 to 1.
    pub share: f64,
    /// The delay of these packets or of their copies. Packets that follow within this time overtake
    /// them.
    #[serde(with = "duration")]
    pub gap: Duration,
}

impl DisorderSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_share(self.share)
    }
}

/// The stage that delays or duplicates some packets.
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

    /// Returns the time at which the packet, or its copy, leaves; `None` if the packet is not
    /// selected.
    pub(super) fn strikes(&mut self, arrival: Duration) -> Option<Duration> {
        let struck = self.chance.strikes(self.spec.share);
        struck.then(|| arrival.saturating_add(self.spec.gap))
    }
}
