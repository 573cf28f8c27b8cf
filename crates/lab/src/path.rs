//! The path between the two hosts: what it is ([`PathSpec`]), what it does to a packet
//! ([`lane`], pure, in virtual time), and the process that does it to real ones (`emulator`).
//!
//! With nothing to emulate, the hosts are joined by a plain veth pair. Otherwise each host has
//! a TUN device, and one process carries packets between the two.

pub(crate) mod delay_line;
pub(crate) mod emulator;
pub mod lane;
mod priority;
mod stage;
mod tun;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scenario::quantity::{Rate, Size, duration, optional_duration};

/// The largest IP packet that crosses the path, in bytes.
pub(crate) const MTU: u64 = 1500;

/// No path is longer than this.
const LONGEST: Duration = Duration::from_secs(10);

/// What the path between the hosts is like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathSpec {
    /// The time for there and back, 0 to 10 s, half of it in each direction.
    #[serde(with = "duration")]
    pub round_trip: Duration,
    /// From the client to the server.
    pub to_server: LaneSpec,
    /// From the server to the client.
    pub to_client: LaneSpec,
    /// What the chances (loss) are drawn from: the same seed draws the same sequence.
    pub seed: u64,
}

impl Default for PathSpec {
    fn default() -> Self {
        Self {
            round_trip: Duration::ZERO,
            to_server: LaneSpec::default(),
            to_client: LaneSpec::default(),
            seed: 1,
        }
    }
}

/// What one direction of the path does besides, in the order in which a packet meets it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaneSpec {
    /// A policer: what exceeds it is dropped, what conforms is not delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerSpec>,
    /// The share of packets that are lost by chance, 0 to 1.
    pub loss: f64,
    /// The bottleneck's rate: packets leave it one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many bytes wait before the bottleneck at most, 64 kB unless said otherwise.
    /// What finds it full is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Size>,
    /// The delay of this direction, in place of half the round trip.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
}

/// A token bucket that drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerSpec {
    /// How fast the bucket fills.
    pub rate: Rate,
    /// How much it holds, at least one packet of 1,500 bytes.
    pub burst: Size,
}

impl PathSpec {
    /// Whether anything is to be emulated; if not, a veth pair does.
    pub fn is_emulated(&self) -> bool {
        let plain = LaneSpec::default();
        !self.round_trip.is_zero() || self.to_server != plain || self.to_client != plain
    }

    /// The delay of each direction: to the server, to the client.
    pub(crate) fn delays(&self) -> (Duration, Duration) {
        let half = self.round_trip / 2;
        (
            self.to_server.delay.unwrap_or(half),
            self.to_client.delay.unwrap_or(self.round_trip - half),
        )
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let (there, back) = self.delays();
        if self.round_trip > LONGEST || there > LONGEST || back > LONGEST {
            return Err("its path is longer than 10 s".to_owned());
        }
        self.to_server.check()?;
        self.to_client.check()
    }
}

impl LaneSpec {
    fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(format!("a loss of {} is no share from 0 to 1", self.loss));
        }
        if self.queue.is_some_and(|queue| queue.bytes() < MTU) {
            return Err(format!("its queue does not hold one packet of {MTU} bytes"));
        }
        if self.queue.is_some() && self.rate.is_none() {
            return Err("it has a queue but no rate that would fill it".to_owned());
        }
        if self
            .policer
            .is_some_and(|policer| policer.burst.bytes() < MTU)
        {
            return Err(format!(
                "its policer's burst does not hold one packet of {MTU} bytes"
            ));
        }
        Ok(())
    }
}
