//! Random loss: independent for each packet, or in bursts.

use serde::{Deserialize, Serialize};

use super::chance::Chance;

/// Loss in bursts, as from interference or a full queue further along: the path alternates between
/// good and bad (Gilbert, 1960; Elliott, 1963).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLossSpec {
    /// The probability that a good path becomes bad with the next packet.
    pub enter: f64,
    /// The probability that a bad path becomes good with the next packet: a burst lasts 1 / `leave`
    /// packets on average.
    pub leave: f64,
    /// The share of packets that a bad path loses: all by default.
    #[serde(default = "all")]
    pub loss: f64,
}

fn all() -> f64 {
    1.0
}

impl BurstLossSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        [self.enter, self.leave, self.loss]
            .into_iter()
            .try_for_each(check_share)
    }
}

/// Checks that a share of the packets is between 0 and 1; returns an error if it is not.
pub(super) fn check_share(share: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&share) {
        Ok(())
    } else {
        Err(format!("{share} is no share from 0 to 1"))
    }
}

/// Independent loss of each packet: the n-th packet of a lane has the same fate in every run.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    share: f64,
    chance: Chance,
}

impl Loss {
    pub(super) fn new(share: f64, seed: u64) -> Self {
        Self {
            share,
            chance: Chance::new(seed),
        }
    }

    pub(super) fn strikes(&mut self) -> bool {
        self.chance.strikes(self.share)
    }
}

/// Loss in bursts.
#[derive(Debug, Clone)]
pub(super) struct BurstLoss {
    spec: BurstLossSpec,
    is_ill: bool,
    chance: Chance,
}

impl BurstLoss {
    pub(super) fn new(spec: BurstLossSpec, seed: u64) -> Self {
        Self {
            spec,
            is_ill: false,
            chance: Chance::new(seed),
        }
    }

    pub(super) fn strikes(&mut self) -> bool {
        let turns = if self.is_ill {
            self.spec.leave
        } else {
            self.spec.enter
        };
        self.is_ill ^= self.chance.strikes(turns);
        self.is_ill && self.chance.strikes(self.spec.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_have_the_share_and_the_length_that_was_asked_for() {
        let spec = BurstLossSpec {
            enter: 0.01,
            leave: 0.25,
            loss: 1.0,
        };
        let mut loss = BurstLoss::new(spec, 3);
        let fates: Vec<bool> = (0..200_000).map(|_| loss.strikes()).collect();
        let lost = fates.iter().filter(|lost| **lost).count();
        let bursts = fates
            .windows(2)
            .filter(|pair| !pair[0] && pair[1])
            .count()
            .max(1);
        // The path is bad for enter / (enter + leave) of the packets, and each time for four
        // packets on average.
        let (share, length) = (lost as f64 / 200_000.0, lost as f64 / bursts as f64);
        assert!((0.035..0.042).contains(&share), "{share}");
        assert!((3.7..4.3).contains(&length), "{length}");
    }

    #[test]
    fn a_path_that_never_falls_ill_loses_nothing_and_half_ill_loses_half() {
        let spec = BurstLossSpec {
            enter: 0.0,
            leave: 1.0,
            loss: 1.0,
        };
        let mut none = BurstLoss::new(spec, 3);
        assert!((0..10_000).all(|_| !none.strikes()));
        let ill = BurstLossSpec {
            enter: 1.0,
            leave: 0.0,
            loss: 0.5,
        };
        let mut half = BurstLoss::new(ill, 3);
        let lost = (0..10_000).filter(|_| half.strikes()).count();
        assert!((4_800..5_200).contains(&lost), "{lost}");
    }
}
