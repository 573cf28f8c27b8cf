//! The stations of one direction of the path. Each is told when a packet arrives and how large
//! it is, and says when the packet leaves, or why it never does. Pure: time is an argument,
//! counted from the path's start.

use std::time::Duration;

use super::PolicerSpec;
use super::lane::DropReason;
use crate::scenario::quantity::{Rate, Size};

/// One station of a lane. A richer path is more kinds of station, or more of them in a row.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    Policer(TokenBucket),
    Loss(Loss),
    Bottleneck(Bottleneck),
    Delay(Duration),
}

impl Stage {
    /// When a packet of `size` bytes that arrives at `arrival` leaves this station.
    pub(super) fn pass(&mut self, arrival: Duration, size: u64) -> Result<Duration, DropReason> {
        match self {
            Self::Policer(bucket) => bucket
                .take(arrival, size)
                .then_some(arrival)
                .ok_or(DropReason::Policer),
            Self::Loss(loss) => (!loss.strikes()).then_some(arrival).ok_or(DropReason::Loss),
            Self::Bottleneck(bottleneck) => {
                bottleneck.enqueue(arrival, size).ok_or(DropReason::Queue)
            }
            Self::Delay(delay) => Ok(arrival.saturating_add(*delay)),
        }
    }
}

/// A bucket that fills at a rate up to its burst, and starts full.
///
/// The level is kept in bits × ns/s (10⁻⁹ bit), so that nothing is lost to rounding however
/// closely packets follow each other.
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

    /// Takes `size` bytes out of the bucket if they are there.
    fn take(&mut self, now: Duration, size: u64) -> bool {
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

/// Loss by chance, each packet for itself, drawn from a seed: the n-th packet of a lane has
/// the same fate in every run.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    /// A draw below this is a loss; 2⁶⁴ is certainty.
    threshold: u128,
    state: u64,
}

impl Loss {
    pub(super) fn new(share: f64, seed: u64) -> Self {
        // 2⁶⁴ · share; a float to integer cast saturates, so no share can overflow it.
        Self {
            threshold: (share * 18_446_744_073_709_551_616.0) as u128,
            state: seed,
        }
    }

    fn strikes(&mut self) -> bool {
        u128::from(self.draw()) < self.threshold
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every seed is a good one.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// A link of a given rate with a drop-tail queue before it.
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

    /// When the packet's last bit has left, or `None` if the queue, what is being sent
    /// included, has no room for it.
    fn enqueue(&mut self, arrival: Duration, size: u64) -> Option<Duration> {
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
