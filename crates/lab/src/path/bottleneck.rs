//! Links with a limited rate: a policer drops packets that exceed the rate, a bottleneck queues
//! them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{Rate, Size};

/// A policer: a token bucket that drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerSpec {
    /// The rate at which the bucket fills.
    pub rate: Rate,
    /// The capacity of the bucket, at least one packet of 1,500 bytes.
    pub burst: Size,
}

/// A token bucket that fills at a rate up to its burst, and starts full.
///
/// The level is kept in bits × ns/s (10⁻⁹ bit), so that no rounding error occurs however closely
/// packets follow each other.
#[derive(Debug, Clone)]
pub(super) struct TokenBucket {
    rate: Rate,
    capacity: u128,
    level: u128,
    filled_at: Duration,
}

const UNITS_PER_BYTE: u128 = 8 * 1_000_000_000;

impl TokenBucket {
    pub(super) fn new(spec: PolicerSpec) -> Self {
        let capacity = u128::from(spec.burst.bytes()) * UNITS_PER_BYTE;
        Self {
            rate: spec.rate,
            capacity,
            level: capacity,
            filled_at: Duration::ZERO,
        }
    }

    /// Takes `size` bytes out of the bucket if they are available; returns true if they were.
    pub(super) fn take(&mut self, now: Duration, size: u64) -> bool {
        let elapsed = now.saturating_sub(self.filled_at).as_nanos();
        let gained = elapsed.saturating_mul(u128::from(self.rate.bits_per_second()));
        self.level = self.level.saturating_add(gained).min(self.capacity);
        self.filled_at = self.filled_at.max(now);
        let wanted = u128::from(size) * UNITS_PER_BYTE;
        let conforms = wanted <= self.level;
        if conforms {
            self.level -= wanted;
        }
        conforms
    }
}

/// A link with a given rate, preceded by a drop-tail queue.
#[derive(Debug, Clone)]
pub(super) struct Bottleneck {
    rate: Rate,
    queue: Size,
    busy_until: Duration,
}

impl Bottleneck {
    pub(super) fn new(rate: Rate, queue: Size) -> Self {
        Self {
            rate,
            queue,
            busy_until: Duration::ZERO,
        }
    }

    /// Returns the time at which the packet's last bit has been sent. `None` if the queue,
    /// including the packet being sent, has no room for the packet.
    pub(super) fn enqueue(&mut self, arrival: Duration, size: u64) -> Option<Duration> {
        let backlog = self.rate.bytes_in(self.busy_until.saturating_sub(arrival));
        if backlog.saturating_add(size) > self.queue.bytes() {
            return None;
        }
        self.busy_until = self
            .busy_until
            .max(arrival)
            .saturating_add(self.rate.time_for(size));
        Some(self.busy_until)
    }
}
