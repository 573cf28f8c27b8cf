//! Delay that varies from packet to packet.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::chance::Chance;
use crate::quantity::duration;

/// Delay that varies from packet to packet and is added to the lane's own delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JitterSpec {
    /// The distribution of the delay.
    pub distribution: Distribution,
    /// True if packets stay in order, as in a queue: a packet that would overtake waits for earlier
    /// packets. On by default.
    #[serde(default = "yes")]
    pub keep_order: bool,
}

fn yes() -> bool {
    true
}

/// The distribution of a varying delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Distribution {
    /// Every delay up to `most` is equally likely.
    Uniform {
        /// The maximum delay.
        #[serde(with = "duration")]
        most: Duration,
    },
    /// A normal distribution, clipped at 0 and at `mean` + 4 · `deviation`.
    Normal {
        /// The mean.
        #[serde(with = "duration")]
        mean: Duration,
        /// The standard deviation.
        #[serde(with = "duration")]
        deviation: Duration,
    },
    /// A long tail (Pareto, type II). Most delays are below `scale`, and a few are many times as
    /// long; P(delay > d) = (1 + d / `scale`)^−`shape`.
    Pareto {
        /// The scale: most delays are below it.
        #[serde(with = "duration")]
        scale: Duration,
        /// The shape, which determines how fast the tail decreases: 1 is a very long tail, 5 a
        /// short one.
        shape: f64,
        /// The maximum delay.
        #[serde(with = "duration")]
        most: Duration,
    },
    /// Spikes: the path stalls from time to time. Packets that arrive during a spike (`lasts`) are
    /// delayed by `delay`; other packets are not delayed.
    Spikes {
        /// The additional delay.
        #[serde(with = "duration")]
        delay: Duration,
        /// The duration of a spike.
        #[serde(with = "duration")]
        lasts: Duration,
        /// The time from the beginning of one spike to the beginning of the next, and from the
        /// first packet to the first spike.
        #[serde(with = "duration")]
        every: Duration,
    },
}

impl JitterSpec {
    /// Returns the maximum delay that the jitter adds.
    pub(super) fn longest(&self) -> Duration {
        match self.distribution {
            Distribution::Uniform { most } | Distribution::Pareto { most, .. } => most,
            Distribution::Normal { mean, deviation } => {
                mean.saturating_add(deviation.saturating_mul(4))
            }
            Distribution::Spikes { delay, .. } => delay,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match self.distribution {
            Distribution::Pareto { shape, .. } if !(0.1..=100.0).contains(&shape) => Err(format!(
                "its jitter's shape {shape} is not between 0.1 and 100"
            )),
            Distribution::Spikes { lasts, every, .. } if lasts >= every || every.is_zero() => {
                Err("its jitter's spikes last as long as they are apart".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// The stage that varies the delay.
#[derive(Debug, Clone)]
pub(super) struct Jitter {
    spec: JitterSpec,
    chance: Chance,
    last: Duration,
}

impl Jitter {
    pub(super) fn new(spec: JitterSpec, seed: u64) -> Self {
        Self {
            spec,
            chance: Chance::new(seed),
            last: Duration::ZERO,
        }
    }

    /// Returns the time at which a packet that arrives at `arrival` leaves.
    pub(super) fn pass(&mut self, arrival: Duration) -> Duration {
        let leaves = arrival.saturating_add(self.draw(arrival));
        if !self.spec.keep_order {
            return leaves;
        }
        self.last = self.last.max(leaves);
        self.last
    }

    fn draw(&mut self, arrival: Duration) -> Duration {
        match self.spec.distribution {
            Distribution::Uniform { most } => times(most, self.chance.unit()),
            Distribution::Normal { mean, deviation } => {
                let offset = times(deviation, self.normal().abs().min(4.0));
                if self.chance.strikes(0.5) {
                    mean.saturating_add(offset)
                } else {
                    mean.saturating_sub(offset)
                }
            }
            Distribution::Pareto { scale, shape, most } => {
                let factor = self.chance.unit().powf(-1.0 / shape) - 1.0;
                times(scale, factor).min(most)
            }
            Distribution::Spikes {
                delay,
                lasts,
                every,
            } => {
                let phase = arrival.as_nanos() % every.as_nanos().max(1);
                if arrival >= every && phase < lasts.as_nanos() {
                    delay
                } else {
                    Duration::ZERO
                }
            }
        }
    }

    /// Draws from the standard normal distribution (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.chance.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.chance.unit()).cos()
    }
}

/// Returns a multiple of a time, limited to the maximum duration.
fn times(time: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn jitter(distribution: Distribution, keep_order: bool) -> Jitter {
        let spec = JitterSpec {
            distribution,
            keep_order,
        };
        Jitter::new(spec, 7)
    }

    /// Returns the delays of packets that are far apart, sorted, in milliseconds.
    fn delays(distribution: Distribution) -> Vec<f64> {
        let mut jitter = jitter(distribution, false);
        let mut delays: Vec<f64> = (1..20_001)
            .map(|n| (jitter.pass(MS * n) - MS * n).as_secs_f64() * 1e3)
            .collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    #[test]
    fn each_distribution_has_its_shape() {
        let uniform = delays(Distribution::Uniform { most: 10 * MS });
        assert!((4.8..5.2).contains(&uniform[10_000]) && uniform[19_999] <= 10.0);
        let normal = delays(Distribution::Normal {
            mean: 10 * MS,
            deviation: 2 * MS,
        });
        assert!((9.9..10.1).contains(&normal[10_000]), "{}", normal[10_000]);
        assert!((11.8..12.2).contains(&normal[16_827]), "one deviation up");
        assert!(normal[0] >= 2.0 && normal[19_999] <= 18.0);
        let pareto = delays(Distribution::Pareto {
            scale: MS,
            shape: 1.5,
            most: 100 * MS,
        });
        // (1 + d)^-1.5 = 0.5 at 0.587, 0.01 at 20.5.
        assert!((0.55..0.63).contains(&pareto[10_000]), "{}", pareto[10_000]);
        assert!((16.0..26.0).contains(&pareto[19_800]), "{}", pareto[19_800]);
        assert!((pareto[19_999] - 100.0).abs() < 1e-9);
    }

    #[test]
    fn order_is_kept_unless_said_otherwise() {
        let most = 10 * MS;
        let leaves = |keep_order| -> Vec<Duration> {
            let mut jitter = jitter(Distribution::Uniform { most }, keep_order);
            (0..1000).map(|n| jitter.pass(MS * n)).collect()
        };
        assert!(leaves(true).is_sorted());
        assert!(!leaves(false).is_sorted());
    }

    #[test]
    fn a_spike_delays_what_comes_meanwhile_and_what_is_behind_it_waits() {
        let spikes = Distribution::Spikes {
            delay: 30 * MS,
            lasts: 10 * MS,
            every: 100 * MS,
        };
        let mut jitter = jitter(spikes, true);
        let leaves =
            [0, 99, 100, 109, 120, 139, 150, 200].map(|at| jitter.pass(MS * at).as_millis());
        assert_eq!(leaves, [0, 99, 130, 139, 139, 139, 150, 230]);
    }

    #[test]
    fn nonsense_is_refused() {
        let spikes = Distribution::Spikes {
            delay: MS,
            lasts: MS,
            every: MS,
        };
        assert!(jitter(spikes, true).spec.check().is_err());
        let pareto = Distribution::Pareto {
            scale: MS,
            shape: 0.0,
            most: MS,
        };
        assert!(jitter(pareto, true).spec.check().is_err());
    }
}
